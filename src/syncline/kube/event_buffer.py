"""Buffers the watch events of an object during a write, to distinguish own writes from writes of others.

The watch may be faster than the answer to a request. Until the answer is here, nobody knows whether an event is the
echo of our own write or somebody else's.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class EventBuffer(Generic[K, T]):
    """Passes every change on to `tell(key, old, new, by)`: at once, or after the write in hand is over.

    `identity` returns the uid and the version of an object. No change is ever dropped: what turns out to be our own is
    passed on under the name of whoever wrote it.
    """

    def __init__(
        self, identity: Callable[[T], tuple[str, str]], tell: Callable[[K, T | None, T | None, str], None]
    ) -> None:
        self._identity = identity
        self._tell = tell
        self._held: dict[K, list[tuple[T | None, T | None, str]]] = {}

    @contextmanager
    def hold(self, key: K) -> Iterator[None]:
        """Hold back what a watch tells of an object, until the caller has its answer."""
        if key in self._held:  # another writer holds it back for both
            yield
            return
        self._held[key] = []
        try:
            yield
        finally:
            for change in self._held.pop(key):
                self._tell(key, *change)

    def add(self, key: K, old: T | None, new: T | None, by: str) -> None:
        """Take a change."""
        held = self._held.get(key)
        if held is None or by:
            self._tell(key, old, new, by)
        else:
            held.append((old, new, by))

    def claim(self, key: K, uid: str, version: str | None, by: str) -> None:
        """Take the answer to a write by `by`: this state of the object, or without a version its end, is its own."""
        held = self._held.get(key)
        if held is not None:
            held[:] = [(old, new, by if self._is(old, new, uid, version) else who) for old, new, who in held]

    def _is(self, old: T | None, new: T | None, uid: str, version: str | None) -> bool:
        if version is not None:
            return new is not None and self._identity(new) == (uid, version)
        return new is None and old is not None and self._identity(old)[0] == uid
