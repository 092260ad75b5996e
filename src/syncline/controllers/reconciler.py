"""The reconciler: one reconcile of one sync of any kind, from top to bottom.

    finalizer -> connect clusters -> desired -> watch what matters -> record inventory
              -> apply in stages -> prune -> health -> status

A kind lowers its spec, and a source returns the desired objects. A sync has one unit, or one for each environment.
`finalize` and `preview` use the same units. Each reconcile starts from the present state: memory of earlier reconciles
only saves requests. Its writes are safe against a second operator, a crash at any point, and other writers.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from syncline.controllers.base import BaseReconciler, SharedServices
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, Spec, Status, key_of
from syncline.controllers.planner import UnitPlanner
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.result import ReconcileResult, failed_result
from syncline.controllers.scope_edits import ScopeEdit, ScopeEditJudge
from syncline.controllers.sources.desired import DesiredSet, DesiredSource, SourceReading, UnitResult
from syncline.controllers.state import SyncState
from syncline.controllers.sync_kind import SyncKind
from syncline.controllers.targets.apply import ApplyPass, UnitApplier
from syncline.controllers.targets.clusters import (
    ClusterResolver,
    ConnectedClusters,
    TargetCluster,
    emptied_kinds,
    for_unit,
    has_objects,
)
from syncline.controllers.targets.health import HealthResult, check_health
from syncline.controllers.targets.keep_policy import KeepMarks
from syncline.controllers.targets.managed_objects import managed_objects
from syncline.controllers.targets.open_kind import describe_unwatched
from syncline.controllers.targets.preview import Preview, merge
from syncline.controllers.targets.prune import KEEP_NOTHING, Pruner, PruneResult, count_left
from syncline.controllers.targets.stages import DesiredAt
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.targets.write_access import UNCHECKED, WriteAccess
from syncline.controllers.unit_results import (
    APPLIED,
    GOOD,
    as_means,
    is_applied,
    is_open,
    is_pruned,
    released_for_other_unit,
    requeue_of,
    rollback_condition,
    unmatched_selectors,
    upward_problem,
)
from syncline.core.inventory import without_kinds
from syncline.core.outcome import Outcome
from syncline.core.plan import Policy
from syncline.core.tenancy import NOT_ALLOWED
from syncline.engine.claims import Claim
from syncline.engine.fanout import FanOut
from syncline.engine.pair_memory import PairMemory
from syncline.engine.sync_object import RawSync, Sync
from syncline.engine.watch_index import WatchSet
from syncline.engine.writer import Writer
from syncline.kube.cache import Key

# The delay after a write, if another step depends on the written object.
LOOK_AGAIN = 1.0
# The rights of a service account may change without an event: its syncs are reconciled this often, at least.
RIGHTS_INTERVAL = 300.0

Source = TypeVar("Source", bound=DesiredSource[Any, Any])


class RemovedUnits(Struct, frozen=True, kw_only=True):
    """The result for the units that the spec no longer has."""

    names: tuple[str, ...] = ()
    """The units that still own objects."""
    outcomes: tuple[Outcome, ...] = ()
    problem: SyncError | None = None
    requeue: Requeue = NO_REQUEUE
    complete: bool = True
    """Whether all removals are done. Objects that stay on purpose do not count."""


class Reconciler(BaseReconciler[Spec, Status], Generic[Spec, Status, Source]):
    """Reconciles all syncs of one kind."""

    def __init__(
        self,
        kind: SyncKind[Spec, Status],
        resolver: ClusterResolver[Status],
        shared: SharedServices,
        source: Callable[["Reconciler[Spec, Status, Source]"], Source],
    ) -> None:
        super().__init__(kind, shared)
        self.kind = kind
        self._resolver = resolver
        self.pairs = PairMemory()
        self.source = source(self)
        self._source: DesiredSource[Spec, Status] = self.source
        self._edits = ScopeEditJudge(resolver.selected)
        self._applier = UnitApplier(self.writer, self.triggers, kind.tenancy, self.pairs)
        self._pruner = Pruner(self.writer)

    async def _reconcile_sync(self, sync: Sync[Spec, Status], state: SyncState) -> ReconcileResult[Spec, Status]:
        self._source.begin(key_of(sync))
        try:
            return await self._reconcile_units(sync, state)
        finally:
            self._source.end(key_of(sync))

    async def _reconcile_units(self, sync: Sync[Spec, Status], state: SyncState) -> ReconcileResult[Spec, Status]:
        key, clusters = key_of(sync), ConnectedClusters()
        try:
            lowered = self._admit(sync)
            if not lowered.dry_run:
                sync = await self._ensure_finalizer(sync, state)
        except SyncError as error:
            self._source.forget(key)
            return await self._failed(sync, clusters, error)
        try:
            reading = await self._source.read(structs.replace(lowered, sync=sync), state)
            clusters = await self._resolver.connect(reading.lowered, self.triggers)
            try:
                desired = await self._desired(reading, clusters)
            finally:
                self._watch(reading, clusters)
            lowered = reading.lowered
            self._take_targets(lowered, clusters, desired)
        except SyncError as error:
            return await self._failed(sync, clusters, error)
        if lowered.dry_run:
            return await self._dry_run(reading, clusters, desired)
        edit = await self._edits.judge(reading, lowered, clusters, desired)
        # Of staged objects the kinds follow, each before its first write: one that cannot be watched is never written.
        first = structs.replace(lowered, writes=()) if lowered.staged else lowered
        await self._record_inventory(first, clusters, edit, wanted=lowered)
        marks = KeepMarks(sync)
        units = [await self._apply_unit(lowered, one, state, edit, marks) for one in desired]
        removed = await self._prune_removed_units(lowered, clusters, units, state, edit)
        state.keep_units(lowered.owners)
        result = self._result(lowered, clusters, units, removed, edit, marks=marks)
        waits = result.requeue.backoff or result.requeue.pending or any(map(is_open, result.outcomes or ()))
        state.finished(sync, None if waits else lowered.interval, time.monotonic())
        if lowered.staged and released_for_other_unit(result):
            self.queue.add(key)
        self._source.finished(lowered, units, settled=result.is_settled)
        return result

    def _admit(self, sync: Sync[Spec, Status]) -> LoweredSpec[Spec, Status]:
        """Lower the spec. Raises `SyncError` if the sync is not admitted."""
        if sync.spec is None:
            raise SyncError("InvalidSpec", sync.error, stalled=True)
        lowered = self.kind.admit(sync)
        self._shared.quotas.admit(self.kind.name, sync)
        return lowered

    def _lower_or_none(self, sync: Sync[Spec, Status]) -> LoweredSpec[Spec, Status] | None:
        """Lower the spec; None if it is not valid."""
        try:
            return self.kind.lower(sync) if sync.spec is not None else None
        except SyncError:
            return None

    async def _desired(self, reading: SourceReading, clusters: ConnectedClusters) -> list[DesiredSet]:
        """Return the desired set of each unit. A unit takes over the objects of removed units."""
        lowered = reading.lowered
        desired = [
            await reading.desired(unit, for_unit(clusters, unit, lowered.removed_units)) for unit in lowered.units
        ]
        self.kind.tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
        return desired

    def _watch(self, reading: SourceReading, clusters: ConnectedClusters) -> None:
        """Set the watches of the sync, even if a source could not be read."""
        watches = reading.watches(clusters)
        if watches is not None:
            self.triggers.set_watches(key_of(reading.lowered.sync), *watches)

    def _take_targets(
        self, lowered: LoweredSpec, clusters: ConnectedClusters, desired: Sequence[DesiredSet], *, preview: bool = False
    ) -> None:
        """Raise `QuotaError` where the sync would have more targets than a TenantPolicy allows."""
        if not any(one.known for one in desired):
            return
        wanted = sum(one.targets for one in desired)
        if lowered.limits.quota("targets") is not None:  # copies that an author has left in place count too
            wanted += sum(count_left(lowered, one.clusters, one.keep) for one in desired if one.known)
            left = (for_unit(clusters, name) for name in lowered.removed_units)
            wanted += sum(count_left(lowered, one, KEEP_NOTHING) for one in left)
        quotas = self._shared.quotas
        take = quotas.check_targets if preview or lowered.dry_run else quotas.take_targets
        whole = all(one.known for one in desired)
        take(self.kind.name, lowered.sync, wanted, whole=whole)

    async def _failed(
        self, sync: Sync[Spec, Status], clusters: ConnectedClusters, error: SyncError
    ) -> ReconcileResult[Spec, Status]:
        """Return the result of a sync that cannot be reconciled. Its targets are Unknown."""
        lowered = self._lower_or_none(sync)
        if error.reason == NOT_ALLOWED:
            self._shared.claims.drop(sync.owner.ref)  # a sync that may not write has no claims
        outcomes = await self._source.unknown_targets(lowered, clusters, error) if lowered is not None else None
        return failed_result(sync, error, outcomes, clusters.requeue)

    async def _record_inventory(
        self,
        lowered: LoweredSpec[Spec, Status],
        clusters: ConnectedClusters,
        edit: ScopeEdit | None = None,
        *,
        wanted: LoweredSpec[Spec, Status],
    ) -> None:
        """Record kinds, clusters and units in the status before their first write, and the scope before a removal.

        Kinds without objects leave the record, except those that `wanted` writes: their first object may still wait.
        Raises `SyncGone` if the sync does not exist any more: then nothing may be written.
        """
        latest = self._latest(lowered.sync)
        status = self._resolver.record(lowered, clusters, self.kind.record_units(lowered, latest.status))
        if edit is not None and edit.text is not None:
            status = structs.replace(status, scope=edit.text)
        state = self._states.get(key_of(lowered.sync))
        if state is None or not state.fan_out.in_flight:
            status = without_kinds(status, emptied_kinds(wanted, clusters))
        if status != latest.status:
            await self._status.record(latest, status)

    async def _record_kinds(
        self, lowered: LoweredSpec[Spec, Status], clusters: ConnectedClusters, written: Sequence[DesiredAt]
    ) -> None:
        """Record the kinds and clusters of these objects in the status, before the objects are written."""
        if not lowered.staged:
            return  # its spec has named them
        kinds: dict[int, set[str]] = {}
        for item in written:
            kinds.setdefault(id(item.site), set()).add(item.desired.target.kind)
        for alike in {frozenset(found) for found in kinds.values()}:  # mostly one: every cluster takes the same kinds
            sites = tuple(site for site in clusters.sites if frozenset(kinds.get(id(site), ())) == alike)
            about = structs.replace(
                lowered,
                writes=tuple(ref for ref in lowered.writes if ref.kind_name in alike),
                destinations=tuple(site.destination for site in sites),
            )
            mine = structs.replace(clusters, sites=sites, former=(), renamed=())
            await self._record_inventory(about, mine, wanted=lowered)

    async def _apply_unit(
        self,
        lowered: LoweredSpec[Spec, Status],
        desired: DesiredSet,
        state: SyncState,
        edit: ScopeEdit,
        marks: KeepMarks,
    ) -> UnitResult:
        """Apply the desired objects of a unit, prune the others, and check its health."""
        unit = state.unit(desired.unit)
        if not desired.known:
            requeue = requeue_of(desired.problem)
            return UnitResult(desired=desired, problem=desired.problem, requeue=requeue)
        mine = desired.clusters
        written = await self._apply(lowered, desired, state, marks)
        if lowered.independent:
            written = [as_means(outcome) for outcome in written]
        outcomes = (*written, *(desired.rest or ()), *desired.outcomes)
        pruned = orphaned = PruneResult()
        applied = desired.certain and all(outcome.state in APPLIED for outcome in outcomes)
        if desired.rest is None and (applied or not lowered.prunes_after_all):
            self.kind.tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
            pruned = await self._pruner.prune(lowered, unit, mine, desired.keep, edit.requested)
            orphaned = await self._pruner.prune_orphans(lowered, unit, mine, desired.keep)
        removed = (*pruned.outcomes, *orphaned.outcomes)
        upward = await self._source.report_upward(lowered, desired, state)
        health = HealthResult()
        if (
            lowered.health_timeout is not None
            and desired.prepared is not None
            and desired.prepared.artifact is not None
        ):
            inputs = desired.prepared.artifact.inputs
            health = check_health(inputs, desired.items, outcomes, unit, lowered.health_timeout)
        problem = pruned.held or desired.problem or health.problem or upward_problem(upward)
        result = UnitResult(
            desired=desired,
            outcomes=(*outcomes, *removed),
            attempted=(*written, *desired.withheld),
            orphaned=orphaned.outcomes,
            removes=pruned != PruneResult() or orphaned != PruneResult(),
            health=health.state,
            upward=upward,
            problem=problem,
            requeue=reduce(
                or_,
                (pruned.requeue, orphaned.requeue, health.requeue, desired.requeue, requeue_of(problem)),
                upward.requeue if upward is not None else NO_REQUEUE,
            ),
            complete=applied and is_pruned(pruned),
        )
        if lowered.health_timeout is not None and self._source.observe_health(lowered, state, result):
            self.queue.add(key_of(lowered.sync))
        return result

    async def _apply(
        self, lowered: LoweredSpec[Spec, Status], desired: DesiredSet, state: SyncState, marks: KeepMarks
    ) -> list[Outcome]:
        async def progress(so_far: list[Outcome]) -> None:
            latest = self._latest(lowered.sync)  # what was recorded before the first write stays
            await self._status.progress(latest, so_far, len(desired.items), desired.revision or "")

        apply = ApplyPass(
            lowered=lowered,
            fan_out=state.fan_out,
            unit=state.unit(desired.unit),
            whole=desired.rest is None,
            look_again=partial(self.queue.add, key_of(lowered.sync), delay=LOOK_AGAIN),
            marks=marks,
            visibility=self._visibility(lowered),
            record=partial(self._record_kinds, lowered, desired.clusters),
            progress=progress,
            is_wanted=partial(self.queue.is_wanted, key_of(lowered.sync)),
        )
        return await self._applier.apply(desired.items, apply)

    async def _prune_removed_units(
        self,
        lowered: LoweredSpec[Spec, Status],
        clusters: ConnectedClusters,
        units: Sequence[UnitResult],
        state: SyncState,
        edit: ScopeEdit,
    ) -> RemovedUnits:
        """Prune the objects of units that left the spec, once the others have taken over what they want."""
        removed = RemovedUnits()
        for name in lowered.removed_units:
            theirs = for_unit(clusters, name)
            if not has_objects(theirs):
                continue
            named = (name,) if name else ()
            if not all(map(is_applied, units)):
                removed = structs.replace(removed, names=(*removed.names, *named), complete=False)
                continue
            self.kind.tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
            pruned = await self._pruner.prune(lowered, state.unit(name), theirs, KEEP_NOTHING, edit.requested)
            removed = RemovedUnits(
                names=(*removed.names, *(named if has_objects(theirs) else ())),
                outcomes=(*removed.outcomes, *pruned.outcomes),
                problem=removed.problem or pruned.held,
                requeue=removed.requeue | Requeue(after=pruned.requeue.after),
                complete=removed.complete and is_pruned(pruned),
            )
        return removed

    def _result(
        self,
        lowered: LoweredSpec[Spec, Status],
        clusters: ConnectedClusters,
        units: Sequence[UnitResult],
        removed: RemovedUnits,
        edit: ScopeEdit,
        *,
        marks: KeepMarks,
    ) -> ReconcileResult[Spec, Status]:
        outcomes = [outcome for one in units for outcome in one.outcomes]
        outcomes += [*clusters.outcomes, *removed.outcomes]
        problem = next((one.problem for one in units if one.problem is not None), removed.problem)
        if problem is None and all(outcome.state in GOOD for outcome in outcomes):
            problem = self._unnoticed(lowered, clusters) or rollback_condition(units)
        requeue = reduce(or_, (one.requeue for one in units), clusters.requeue | removed.requeue)
        requeue |= Requeue(after=next_resync(lowered), backoff=any(outcome.retry for outcome in outcomes))
        first = units[0].desired if len(units) == 1 and not units[0].desired.unit else DesiredSet()
        return ReconcileResult(
            sync=lowered.sync,
            outcomes=outcomes if any(one.desired.known for one in units) else None,
            problem=problem,
            revision=first.revision,
            observed=first.observed,
            scope=edit.after(one for name in lowered.owners for one in managed_objects(for_unit(clusters, name))),
            kept=marks.marks(
                clusters.sites,
                [outcome for one in units for outcome in one.attempted],
                [outcome for one in units for outcome in one.orphaned],
                partial_view=clusters.incomplete or any(one.desired.is_partial for one in units),
            ),
            requeue=requeue,
            warnings=clusters.warnings,
            unmatched=unmatched_selectors(clusters, [one.desired for one in units]),
            units=tuple(units),
            removed_units=removed.names,
            complete=all(one.complete for one in units) and not clusters.incomplete and removed.complete,
        )

    def _unnoticed(self, lowered: LoweredSpec, clusters: ConnectedClusters) -> SyncError | None:
        """Return the problem of a sync that may be out of date, because a watch fails."""
        cluster, error = next(self.triggers.blind(key_of(lowered.sync)), (None, None))
        if cluster is None or error is None:
            return None
        names = {site.cluster.name: site.destination.cluster for site in clusters.sites}
        described = describe_unwatched(
            error,
            cluster=names.get(cluster.name, ""),
            upstream=bool(cluster.name) and cluster.name not in names,
            reads_as_account=lowered.user is not None,
        )
        return SyncError("ChangesUnnoticed", f"{described}; changes are not noticed meanwhile", status="Unknown")

    async def _dry_run(
        self, reading: SourceReading[Spec, Status], clusters: ConnectedClusters, desired: Sequence[DesiredSet]
    ) -> ReconcileResult[Spec, Status]:
        """Report the planned changes, and write nothing."""
        lowered = reading.lowered
        plan = await self._plan(reading, clusters, desired, visibility=self._visibility(lowered))
        lines, problem = plan.lines(), plan.problem
        if problem is None and lines:
            problem = SyncError("DryRun", f"{plan.changes} changes would be made: see status.plan; set dryRun to false")
        units = tuple(UnitResult(desired=one) for one in desired)
        return ReconcileResult(sync=lowered.sync, problem=problem, plan=tuple(lines), units=units)

    async def preview(self, wire: RawSync, access: WriteAccess = UNCHECKED) -> Preview:
        """Plan a reconcile without writes. The sync need not exist. Writes that `access` refuses count as failed."""
        sync = self._trust.trusted(self.kind.read(wire))
        try:
            lowered = self._admit(sync)
            reading = await self._source.read(lowered, SyncState(FanOut(lambda: None)), preview=True)
            clusters = await self._resolver.connect(reading.lowered, self.triggers)
            desired = await self._desired(reading, clusters)
            self._take_targets(reading.lowered, clusters, desired, preview=True)
        except SyncError as error:
            return Preview(problem=error)
        return await self._plan(reading, clusters, desired, access)

    async def _plan(
        self,
        reading: SourceReading[Spec, Status],
        clusters: ConnectedClusters,
        desired: Sequence[DesiredSet],
        access: WriteAccess = UNCHECKED,
        visibility: Visibility | None = None,
    ) -> Preview:
        lowered = reading.lowered
        edit = await self._edits.judge(reading, lowered, clusters, desired)
        planner = UnitPlanner(self.writer, self._pruner, access, edit.requested, self.pairs, visibility)
        plans = [await planner.plan(lowered, one) for one in desired]
        return merge([Preview(skipped=clusters.outcomes, unmatched=unmatched_selectors(clusters, desired)), *plans])

    async def _finalize(self, sync: Sync[Spec, Status], state: SyncState) -> ReconcileResult[Spec, Status] | None:
        """Delete or release all objects, as the policy says. It never blocks the deletion of the sync forever."""
        self._source.begin(key_of(sync))
        lowered = self._lower_or_none(sync)
        clusters = ConnectedClusters()
        if lowered is not None:
            clusters = await self._resolver.connect(lowered, self.triggers, former=True)
        ends = [
            await self._pruner.finalize(sync, lowered, state, for_unit(clusters, unit))
            for unit in (lowered.owners if lowered is not None else ("",))
        ]
        outcomes = [outcome for end in ends for outcome in end.outcomes]
        left = await self._source.finalize(lowered, state) if lowered is not None else ""
        for warning in dict.fromkeys(filter(None, (*(end.warning for end in ends), left))):
            await self._status.warn(sync, "CopiesLeft", warning)
        self._status.report_finalized(outcomes)
        problem = next((end.problem for end in ends if end.problem is not None), None)
        if problem is None:
            return None
        failed = [outcome for outcome in outcomes if outcome.state not in GOOD]
        requeue = Requeue(backoff=True) | clusters.requeue | Requeue(after=problem.requeue.after)
        return ReconcileResult(sync=sync, problem=problem, outcomes=failed, requeue=requeue)

    async def _after(self, sync: Sync[Spec, Status], result: ReconcileResult[Spec, Status]) -> None:
        await self._resolver.observe(sync, None if sync.deleting else result.outcomes, complete=result.complete)

    def writes_through(self, resolver: object) -> bool:
        """Whether this resolver finds the clusters of its syncs."""
        return self._resolver is resolver

    def writer(self, site: TargetCluster, policy: Policy | None = None) -> Writer:
        """Return the writer for a cluster, with a given policy or that of the destination."""
        return Writer(
            site.cluster,
            site.client,
            site.owner,
            policy or site.destination.policy,
            claims=self._shared.claims,
            write_loops=self._shared.write_loops,
            unkept=self._shared.unkept,
        )

    def get(self, key: Key) -> Sync[Spec, Status] | None:
        """Return a sync with its trusted status."""
        return self._get(key)

    def trusted(self, sync: Sync[Spec, Status]) -> Sync[Spec, Status]:
        """Return a sync from a watch with its trusted status."""
        return self._trust.trusted(sync)

    def enqueue(self, key: Key) -> None:
        """Reconcile a sync soon."""
        self.queue.add(key)

    def _watches_of(self, sync: Sync[Spec, Status]) -> tuple[WatchSet, Claim | None]:
        return self.kind.watches(sync)

    def _sync_changed(self, key: Key, old: Sync[Spec, Status] | None, new: Sync[Spec, Status] | None, by: str) -> None:
        super()._sync_changed(key, old, new, by)
        self._source.sync_changed(key, old, new)

    def _visibility(self, lowered: LoweredSpec) -> Visibility:
        return Visibility(lowered, self._hub, self._shared.claims.access)

    def _drop_state(self, key: Key) -> None:
        super()._drop_state(key)
        self._resolver.forget(self.kind.name, key)
        self._source.forget(key)


AnyReconciler = Reconciler[Any, Any, Any]
"""The reconciler of any kind."""


def next_resync(lowered: LoweredSpec) -> float | None:
    """Return the seconds until the next reconcile without a change."""
    if lowered.interval is not None:
        return lowered.interval
    return RIGHTS_INTERVAL if lowered.user is not None else None
