"""The reconciler: one reconcile of one sync of any kind, from top to bottom.

    finalizer -> connect clusters -> desired -> watch what matters -> record inventory
              -> apply in stages -> prune -> health -> status

A kind lowers its spec, a source says what is desired, and a sync has one unit or one for each environment. `finalize`
and `preview` walk the same units. Each reconcile starts from the present state, whatever enqueued it; nothing is kept
from earlier ones but what saves requests. What is written is safe against a second operator, a crash at any point, and
everybody else.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_
from typing import Generic, Protocol, TypeVar

from msgspec import Struct, structs

from syncline.api.status import SyncStatus
from syncline.controllers.base import BaseReconciler, KindSpec, SharedServices
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, LoweredSpec, key_of
from syncline.controllers.planner import UnitPlanner
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.result import ReconcileResult, failed_result
from syncline.controllers.scope_edits import ScopeEdit, ScopeEditJudge
from syncline.controllers.sources.dependencies import DEPENDENCY_NOT_READY
from syncline.controllers.sources.desired import DesiredSet, DesiredSource, SourceReading, UnitResult
from syncline.controllers.state import SyncState
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
from syncline.controllers.targets.preview import Preview, merge
from syncline.controllers.targets.prune import KEEP_NOTHING, Pruner, PruneResult, managed_objects
from syncline.controllers.targets.stages import DesiredAt
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.targets.write_access import UNCHECKED, WriteAccess
from syncline.core.inventory import without_kinds
from syncline.core.outcome import Outcome
from syncline.core.tenancy import NOT_ALLOWED
from syncline.engine.claims import Claim
from syncline.engine.fanout import FanOut
from syncline.engine.sync_object import RawSync
from syncline.engine.watch_index import WatchSet
from syncline.engine.writer import Writer
from syncline.kube.cache import Key

# The rights of a service account may change without an event: its syncs are reconciled this often, at least.
RIGHTS_INTERVAL = 300.0
_GOOD = frozenset({"Synced", "Skipped"})
_APPLIED = frozenset({"Synced", "Skipped", "Conflict"})

Source = TypeVar("Source", bound=DesiredSource)


class SyncKind(KindSpec, Protocol):
    """What differs between the kinds."""

    def lower(self, sync: AnySync) -> LoweredSpec:
        """Lower a spec; raises `SyncError` for one that cannot be carried out."""

    def admit(self, sync: AnySync) -> LoweredSpec:
        """Lower a spec that is to be carried out now; raises `SyncError` where it must not be."""

    def watches(self, sync: AnySync) -> tuple[WatchSet, Claim | None]:
        """Return what enqueues a sync, and what it claims, by its spec alone."""

    def record_units(self, lowered: LoweredSpec, status: SyncStatus) -> SyncStatus:
        """Note the units in the status, before they write anything."""


class RemovedUnits(Struct, frozen=True, kw_only=True):
    """What came of the units that the spec no longer has."""

    names: tuple[str, ...] = ()
    """Those that still own objects."""
    outcomes: tuple[Outcome, ...] = ()
    problem: SyncError | None = None
    requeue: Requeue = NO_REQUEUE
    complete: bool = True
    """Whether nothing is left to be removed; what stays on purpose does not count."""


class Reconciler(BaseReconciler, Generic[Source]):
    """Reconciles all syncs of one kind."""

    def __init__(
        self,
        kind: SyncKind,
        resolver: ClusterResolver,
        shared: SharedServices,
        source: Callable[["Reconciler[Source]"], Source],
    ) -> None:
        super().__init__(kind, shared)
        self.kind = kind
        self._resolver = resolver
        self.source = source(self)
        self._edits = ScopeEditJudge(resolver)
        self._applier = UnitApplier(self.writer, self.triggers, kind.tenancy)
        self._pruner = Pruner(self.writer)

    async def _reconcile_sync(self, sync: AnySync, state: SyncState) -> ReconcileResult:
        key, clusters = key_of(sync), ConnectedClusters()
        self.source.begin(key)
        try:
            lowered = self._admit(sync)
            if not lowered.dry_run:
                sync = await self._ensure_finalizer(sync, state)
        except SyncError as error:
            self.source.forget(key)
            return await self._failed(sync, clusters, error)
        try:
            reading = await self.source.read(structs.replace(lowered, sync=sync), state)
            clusters = await self._resolver.connect(reading.lowered, self.triggers)
            try:
                desired = await self._desired(reading, clusters)
            finally:
                self._watch(reading, clusters)
            lowered = reading.lowered
            self._take_targets(lowered, desired)
        except SyncError as error:
            return await self._failed(sync, clusters, error)
        if lowered.dry_run:
            return await self._dry_run(reading, clusters, desired)
        edit = await self._edits.judge(reading, lowered, clusters, desired)
        # Of staged objects the kinds follow, each before its first write: one that cannot be watched is never written.
        await self._record_inventory(structs.replace(lowered, writes=()) if lowered.staged else lowered, clusters, edit)
        marks = KeepMarks(sync)
        units = [await self._apply_unit(lowered, one, state, edit, marks) for one in desired]
        removed = await self._prune_removed_units(lowered, clusters, units, state, edit)
        state.keep_units(lowered.owners)
        result = self._result(lowered, clusters, units, removed, edit, marks=marks)
        waits = result.requeue.backoff or result.requeue.pending
        state.finished(sync, None if waits else lowered.interval, time.monotonic())
        if lowered.staged and _released_for_other_unit(result):
            self.queue.add(key)
        self.source.finished(lowered, units, settled=result.is_settled)
        return result

    def _admit(self, sync: AnySync) -> LoweredSpec:
        """Lower the spec, or say why nothing is done for this sync at all."""
        if sync.spec is None:
            raise SyncError("InvalidSpec", sync.error, stalled=True)
        lowered = self.kind.admit(sync)
        self._shared.quotas.admit(self.kind.name, sync)
        return lowered

    def _lower_or_none(self, sync: AnySync) -> LoweredSpec | None:
        """Lower the spec; None where it cannot be carried out."""
        try:
            return self.kind.lower(sync) if sync.spec is not None else None
        except SyncError:
            return None

    async def _desired(self, reading: SourceReading, clusters: ConnectedClusters) -> list[DesiredSet]:
        """Return what each unit wants; a unit takes over the objects of units that left the spec."""
        lowered = reading.lowered
        desired = [
            await reading.desired(unit, for_unit(clusters, unit, lowered.removed_units)) for unit in lowered.units
        ]
        self.kind.tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
        return desired

    def _watch(self, reading: SourceReading, clusters: ConnectedClusters) -> None:
        """Watch what was found to matter, also where the rest could not be read."""
        watches = reading.watches(clusters)
        if watches is not None:
            self.triggers.set_watches(key_of(reading.lowered.sync), *watches)

    def _take_targets(self, lowered: LoweredSpec, desired: Sequence[DesiredSet], *, preview: bool = False) -> None:
        """Raise `QuotaError` where the sync would have more targets than a TenantPolicy allows."""
        if not any(one.known for one in desired):
            return
        quotas = self._shared.quotas
        take = quotas.check_targets if preview or lowered.dry_run else quotas.take_targets
        whole = all(one.known for one in desired)
        take(self.kind.name, lowered.sync, sum(one.targets for one in desired), whole=whole)

    async def _failed(self, sync: AnySync, clusters: ConnectedClusters, error: SyncError) -> ReconcileResult:
        """Report why the whole sync cannot be carried out; its targets are Unknown meanwhile."""
        lowered = self._lower_or_none(sync)
        if error.reason == NOT_ALLOWED:
            self._shared.claims.drop(sync.owner.ref)  # nobody waits for a sync that may not write
        outcomes = await self.source.unknown_targets(lowered, clusters, error) if lowered is not None else None
        return failed_result(sync, error, outcomes, clusters.requeue)

    async def _record_inventory(
        self, lowered: LoweredSpec, clusters: ConnectedClusters, edit: ScopeEdit | None = None
    ) -> None:
        """Write down the kinds, clusters and units that are about to be written, before the first write there.

        And the scope as it was judged, before the first removal. Raises `SyncGone` where the sync does not exist any
        more: then nothing may be written.
        """
        latest = self._latest(lowered.sync)
        status = self._resolver.record(lowered, clusters, self.kind.record_units(lowered, latest.status))
        if edit is not None and edit.text is not None:
            status = structs.replace(status, scope=edit.text)
        state = self._states.get(key_of(lowered.sync))
        if state is None or not state.fan_out.in_flight:
            status = without_kinds(status, emptied_kinds(lowered, clusters))
        if status != latest.status:
            await self._status.record(latest, status)

    async def _record_kinds(
        self, lowered: LoweredSpec, clusters: ConnectedClusters, written: Sequence[DesiredAt]
    ) -> None:
        """Write down the kinds that are about to be written, and in which clusters."""
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
            await self._record_inventory(about, structs.replace(clusters, sites=sites, former=(), renamed=()))

    async def _apply_unit(
        self,
        lowered: LoweredSpec,
        desired: DesiredSet,
        state: SyncState,
        edit: ScopeEdit,
        marks: KeepMarks,
    ) -> UnitResult:
        """Apply what a unit wants, prune what it no longer wants, and check its health."""
        unit = state.unit(desired.unit)
        if not desired.known:
            requeue = _requeue_of(desired.problem)
            return UnitResult(desired=desired, problem=desired.problem, requeue=requeue)
        mine = desired.clusters
        written = await self._apply(lowered, desired, state.fan_out, marks)
        outcomes = (*written, *desired.outcomes)
        pruned = orphaned = PruneResult()
        applied = desired.certain and all(outcome.state in _APPLIED for outcome in outcomes)
        if applied or not lowered.staged:
            self.kind.tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
            pruned = await self._pruner.prune(lowered, unit, mine, desired.keep, edit.requested)
            orphaned = await self._pruner.prune_orphans(lowered, unit, mine, desired.keep)
        removed = (*pruned.outcomes, *orphaned.outcomes)
        health = HealthResult()
        if (
            lowered.health_timeout is not None
            and desired.prepared is not None
            and desired.prepared.artifact is not None
        ):
            inputs = desired.prepared.artifact.inputs
            health = check_health(inputs, desired.items, outcomes, unit, lowered.health_timeout)
        problem = pruned.held or desired.problem or health.problem
        result = UnitResult(
            desired=desired,
            outcomes=(*outcomes, *removed),
            attempted=(*written, *desired.withheld),
            orphaned=orphaned.outcomes,
            health=health.state,
            problem=problem,
            requeue=pruned.requeue | orphaned.requeue | health.requeue | _requeue_of(problem),
            complete=applied and _is_complete(pruned),
        )
        if lowered.health_timeout is not None and self.source.observe_health(lowered, state, result):
            self.queue.add(key_of(lowered.sync))
        return result

    async def _apply(
        self, lowered: LoweredSpec, desired: DesiredSet, fan_out: FanOut, marks: KeepMarks
    ) -> list[Outcome]:
        async def progress(so_far: list[Outcome]) -> None:
            latest = self._latest(lowered.sync)  # what was recorded before the first write stays
            await self._status.progress(latest, so_far, len(desired.items), desired.revision or "")

        apply = ApplyPass(
            lowered=lowered,
            fan_out=fan_out,
            marks=marks,
            visibility=self._visibility(lowered),
            record=partial(self._record_kinds, lowered, desired.clusters),
            progress=progress,
            is_wanted=partial(self.queue.is_wanted, key_of(lowered.sync)),
        )
        return await self._applier.apply(desired.items, apply)

    async def _prune_removed_units(
        self,
        lowered: LoweredSpec,
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
            if not all(map(_is_applied, units)):
                removed = structs.replace(removed, names=(*removed.names, *named), complete=False)
                continue
            self.kind.tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
            pruned = await self._pruner.prune(lowered, state.unit(name), theirs, KEEP_NOTHING, edit.requested)
            removed = RemovedUnits(
                names=(*removed.names, *(named if has_objects(theirs) else ())),
                outcomes=(*removed.outcomes, *pruned.outcomes),
                problem=removed.problem or pruned.held,
                requeue=removed.requeue | Requeue(after=pruned.requeue.after),
                complete=removed.complete and _is_complete(pruned),
            )
        return removed

    def _result(
        self,
        lowered: LoweredSpec,
        clusters: ConnectedClusters,
        units: Sequence[UnitResult],
        removed: RemovedUnits,
        edit: ScopeEdit,
        *,
        marks: KeepMarks,
    ) -> ReconcileResult:
        outcomes = [outcome for one in units for outcome in one.outcomes]
        outcomes += [*clusters.outcomes, *removed.outcomes]
        problem = next((one.problem for one in units if one.problem is not None), removed.problem)
        if problem is None and all(outcome.state in _GOOD for outcome in outcomes):
            problem = _rollback_condition(units)
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
            unmatched=(*clusters.unmatched, *(words for one in units for words in one.desired.unmatched)),
            units=tuple(units),
            removed_units=removed.names,
            complete=all(one.complete for one in units) and not clusters.incomplete and removed.complete,
        )

    async def _dry_run(
        self, reading: SourceReading, clusters: ConnectedClusters, desired: Sequence[DesiredSet]
    ) -> ReconcileResult:
        """Report what would be written, and write nothing."""
        lowered = reading.lowered
        plan = await self._plan(reading, clusters, desired, visibility=self._visibility(lowered))
        lines, problem = plan.lines(), plan.problem
        if problem is None and lines:
            problem = SyncError("DryRun", f"{plan.changes} changes would be made: see status.plan; set dryRun to false")
        units = tuple(UnitResult(desired=one) for one in desired)
        return ReconcileResult(sync=lowered.sync, problem=problem, plan=tuple(lines), units=units)

    async def preview(self, wire: RawSync, access: WriteAccess = UNCHECKED) -> Preview:
        """Plan a reconcile without doing it; the sync need not exist. What `access` refuses is reported as failed."""
        sync = self._trust.trusted(self.kind.read(wire))
        try:
            lowered = self._admit(sync)
            reading = await self.source.read(lowered, SyncState(FanOut(lambda: None)), preview=True)
            clusters = await self._resolver.connect(reading.lowered, self.triggers)
            desired = await self._desired(reading, clusters)
            self._take_targets(reading.lowered, desired, preview=True)
        except SyncError as error:
            return Preview(problem=error)
        return await self._plan(reading, clusters, desired, access)

    async def _plan(
        self,
        reading: SourceReading,
        clusters: ConnectedClusters,
        desired: Sequence[DesiredSet],
        access: WriteAccess = UNCHECKED,
        visibility: Visibility | None = None,
    ) -> Preview:
        lowered = reading.lowered
        edit = await self._edits.judge(reading, lowered, clusters, desired)
        planner = UnitPlanner(self.writer, self._pruner, access, edit.requested, visibility)
        plans = [await planner.plan(lowered, one) for one in desired]
        return merge([Preview(skipped=clusters.outcomes), *plans])

    async def _finalize(self, sync: AnySync, state: SyncState) -> ReconcileResult | None:
        """Release everything as the policy says. Never traps the sync."""
        self.source.begin(key_of(sync))
        lowered = self._lower_or_none(sync)
        clusters = ConnectedClusters()
        if lowered is not None:
            clusters = await self._resolver.connect(lowered, self.triggers, former=True)
        ends = [
            await self._pruner.finalize(sync, lowered, state, for_unit(clusters, unit))
            for unit in (lowered.owners if lowered is not None else ("",))
        ]
        outcomes = [outcome for end in ends for outcome in end.outcomes]
        for warning in dict.fromkeys(end.warning for end in ends if end.warning):
            await self._status.warn(sync, "CopiesLeft", warning)
        self._status.report_finalized(outcomes)
        problem = next((end.problem for end in ends if end.problem is not None), None)
        if problem is None:
            return None
        failed = [outcome for outcome in outcomes if outcome.state not in _GOOD]
        requeue = Requeue(backoff=True) | clusters.requeue | Requeue(after=problem.requeue.after)
        return ReconcileResult(sync=sync, problem=problem, outcomes=failed, requeue=requeue)

    async def _after(self, sync: AnySync, result: ReconcileResult) -> None:
        await self._resolver.observe(sync, None if sync.deleting else result.outcomes)

    def writes_through(self, resolver: ClusterResolver) -> bool:
        """Whether the clusters of its syncs are found by this resolver."""
        return self._resolver is resolver

    def writer(self, site: TargetCluster) -> Writer:
        """Return what writes to a cluster."""
        return Writer(
            site.cluster,
            site.client,
            site.owner,
            site.destination.policy,
            claims=self._shared.claims,
            write_loops=self._shared.write_loops,
            unkept=self._shared.unkept,
        )

    def get(self, key: Key) -> AnySync | None:
        """Return a sync with the status that counts."""
        return self._get(key)

    def trusted(self, sync: AnySync) -> AnySync:
        """Return a sync, as a watch tells it, with the status that counts."""
        return self._trust.trusted(sync)

    def enqueue(self, key: Key) -> None:
        """Reconcile a sync soon."""
        self.queue.add(key)

    def _watches_of(self, sync: AnySync) -> tuple[WatchSet, Claim | None]:
        return self.kind.watches(sync)

    def _sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None, by: str) -> None:
        super()._sync_changed(key, old, new, by)
        self.source.sync_changed(key, old, new)

    def _visibility(self, lowered: LoweredSpec) -> Visibility:
        return Visibility(lowered, self._hub, self._shared.claims.access)

    def _drop_state(self, key: Key) -> None:
        super()._drop_state(key)
        self._resolver.forget(self.kind.name, key)
        self.source.forget(key)


def next_resync(lowered: LoweredSpec) -> float | None:
    """Return after how many seconds to reconcile though nothing has happened."""
    if lowered.interval is not None:
        return lowered.interval
    return RIGHTS_INTERVAL if lowered.user is not None else None


def _requeue_of(problem: SyncError | None) -> Requeue:
    """Return when to try again after a problem; one that is expected to pass by itself is pending."""
    if problem is None:
        return NO_REQUEUE
    requeue = problem.requeue
    pending = requeue.backoff or requeue.after is not None or problem.reason == DEPENDENCY_NOT_READY
    return Requeue(after=requeue.after, backoff=requeue.backoff, pending=pending)


def _is_applied(one: UnitResult) -> bool:
    """Whether all that a unit wants now was written, or is somebody else's."""
    return one.desired.certain and all(outcome.state in _APPLIED or outcome.gone for outcome in one.outcomes)


def _is_complete(pruned: PruneResult) -> bool:
    unfinished = any(outcome.retry or outcome.state == "Pending" for outcome in pruned.outcomes)
    return pruned.held is None and not pruned.requeue.pending and not unfinished


def _released_for_other_unit(result: ReconcileResult) -> bool:
    """Whether one unit has released an object while another could not have what it wants."""
    outcomes = result.outcomes or ()
    return any(one.gone and one.written is not None for one in outcomes) and any(
        one.reason == "OwnedByOther" for one in outcomes
    )


def _rollback_condition(units: Sequence[UnitResult]) -> SyncError | None:
    """Say of a sync with which nothing is wrong that it is not at the newest revision."""
    for one in units:
        decision = one.desired.prepared.decision if one.desired.prepared is not None else None
        if decision is not None and decision.reason == "RolledBackOnFailure":
            return SyncError(decision.reason, decision.why)
        if decision is not None and decision.reason == "RolledBack":
            return SyncError(decision.reason, decision.why, status="True")
    return None
