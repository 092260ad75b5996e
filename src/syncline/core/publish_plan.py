"""The plan of a publish: which files are written, added to the manifest, left, or deleted.

Only files of the manifest are deleted. A large deletion waits for the confirmation of a person (the deletion guard).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from syncline.core.deletion_guard import needs_confirmation
from syncline.core.digest import short_digest
from syncline.core.gateway_plan import DriftAction, HeldDeletion, ReportedDiff

RESOURCE_FILE = "resource.json"
"""The file that lists the other files of its folder: it is written last, and deleted first."""

FileKind = Literal["file", "link", "folder", "other", "obstructed"]
"""Obstructed: a parent of the path is not a folder."""


class FileStamp(Struct, frozen=True, array_like=True):
    """Shows without reading a file whether it was changed. Times are in nanoseconds."""

    size: int
    modified: int
    changed: int
    inode: int


class ManagedFile(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An entry of the manifest: a file that was written."""

    hash: str
    """SHA-256 of what was written."""
    blob: str
    """The id of the Git blob that it was made of."""
    destination: str
    """The destination of its mapping."""
    source: str
    commit: str
    """The commit that has changed it last."""
    recipe: str = ""
    """A digest of the templates and patches that were applied; empty: the bytes of the blob."""
    used: tuple[str, ...] = ()
    """The names of the values that its templates have used."""
    executable: bool = False
    stamp: FileStamp | None = None


class LiveFile(Struct, frozen=True):
    """The state of a path of the folder."""

    kind: FileKind
    hash: str = ""
    """SHA-256 of a file."""
    executable: bool = False
    stamp: FileStamp | None = None
    obstacle: str = ""
    """The parent that is not a folder."""


class WantedFile(Struct, frozen=True):
    """A file that the folder should have."""

    blob: str
    destination: str
    source: str
    hash: str = ""
    """SHA-256 of its content; empty: not known yet."""
    recipe: str = ""
    used: tuple[str, ...] = ()
    executable: bool = False


class PublishRules(Struct, frozen=True):
    """The rules of a publish."""

    drift: DriftAction = "Correct"
    missing: frozenset[str] = frozenset()
    """The destinations of mappings whose source is missing in the commit. Nothing that they wrote is deleted."""
    left: frozenset[str] = frozenset()
    """Files whose local edits stay, also if Git has changed them."""
    confirmed: str = ""
    """The digest of a deletion that a person has confirmed."""


class PublishPlan(Struct, frozen=True):
    """All changes of a publish, in order."""

    first: tuple[str, ...] = ()
    """Deletions that make room for a write: a file becomes a folder, or the other way round."""
    writes: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    """Files with the right content and a wrong mode."""
    taken: tuple[str, ...] = ()
    """Existing files with the same content. They are managed from now on."""
    kept: frozenset[str] = frozenset()
    """Files of somebody else that are replaced or deleted. A copy of each is kept."""
    drifted: tuple[str, ...] = ()
    """Managed files that somebody changed or deleted."""
    left: frozenset[str] = frozenset()
    """The drifted files that stay as they are."""
    retained: frozenset[str] = frozenset()
    """Files of the manifest that are no longer wanted, and stay: their deletion is held, or their source is missing."""
    waiting: tuple[str, ...] = ()
    """Files that cannot be written before a held deletion is confirmed."""
    blocked: tuple[str, ...] = ()
    """Why files cannot be written; then nothing is published."""
    deletion: HeldDeletion | None = None
    diff: ReportedDiff = ReportedDiff()

    @property
    def changes(self) -> bool:
        """Whether the folder is changed at all."""
        return bool(self.first or self.writes or self.deletes or self.modes)

    @property
    def touched(self) -> tuple[str, ...]:
        """All files that are changed."""
        return (*self.first, *self.writes, *self.deletes, *self.modes)


def plan_publish(
    wanted: Mapping[str, WantedFile],
    managed: Mapping[str, ManagedFile],
    live: Mapping[str, LiveFile],
    rules: PublishRules,
) -> PublishPlan:
    """Decide what to do. `live` has what is at each path of `wanted` and `managed`; a path without it is absent."""
    decided = _Decisions(wanted, managed, live, rules)
    gone = _gone(wanted, managed, live, rules)
    deletable = tuple(sorted(gone, key=_deletion_order))
    deletion = _guard(deletable, managed, rules.confirmed)
    folders = {folder for path in wanted for folder in ancestors(path)}
    room = {path for path in deletable if path in folders or any(folder in wanted for folder in ancestors(path))}
    blocked = decided.blocked(room)
    waiting: tuple[str, ...] = ()
    if deletion is not None:
        held_in = {folder for path in room for folder in ancestors(path)}
        waiting = tuple(
            path for path in decided.writes if path in held_in or any(folder in room for folder in ancestors(path))
        )
    writes = tuple(sorted((path for path in decided.writes if path not in waiting), key=_write_order))
    edited = {path for path in deletable if live[path].hash != managed[path].hash}
    doomed = () if deletion is not None else deletable
    added = sum(path not in live or live[path].kind in ("folder", "obstructed") for path in writes)
    return PublishPlan(
        first=tuple(path for path in doomed if path in room),
        writes=writes,
        deletes=tuple(path for path in doomed if path not in room),
        modes=tuple(decided.modes),
        taken=tuple(decided.taken),
        kept=frozenset({*decided.kept, *(edited & set(doomed))}),
        drifted=tuple(sorted({*decided.drifted, *edited})),
        left=frozenset(decided.left),
        retained=frozenset(path for path in managed if path not in wanted and path in live and path not in doomed),
        waiting=waiting,
        blocked=blocked,
        deletion=deletion,
        diff=ReportedDiff(added=added, modified=len(writes) - added + len(decided.modes), deleted=len(doomed)),
    )


class _Decisions:
    """The decision about each wanted file."""

    def __init__(
        self,
        wanted: Mapping[str, WantedFile],
        managed: Mapping[str, ManagedFile],
        live: Mapping[str, LiveFile],
        rules: PublishRules,
    ) -> None:
        self._wanted, self._managed, self._live, self._rules = wanted, managed, live, rules
        self.writes: list[str] = []
        self.modes: list[str] = []
        self.taken: list[str] = []
        self.kept: list[str] = []
        self.drifted: list[str] = []
        self.left: list[str] = []
        for path in sorted(wanted):
            self._decide(path, wanted[path])

    def _decide(self, path: str, wanted: WantedFile) -> None:
        live, managed = self._live.get(path), self._managed.get(path)
        if live is not None and live.kind == "file" and wanted.hash and live.hash == wanted.hash:
            if managed is None:
                self.taken.append(path)
            if live.executable != wanted.executable:
                self.modes.append(path)
            return
        if managed is not None and _has_drifted(live, managed):
            self.drifted.append(path)
            unchanged = wanted.hash == managed.hash
            if path in self._rules.left or (unchanged and self._rules.drift == "Report"):
                self.left.append(path)
                return
        elif managed is None and live is not None and live.kind == "file" and path in self._rules.left:
            self.left.append(path)
            return
        self.writes.append(path)
        if live is not None and live.kind in ("file", "link") and (managed is None or live.hash != managed.hash):
            self.kept.append(path)

    def blocked(self, room: Iterable[str]) -> tuple[str, ...]:
        """Return the files that cannot be written, in spite of the deletions that make room for them."""
        freed = set(room)
        problems = []
        for path in self.writes:
            live = self._live.get(path)
            if live is None or live.kind in ("file", "link"):
                continue
            if live.kind == "obstructed" and live.obstacle not in freed:
                problems.append(f"{live.obstacle} is in the way of {path} and is not a folder: remove it")
            elif live.kind == "folder" and not any(one.startswith(f"{path}/") for one in freed):
                problems.append(f"{path} is a folder in the data folder, and a file in Git: remove the folder")
            elif live.kind == "other":
                problems.append(f"{path} is a device, socket or pipe: remove it")
        return tuple(problems)


def _has_drifted(live: LiveFile | None, managed: ManagedFile) -> bool:
    return live is None or live.kind != "file" or live.hash != managed.hash


def _gone(
    wanted: Mapping[str, WantedFile],
    managed: Mapping[str, ManagedFile],
    live: Mapping[str, LiveFile],
    rules: PublishRules,
) -> list[str]:
    """Return the files of the manifest to delete. A folder at such a path belongs to somebody else."""
    return [
        path
        for path, entry in managed.items()
        if path not in wanted
        and path in live
        and live[path].kind in ("file", "link")
        and entry.destination not in rules.missing
        and path not in rules.left
    ]


def _guard(deletable: tuple[str, ...], managed: Mapping[str, ManagedFile], confirmed: str) -> HeldDeletion | None:
    if not needs_confirmation(len(deletable), len(managed)):
        return None
    digest = short_digest(*(f"{path} {managed[path].hash}" for path in sorted(deletable)))
    if confirmed == digest:
        return None
    return HeldDeletion(digest=digest, files=len(deletable), of=len(managed))


def ancestors(path: str) -> Iterator[str]:
    """Yield the folders that a path is in, the innermost first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _write_order(path: str) -> tuple[str, bool, str]:
    folder, _, name = path.rpartition("/")
    return folder, name == RESOURCE_FILE, name


def _deletion_order(path: str) -> tuple[str, bool, str]:
    folder, _, name = path.rpartition("/")
    return folder, name != RESOURCE_FILE, name
