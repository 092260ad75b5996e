"""What we know about the objects of one kind, from lists, watches and our own requests, newest first.

Pure and synchronous: the reflector feeds it, and everything that could go backwards is decided here. Every way in
returns the change that it made: nothing is learned in silence.
"""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

T = TypeVar("T")

_BURIED = 4096
"""How many ends of objects are remembered: enough for all requests that may be in flight."""


class Key(NamedTuple):
    """The name of an object within its kind; the namespace is empty for kinds that have none."""

    namespace: str
    name: str


class CacheEntry(Struct, Generic[T], frozen=True, gc=False):
    """What is held of one object."""

    uid: str
    version: str
    value: T


class CacheChange(NamedTuple, Generic[T]):
    """A difference that somebody may want to act on."""

    key: Key
    old: T | None
    new: T | None


def is_older(version: str, than: str) -> bool:
    """Compare resourceVersions. Those that are no numbers have no order, and none is older."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class _Gone(NamedTuple):
    """The end of an object, with its version; without one, the object was deleted and its uid never comes back."""

    uid: str
    version: str | None

    def covers(self, uid: str, version: str) -> bool:
        """Whether a state of an object is from before this end."""
        if self.uid != uid:
            return False
        return self.version is None or version == self.version or is_older(version, self.version)


class Cache(Generic[T]):
    """The newest known state of each object.

    A state older than the one held is dropped, and so is one equal to it, which is the echo of our own write. An object
    that is gone is not brought back by what happened before: by a replay, by a watch that lags behind our own delete,
    or by the late answer to an earlier write.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, CacheEntry[T]] = {}
        self._gone: dict[Key, _Gone] = {}
        self._touched: set[Key] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> T | None:
        """Return what is held of an object."""
        entry = self._entries.get(key)
        return entry.value if entry else None

    def entry(self, key: Key) -> CacheEntry[T] | None:
        """Return what is held of an object, with its uid and version."""
        return self._entries.get(key)

    def holds(self, key: Key, uid: str, version: str) -> bool:
        """Tell whether it is just this state of the object that is held."""
        entry = self._entries.get(key)
        return entry is not None and entry.version == version and entry.uid == uid

    def items(self) -> Iterator[tuple[Key, T]]:
        """Iterate over all; do not change the cache meanwhile."""
        return ((key, entry.value) for key, entry in self._entries.items())

    def observe(self, key: Key, uid: str, version: str, value: T | None) -> CacheChange[T] | None:
        """Take a state that a watch told, or that the server answered to a request of ours.

        A value of None means that nothing of this object is to be held.
        """
        self._touch(key)
        if not self._is_news(key, uid, version):
            return None
        held = self._entries.get(key)
        if value is not None:
            self._entries[key] = CacheEntry(uid, version, value)
        elif held is not None:
            del self._entries[key]
        else:
            return None
        return CacheChange(key, held.value if held else None, value)

    def vanish(self, key: Key, uid: str, version: str | None) -> CacheChange[T] | None:
        """Take the end of an object: it was deleted, or left the selection.

        Without a version: we deleted this very object, and the server confirmed that it is gone.
        """
        self._touch(key)
        held = self._entries.get(key)
        # Another uid: a predecessor. Deletions have versions of their own; one older than what is held speaks of a
        # moment before our own write brought the object back under the watch's selector.
        if held and (held.uid != uid or (version is not None and is_older(version, held.version))):
            return None
        gone = self._gone.get(key)
        if version is None or gone is None or gone.uid != uid or gone.version is not None:
            self._bury(key, uid, version)
        if held is None:
            return None
        del self._entries[key]
        return CacheChange(key, held.value, None)

    def begin_list(self) -> None:
        """Start to remember what is learned of single objects: a list taken meanwhile may not know it yet."""
        self._touched = set()

    def replace(self, listed: dict[Key, CacheEntry[T]], version: str) -> list[CacheChange[T]]:
        """Take a complete list, and return all differences, deletions included.

        The list is the truth, also where it is older than what is held: then the server was restored from a backup.
        Only what was learned of single objects while it was being taken may be newer.
        """
        touched, self._touched = self._touched or set(), None
        before, after = self._entries, dict(listed)
        for key in touched:
            held, seen, gone = before.get(key), listed.get(key), self._gone.get(key)
            if held and is_older(version, held.version):
                after[key] = held
            elif seen and gone and (gone.version is None or is_older(version, gone.version)) and gone.uid == seen.uid:
                del after[key]
        self._entries = after
        self._gone = {key: gone for key, gone in self._gone.items() if key not in after}
        changes: list[CacheChange[T]] = []
        for key, held in before.items():
            if key not in after:
                self._bury(key, held.uid, version)
                changes.append(CacheChange(key, held.value, None))
        for key, entry in after.items():
            old = before.get(key)
            if old is None or (old.uid, old.version) != (entry.uid, entry.version):
                changes.append(CacheChange(key, old.value if old else None, entry.value))
        return changes

    def _is_news(self, key: Key, uid: str, version: str) -> bool:
        held, gone = self._entries.get(key), self._gone.get(key)
        if held:
            return version != held.version and not is_older(version, held.version)
        return gone is None or not gone.covers(uid, version)

    def _touch(self, key: Key) -> None:
        if self._touched is not None:
            self._touched.add(key)

    def _bury(self, key: Key, uid: str, version: str | None) -> None:
        self._gone.pop(key, None)
        self._gone[key] = _Gone(uid, version)
        if len(self._gone) > _BURIED:
            del self._gone[next(iter(self._gone))]
