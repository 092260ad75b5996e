"""What users have done, as far as the end state depends on it; and a line for each of their deeds.

Most of what must be so at the end follows from specs, namespaces and sources as they are then. The rest is here: which
objects are users' own, who edited which copy, which syncs were deleted and what they were allowed to leave behind.
"""

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.churn.api import Json, Place

# Of the same write, undone so often within so many seconds, the operator takes note by design.
TOUCHES = 3
TOUCH_WINDOW = 900.0


@dataclass
class Life:
    """A sync by its UID, from its creation to its deletion."""

    uid: str
    ref: str
    spec: Json
    born: float
    deleted: float | None = None
    may_leave: str = ""
    """Why its copies may stay though it is deleted; empty if they may not."""


@dataclass(frozen=True)
class Edit:
    """A user's edit of a value, as the server accepted it; None is a removal."""

    at: float
    uid: str
    key: str
    value: str | None


@dataclass
class Git:
    """The repository: the files of each branch at its head."""

    branches: dict[str, dict[str, str]] = field(default_factory=dict)


class History:
    """All that users did. For any number of threads."""

    def __init__(self, file: Path | None = None) -> None:
        self.git = Git()
        self.foreign: dict[Place, tuple[str, str]] = {}
        """Objects that are users' own: UID and version as users left them."""
        self.restored: set[Place] = set()
        """Where users put back a copy, marks and all, from a backup."""
        self.exempted: set[Place] = set()
        """Copies that users have ever had left alone."""
        self.edits: dict[Place, list[Edit]] = defaultdict(list)
        self.deletes: dict[Place, list[float]] = defaultdict(list)
        self.lives: dict[str, Life] = {}
        self.confirmed: dict[str, list[float]] = defaultdict(list)
        """When held removals of a sync were confirmed, on the wall clock."""
        self.operations = 0
        self.counts: dict[str, int] = defaultdict(int)
        self._going: set[str] = set()
        self._closed: dict[str, list[tuple[float, float | None]]] = defaultdict(list)
        self._touched: dict[Place, deque[float]] = defaultdict(deque)
        self._locks: dict[str, threading.RLock] = defaultdict(threading.RLock)
        self._guard = threading.Lock()
        self._file = file.open("a", encoding="utf-8") if file is not None else None
        self._start = time.monotonic()

    def close(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            self._file.close()

    def elapsed(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._start

    def tell(self, what: str, where: str, how: str = "", **more: object) -> None:
        """Write one line."""
        line = {"at": round(self.elapsed(), 3), "clock": round(time.time(), 3), "what": what, "where": where}
        line |= {"how": how} if how else {}
        with self._guard:
            self.operations += 1
            self.counts[what] += 1
            if self._file is not None:
                self._file.write(json.dumps({**line, **more}, default=str) + "\n")
                self._file.flush()

    @contextmanager
    def alone(self, *keys: str) -> Iterator[None]:
        """Keep other users off these objects."""
        with self._guard:
            locks = [self._locks[key] for key in sorted(set(keys))]
        for lock in locks:
            lock.acquire()
        try:
            yield
        finally:
            for lock in reversed(locks):
                lock.release()

    def may_touch(self, place: Place) -> bool:
        """Count one more touch of a copy, unless it would look like a write loop."""
        now = self.elapsed()
        with self._guard:
            touched = self._touched[place]
            while touched and now - touched[0] > TOUCH_WINDOW:
                touched.popleft()
            if len(touched) >= TOUCHES:
                return False
            touched.append(now)
            return True

    def own(self, place: Place, body: Json) -> None:
        """Note that an object is a user's own, as it is now, unless it goes with its namespace."""
        if place[1] in self._going:
            return
        self.foreign[place] = (body["metadata"]["uid"], body["metadata"]["resourceVersion"])

    def disown(self, place: Place) -> None:
        """Note that a user's object is gone, or may be."""
        self.foreign.pop(place, None)

    def edited(self, place: Place, uid: str, values: Mapping[str, str | None]) -> None:
        """Note an accepted edit."""
        now = self.elapsed()
        self.edits[place] += [Edit(now, uid, key, value) for key, value in values.items()]

    def deleted(self, place: Place) -> None:
        """Note that a user has deleted an object, or may have."""
        self.deletes[place].append(self.elapsed())
        self.disown(place)

    def born(self, ref: str, body: Json) -> None:
        """Note a sync as it is now."""
        uid = body["metadata"]["uid"]
        life = self.lives.get(uid)
        if life is None:
            self.lives[uid] = Life(uid, ref, body["spec"], self.elapsed())
            return
        life.spec = body["spec"]
        if life.deleted is not None and not life.may_leave:
            # Edited while its namespace was being deleted: whichever of the two it saw first is right.
            life.may_leave = left_by(life.spec)

    def died(self, ref: str, may_leave: str) -> None:
        """Note that the sync of this name is being deleted."""
        for life in list(self.lives.values()):
            if life.ref == ref and life.deleted is None:
                life.deleted, life.may_leave = self.elapsed(), may_leave

    def close_namespace(self, name: str) -> None:
        """Note that no sync may touch a namespace from now on."""
        self._closed[name].append((self.elapsed(), None))

    def open_namespace(self, name: str) -> None:
        """Note that syncs may again."""
        now = self.elapsed()
        self._closed[name] = [(start, now if end is None else end) for start, end in self._closed[name]]

    def was_closed(self, name: str, since: float) -> bool:
        """Whether a namespace was closed at any time since."""
        return any(end is None or end >= since for _, end in self._closed[name])

    def namespace_gone(self, name: str) -> None:
        """Note that all objects of a namespace are gone, or going."""
        self._going.add(name)
        for place in [place for place in self.foreign if place[1] == name]:
            self.disown(place)
        for place in [place for place in self.restored if place[1] == name]:
            self.restored.discard(place)
        self.open_namespace(name)

    def kind_gone(self, kind: str) -> None:
        """Note that all objects of a kind are gone."""
        for place in [place for place in self.foreign if place[0] == kind]:
            self.disown(place)

    def namespace_back(self, name: str) -> None:
        """Note that a namespace is there again."""
        self._going.discard(name)


def left_by(spec: Json, *, abandoned: bool = False) -> str:
    """Say why a sync with this spec may leave copies when it is deleted, or nothing."""
    if abandoned:
        return "abandoned"
    if spec.get("suspend"):
        return "suspended"
    return "Orphan" if spec.get("deletionPolicy") == "Orphan" else ""
