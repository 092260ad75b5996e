"""Syncs that wait for a target of another sync, by target and by the other sync.

The waiters are enqueued when the target or the other sync changes. The index may be lost at any time: the next
reconcile of a sync adds its waits again.
"""

from collections.abc import Hashable, Iterator

from msgspec import Struct

from syncline.core.objects import Target

ClaimKey = tuple[str, Target]
"""A cluster, and a target within it."""


class _Wait(Struct, gc=False):
    winner: str
    pass_number: int


class Waiters:
    """The syncs that wait, by the refs of their owners."""

    def __init__(self) -> None:
        self._waits: dict[str, dict[ClaimKey, _Wait]] = {}
        self._rounds: dict[str, int] = {}
        self._by_target = _RefCounts()
        self._by_winner = _RefCounts()
        self._by_namespace = _RefCounts()

    def add(self, ref: str, spot: ClaimKey, winner: str = "") -> None:
        """Record that a sync waits for a target. `winner` is the sync that has it, if it is known here."""
        self.discard(ref, spot)
        wait = _Wait(sync_of(winner), self._rounds.get(ref, 0))
        self._waits.setdefault(ref, {})[spot] = wait
        for index, entry in self._entries(spot, wait):
            index.add(entry, ref)

    def discard(self, ref: str, spot: ClaimKey) -> None:
        """Record that a sync does not wait for a target."""
        waits = self._waits.get(ref, {})
        wait = waits.pop(spot, None)
        if wait is None:
            return
        if not waits:
            del self._waits[ref]
        for index, entry in self._entries(spot, wait):
            index.discard(entry, ref)

    def begin(self, ref: str) -> None:
        """Begin a reconcile of a sync, which adds the waits of the sync again."""
        self._rounds[ref] = self._rounds.get(ref, 0) + 1

    def keep(self, ref: str) -> None:
        """Keep all waits of a sync in this reconcile, which does not look at all targets."""
        now = self._rounds.get(ref, 0)
        for wait in self._waits.get(ref, {}).values():
            wait.pass_number = now

    def end(self, ref: str) -> None:
        """End a reconcile: waits that it has not added again are removed."""
        now = self._rounds.pop(ref, 0)
        for spot in [spot for spot, wait in self._waits.get(ref, {}).items() if wait.pass_number != now]:
            self.discard(ref, spot)
        for wait in self._waits.get(ref, {}).values():
            wait.pass_number = 0

    def drop(self, ref: str) -> None:
        """Forget a sync that waits for nothing any more."""
        self._rounds.pop(ref, None)
        for spot in list(self._waits.get(ref, ())):
            self.discard(ref, spot)

    def for_target(self, spot: ClaimKey) -> tuple[str, ...]:
        """Return the syncs that wait for a target."""
        return self._by_target.of(spot)

    def in_namespace(self, cluster: str, namespace: str) -> tuple[str, ...]:
        """Return the syncs that wait for a target in a namespace."""
        return self._by_namespace.of((cluster, namespace))

    def for_sync(self, winner: str) -> tuple[str, ...]:
        """Return the syncs that wait for a target that another sync has."""
        return self._by_winner.of(sync_of(winner))

    def is_waiting(self, ref: str) -> bool:
        """Whether a sync waits for any target."""
        return ref in self._waits

    def __len__(self) -> int:
        return sum(map(len, self._waits.values()))

    def _entries(self, spot: ClaimKey, wait: _Wait) -> "Iterator[tuple[_RefCounts, Hashable]]":
        cluster, target = spot
        yield self._by_target, spot
        yield self._by_namespace, (cluster, target.namespace)
        if wait.winner:
            yield self._by_winner, wait.winner


class _RefCounts:
    """The syncs under each entry, with the number of their waits."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, dict[str, int]] = {}

    def add(self, entry: Hashable, ref: str) -> None:
        counts = self._counts.setdefault(entry, {})
        counts[ref] = counts.get(ref, 0) + 1

    def discard(self, entry: Hashable, ref: str) -> None:
        counts = self._counts[entry]
        counts[ref] -= 1
        if not counts[ref]:
            del counts[ref]
        if not counts:
            del self._counts[entry]

    def of(self, entry: Hashable) -> tuple[str, ...]:
        return tuple(self._counts.get(entry, ()))


def sync_of(ref: str) -> str:
    """Return the sync of an owner, which may be an environment of the sync."""
    return "/".join(ref.split("/")[:3])
