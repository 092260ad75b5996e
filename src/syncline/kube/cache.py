"""The newest known state of the objects of one kind, from lists, watches and own requests.

Pure and synchronous: the reflector fills it, and it decides which state is newer. Every method that adds a state
returns the change, so that no change is silent.
"""

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

T = TypeVar("T")

_BURIED = 4096
"""The number of remembered deletions: enough for all requests in flight."""
_NOTED = 256
"""The number of objects whose last change is remembered in order."""


class Key(NamedTuple):
    """The name of an object within its kind; the namespace is empty for kinds that have none."""

    namespace: str
    name: str


class CacheEntry(Struct, Generic[T], frozen=True, gc=False):
    """The cached state of one object."""

    uid: str
    version: str
    value: T


class CacheChange(NamedTuple, Generic[T]):
    """A difference between two states."""

    key: Key
    old: T | None
    new: T | None


def is_older(version: str, than: str) -> bool:
    """Compare resourceVersions. Versions that are not numbers have no order."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


class _Gone(NamedTuple):
    """The end of an object, with its version; without one, the object was deleted and its uid never comes back."""

    uid: str
    version: str | None
    told: bool = True
    """Whether a watch event reported the deletion; else the object was missing from a list."""

    def covers(self, uid: str, version: str) -> bool:
        """Whether a state of an object is from before this end."""
        if self.uid != uid:
            return False
        return self.version is None or version == self.version or is_older(version, self.version)


class ChangeLog:
    """The objects that have changed last, in order. A reader who knows a position gets what has changed since."""

    def __init__(self) -> None:
        self.position = 0
        """The number of changes so far."""
        self._last: dict[Key, int] = {}
        """The position of the last change of each object, the oldest first."""
        self._forgotten = 0

    def note(self, key: Key) -> None:
        """Add a change of an object."""
        self.position += 1
        self._last.pop(key, None)
        self._last[key] = self.position
        if len(self._last) > _NOTED:
            self._forgotten = self._last.pop(next(iter(self._last)))

    def since(self, position: int) -> list[Key] | None:
        """Return the objects that have changed since a position; None if there are too many to know."""
        if position < self._forgotten:
            return None
        found: list[Key] = []
        for key in reversed(self._last):
            if self._last[key] <= position:
                break
            found.append(key)
        return found


class Cache(Generic[T]):
    """The newest known state of each object.

    A state older than the one held is dropped, and so is one equal to it, which is the echo of our own write. An object
    that is gone is not brought back by what happened before: by a replay, by a watch that lags behind our own delete,
    or by the late answer to an earlier write.
    """

    def __init__(self, weigh: Callable[[Key, CacheEntry[T]], int] | None = None) -> None:
        """`weigh` estimates the size of an entry; without it, sizes are not counted."""
        self.size = 0
        """The approximate size of all entries."""
        self.changes = ChangeLog()
        self._weigh = weigh
        self._entries: dict[Key, CacheEntry[T]] = {}
        self._gone: dict[Key, _Gone] = {}
        self._touched: set[Key] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> T | None:
        """Return the cached state of an object."""
        entry = self._entries.get(key)
        return entry.value if entry else None

    def entry(self, key: Key) -> CacheEntry[T] | None:
        """Return the cached state of an object, with its uid and version."""
        return self._entries.get(key)

    def newest(self) -> tuple[Key, CacheEntry[T]] | None:
        """Return the object with the highest version; None if there is none, or if versions are no numbers."""
        found = max(self._entries.items(), key=lambda item: _number(item[1].version), default=None)
        return found if found is not None and _number(found[1].version) else None

    def holds(self, key: Key, uid: str, version: str) -> bool:
        """Return whether exactly this state of the object is cached."""
        entry = self._entries.get(key)
        return entry is not None and entry.version == version and entry.uid == uid

    def items(self) -> Iterator[tuple[Key, T]]:
        """Iterate over all; do not change the cache meanwhile."""
        return ((key, entry.value) for key, entry in self._entries.items())

    def observe(self, key: Key, uid: str, version: str, value: T | None) -> CacheChange[T] | None:
        """Add a state from a watch or from the response to an own request.

        A value of None means that the object is not cached.
        """
        self._touch(key)
        if not self._is_news(key, uid, version):
            return None
        held = self._entries.get(key)
        if value is not None:
            self._put(key, CacheEntry(uid, version, value))
        elif held is not None:
            self._drop(key)
        else:
            return None
        return CacheChange(key, held.value if held else None, value)

    def amend(self, key: Key, uid: str, version: str, value: T) -> bool:
        """Replace the cached value of exactly this state; return whether it was cached."""
        if not self.holds(key, uid, version):
            return False
        self._put(key, CacheEntry(uid, version, value))
        return True

    def vanish(self, key: Key, uid: str, version: str | None) -> CacheChange[T] | None:
        """Add the end of an object: it was deleted, or no longer matches the selector.

        Without a version: we deleted this very object, and the server confirmed that it is gone.
        """
        self._touch(key)
        held = self._entries.get(key)
        # Another uid: a predecessor. A deletion has its own version. If that is older than the cached state, our own
        # write has brought the object back under the watch's selector since then.
        if held and (held.uid != uid or (version is not None and is_older(version, held.version))):
            return None
        gone = self._gone.get(key)
        if version is None or gone is None or gone.uid != uid or gone.version is not None:
            self._bury(key, uid, version)
        if held is None:
            return None
        self._drop(key)
        return CacheChange(key, held.value, None)

    def has_told_end(self, key: Key, uid: str) -> bool:
        """Whether a watch event reported the deletion of exactly this object.

        An object that is missing from a list may never have existed there: the server may be restored from a backup.
        Only the last deletions are remembered; False if it is not known.
        """
        gone = self._gone.get(key)
        return key not in self._entries and gone is not None and gone.uid == uid and gone.told and bool(gone.version)

    def begin_list(self) -> None:
        """Start to remember the states of single objects: a list in progress may not contain them yet."""
        self._touched = set()

    def replace(self, listed: dict[Key, CacheEntry[T]], version: str) -> list[CacheChange[T]]:
        """Add a complete list, and return all differences, including deletions.

        The list is authoritative, even if it is older than the cache: then the API server was restored from a backup.
        Only states of single objects that were added during the list can be newer.
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
        self.size = sum(self.weight(key, entry) for key, entry in after.items()) if self._weigh else 0
        self._gone = {key: gone for key, gone in self._gone.items() if key not in after}
        changes: list[CacheChange[T]] = []
        for key, held in before.items():
            if key not in after:
                self._bury(key, held.uid, version, told=False)
                changes.append(CacheChange(key, held.value, None))
        for key, entry in after.items():
            old = before.get(key)
            if old is None or (old.uid, old.version) != (entry.uid, entry.version):
                changes.append(CacheChange(key, old.value if old else None, entry.value))
        for change in changes:
            self.changes.note(change.key)
        return changes

    def weight(self, key: Key, entry: CacheEntry[T] | None) -> int:
        """Return the approximate size of an entry, if sizes are counted."""
        return self._weigh(key, entry) if self._weigh is not None and entry is not None else 0

    def _put(self, key: Key, entry: CacheEntry[T]) -> None:
        if self._weigh is not None:
            self.size += self.weight(key, entry) - self.weight(key, self._entries.get(key))
        self._entries[key] = entry
        self.changes.note(key)

    def _drop(self, key: Key) -> None:
        self.size -= self.weight(key, self._entries.pop(key))
        self.changes.note(key)

    def _is_news(self, key: Key, uid: str, version: str) -> bool:
        held, gone = self._entries.get(key), self._gone.get(key)
        if held:
            return version != held.version and not is_older(version, held.version)
        return gone is None or not gone.covers(uid, version)

    def _touch(self, key: Key) -> None:
        if self._touched is not None:
            self._touched.add(key)

    def _bury(self, key: Key, uid: str, version: str | None, *, told: bool = True) -> None:
        self._gone.pop(key, None)
        self._gone[key] = _Gone(uid, version, told)
        if len(self._gone) > _BURIED:
            del self._gone[next(iter(self._gone))]
