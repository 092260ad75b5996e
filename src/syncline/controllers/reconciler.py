"""The reconciler of syncs that copy objects, from top to bottom.

    finalizer -> lower -> connect clusters -> read the sources -> select targets -> render -> apply -> prune -> status

Each reconcile starts from the present state, whatever enqueued it; nothing is kept from earlier ones but what saves
requests. What is written is safe against a second operator, a crash at any point, and everybody else.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from msgspec import structs

from syncline.api.common import TargetState
from syncline.controllers.base import ApplyJob, BaseReconciler, KindSpec, SharedServices
from syncline.controllers.errors import QuotaError, SyncError
from syncline.controllers.lowered import AnySync, LoweredSpec, SourceObjects, key_of
from syncline.controllers.result import ReconcileResult, soonest
from syncline.controllers.scope_edits import ScopeEditJudge
from syncline.controllers.sources.objects import ObjectReader
from syncline.controllers.state import SyncState
from syncline.controllers.targets.clusters import ClusterResolver, ConnectedClusters, TargetCluster
from syncline.controllers.targets.keep_policy import KeepMarks, keep_mark, no_room_outcome
from syncline.controllers.targets.preview import Preview, plan_one, plan_pair
from syncline.controllers.targets.prune import KeepSet, keep_set, managed_objects
from syncline.controllers.targets.select import PlannedCopy, TargetSelection, select_targets
from syncline.controllers.targets.transform import RenderedTargets, render_targets
from syncline.controllers.targets.unmatched import unmatched_namespaces, unmatched_sources
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.targets.write_access import UNCHECKED, WriteAccess, split_allowed
from syncline.core.keypolicies import KeyPolicies
from syncline.core.objects import Desired, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Action
from syncline.core.tenancy import NOT_ALLOWED
from syncline.engine.claims import Claim
from syncline.engine.interests import Interest
from syncline.engine.record import SyncWire
from syncline.engine.twoway import TwoWay, Upstream
from syncline.engine.writer import Writer

# A service account's rights may go without a word: its syncs are looked at this often, at least.
RIGHTS_INTERVAL = 300.0


class ObjectKind(KindSpec, Protocol):
    """What differs between the kinds."""

    def lower(self, sync: AnySync) -> LoweredSpec:
        """Lower a spec that could be read; raises `Problem` for one that cannot be carried out."""

    def admit(self, sync: AnySync) -> None:
        """Raise `Problem` where a TenantPolicy does not allow what the spec asks for."""


class ObjectReconciler(BaseReconciler):
    """Reconciles all syncs of one copying kind."""

    def __init__(self, kind: ObjectKind, sites: ClusterResolver, shared: SharedServices) -> None:
        super().__init__(kind, sites, shared)
        self.kind = kind
        self._reader = ObjectReader(shared.hub, shared.claims, shared.allowed_kinds)
        self._scopes = ScopeEditJudge(sites, self._reader)

    def _watches_of(self, sync: AnySync) -> tuple[Interest, Claim | None]:
        lowered = self.kind.lower(sync)
        return lowered.interest(), lowered.claim()

    async def _reconcile_sync(self, sync: AnySync, state: SyncState) -> ReconcileResult:
        connected = ConnectedClusters()
        try:
            lowered = self._lower(sync)
            sync = await self._ensure_finalizer(sync, state)
            lowered = structs.replace(lowered, sync=sync)
            connected = await self._sites.connect(lowered, self.triggers)
            sources_read = await self._reader.read_sources(lowered)
            selection = await select_targets(
                lowered, connected.sites, sources_read.sources, self._shared.renderer, self._visibility(lowered)
            )
            self._update_watches(lowered, connected, sources_read, selection)
            wish = await render_targets(
                lowered, selection.copies, sources_read.patches, self._shared.renderer, self._hub.key
            )
            self._shared.quotas.take_targets(self.kind.name, sync, len(selection.copies))
        except SyncError as problem:
            return await self._report_failure(sync, connected, problem)
        waiting = await self._targets_of_missing_sources(lowered, connected, sources_read.absent)
        wanted = await self._keep_set(lowered, connected, sources_read, (selection, waiting))
        edit = await self._scopes.judge_copies(lowered, connected, sources_read, wanted)
        await self._record_inventory(lowered, connected, edit.text)
        room = KeepMarks(sync)
        converged = await self._apply(lowered, state, wish, sources_read.revision, room)
        self.kind.tenancy.confirm(sync.metadata.namespace, lowered.limits)
        pruned = await self._pruner.prune(lowered, state, connected, wanted, edit.requested)
        gone = await self._pruner.prune_orphans(lowered, state, connected, sources_read, wanted)
        seen = [*converged, *wish.failed, *selection.unresolved_names, *selection.skipped, *connected.outcomes]
        seen += [
            _pending_outcome(copy.target, "Pending", "SourceNotFound", "waits for the source")
            for copy in waiting.copies
        ]
        seen += waiting.skipped
        removed = [*pruned.outcomes, *gone.outcomes]
        outcomes = [*seen, *removed]
        report = ReconcileResult(
            sync=sync,
            outcomes=outcomes,
            problem=pruned.held or sources_read.problem,
            revision=sources_read.revision,
            observed=sources_read.observed,
            scope=edit.after(managed_objects(connected)),
            kept=room.marks(
                connected.sites,
                converged,
                gone.outcomes,
                partial_view=bool(sources_read.absent) or connected.incomplete,
            ),
            retry=any(outcome.retry for outcome in outcomes),
            again=soonest(pruned.again, gone.again, connected.again, next_resync(lowered)),
            waits=pruned.again is not None or gone.again is not None,
            warnings=connected.warnings,
            unmatched=(*connected.unmatched, *self._unmatched(lowered, connected, sources_read, outcomes)),
        )
        state.finished(sync, None if report.retry or report.waits else lowered.interval, time.monotonic())
        return report

    def _unmatched(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        sources_read: SourceObjects,
        outcomes: Sequence[Outcome],
    ) -> Sequence[str]:
        """Say what of the spec leads to no target, of what the user may see."""
        missing = unmatched_sources(lowered, sources_read.sources)
        return missing or unmatched_namespaces(lowered, connected.sites, outcomes)

    async def _report_failure(self, sync: AnySync, connected: ConnectedClusters, problem: SyncError) -> ReconcileResult:
        """Report what keeps the whole sync from being carried out; its targets are Unknown meanwhile."""
        outcomes = None
        lowered = self._lower_or_none(sync)
        if problem.reason == NOT_ALLOWED:
            self._shared.claims.drop(sync.owner.ref)  # nobody waits for a sync that may not write
        elif lowered is not None and (claim := lowered.claim()) is not None:
            self._shared.claims.settle_extended(claim)
        if lowered is not None and not lowered.suspended and not isinstance(problem, QuotaError):
            selection = await self._targets_of_missing_sources(lowered, connected)
            why = "not looked at: see the Ready condition of the sync"
            outcomes = [_pending_outcome(copy.target, "Unknown", problem.reason, why) for copy in selection.copies]
            outcomes += [*selection.skipped, *connected.outcomes]
        again = problem.again if problem.again is not None else connected.again
        return ReconcileResult(
            sync=sync, problem=problem, outcomes=outcomes, retry=problem.retry, again=again, waits=again is not None
        )

    async def _targets_of_missing_sources(
        self, lowered: LoweredSpec, connected: ConnectedClusters, absent: Sequence[Target] | None = None
    ) -> TargetSelection:
        """Find the targets of named sources that are not there, or could not be read."""
        placeholders = [
            source for source in self._reader.placeholders(lowered) if absent is None or source.target in absent
        ]
        if not placeholders:
            return TargetSelection()
        try:
            return await select_targets(
                lowered, connected.sites, placeholders, self._shared.renderer, self._visibility(lowered)
            )
        except SyncError:
            return TargetSelection()

    async def _keep_set(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        sources_read: SourceObjects,
        surveys: tuple[TargetSelection, TargetSelection],
    ) -> KeepSet:
        """Sum up which copies are wanted, and which ones the policy keeps though their source is gone."""
        deleted_sources: frozenset[str] = frozenset()
        if lowered.source_deletion_policy == "Orphan" and not lowered.one:
            made_from = {seen.marker.source for _, seen in managed_objects(connected) if seen.marker is not None}
            deleted_sources = await self._reader.deleted_sources(
                lowered, made_from - {str(source) for source in sources_read.sources}
            )
        return keep_set(*surveys, sources_read, deleted_sources)

    def _visibility(self, lowered: LoweredSpec) -> Visibility:
        return Visibility(lowered, self._hub, self._shared.claims.access)

    def _lower(self, sync: AnySync) -> LoweredSpec:
        """Lower the spec, or say why nothing is to be done for this sync at all."""
        if sync.spec is None:
            raise SyncError("InvalidSpec", sync.error, stalled=True)
        lowered = self.kind.lower(sync)
        if lowered.suspended:
            raise SyncError("Suspended", "spec.suspend is true: nothing is read or written", status="Unknown")
        self.kind.admit(sync)
        self._shared.quotas.admit(self.kind.name, sync)
        return lowered

    def _lower_or_none(self, sync: AnySync) -> LoweredSpec | None:
        """Lower the spec; None where it cannot be carried out."""
        try:
            return self.kind.lower(sync) if sync.spec is not None else None
        except SyncError:
            return None

    def _update_watches(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        sources_read: SourceObjects,
        selection: TargetSelection,
    ) -> None:
        """Enqueue for what was found: other clusters, names that come from templates, objects that labels select."""
        basic = lowered.interest()
        wants = [want for want in selection.wants() if want.name not in basic.names]
        scopes = {
            (site.cluster.name, scope.digest()): (site.cluster.name, scope)
            for site in connected.sites
            if site.cluster.name or site.destination.scope is None
            for source in sources_read.sources
            for scope in (site.destination.scope_of(source.target, lowered.guarded),)
        }
        interest = structs.replace(
            basic,
            names=basic.names | {want.name for want in wants},
            scopes=(*basic.scopes, *scopes.values()),
            clusters=connected.clusters,
        )
        self.triggers.set_watches(key_of(lowered.sync), interest, lowered.claim(tuple(wants)))

    async def _apply(
        self, lowered: LoweredSpec, state: SyncState, wish: RenderedTargets, revision: str, room: KeepMarks
    ) -> list[Outcome]:
        """Write what differs, many at once."""
        writers = {id(copy.site): self._writer(copy.site) for copy, _ in wish.desired}
        refused: list[Outcome] = []
        orders: list[ApplyJob] = []
        for copy, desired in wish.desired:
            if not room.take(copy.site, desired.target):
                refused.append(no_room_outcome(desired.target))
                continue
            had = room.has(copy.site, desired.target)
            job = partial(self._apply_one, lowered, writers[id(copy.site)], copy, desired, had)
            orders.append((copy.site, desired.target, job))

        async def progress(so_far: list[Outcome]) -> None:
            latest = self._latest(lowered.sync)  # what was recorded before the first write stays
            await self._status.progress(latest, so_far, len(wish.desired), revision)

        return [*await self._apply_all(lowered, state, orders, progress), *refused]

    async def _apply_one(
        self, lowered: LoweredSpec, writer: Writer, copy: PlannedCopy, desired: Desired, kept: bool
    ) -> Outcome:
        if copy.hidden:
            return await writer.ask_to_create(desired)
        if lowered.two_way is None:
            return await writer.settle(desired, kept=kept)
        pair, upstream = _two_way_of(lowered.two_way, lowered, writer, copy)
        return await pair.settle(upstream, desired, kept=kept)

    async def _finalize(self, sync: AnySync, state: SyncState) -> ReconcileResult | None:
        """Release the copies as the policy says. Never traps the sync."""
        lowered = self._lower_or_none(sync)
        connected = (
            await self._sites.connect(lowered, self.triggers, former=True)
            if lowered is not None
            else ConnectedClusters()
        )
        ending = await self._pruner.finalize(sync, lowered, state, connected)
        if ending.warning:
            await self._status.warn(sync, "CopiesLeft", ending.warning)
        self._status.report_finalized(ending.outcomes)
        if ending.problem is not None:
            failed = [outcome for outcome in ending.outcomes if outcome.state not in ("Synced", "Skipped")]
            again = soonest(connected.again, ending.problem.again)
            return ReconcileResult(sync=sync, problem=ending.problem, outcomes=failed, retry=True, again=again)
        return None

    async def preview(self, wire: SyncWire, access: WriteAccess = UNCHECKED) -> Preview:
        """Plan a reconcile without taking it; the sync need not exist. What `access` refuses is reported as failed."""
        sync = self._trust.trusted(self.kind.read(wire))
        try:
            lowered = self._lower(sync)
            connected = await self._sites.connect(lowered, self.triggers)
            sources_read = await self._reader.read_sources(lowered)
            selection = await select_targets(lowered, connected.sites, sources_read.sources, self._shared.renderer)
            wish = await render_targets(
                lowered, selection.copies, sources_read.patches, self._shared.renderer, self._hub.key
            )
            self._shared.quotas.check_targets(self.kind.name, sync, len(selection.copies))
        except SyncError as problem:
            return Preview(problem=problem)
        kept = frozenset(sync.status.kept)
        planned: list[tuple[TargetCluster | None, Action | Outcome]] = []
        for copy, item in wish.desired:
            writer = self._writer(copy.site)
            had = keep_mark(copy.site.cluster, item.target) in kept
            if lowered.two_way is not None:
                pair, upstream = _two_way_of(lowered.two_way, lowered, writer, copy)
                planned.append((copy.site, await plan_pair(pair.preview(upstream, item, kept=had), item)))
                continue
            planned.append((copy.site, await plan_one(writer, item, kept=had)))
        waiting = await self._targets_of_missing_sources(lowered, connected, sources_read.absent)
        wanted = await self._keep_set(lowered, connected, sources_read, (selection, waiting))
        edit = await self._scopes.judge_copies(lowered, connected, sources_read, wanted)
        removals, held = self._pruner.preview(lowered, connected, sources_read, wanted, edit.requested)
        sites = {site.destination.cluster: site for site in (*connected.former, *connected.sites)}
        planned += [(sites.get(removal.target.cluster), removal) for removal in removals]
        actions, refused = await split_allowed(access, lowered.user, planned)
        skipped = (*refused, *wish.failed, *selection.unresolved_names, *selection.skipped, *connected.outcomes)
        return Preview(
            actions=tuple(actions),
            skipped=skipped,
            problem=held or sources_read.problem,
            desired=tuple((copy.site, item) for copy, item in wish.desired),
        )


def _two_way_of(
    strategies: KeyPolicies, lowered: LoweredSpec, writer: Writer, copy: PlannedCopy
) -> tuple[TwoWay, Upstream]:
    source, site = copy.source, copy.site
    upstream = Upstream(
        target=source.target, uid=source.meta.uid, version=source.meta.resource_version, manifest=source.manifest
    )
    pair = TwoWay(site.cluster, site.client, writer, strategies, keys=lowered.keys, transforms=lowered.transforms)
    return pair, upstream


def next_resync(lowered: LoweredSpec) -> float | None:
    """Return after how many seconds to look again though nothing has happened."""
    if lowered.interval is not None:
        return lowered.interval
    return RIGHTS_INTERVAL if lowered.user is not None else None


def _pending_outcome(target: Target, state: TargetState, reason: str, message: str) -> Outcome:
    return Outcome(target=target, state=state, reason=reason, message=message)
