"""Buffers the watch events of an object during a write, to distinguish own writes from writes of others.

The watch can be faster than the answer to a request. Before the answer, nobody knows whether an event is the echo of
our own write or a write of others.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class EventBuffer(Generic[K, T]):
    """Passes every change on to `tell(key, old, new, by)`: at once, or after the write in progress.

    `identity` returns the uid and the version of an object. No change is dropped: `by` names the writer of our own
    writes.
    """

    def __init__(
        self, identity: Callable[[T], tuple[str, str]], tell: Callable[[K, T | None, T | None, str], None]
    ) -> None:
        self._identity = identity
        self._tell = tell
        self._held: dict[K, list[tuple[T | None, T | None, str]]] = {}

    @contextmanager
    def hold(self, key: K) -> Iterator[None]:
        """Hold back the events of an object until the caller has its answer."""
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
        """Add a change."""
        held = self._held.get(key)
        if held is None or by:
            self._tell(key, old, new, by)
        else:
            held.append((old, new, by))

    def claim(self, key: K, uid: str, version: str | None, by: str) -> None:
        """Note the answer to a write by `by`: this version of the object, or its deletion if None, is its own."""
        held = self._held.get(key)
        if held is not None:
            held[:] = [(old, new, by if self._is(old, new, uid, version) else who) for old, new, who in held]

    def _is(self, old: T | None, new: T | None, uid: str, version: str | None) -> bool:
        if version is not None:
            return new is not None and self._identity(new) == (uid, version)
        return new is None and old is not None and self._identity(old)[0] == uid
