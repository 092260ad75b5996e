"""Desired set: what one unit of a sync wants, as a source says it; and the contract of all sources."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from syncline.api.manifestsync import SourceObservedState
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, LoweredSpec
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.sources.prepared import PreparedRevision
from syncline.controllers.state import SyncState
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.controllers.targets.prune import KEEP_NOTHING, KeepSet
from syncline.controllers.targets.stages import DesiredAt
from syncline.core.outcome import Outcome
from syncline.core.revisions import RevisionHealth
from syncline.core.spec_scope import SourceScope
from syncline.engine.claims import Claim
from syncline.engine.watch_index import WatchSet
from syncline.kube.cache import Key


class DesiredSet(Struct, frozen=True, kw_only=True):
    """What one unit of a sync wants, and what is known of the targets that are not written."""

    unit: str = ""
    revision: str | None = None
    clusters: ConnectedClusters = ConnectedClusters()
    """The clusters, as the unit writes to them."""
    items: tuple[DesiredAt, ...] = ()
    keep: KeepSet = KEEP_NOTHING
    """The objects that stay, also those that are not written now; their `missing` sources do not exist."""
    certain: bool = True
    """Whether this is all that the source wants now: only then may staged objects be pruned."""
    problem: SyncError | None = None
    """What is wrong, though the rest can go on."""
    known: bool = True
    """Whether anything is known of the targets; else their status stays as it is."""
    outcomes: tuple[Outcome, ...] = ()
    """The targets that are not written."""
    withheld: tuple[Outcome, ...] = ()
    """Those among the targets that a revision is not written to for now."""
    targets: int = 0
    """How many targets count for quotas."""
    observed: SourceObservedState | None = None
    unmatched: tuple[str, ...] = ()
    """What of the spec leads to no target."""
    prepared: PreparedRevision | None = None
    """The revision that it was built from, where it was built."""

    @property
    def is_partial(self) -> bool:
        """Whether some targets are not known, because a source is missing or nothing was built."""
        return bool(self.keep.missing) or not self.known


class UnitResult(Struct, frozen=True, kw_only=True):
    """What came of one unit in a reconcile."""

    desired: DesiredSet
    outcomes: tuple[Outcome, ...] = ()
    attempted: tuple[Outcome, ...] = ()
    """The outcomes of writes, and of targets that are withheld."""
    orphaned: tuple[Outcome, ...] = ()
    """The outcomes of objects whose source is gone."""
    health: RevisionHealth = "Pending"
    problem: SyncError | None = None
    requeue: Requeue = NO_REQUEUE
    complete: bool = True
    """Whether all is applied, and nothing is left to be pruned."""


class SourceReading(Protocol):
    """What one reconcile of a sync reads."""

    @property
    def lowered(self) -> LoweredSpec:
        """The spec, with the objects that are written as far as they are known."""

    async def desired(self, unit: str, clusters: ConnectedClusters) -> DesiredSet:
        """Return what a unit wants in its clusters. Raises `SyncError` where that cannot be said at all."""

    def watches(self, clusters: ConnectedClusters) -> tuple[WatchSet, Claim | None] | None:
        """Return what enqueues the sync from now on, and what it claims; None where too little was read."""

    async def selected(self, scopes: Sequence[SourceScope]) -> Mapping[str, frozenset[str]]:
        """Return the sources that the selectors of scopes mean now, by the key of the scope."""


class DesiredSource(Protocol):
    """Says what syncs of one kind want."""

    def begin(self, key: Key) -> None:
        """Note that a reconcile begins."""

    async def read(self, lowered: LoweredSpec, state: SyncState, *, preview: bool = False) -> SourceReading:
        """Begin to read for one reconcile. A preview leaves no trace."""

    async def unknown_targets(
        self, lowered: LoweredSpec, clusters: ConnectedClusters, error: SyncError
    ) -> Sequence[Outcome] | None:
        """Return the targets of a sync that could not be carried out; None where they are not known."""

    def finished(self, lowered: LoweredSpec, units: Sequence[UnitResult], *, settled: bool) -> None:
        """Note the end of a reconcile; `settled`: nothing is left to do."""

    def observe_health(self, lowered: LoweredSpec, state: SyncState, result: UnitResult) -> bool:
        """Note the health of a unit; return whether another revision may be chosen now."""

    def sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None) -> None:
        """Note that a sync was created, changed or deleted."""

    def forget(self, key: Key) -> None:
        """Release what is held for a sync that is gone or does nothing."""
