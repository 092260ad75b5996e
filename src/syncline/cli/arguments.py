"""Arguments of commands: kinds by any of their names, and files with manifests."""

import difflib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec
import yaml

from syncline.api.common import API_VERSION, GROUP, VERSION
from syncline.api.kinds import ALL_KINDS, KINDS, Kind
from syncline.api.status import SyncStatus
from syncline.kube.resources import Resource

SYNCS = tuple(kind for kind in KINDS if issubclass(kind.status, SyncStatus))
"""The kinds that write to clusters. They can be reconciled, suspended and uninstalled."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SHOWN = 10


class UsageError(Exception):
    """An argument is not valid. The message is one line with the cause."""


class Reference(NamedTuple):
    """The objects that a user names: one object of some kinds, or all objects."""

    kinds: tuple[Kind, ...]
    name: str | None = None

    @property
    def kind(self) -> Kind | None:
        """The kind, if the user named it or if there is only one."""
        return self.kinds[0] if len(self.kinds) == 1 else None


def reference(first: str | None, second: str | None, kinds: Sequence[Kind] = KINDS) -> Reference:
    """Parse `NAME`, `KIND/NAME` or `KIND NAME`, like kubectl. A single kind means all its objects.

    If there is only one possible kind, a single word is always a name.
    """
    if first is None:
        return Reference(tuple(kinds))
    if "/" not in first and second is None:
        kind = _find_kind(first, kinds) if len(kinds) > 1 else None
        if kind is None and _find_kind(first, ALL_KINDS) is not None and len(kinds) > 1:
            _refuse_kind(first, kinds)
        return Reference(tuple(kinds), first) if kind is None else Reference((kind,))
    word, _, name = first.partition("/")
    if "/" in first and second is not None:
        raise UsageError(f"write either {first} or a kind and a name, not both")
    if not word or not (name or second):
        raise UsageError("write KIND/NAME with both parts, such as cms/app")
    return Reference((_find_kind(word, kinds) or _refuse_kind(word, kinds),), name or second)


def named_kind(word: str, kinds: Sequence[Kind] = KINDS) -> Kind:
    """Return the kind that a word names. Raises `UsageError` if there is none."""
    return _find_kind(word, kinds) or _refuse_kind(word, kinds)


def _find_kind(word: str, kinds: Sequence[Kind]) -> Kind | None:
    """Return the kind that a word names: `ConfigMapSync`, `configmapsyncs` or `cms`, with or without the group."""
    plain = word.lower().removesuffix(f".{GROUP}")
    return next((kind for kind in kinds if plain in (kind.singular, kind.plural, *kind.short_names)), None)


def _refuse_kind(word: str, kinds: Sequence[Kind]) -> NoReturn:
    known = ", ".join(f"{kind.kind} ({', '.join(kind.short_names)})" for kind in kinds)
    ours = _find_kind(word, ALL_KINDS)
    if ours is not None:
        raise UsageError(f"this command does not support the kind {ours.kind}; write one of {known}")
    raise UsageError(f"{word!r} is not a kind of Syncline; write one of {known}")


def resource_of(kind: Kind) -> Resource:
    """Return the API path of a kind's objects."""
    return Resource(GROUP, VERSION, kind.plural, kind.kind, namespaced=kind.namespaced)


def shown_revision(revision: str) -> str:
    """Shorten a commit for people. Commands accept the short form. Other revisions stay unchanged."""
    return revision[:_SHOWN] if _COMMIT.fullmatch(revision) else revision


def read_syncs(filename: str) -> list[dict[str, Any]]:
    """Read the syncs in a file, or in stdin for `-`. The file can also contain their sources and namespaces."""
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        documents = [document for document in yaml.load_all(text, _ManifestLoader) if document is not None]
    except OSError as error:
        raise UsageError(f"cannot read {filename}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error
    try:
        msgspec.json.encode(documents)
    except RecursionError:
        raise UsageError(f"{filename} contains an alias that refers to itself: remove the alias") from None
    for document in documents:
        _refuse_unknown(filename, document)
    syncs = [document for document in documents if _is_sync(document)]
    for sync in syncs:
        if not isinstance(sync.get("metadata"), dict) or not sync["metadata"].get("name"):
            raise UsageError(f"{filename}: a sync has no name: write metadata.name")
    if not syncs:
        kinds = " or ".join(kind.kind for kind in SYNCS)
        raise UsageError(f"{filename} contains no object with apiVersion {API_VERSION} and kind {kinds}")
    return syncs


class _ManifestLoader(yaml.SafeLoader):
    """The default loader, but duplicate keys are refused, as by the API server."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is duplicate", key.start_mark)
            seen.add(str(key.value))
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def _refuse_unknown(filename: str, document: object) -> None:
    """Refuse objects of Syncline's group with an unknown kind or version, because they would be ignored silently."""
    if not isinstance(document, dict) or not str(document.get("apiVersion")).startswith(f"{GROUP}/"):
        return
    if document["apiVersion"] != API_VERSION:
        raise UsageError(f"{filename}: there is no apiVersion {document['apiVersion']}: write {API_VERSION}")
    kinds = [kind.kind for kind in ALL_KINDS]
    word = str(document.get("kind"))
    if word not in kinds:
        near = difflib.get_close_matches(word, kinds, n=1)
        meant = f"did you mean {near[0]}?" if near else f"write one of {', '.join(kinds)}"
        raise UsageError(f"{filename}: there is no kind {word} of {API_VERSION}: {meant}")


def _is_sync(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    return document.get("apiVersion") == API_VERSION and document.get("kind") in {kind.kind for kind in SYNCS}
