"""The manifest: the managed files, each with its commit and its mapping. It survives restarts and crashes.

| File in `.syncline` | Content |
|---|---|
| `manifest.json` | all files that are managed |
| `publishing.json` | the files that a publish is about to write, until the manifest has them |

A manifest that cannot be read is set aside, and replaced by an empty manifest: then nothing is deleted, and existing
files with the planned content become managed again.
"""

import hashlib
from collections.abc import Mapping
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct, field

from syncline.core.protected_paths import STATE_FOLDER, is_protected, path_problem
from syncline.core.publish_plan import ManagedFile, ancestors
from syncline.files.errors import FilesError
from syncline.files.folder import Folder

log = structlog.get_logger(__name__)

MANIFEST = f"{STATE_FOLDER}/manifest.json"
PUBLISHING = f"{STATE_FOLDER}/publishing.json"
DAMAGED = f"{STATE_FOLDER}/manifest.damaged"
MAX_BYTES = 64 * 1024 * 1024

VERSION = 1
T = TypeVar("T")


class Manifest(Struct, rename="camel", omit_defaults=True):
    """The files that an agent has written to a folder."""

    files: dict[str, ManagedFile] = field(default_factory=dict)
    commit: str = ""
    """The last commit that was published as a whole; empty: none yet."""
    ref: str = ""
    plan: str = ""
    """The id of the plan that was published last."""
    unprotected: tuple[str, ...] = ()
    """The protected paths that this plan allowed to write."""
    damaged: bool = False
    """Whether an earlier manifest was set aside: some files that were written before are no longer known."""


class _Stored(Struct, rename="camel"):
    version: int
    checksum: str
    content: msgspec.Raw


class _Publishing(Struct, rename="camel"):
    files: dict[str, ManagedFile]
    unprotected: tuple[str, ...] = ()


def load_manifest(folder: Folder) -> Manifest:
    """Read the manifest, with the files that an interrupted publish has written."""
    manifest = _read_manifest(folder)
    try:
        interrupted = _read(folder, PUBLISHING, _Publishing)
        if interrupted is not None:
            _check_paths(interrupted.files, interrupted.unprotected)
    except _DamagedError:
        # This file is written before the first write of a publish. If it cannot be read, nothing was published.
        interrupted = None
    if interrupted is not None:
        _recover(folder, manifest, interrupted)
    return manifest


def begin_publish(folder: Folder, files: Mapping[str, ManagedFile], unprotected: tuple[str, ...]) -> None:
    """Record the files that a publish is about to write."""
    _write(folder, PUBLISHING, _Publishing(dict(files), unprotected))


def store_manifest(folder: Folder, manifest: Manifest) -> None:
    """Store the manifest, which completes a publish."""
    _write(folder, MANIFEST, manifest)
    folder.remove(PUBLISHING)


def _read_manifest(folder: Folder) -> Manifest:
    try:
        manifest = _read(folder, MANIFEST, Manifest) or Manifest()
        _check_paths(manifest.files, manifest.unprotected)
        manifest.damaged = folder.stat(DAMAGED) is not None
        return manifest
    except _DamagedError as damage:
        log.warning(
            "the manifest is damaged; it is set aside, and no file that it lists is deleted",
            file=DAMAGED,
            cause=str(damage),
        )
        folder.move(MANIFEST, DAMAGED)
        return Manifest(damaged=True)


def _recover(folder: Folder, manifest: Manifest, interrupted: _Publishing) -> None:
    """Add the files to the manifest that an interrupted publish has written."""
    for path, entry in interrupted.files.items():
        live = folder.observe(path)
        if live is not None and live.kind == "file" and live.hash == entry.hash:
            manifest.files[path] = msgspec.structs.replace(entry, stamp=live.stamp)
        elif live is None and path not in manifest.files:
            remove_empty_folders(folder, path, frozenset())


def remove_empty_folders(folder: Folder, path: str, kept: frozenset[str]) -> None:
    """Delete the empty parent folders of a deleted file. Folders of the first level stay."""
    for above in ancestors(path):
        if "/" not in above or above in kept or not folder.remove_folder(above):
            return


class _DamagedError(Exception):
    """A file of the state folder cannot be decoded."""


def _read(folder: Folder, path: str, kind: type[T]) -> T | None:
    try:
        content = folder.read(path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except FilesError as error:
        raise _DamagedError(str(error)) from None
    try:
        stored = msgspec.json.decode(content, type=_Stored)
        if stored.version != VERSION:
            raise _DamagedError(f"it has version {stored.version}, and this agent reads version {VERSION}")
        if hashlib.sha256(stored.content).hexdigest() != stored.checksum:
            raise _DamagedError("its checksum is another one")
        return msgspec.json.decode(stored.content, type=kind)
    except (ValueError, RecursionError):
        raise _DamagedError("it does not have the expected content") from None


def _write(folder: Folder, path: str, content: Struct) -> None:
    encoded = msgspec.json.encode(content)
    stored = _Stored(VERSION, hashlib.sha256(encoded).hexdigest(), msgspec.Raw(encoded))
    folder.replace(path, msgspec.json.encode(stored))


def _check_paths(files: Mapping[str, ManagedFile], unprotected: tuple[str, ...]) -> None:
    """Refuse a manifest with a path that is never written: the agent did not write it."""
    for path in files:
        if path_problem(path) or is_protected(path, unprotected):
            raise _DamagedError(f"it lists {path[:80]!r}, which is never written")
