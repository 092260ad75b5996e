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

# For this long after its finalizer was added, a deletion that began before may still remove a sync.
OVERTAKEN_WITHIN = 60.0
# Labels that a script removes one by one, or that flicker, are one change: it takes effect when it stays the same.
PRUNE_SETTLE = 2.0
# Removals that no person requested count together for this long.
PRUNE_WINDOW = 600.0
# A change that the server refused is not sent again for this long. It is shorter than the interval at which rights are
# checked again, because the cause, such as an admission policy, may be gone by then.
REFUSED_FOR = 240.0

ObjectUid = tuple[str, str]
"""The UID of a cluster, and the UID of an object in it."""


class ValidationResult(Struct, frozen=True, kw_only=True):
    """The result of the validation of a revision in one cluster."""

    inputs: str
    """The digest of the inputs of the revision."""
    validity: Validity
    schemas: frozenset[tuple[str, bytes]] = frozenset()
    """The digests of the schemas that the revision was checked against, by API version."""
    since: float = 0.0
    """The time of the first such result."""
    settled: bool = True
    """Whether the result holds until something changes; else the server may soon publish another schema."""


class InSyncObject(NamedTuple):
    """An object that was in sync, and the versions of all its inputs. While they are the same, it is in sync."""

    desired: Desired
    source: object
    observed: Observed
    keys: MarkKeys
    outcome: Outcome
    namespace: str = ""
    """The UID of its namespace; empty if it has none."""


class RefusedChange(NamedTuple):
    """A change that the server refused and would refuse again, and everything that this depends on."""

    desired: Desired
    observed: Observed
    requested: tuple[object, ...]
    """The identifier of the user's request (`requested_by_user`)."""
    since: float
    outcome: Outcome


class UnitState:
    """The state of one unit of a sync: the sync itself, or one of its environments."""

    def __init__(self, fan_out: FanOut) -> None:
        self.fan_out = fan_out
        self.missing_since: dict[Target, float] = {}
        """The sources that do not exist, with the time since when."""
        self.artifact: BuildArtifact | None = None
        """The artifact that is applied."""
        self.accepted: frozenset[str] = frozenset()
        """The clusters that the applied artifact may be written to."""
        self.chosen: BuildArtifact | None = None
        """The artifact that was last chosen; validation may have refused it."""
        self.candidate: BuildArtifact | None = None
        """The artifact that was built last; it may wait for a dependency."""
        self.examined: Mapping[str, ValidationResult] = {}
        """The last results of validation, by cluster."""
        self.health: RevisionHealth = "Pending"
        self.failed = ""
        """The inputs that last failed to become healthy."""
        self.in_sync: dict[tuple[str, Target], InSyncObject] = {}
        """Objects that were in sync at the last reconcile, by the UID of their cluster. They are not planned again."""
        self.refused: dict[tuple[str, Target], RefusedChange] = {}
        """The changes that the server refused, by the UID of their cluster: they are not sent again."""
        self.deleted_since: dict[Target, float] = {}
        """Deleted copies whose deletion is propagated upstream, with the time since when they are absent."""
        self.deleted_upward: dict[Target, float] = {}
        """The copies whose upstream objects were deleted, and when. The deletion guard counts them with later ones."""
        self.empty_since: dict[ObjectUid, float] = {}
        """Unwanted namespaces of ours, with the time since when they are empty."""
        self.left: tuple[Outcome, ...] = ()
        """The outcomes of unwanted objects that the last prune left."""
        self._unhealthy_since: tuple[str, float] = "", 0.0
        self._unwanted: tuple[frozenset[Target], float] = frozenset(), 0.0
        """The objects that are no longer wanted, and the time since when this set is the same."""
        self._pruned: dict[ObjectUid, float] = {}
        """The objects that were removed without a request of a person, and when the removal was last sent."""

    def accepts(self, inputs: str, clusters: frozenset[str]) -> bool:
        """Whether the applied artifact was built from these inputs, and may be written to these clusters."""
        return self.artifact is not None and self.artifact.inputs == inputs and clusters <= self.accepted

    def accept(self, artifact: BuildArtifact, clusters: frozenset[str]) -> None:
        """Record that an artifact is applied from now on, also to these clusters."""
        if self.artifact is None or self.artifact.inputs != artifact.inputs:
            self.health = "Pending"
            self.accepted = frozenset()
        self.artifact = artifact
        self.accepted |= clusters

    def unhealthy_for(self, inputs: str, now: float) -> float:
        """Return for how many seconds the applied artifact has not been healthy."""
        if self._unhealthy_since[0] != inputs:
            self._unhealthy_since = inputs, now
        return now - self._unhealthy_since[1]

    def mark_healthy(self, inputs: str, now: float) -> None:
        """Record that the applied artifact is healthy: if it becomes unhealthy, its time begins again."""
        self._unhealthy_since = inputs, now

    def settle_delay(self, unwanted: frozenset[Target], now: float) -> float:
        """Return for how many more seconds the set of unwanted objects must stay the same before it is removed."""
        if self._unwanted[0] != unwanted:
            self._unwanted = unwanted, now
        return self._unwanted[1] + PRUNE_SETTLE - now if unwanted else 0.0

    def record_pruned(self, one: ObjectUid, now: float) -> None:
        """Record a removal that no person requested before it is sent, because its answer may be late or lost."""
        self._pruned[one] = now

    def recently_pruned(self, kept: Callable[[], Collection[ObjectUid]], now: float) -> int:
        """Return how many objects were removed recently without a request of a person.

        Objects that are `kept` do not count: their removal failed, or is still in progress.
        """
        self._pruned = {one: at for one, at in self._pruned.items() if now - at < PRUNE_WINDOW}
        return len(self._pruned.keys() - kept()) if self._pruned else 0

    def reset_prune_window(self) -> None:
        """Forget the recent removals: a person has confirmed the removals, and these with them."""
        self._pruned.clear()


class SyncState(Generic[Spec_co, Status_co]):
    """The state of one sync."""

    def __init__(self, fan_out: FanOut) -> None:
        self.fan_out = fan_out
        self.upward = fan_out.separate()
        """The fan-out of the statuses that are written upstream."""
        self.uid = ""
        """The UID of the sync: a new sync with the same name is another sync."""
        self.finalizing_since: float | None = None
        self.finalizer_added: tuple[Sync[Spec_co, Status_co], float] | None = None
        """The sync that we added the finalizer to, and when: an earlier deletion may still remove it."""
        self.author: JudgedSpec | None = None
        """The verdict about the author of the spec."""
        self._units: dict[str, UnitState] = {}
        self._handled: tuple[object, ...] = ()
        self._due = 0.0

    def unit(self, name: str = "") -> UnitState:
        """Return the state of a unit."""
        return self._units.setdefault(name, UnitState(self.fan_out))

    def keep_units(self, names: Collection[str]) -> None:
        """Forget all other units."""
        self._units = {name: unit for name, unit in self._units.items() if name in names}

    def shed(self) -> None:
        """Drop everything that a deleted sync does not need."""
        for unit in self._units.values():
            unit.artifact = unit.candidate = None
            unit.in_sync.clear()
            unit.refused.clear()

    def lost_sync(self, uid: str, now: float) -> Sync[Spec_co, Status_co] | None:
        """Return the sync that was deleted before its finalizer was added, if it no longer exists."""
        if self.finalizer_added is None or self.finalizer_added[0].metadata.uid == uid:
            return None
        (sync, added), self.finalizer_added = self.finalizer_added, None
        return sync if now - added < OVERTAKEN_WITHIN else None

    def resync_in(self, sync: AnySync, now: float) -> float:
        """Return the seconds until a sync with an interval is due. A request of its user makes it due at once."""
        return self._due - now if not sync.deleting and self._handled == requested_by_user(sync) else 0.0

    def make_due(self) -> None:
        """Make the sync due, whatever its interval."""
        self._due = 0.0

    def finished(self, sync: AnySync, interval: float | None, now: float) -> None:
        """Record the end of a reconcile. The next one is due after the interval, if there is one."""
        self._handled, self._due = requested_by_user(sync), now + interval if interval is not None else 0.0


def requested_by_user(sync: AnySync) -> tuple[object, ...]:
    """Return the identifier of the user's request: the spec, and the last request to reconcile."""
    meta = sync.metadata
    return meta.uid, meta.generation, *(meta.annotations.get(key) for key in (REQUESTED_AT, CONFIRM_DELETION))
