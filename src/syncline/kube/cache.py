"""What we know about the objects of one kind, from lists, watches and our own writes, newest first.

Pure and synchronous: the reflector feeds it, and everything that could go backwards is decided here.
"""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Key(NamedTuple):
    """The name of an object within its kind; the namespace is empty for kinds that have none."""

    namespace: str
    name: str


class Entry(Struct, Generic[T], frozen=True, gc=False):
    """What is held of one object."""

    uid: str
    version: str
    value: T


class Change(NamedTuple, Generic[T]):
    """A difference that somebody may want to act on."""

    key: Key
    old: T | None
    new: T | None


def is_older(version: str, than: str) -> bool:
    """Compare resourceVersions. Those that are no numbers have no order, and none is older."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class Cache(Generic[T]):
    """The newest known state of each object.

    A state older than the one held is dropped, and so is one equal to it, which is the echo of our own write. An object
    that we deleted stays gone although a watch that lags behind still speaks of it.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, Entry[T]] = {}
        self._forgotten: dict[Key, str] = {}
        self._touched: set[Key] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> T | None:
        """Return what is held of an object."""
        entry = self._entries.get(key)
        return entry.value if entry else None

    def entry(self, key: Key) -> Entry[T] | None:
        """Return what is held of an object, with its uid and version."""
        return self._entries.get(key)

    def items(self) -> Iterator[tuple[Key, T]]:
        """Iterate over all; do not change the cache meanwhile."""
        return ((key, entry.value) for key, entry in self._entries.items())

    def observe(self, key: Key, uid: str, version: str, value: T | None) -> Change[T] | None:
        """Take a state from a watch. A value of None means that nothing of this object is to be held."""
        if self._forgotten.get(key) == uid or not self._is_news(key, version):
            return None
        return self._put(key, uid, version, value)

    def vanish(self, key: Key, uid: str, version: str) -> Change[T] | None:
        """Take a deletion from a watch."""
        if self._forgotten.get(key) == uid:
            del self._forgotten[key]
        held = self._entries.get(key)
        # Another uid: a predecessor. Deletions have versions of their own; one older than what is held speaks of a
        # moment before our own write brought the object back under the watch's selector.
        if held is None or held.uid != uid or is_older(version, held.version):
            return None
        del self._entries[key]
        return Change(key, held.value, None)

    def note(self, key: Key, uid: str, version: str, value: T | None) -> None:
        """Take the answer to our own write."""
        if self._touched is not None:
            self._touched.add(key)
        if self._forgotten.get(key) != uid:
            self._forgotten.pop(key, None)
        if self._is_news(key, version):
            self._put(key, uid, version, value)

    def forget(self, key: Key, uid: str) -> None:
        """Take note that we deleted this very object."""
        held = self._entries.get(key)
        if held and held.uid == uid:
            del self._entries[key]
        elif self._touched is None:
            return  # the watch was faster, and will not speak of it again
        self._forgotten[key] = uid
        if self._touched is not None:
            self._touched.add(key)

    def begin_list(self) -> None:
        """Start to remember which objects we write ourselves: a list taken meanwhile may not know of it."""
        self._touched = set()

    def replace(self, listed: dict[Key, Entry[T]], version: str) -> list[Change[T]]:
        """Take a complete list, and return all differences, deletions included.

        The list is the truth, also where it is older than what is held: then the server was restored from a backup.
        Only what we wrote while it was being taken may be newer.
        """
        touched, self._touched = self._touched or set(), None
        before, after = self._entries, dict(listed)
        for key in touched:
            held, seen = before.get(key), listed.get(key)
            if held and is_older(version, held.version):
                after[key] = held
            elif seen and self._forgotten.get(key) == seen.uid:
                del after[key]
        self._forgotten = {key: uid for key, uid in self._forgotten.items() if key in touched}
        self._entries = after
        gone = [Change(key, held.value, None) for key, held in before.items() if key not in after]
        return gone + [
            Change(key, held.value if held else None, entry.value)
            for key, entry in after.items()
            if (held := before.get(key)) is None or held.version != entry.version or held.uid != entry.uid
        ]

    def _is_news(self, key: Key, version: str) -> bool:
        held = self._entries.get(key)
        return held is None or (version != held.version and not is_older(version, held.version))

    def _put(self, key: Key, uid: str, version: str, value: T | None) -> Change[T] | None:
        held = self._entries.get(key)
        if value is not None:
            self._entries[key] = Entry(uid, version, value)
        elif held is not None:
            del self._entries[key]
        else:
            return None
        return Change(key, held.value if held else None, value)
