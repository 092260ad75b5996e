"""Publishes staged files, one by one, in an order from which every crash is recoverable.

1. The files to write are recorded, so that they count as managed even after a crash.
2. A file of somebody else that is about to be replaced is kept, once.
3. Each file is renamed into its place. The files of a folder come before its `resource.json`.
4. Files that are no longer wanted are deleted, and then empty folders.
5. The manifest is stored.
"""

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from syncline.core.protected_paths import LONGEST_NAME, STATE_FOLDER
from syncline.core.publish_plan import LiveFile, ManagedFile, PublishPlan, WantedFile, ancestors
from syncline.files.errors import FilesError
from syncline.files.folder import Folder, stamp_of
from syncline.files.manifest import Manifest, begin_publish, remove_empty_folders, store_manifest
from syncline.files.snapshots import SnapshotNote, TakenSnapshot, take_snapshot
from syncline.files.stage import StagedFile

REPLACED = f"{STATE_FOLDER}/replaced"
_SUFFIX = ".kept"


class Publication(Struct, frozen=True):
    """The inputs of one publish."""

    plan: PublishPlan
    wanted: Mapping[str, WantedFile]
    live: Mapping[str, LiveFile]
    staged: Mapping[str, StagedFile]
    id: str
    commit: str
    ref: str = ""
    unprotected: tuple[str, ...] = ()
    destinations: frozenset[str] = frozenset()
    """The destinations of all mappings. These folders stay even if they become empty."""
    keep_snapshots: int = 0


def publish(folder: Folder, manifest: Manifest, work: Publication) -> tuple[Manifest, TakenSnapshot | None]:
    """Publish. Return the new manifest, and the snapshot if one was taken.

    Raises `FilesError`; the caller must then load the manifest again.
    """
    folder.forget()
    plan, snapshot = work.plan, None
    if plan.changes:
        if work.keep_snapshots:
            snapshot = _take_snapshot(folder, manifest, work)
        begin_publish(folder, {path: _entry(path, manifest, work) for path in plan.writes}, work.unprotected)
        _keep_replaced(folder, work)
        _make_room(folder, work)
        _write(folder, work)
        _delete(folder, work)
    published = _manifest(folder, manifest, work)
    if published != manifest:
        store_manifest(folder, published)
    return published, snapshot


def _take_snapshot(folder: Folder, manifest: Manifest, work: Publication) -> TakenSnapshot:
    plan = work.plan
    before = [path for path in (*plan.first, *plan.writes, *plan.deletes) if path in work.live]
    files = tuple(sorted(path for path in before if work.live[path].kind in ("file", "link")))
    added = tuple(sorted(path for path in plan.writes if path not in files))
    note = SnapshotNote(commit=manifest.commit, replaced_by=work.commit, files=files, added=added)
    name = take_snapshot(folder, note, work.keep_snapshots)
    return TakenSnapshot(name, sum(stamp.size for path in files if (stamp := work.live[path].stamp) is not None))


def _keep_replaced(folder: Folder, work: Publication) -> None:
    for path in sorted(work.plan.kept):
        folder.link(path, kept_path(path))


def kept_path(path: str) -> str:
    """Return the path of the kept copy of a replaced file of somebody else."""
    name = path.rpartition("/")[2]
    if len(name.encode()) + len(_SUFFIX) > LONGEST_NAME:
        return f"{REPLACED}/{hashlib.sha256(path.encode()).hexdigest()}{_SUFFIX}"
    return f"{REPLACED}/{path}{_SUFFIX}"


def _make_room(folder: Folder, work: Publication) -> None:
    for path in work.plan.first:
        folder.remove(path)
        for above in ancestors(path):
            if not folder.remove_folder(above):
                break


def _write(folder: Folder, work: Publication) -> None:
    for path in work.plan.writes:
        live = work.live.get(path)
        if live is not None and live.kind == "folder" and not folder.remove_folder(path):
            raise FilesError("FolderError", f"{path} is a folder with other files, and a file in Git: empty the folder")
        folder.move(work.staged[path].place, path)
    for path in work.plan.modes:
        folder.set_executable(path, executable=work.wanted[path].executable)
    for above in {path.rpartition("/")[0] for path in work.plan.writes}:
        folder.flush(above)


def _delete(folder: Folder, work: Publication) -> None:
    kept = frozenset(folder for path in work.destinations for folder in (path, *ancestors(path)))
    for path in work.plan.deletes:
        folder.remove(path)
    for path in work.plan.deletes:
        remove_empty_folders(folder, path, kept)
    for above in {path.rpartition("/")[0] for path in work.plan.deletes}:
        folder.flush(above)


def _manifest(folder: Folder, manifest: Manifest, work: Publication) -> Manifest:
    plan = work.plan
    files = {path: manifest.files[path] for path in plan.retained}
    unwritten = {*plan.left, *plan.waiting}
    for path in work.wanted:
        if path in unwritten:
            if path in manifest.files:
                files[path] = manifest.files[path]
            continue
        files[path] = _entry(path, manifest, work)
    for path in {*plan.writes, *plan.modes} - unwritten:
        if (found := folder.stat(path)) is not None:
            files[path] = msgspec.structs.replace(files[path], stamp=stamp_of(found))
    return Manifest(
        files=files,
        commit=work.commit,
        ref=work.ref,
        plan=work.id,
        unprotected=work.unprotected,
        damaged=manifest.damaged,
    )


def _entry(path: str, manifest: Manifest, work: Publication) -> ManagedFile:
    wanted, before, live = work.wanted[path], manifest.files.get(path), work.live.get(path)
    same = before is not None and before.hash == wanted.hash
    return ManagedFile(
        hash=wanted.hash,
        blob=wanted.blob,
        destination=wanted.destination,
        source=wanted.source,
        commit=before.commit if same and before is not None else work.commit,
        recipe=wanted.recipe,
        used=wanted.used,
        executable=wanted.executable,
        stamp=live.stamp if live is not None else None,
    )
