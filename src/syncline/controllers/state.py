"""The memory of a sync between reconciles. All of it can be lost."""

from collections.abc import Callable, Collection, Mapping
from typing import Generic, NamedTuple

from msgspec import Struct

from syncline.api.common import CONFIRM_DELETION, REQUESTED_AT
from syncline.controllers.lowered import AnySync, Spec_co, Status_co
from syncline.core.author_policies import JudgedSpec
from syncline.core.desired import BuildArtifact
from syncline.core.marks import MarkKeys
from syncline.core.objects import Desired, Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.revisions import RevisionHealth
from syncline.core.validity import Validity
from syncline.engine.fanout import FanOut
from syncline.engine.sync_object import Sync

# This long after its finalizer was added a deletion that began before may still remove a sync.
OVERTAKEN_WITHIN = 60.0
# Labels that a script takes off one by one, or that flicker, are one change: it is acted on once it has come to rest.
PRUNE_SETTLE = 2.0
# Removals that nobody asked for count together for this long.
PRUNE_WINDOW = 600.0
# A change that the server refused is not sent again for this long. That is less than the interval after which rights
# are looked at again: the next look may find that what was in the way, such as an admission policy, is gone.
REFUSED_FOR = 240.0

ObjectUid = tuple[str, str]
"""The UID of a cluster, and that of an object in it."""


class ValidationResult(Struct, frozen=True, kw_only=True):
    """What validation found out about a revision in one cluster."""

    inputs: str
    """Names what the revision was built from."""
    validity: Validity
    schemas: frozenset[tuple[str, bytes]] = frozenset()
    """The digests of the schemas that it was checked against, by API version."""
    since: float = 0.0
    """When it was found first."""
    settled: bool = True
    """Whether it stands until something changes; else the server may be about to publish another schema."""


class SettledObject(NamedTuple):
    """An object that was in sync, and the versions of all its inputs: while they are the same, it still is."""

    desired: Desired
    source: object
    observed: Observed
    keys: MarkKeys
    outcome: Outcome
    namespace: str = ""
    """The UID of its namespace; empty if it has none."""


class RefusedChange(NamedTuple):
    """A change that the server refused and would refuse again, and all that this depends on."""

    desired: Desired
    observed: Observed
    requested: tuple[object, ...]
    """What the user of the sync had asked for."""
    since: float
    outcome: Outcome


class UnitState:
    """What is remembered of one unit of a sync: of the sync, or of one of its environments."""

    def __init__(self, fan_out: FanOut) -> None:
        self.fan_out = fan_out
        self.missing_since: dict[Target, float] = {}
        """Sources that do not exist, and since when."""
        self.artifact: BuildArtifact | None = None
        """What is applied."""
        self.accepted: frozenset[str] = frozenset()
        """The clusters that it may be written to."""
        self.chosen: BuildArtifact | None = None
        """What was to be applied last; validation may have refused it."""
        self.candidate: BuildArtifact | None = None
        """What was built last; it may wait for a dependency."""
        self.examined: Mapping[str, ValidationResult] = {}
        """What validation found last, by cluster."""
        self.health: RevisionHealth = "Pending"
        self.failed = ""
        """The inputs that did not become healthy, last time any did not."""
        self.settled: dict[tuple[str, Target], SettledObject] = {}
        """Objects that were in sync at the last reconcile, by the UID of their cluster: they are not planned again."""
        self.refused: dict[tuple[str, Target], RefusedChange] = {}
        """Changes that the server refused, by the UID of their cluster: they are not sent again."""
        self.deleted_since: dict[Target, float] = {}
        """Deleted copies whose deletion is propagated upstream, with the time since when they are absent."""
        self.deleted_upward: dict[Target, float] = {}
        """The copies whose upstream objects were deleted, and when. The deletion guard counts them with later ones."""
        self.empty_since: dict[ObjectUid, float] = {}
        """Unwanted namespaces of ours, with the time since when they are empty."""
        self._unhealthy_since: tuple[str, float] = "", 0.0
        self._unwanted: tuple[frozenset[Target], float] = frozenset(), 0.0
        """The objects that are no longer wanted, and since when it is exactly these."""
        self._pruned: dict[ObjectUid, float] = {}
        """The objects whose removal nobody asked for, and when it was sent last."""

    def accepts(self, inputs: str, clusters: frozenset[str]) -> bool:
        """Whether what is applied was built from these inputs, and may be written to these clusters."""
        return self.artifact is not None and self.artifact.inputs == inputs and clusters <= self.accepted

    def accept(self, artifact: BuildArtifact, clusters: frozenset[str]) -> None:
        """Note that an artifact is applied from now on, to these clusters too."""
        if self.artifact is None or self.artifact.inputs != artifact.inputs:
            self.health = "Pending"
            self.accepted = frozenset()
        self.artifact = artifact
        self.accepted |= clusters

    def unhealthy_for(self, inputs: str, now: float) -> float:
        """Return for how many seconds what was applied has not been healthy."""
        if self._unhealthy_since[0] != inputs:
            self._unhealthy_since = inputs, now
        return now - self._unhealthy_since[1]

    def mark_healthy(self, inputs: str, now: float) -> None:
        """Note that what was applied is healthy: if it becomes unhealthy, its time begins anew."""
        self._unhealthy_since = inputs, now

    def settle_delay(self, unwanted: frozenset[Target], now: float) -> float:
        """Return for how many seconds the set of unwanted objects must stay the same before it is acted on."""
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


class SyncState(Generic[Spec_co, Status_co]):
    """What is remembered of one sync."""

    def __init__(self, fan_out: FanOut) -> None:
        self.fan_out = fan_out
        self.upward = fan_out.separate()
        """For statuses that are written upstream."""
        self.uid = ""
        """The UID of the sync: one that is created again under its name is another one."""
        self.finalizing_since: float | None = None
        self.finalizer_added: tuple[Sync[Spec_co, Status_co], float] | None = None
        """The sync that we added the finalizer to, and when: a deletion may have overtaken it."""
        self.author: JudgedSpec | None = None
        """The verdict about the author of the spec."""
        self._units: dict[str, UnitState] = {}
        self._handled: tuple[object, ...] = ()
        self._due = 0.0

    def unit(self, name: str = "") -> UnitState:
        """Return what is remembered of a unit."""
        return self._units.setdefault(name, UnitState(self.fan_out))

    def keep_units(self, names: Collection[str]) -> None:
        """Forget all other units."""
        self._units = {name: unit for name, unit in self._units.items() if name in names}

    def shed(self) -> None:
        """Drop what is of no use for a sync that is gone."""
        for unit in self._units.values():
            unit.artifact = unit.candidate = None
            unit.settled.clear()
            unit.refused.clear()

    def lost_sync(self, uid: str, now: float) -> Sync[Spec_co, Status_co] | None:
        """Return the sync whose deletion was faster than its finalizer, if another one, or none, is there now."""
        if self.finalizer_added is None or self.finalizer_added[0].metadata.uid == uid:
            return None
        (sync, added), self.finalizer_added = self.finalizer_added, None
        return sync if now - added < OVERTAKEN_WITHIN else None

    def resync_in(self, sync: AnySync, now: float) -> float:
        """Return for how many seconds a sync with an interval is not due; what its user asks for is due at once."""
        return self._due - now if not sync.deleting and self._handled == requested_by_user(sync) else 0.0

    def make_due(self) -> None:
        """Have the next reconcile look, whatever the interval."""
        self._due = 0.0

    def finished(self, sync: AnySync, interval: float | None, now: float) -> None:
        """Note the end of a reconcile; the next one is due after the interval, if there is one."""
        self._handled, self._due = requested_by_user(sync), now + interval if interval is not None else 0.0


def requested_by_user(sync: AnySync) -> tuple[object, ...]:
    """Name what the user of a sync asks for: by its spec, and now."""
    meta = sync.metadata
    return meta.uid, meta.generation, *(meta.annotations.get(key) for key in (REQUESTED_AT, CONFIRM_DELETION))
