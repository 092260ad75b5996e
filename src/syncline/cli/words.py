"""What a user gives to a command: kinds by any of their names, and files of manifests."""

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
"""The kinds that write to clusters: those that can be carried out, suspended and uninstalled."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SHOWN = 10


class UsageError(Exception):
    """What was given cannot be used; the message is one line that says why."""


class Reference(NamedTuple):
    """What a user names: an object of one of some kinds, or all of them."""

    kinds: tuple[Kind, ...]
    name: str | None = None

    @property
    def kind(self) -> Kind | None:
        """The kind, where the user named it or there is but one."""
        return self.kinds[0] if len(self.kinds) == 1 else None


def reference(first: str | None, second: str | None, kinds: Sequence[Kind] = KINDS) -> Reference:
    """Read `NAME`, `KIND/NAME` or `KIND NAME`, as kubectl does; a word alone that is a kind means all of that kind.

    Where there is but one kind to choose from, a word alone is always a name.
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
    """Return the kind that a word means; `UsageError` where it means none."""
    return _find_kind(word, kinds) or _refuse_kind(word, kinds)


def _find_kind(word: str, kinds: Sequence[Kind]) -> Kind | None:
    """Return the kind that a word means: `ConfigMapSync`, `configmapsyncs` or `cms`, with or without the group."""
    plain = word.lower().removesuffix(f".{GROUP}")
    return next((kind for kind in kinds if plain in (kind.singular, kind.plural, *kind.short_names)), None)


def _refuse_kind(word: str, kinds: Sequence[Kind]) -> NoReturn:
    known = ", ".join(f"{kind.kind} ({', '.join(kind.short_names)})" for kind in kinds)
    ours = _find_kind(word, ALL_KINDS)
    if ours is not None:
        raise UsageError(f"this command is not for the kind {ours.kind}; write one of {known}")
    raise UsageError(f"{word!r} is no kind of ours; write one of {known}")


def resource_of(kind: Kind) -> Resource:
    """Return where the objects of a kind are."""
    return Resource(GROUP, VERSION, kind.plural, kind.kind, namespaced=kind.namespaced)


def shown_revision(revision: str) -> str:
    """Shorten a commit for people, who can give it back like that; other revisions stay as they are."""
    return revision[:_SHOWN] if _COMMIT.fullmatch(revision) else revision


def read_syncs(filename: str) -> list[dict[str, Any]]:
    """Read the syncs of a file, or of stdin for `-`; a file may hold their sources and namespaces too."""
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        documents = [document for document in yaml.load_all(text, _Loader) if document is not None]
    except OSError as error:
        raise UsageError(f"cannot read {filename}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error
    try:
        msgspec.json.encode(documents)
    except RecursionError:
        raise UsageError(f"{filename} refers to itself without end") from None
    for document in documents:
        _refuse_unknown(filename, document)
    syncs = [document for document in documents if _is_sync(document)]
    for sync in syncs:
        if not isinstance(sync.get("metadata"), dict) or not sync["metadata"].get("name"):
            raise UsageError(f"{filename}: a sync needs metadata.name")
    if not syncs:
        kinds = " or ".join(kind.kind for kind in SYNCS)
        raise UsageError(f"{filename} holds no object of apiVersion {API_VERSION} and kind {kinds}")
    return syncs


class _Loader(yaml.SafeLoader):
    """As ever, but what is written twice is refused, as the API server refuses it."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            seen.add(str(key.value))
        result: dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def _refuse_unknown(filename: str, document: object) -> None:
    """Refuse what is of our group and of no kind or version of ours: it would be passed over in silence."""
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
