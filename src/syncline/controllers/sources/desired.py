"""Desired set: the desired objects of one unit of a sync; and the contract of all sources."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from syncline.api.manifestsync import SourceObservedState
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, Spec, Spec_co, Status, Status_co
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.sources.prepared import PreparedRevision
from syncline.controllers.sources.workspace_report import WorkspaceReport
from syncline.controllers.state import SyncState
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.controllers.targets.prune import KEEP_NOTHING, KeepSet
from syncline.controllers.targets.stages import DesiredAt
from syncline.controllers.targets.status_upward import UpwardResult
from syncline.core.outcome import Outcome
from syncline.core.revisions import RevisionHealth
from syncline.core.spec_scope import SourceScope
from syncline.engine.claims import Claim
from syncline.engine.sync_object import Sync
from syncline.engine.watch_index import WatchSet
from syncline.kube.cache import Key


class DesiredSet(Struct, frozen=True, kw_only=True):
    """The desired objects of one unit of a sync, and the outcomes of the targets that are not written."""

    unit: str = ""
    revision: str | None = None
    clusters: ConnectedClusters = ConnectedClusters()
    """The clusters, as the unit writes to them."""
    items: tuple[DesiredAt, ...] = ()
    rest: tuple[Outcome, ...] | None = None
    """The outcomes of all other targets, if no input of theirs has changed since the last reconcile, and nothing has
    become unwanted; None: `items` are all."""
    keep: KeepSet = KEEP_NOTHING
    """The objects that stay, including those that are not written now."""
    certain: bool = True
    """Whether the set is complete: only then may staged objects be pruned."""
    problem: SyncError | None = None
    """A problem with some objects. The others can be applied."""
    known: bool = True
    """Whether anything is known about the targets; else their status stays as it is."""
    outcomes: tuple[Outcome, ...] = ()
    """The targets that are not written."""
    withheld: tuple[Outcome, ...] = ()
    """The outcomes of targets that the revision is not written to for now."""
    targets: int = 0
    """How many targets count for quotas."""
    observed: SourceObservedState | None = None
    unmatched: tuple[str, ...] = ()
    """Descriptions of the selectors that match nothing."""
    prepared: PreparedRevision | None = None
    """The revision that it was built from; None if it was not built."""
    workspace: WorkspaceReport | None = None
    """The report about the upstream; None without an upstream."""
    requeue: Requeue = NO_REQUEUE

    @property
    def is_partial(self) -> bool:
        """Whether some targets are not known, because a source is missing or nothing was built."""
        return bool(self.keep.missing) or not self.known


class UnitResult(Struct, frozen=True, kw_only=True):
    """The result of one unit in a reconcile."""

    desired: DesiredSet
    outcomes: tuple[Outcome, ...] = ()
    attempted: tuple[Outcome, ...] = ()
    """The outcomes of writes, and of targets that are withheld."""
    orphaned: tuple[Outcome, ...] = ()
    """The outcomes of objects whose source is gone."""
    removes: bool = False
    """Whether something was removed, or may have to be."""
    health: RevisionHealth = "Pending"
    upward: UpwardResult | None = None
    """The result of writing statuses upstream; None if the sync writes none."""
    problem: SyncError | None = None
    requeue: Requeue = NO_REQUEUE
    complete: bool = True
    """Whether everything is applied, and nothing is left to prune."""


class SourceReading(Protocol[Spec_co, Status_co]):
    """The reading of one reconcile of a sync."""

    @property
    def lowered(self) -> LoweredSpec[Spec_co, Status_co]:
        """The lowered spec, with the written objects as far as they are known."""

    async def desired(self, unit: str, clusters: ConnectedClusters) -> DesiredSet:
        """Return the desired set of a unit in its clusters. Raises `SyncError` if nothing is known."""

    def watches(self, clusters: ConnectedClusters) -> tuple[WatchSet, Claim | None] | None:
        """Return the watches and the claim of the sync; None if too little was read."""

    async def selected(self, scopes: Sequence[SourceScope]) -> Mapping[str, frozenset[str]]:
        """Return the sources that the selectors of scopes match now, by the key of the scope."""


class DesiredSource(Protocol[Spec, Status]):
    """Returns the desired objects of the syncs of one kind."""

    def begin(self, key: Key) -> None:
        """Begin a reconcile."""

    def end(self, key: Key) -> None:
        """End a reconcile, successful or not: its reads are no longer needed."""

    async def read(
        self, lowered: LoweredSpec[Spec, Status], state: SyncState, *, preview: bool = False
    ) -> SourceReading[Spec, Status]:
        """Begin the reading of one reconcile. A preview changes no state."""

    async def unknown_targets(
        self, lowered: LoweredSpec[Spec, Status], clusters: ConnectedClusters, error: SyncError
    ) -> Sequence[Outcome] | None:
        """Return the outcomes of the targets of a failed sync; None if the targets are not known."""

    def finished(self, lowered: LoweredSpec[Spec, Status], units: Sequence[UnitResult], *, settled: bool) -> None:
        """Record the end of a reconcile. `settled`: nothing is left to do."""

    def observe_health(self, lowered: LoweredSpec[Spec, Status], state: SyncState, result: UnitResult) -> bool:
        """Record the health of a unit. Return whether another revision may be chosen now."""

    async def report_upward(
        self, lowered: LoweredSpec[Spec, Status], desired: DesiredSet, state: SyncState
    ) -> UpwardResult | None:
        """Write the statuses of the copies to their sources after the apply, if the kind does this."""

    async def finalize(self, lowered: LoweredSpec[Spec, Status], state: SyncState) -> str:
        """Remove objects that were written to sources; return a message about the rest. Raises nothing."""

    def sync_changed(self, key: Key, old: Sync[Spec, Status] | None, new: Sync[Spec, Status] | None) -> None:
        """Handle that a sync was created, changed or deleted."""

    def forget(self, key: Key) -> None:
        """Release the memory of a sync that is deleted or not reconciled."""
