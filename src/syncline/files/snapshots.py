"""Snapshots: the files that a publish replaces or deletes, kept in the data folder as hard links if possible.

.syncline/snapshots/000007-3f2a9c1/files/...   the files as they were before
.syncline/snapshots/000007-3f2a9c1/snapshot.json   their commit, and the files that were added
"""

import re
from collections.abc import Collection

import msgspec
from msgspec import Struct

from syncline.core.protected_paths import STATE_FOLDER
from syncline.files.folder import Folder

SNAPSHOTS = f"{STATE_FOLDER}/snapshots"
_NAME = re.compile(r"(\d{6,})-[0-9a-f]{0,7}")
_SHORT = 7


class SnapshotNote(Struct, rename="camel", omit_defaults=True):
    """The description of a snapshot."""

    commit: str
    """The commit of the folder before the publish."""
    replaced_by: str
    files: tuple[str, ...]
    added: tuple[str, ...] = ()
    """Files that did not exist before. To restore the snapshot, delete them."""


class TakenSnapshot(Struct, frozen=True):
    """A snapshot that a publish has taken."""

    name: str
    size: int
    """The size of its files, in bytes."""


def take_snapshot(folder: Folder, note: SnapshotNote, keep: int) -> str:
    """Take a snapshot of files, and keep only the newest `keep` snapshots. Return the name of the snapshot."""
    known = snapshots(folder)
    number = 1 + max((_number(name) for name in known), default=0)
    # Numbers, not the clock, define the order of snapshots.
    name = f"{number:06d}-{note.commit[:_SHORT]}"
    place = f"{SNAPSHOTS}/{name}"
    folder.remove_tree(place)
    for path in note.files:
        folder.link(path, f"{place}/files/{path}")
    folder.replace(f"{place}/snapshot.json", msgspec.json.encode(note))
    _forget_old(folder, [*known, name], keep)
    return name


def snapshots(folder: Folder) -> list[str]:
    """Return the names of all snapshots, the oldest first."""
    return sorted((name for name in folder.names(SNAPSHOTS) if _NAME.fullmatch(name)), key=_number)


def _forget_old(folder: Folder, names: Collection[str], keep: int) -> None:
    for name in sorted(names, key=_number)[: max(0, len(names) - keep)]:
        folder.remove_tree(f"{SNAPSHOTS}/{name}")


def _number(name: str) -> int:
    return int(name.partition("-")[0])
