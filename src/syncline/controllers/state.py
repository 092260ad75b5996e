"""What is remembered of a sync between reconciles. All of it can be lost."""

from collections.abc import Callable, Collection

from syncline.api.common import CONFIRM_DELETION, REQUESTED_AT
from syncline.controllers.lowered import AnySync
from syncline.core.objects import Target
from syncline.engine.fanout import FanOut

# This long after its finalizer was added a deletion that began before may still remove a sync.
OVERTAKEN_WITHIN = 60.0
# Labels that a script takes off one by one, or that flicker, are one change: it is acted on once it has come to rest.
PRUNE_SETTLE = 2.0
# Removals that nobody asked for count together for this long.
PRUNE_WINDOW = 600.0

ObjectUid = tuple[str, str]
"""The UID of a cluster, and that of an object in it."""


class SyncState:
    """The reconciles of one sync."""

    def __init__(self, fan_out: FanOut) -> None:
        self.fan_out = fan_out
        self.uid = ""
        """The UID of the sync: one that is created again under its name is another one."""
        self.missing_since: dict[Target, float] = {}
        """Sources that are not there, and since when."""
        self.finalizing_since: float | None = None
        self.finalizer_added: tuple[AnySync, float] | None = None
        """The sync that we added the finalizer to, and when: a deletion may have overtaken it."""
        self.author: tuple[int, bool] | None = None
        """The generation whose author was judged, and whether they had been checked."""
        self._unwanted: tuple[frozenset[Target], float] = frozenset(), 0.0
        """The copies that are no longer wanted, and since when it is just these."""
        self._pruned: dict[ObjectUid, float] = {}
        """The objects whose removal nobody asked for, and when it was sent last."""
        self._handled: tuple[object, ...] = ()
        self._due = 0.0

    def shed(self) -> None:
        """Drop what is of no use for a sync that is gone."""

    def lost_sync(self, uid: str, now: float) -> AnySync | None:
        """Return the sync whose deletion was faster than its finalizer, if another one, or none, is there now."""
        if self.finalizer_added is None or self.finalizer_added[0].metadata.uid == uid:
            return None
        (sync, added), self.finalizer_added = self.finalizer_added, None
        return sync if now - added < OVERTAKEN_WITHIN else None

    def settle_delay(self, unwanted: frozenset[Target], now: float) -> float:
        """Return for how many seconds the set of unwanted copies must still stay the same to count as at rest."""
        if self._unwanted[0] != unwanted:
            self._unwanted = unwanted, now
        return self._unwanted[1] + PRUNE_SETTLE - now if unwanted else 0.0

    def record_pruned(self, one: ObjectUid, now: float) -> None:
        """Note, before it is sent, a removal that nobody asked for: its answer may be late, or lost."""
        self._pruned[one] = now

    def recently_pruned(self, kept: Callable[[], Collection[ObjectUid]], now: float) -> int:
        """Return how many objects were removed lately without anybody asking for it.

        Those that are `kept` were not: the removal failed, or is still under way.
        """
        self._pruned = {one: at for one, at in self._pruned.items() if now - at < PRUNE_WINDOW}
        return len(self._pruned.keys() - kept()) if self._pruned else 0

    def reset_prune_window(self) -> None:
        """Take it that a person has confirmed removals: those that went before are confirmed with them."""
        self._pruned.clear()

    def resync_in(self, sync: AnySync, now: float) -> float:
        """Return for how many seconds a sync with an interval is not due; what its user asks for is due at once."""
        return self._due - now if not sync.deleting and self._handled == _requested_by_user(sync) else 0.0

    def make_due(self) -> None:
        """Have the next reconcile look, whatever the interval."""
        self._due = 0.0

    def finished(self, sync: AnySync, interval: float | None, now: float) -> None:
        """Note the end of a reconcile; the next one is due after the interval, if there is one."""
        self._handled, self._due = _requested_by_user(sync), now + interval if interval is not None else 0.0


def _requested_by_user(sync: AnySync) -> tuple[object, ...]:
    meta = sync.metadata
    return meta.uid, meta.generation, *(meta.annotations.get(key) for key in (REQUESTED_AT, CONFIRM_DELETION))
