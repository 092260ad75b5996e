"""Selection and renaming of the keys that are copied."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from syncline.api.content import Keys
from syncline.core.objects import Content
from syncline.core.secrets import encoded
from syncline.core.selectors import glob_matches


class ContentError(Exception):
    """The spec does not fit this content. The message names the keys."""


def select_keys(
    keys: Keys | None, data: Mapping[str, str], binary_data: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Include, exclude and rename; two keys of one name are refused, since one of them would be lost."""
    if keys is None:
        return dict(data), dict(binary_data)
    chosen = [name for name in (*data, *binary_data) if _wanted(keys, name)]
    new_names = {name: keys.rename.get(name, name) for name in chosen}
    _refuse_clashes(new_names)
    return (
        {new_names[name]: data[name] for name in chosen if name in data},
        {new_names[name]: binary_data[name] for name in chosen if name in binary_data},
    )


def exact_content(kind: str, fields: Mapping[str, Any]) -> Content:
    """Return the exactly copied part of a ConfigMap or Secret. Raises `ContentError` if it is not valid."""
    data = fields.get("data") or {}
    texts = fields.get("stringData") or {} if kind == "Secret" else {}
    binary = fields.get("binaryData") or {}
    for part in (data, texts, binary):
        if not isinstance(part, dict) or not all(isinstance(value, str) for value in part.values()):
            raise ContentError(f"the values of a {kind} must be strings; put them in quotes")
    if kind == "Secret":
        data = _canonical(data) | {name: encoded(value) for name, value in texts.items()}
    return Content(
        data=data,
        binary_data=_canonical(binary),
        immutable=fields.get("immutable") is True,
        type=str(fields.get("type") or "Opaque") if kind == "Secret" else "",
    )


def _canonical(values: Mapping[str, str]) -> dict[str, str]:
    """Return base64 in the form of the server: otherwise the sent value would never equal the live one."""
    found = {}
    for name, value in values.items():
        try:
            found[name] = b64encode(b64decode("".join(value.split()), validate=True)).decode()
        except ValueError:
            raise ContentError(f"the value of {name} is not base64; a Secret takes texts under stringData") from None
    return found


def source_name(keys: Keys | None, name: str) -> str | None:
    """Return the key of the source for a key of a copy; None if the sync does not copy it.

    It is the reverse of `select_keys`.
    """
    if keys is None:
        return name
    back = {new: old for old, new in keys.rename.items()}
    if name not in back and name in keys.rename:
        return None  # the source's key of this name has another one here
    old = back.get(name, name)
    return old if _wanted(keys, old) else None


def _wanted(keys: Keys, name: str) -> bool:
    return (not keys.include or _any(keys.include, name)) and not _any(keys.exclude, name)


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(glob_matches(pattern, name) for pattern in patterns)


def _refuse_clashes(new_names: Mapping[str, str]) -> None:
    taken: dict[str, str] = {}
    for old, new in new_names.items():
        if new in taken:
            raise ContentError(
                f"keys.rename gives {taken[new]!r} and {old!r} the same name {new!r}; rename or exclude one of them"
            )
        taken[new] = old
