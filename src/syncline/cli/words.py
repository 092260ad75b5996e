"""What a user gives to a command: kinds by any of their names, and files of manifests."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from syncline.api.common import API_VERSION, GROUP, VERSION
from syncline.api.kinds import KINDS, Kind
from syncline.api.status import SyncStatus
from syncline.kube.resources import Resource

SYNCS = tuple(kind for kind in KINDS if issubclass(kind.status, SyncStatus))
"""The kinds that write to clusters: those that can be carried out, suspended and uninstalled."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SHOWN = 10


class UsageError(Exception):
    """What was given cannot be used; the message is one line that says why."""


def kind_named(word: str, kinds: Sequence[Kind] = KINDS) -> Kind:
    """Return the kind that a word means: `ConfigMapSync`, `configmapsyncs` or `cms`, with or without the group."""
    plain = word.lower().removesuffix(f".{GROUP}")
    for kind in kinds:
        if plain in (kind.singular, kind.plural, *kind.short_names):
            return kind
    known = ", ".join(f"{kind.kind} ({', '.join(kind.short_names)})" for kind in kinds)
    raise UsageError(f"{word!r} is no kind of ours; write one of {known}")


def kind_and_name(kind: str | None, name: str | None) -> tuple[str | None, str | None]:
    """Take `cms/app` for `cms app`, as kubectl does."""
    if kind is None or "/" not in kind:
        return kind, name
    if name is not None:
        raise UsageError(f"write either {kind} or a kind and a name, not both")
    kind, _, name = kind.partition("/")
    if not kind or not name:
        raise UsageError("write KIND/NAME with both parts, such as cms/app")
    return kind, name


def resource_of(kind: Kind) -> Resource:
    """Return where the objects of a kind are."""
    return Resource(GROUP, VERSION, kind.plural, kind.kind)


def shown_revision(revision: str) -> str:
    """Shorten a commit for people, who can give it back like that; other revisions stay as they are."""
    return revision[:_SHOWN] if _COMMIT.fullmatch(revision) else revision


def read_syncs(filename: str) -> list[dict[str, Any]]:
    """Read the syncs of a file, or of stdin for `-`; a file may hold their sources and namespaces too."""
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except OSError as error:
        raise UsageError(f"cannot read {filename}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{filename} is not YAML: {' '.join(str(error).split())}") from error
    try:
        msgspec.json.encode(documents)
    except RecursionError:
        raise UsageError(f"{filename} refers to itself without end") from None
    syncs = [document for document in documents if _is_sync(document)]
    for sync in syncs:
        if not isinstance(sync.get("metadata"), dict) or not sync["metadata"].get("name"):
            raise UsageError(f"{filename}: a sync needs metadata.name")
    if not syncs:
        kinds = " or ".join(kind.kind for kind in SYNCS)
        raise UsageError(f"{filename} holds no object of apiVersion {API_VERSION} and kind {kinds}")
    return syncs


def _is_sync(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    return document.get("apiVersion") == API_VERSION and document.get("kind") in {kind.kind for kind in SYNCS}
