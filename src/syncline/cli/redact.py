"""Objects for display: without fields that only the API server writes, and without secret values.

The output shows only whether a hidden value exists and whether it differs, not its length and no digest.
"""

import json
from copy import deepcopy
from typing import Any

import yaml

from syncline.core.ownership import BASE, MARKER

Json = dict[str, Any]
Pair = tuple[Any, Any]

VALUE = "<value>"
CHANGED = "<changed>"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_SERVERS_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
# The API server does not store them if they are empty.
_DROPPED_EMPTY = ("annotations", "binaryData", "data", "labels")
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
_ABSENT = object()


def shown(before: Json | None, after: Json | None, *, secret: bool, private: bool = False) -> tuple[str, str]:
    """Return two states of an object as YAML; empty for None.

    `secret`: it is a Secret, whose values are hidden. `private`: any of its fields may come from a Secret, so that all
    values are hidden.
    """
    old, new = _own(before), _own(after)
    for holder in ("data", "stringData") if secret else ():
        _hide(old, new, holder)
    for holder in ("labels", "annotations") if private else ():
        _hide(_metadata(old), _metadata(new), holder)
    for name in (old.keys() | new.keys()) - _IDENTITY if private else ():
        _hide(old, new, name)
    notes = _annotations(old), _annotations(new)
    for name in (BASE, LAST_APPLIED):
        _hide(*notes, name)
    _hide_record(*notes)
    return to_yaml(old), to_yaml(new)


def to_yaml(value: Json) -> str:
    """Format an object for people: in order, with texts of several lines as blocks."""
    return yaml.dump(value, Dumper=_ShownDumper, allow_unicode=True, width=2**31) if value else ""


class _ShownDumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_ShownDumper.add_representer(str, _text)
# A value in two places is written twice, not as an alias.
_ShownDumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def _own(manifest: Json | None) -> Json:
    if manifest is None:
        return {}
    copy = {name: deepcopy(value) for name, value in manifest.items() if name != "status"}
    copy["metadata"] = {name: value for name, value in copy["metadata"].items() if name not in _SERVERS_OWN}
    for holder in (copy, copy["metadata"]):
        for name in _DROPPED_EMPTY:
            if holder.get(name) == {}:
                del holder[name]
    return copy


def _metadata(manifest: Json) -> Json:
    found: Json = manifest.get("metadata") or {}
    return found


def _annotations(manifest: Json) -> Json:
    found: Json = _metadata(manifest).get("annotations") or {}
    return found


def _hide(old: Json, new: Json, name: str) -> None:
    veiled = _redact(old.get(name, _ABSENT), new.get(name, _ABSENT))
    for manifest, value in zip((old, new), veiled, strict=True):
        if value is not _ABSENT:
            manifest[name] = value


def _redact(old: Any, new: Any) -> Pair:
    """Hide all values of both objects, and mark the different values in the second."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = {name: _redact(old.get(name, _ABSENT), new.get(name, _ABSENT)) for name in {**old, **new}}
        return {name: pairs[name][0] for name in old}, {name: pairs[name][1] for name in new}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        both = [_redact(one, other) for one, other in zip(old, new, strict=True)]
        return [one for one, _ in both], [other for _, other in both]
    return _redacted(old, VALUE), _redacted(new, VALUE if old is _ABSENT or old == new else CHANGED)


def _redacted(value: Any, word: str) -> Any:
    match value:
        case dict():
            return {name: _redacted(one, word) for name, one in value.items()}
        case list():
            return [_redacted(one, word) for one in value]
        case _:
            return value if value is _ABSENT else word


def _hide_record(old: Json, new: Json) -> None:
    """Return the source that the marker names, without its digests."""
    texts = [_record(notes[MARKER]) if MARKER in notes else None for notes in (old, new)]
    if old.get(MARKER) != new.get(MARKER) and texts[0] == texts[1]:
        texts[1] = f"{texts[1]} {CHANGED}"
    for notes, text in zip((old, new), texts, strict=True):
        if text is not None:
            notes[MARKER] = text


def _record(text: Any) -> str:
    try:
        record = json.loads(text)
    except (ValueError, TypeError):
        return VALUE
    if not isinstance(record, dict):
        return VALUE
    shown = {name: record[name] for name in ("sync", "source", "revision", "mode") if isinstance(record.get(name), str)}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
