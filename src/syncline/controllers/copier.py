"""The story of one sync of any copying kind, from top to bottom.

    hold -> lower -> read the sources -> survey -> desire -> converge -> prune -> report

Each turn starts from what is so now, whatever woke it; nothing is carried over from earlier turns but what saves
requests. What is written is safe against a second operator, a crash at any point, and everybody else.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from msgspec import structs

from syncline.api.common import TargetState
from syncline.controllers.access import UNCHECKED, Access, allowed
from syncline.controllers.controller import Controller, Kind, Order, Shared, key_of, soonest
from syncline.controllers.foresight import Preview, foreseen, foreseen_pair
from syncline.controllers.gathering import Gathered, Gatherer
from syncline.controllers.judging import ScopeJudge
from syncline.controllers.keeping import KeepRoom, kept_mark, unmarked
from syncline.controllers.memory import Memory
from syncline.controllers.pipeline import Wish, desire
from syncline.controllers.removal import Wanted, owned, wanted_by
from syncline.controllers.reporting import AnySync, OverQuota, Problem, Report
from syncline.controllers.sites import Reached, Sites
from syncline.controllers.survey import Site, Spot, Survey, survey
from syncline.controllers.unmatched import unmatched_namespaces, unmatched_sources
from syncline.controllers.visibility import Visibility
from syncline.controllers.work import Work
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

# A service account's rights may go without a word: its syncs are looked at so often, at least.
RIGHTS_INTERVAL = 300.0


class CopyingKind(Kind, Protocol):
    """What differs between the kinds."""

    def lower(self, sync: AnySync) -> Work:
        """Lower a spec that could be read; raises `Problem` for one that cannot be carried out."""

    def admit(self, sync: AnySync) -> None:
        """Raise `Problem` where a TenantPolicy does not allow what the spec asks for."""


class Copier(Controller):
    """Reconciles all syncs of one copying kind."""

    def __init__(self, kind: CopyingKind, sites: Sites, shared: Shared) -> None:
        super().__init__(kind, sites, shared)
        self.kind = kind
        self._gatherer = Gatherer(shared.hub, shared.claims, shared.allowed_kinds)
        self._scopes = ScopeJudge(sites, self._gatherer)

    def _interest(self, sync: AnySync) -> tuple[Interest, Claim | None]:
        work = self.kind.lower(sync)
        return work.interest(), work.claim()

    async def _turn(self, sync: AnySync, memory: Memory) -> Report:
        reached = Reached()
        try:
            work = self._lower(sync)
            sync = await self._hold(sync, memory)
            work = structs.replace(work, sync=sync)
            reached = await self._sites.reach(work, self.wakes)
            gathered = await self._gatherer.gather(work)
            surveyed = await survey(
                work, reached.sites, gathered.sources, self._shared.renderer, self._visibility(work)
            )
            self._care(work, reached, gathered, surveyed)
            wish = await desire(work, surveyed.spots, gathered.patches, self._shared.renderer, self._hub.key)
            self._shared.quotas.take_targets(self.kind.name, sync, len(surveyed.spots))
        except Problem as problem:
            return await self._trouble(sync, reached, problem)
        waiting = await self._phantoms(work, reached, gathered.absent)
        wanted = await self._wanted(work, reached, gathered, (surveyed, waiting))
        edit = await self._scopes.judge_copies(work, reached, gathered, wanted)
        await self._record(work, reached, edit.text)
        room = KeepRoom(sync)
        converged = await self._converge(work, memory, wish, gathered.revision, room)
        self.kind.tenancy.confirm(sync.metadata.namespace, work.limits)
        pruned = await self._remover.prune(work, memory, reached, wanted, edit.requested)
        gone = await self._remover.sources_gone(work, memory, reached, gathered, wanted)
        seen = [*converged, *wish.failed, *surveyed.unnamed, *surveyed.passed_over, *reached.outcomes]
        seen += [_waits(spot.target, "Pending", "SourceNotFound", "waits for the source") for spot in waiting.spots]
        seen += waiting.passed_over
        removed = [*pruned.outcomes, *gone.outcomes]
        outcomes = [*seen, *removed]
        report = Report(
            sync=sync,
            outcomes=outcomes,
            problem=pruned.held or gathered.problem,
            revision=gathered.revision,
            observed=gathered.observed,
            scope=edit.after(owned(reached)),
            kept=room.marks(
                reached.sites, converged, gone.outcomes, partial_view=bool(gathered.absent) or reached.unsure
            ),
            retry=any(outcome.retry for outcome in outcomes),
            again=soonest(pruned.again, gone.again, reached.again, _next(work)),
            waits=pruned.again is not None or gone.again is not None,
            warnings=reached.warnings,
            unmatched=(*reached.unmatched, *self._unmatched(work, reached, gathered, outcomes)),
        )
        memory.done(sync, None if report.retry or report.waits else work.interval, time.monotonic())
        return report

    def _unmatched(
        self, work: Work, reached: Reached, gathered: Gathered, outcomes: Sequence[Outcome]
    ) -> Sequence[str]:
        """Say what of the spec leads to no target, of what the user may see."""
        missing = unmatched_sources(work, gathered.sources)
        return missing or unmatched_namespaces(work, reached.sites, outcomes)

    async def _trouble(self, sync: AnySync, reached: Reached, problem: Problem) -> Report:
        """Report what keeps the whole sync from being carried out; its targets are Unknown meanwhile."""
        outcomes = None
        work = self._work(sync)
        if problem.reason == NOT_ALLOWED:
            self._shared.claims.drop(sync.owner.ref)  # nobody waits for a sync that may not write
        elif work is not None and (claim := work.claim()) is not None:
            self._shared.claims.settle_extended(claim)
        if work is not None and not work.suspended and not isinstance(problem, OverQuota):
            surveyed = await self._phantoms(work, reached)
            why = "not looked at: see the Ready condition of the sync"
            outcomes = [_waits(spot.target, "Unknown", problem.reason, why) for spot in surveyed.spots]
            outcomes += [*surveyed.passed_over, *reached.outcomes]
        again = problem.again if problem.again is not None else reached.again
        return Report(
            sync=sync, problem=problem, outcomes=outcomes, retry=problem.retry, again=again, waits=again is not None
        )

    async def _phantoms(self, work: Work, reached: Reached, absent: Sequence[Target] | None = None) -> Survey:
        """Find the targets of named sources that are not there, or could not be read."""
        phantoms = [source for source in self._gatherer.phantoms(work) if absent is None or source.target in absent]
        if not phantoms:
            return Survey()
        try:
            return await survey(work, reached.sites, phantoms, self._shared.renderer, self._visibility(work))
        except Problem:
            return Survey()

    async def _wanted(self, work: Work, reached: Reached, gathered: Gathered, surveys: tuple[Survey, Survey]) -> Wanted:
        """Sum up which copies are wanted, and which ones the policy keeps though their source is gone."""
        vanished: frozenset[str] = frozenset()
        if work.source_deletion_policy == "Orphan" and not work.one:
            made_from = {seen.marker.source for _, seen in owned(reached) if seen.marker is not None}
            vanished = await self._gatherer.vanished(work, made_from - {str(source) for source in gathered.sources})
        return wanted_by(*surveys, gathered, vanished)

    def _visibility(self, work: Work) -> Visibility:
        return Visibility(work, self._hub, self._shared.claims.access)

    def _lower(self, sync: AnySync) -> Work:
        """Lower the spec, or say why nothing is to be done for this sync at all."""
        if sync.spec is None:
            raise Problem("InvalidSpec", sync.error, stalled=True)
        work = self.kind.lower(sync)
        if work.suspended:
            raise Problem("Suspended", "spec.suspend is true: nothing is read or written", status="Unknown")
        self.kind.admit(sync)
        self._shared.quotas.admit(self.kind.name, sync)
        return work

    def _work(self, sync: AnySync) -> Work | None:
        """Lower the spec; None where it cannot be carried out."""
        try:
            return self.kind.lower(sync) if sync.spec is not None else None
        except Problem:
            return None

    def _care(self, work: Work, reached: Reached, gathered: Gathered, surveyed: Survey) -> None:
        """Wake for what was found: other clusters, names that come from templates, objects that labels select."""
        basic = work.interest()
        wants = [want for want in surveyed.wants() if want.name not in basic.names]
        scopes = {
            (site.cluster.name, scope.digest()): (site.cluster.name, scope)
            for site in reached.sites
            if site.cluster.name or site.place.scope is None
            for source in gathered.sources
            for scope in (site.place.scope_of(source.target, work.guarded),)
        }
        interest = structs.replace(
            basic,
            names=basic.names | {want.name for want in wants},
            scopes=(*basic.scopes, *scopes.values()),
            clusters=reached.clusters,
        )
        self.wakes.take_interest(key_of(work.sync), interest, work.claim(tuple(wants)))

    async def _converge(self, work: Work, memory: Memory, wish: Wish, revision: str, room: KeepRoom) -> list[Outcome]:
        """Write what differs, many at once."""
        writers = {id(spot.site): self._writer(spot.site) for spot, _ in wish.desired}
        refused: list[Outcome] = []
        orders: list[Order] = []
        for spot, desired in wish.desired:
            if not room.take(spot.site, desired.target):
                refused.append(unmarked(desired.target))
                continue
            had = room.has(spot.site, desired.target)
            job = partial(self._settle, work, writers[id(spot.site)], spot, desired, had)
            orders.append((spot.site, desired.target, job))

        async def progress(so_far: list[Outcome]) -> None:
            latest = self._latest(work.sync)  # what was recorded before the first write stays
            await self._reporter.progress(latest, so_far, len(wish.desired), revision)

        return [*await self._carry_out(work, memory, orders, progress), *refused]

    async def _settle(self, work: Work, writer: Writer, spot: Spot, desired: Desired, kept: bool) -> Outcome:
        if spot.hidden:
            return await writer.ask_to_create(desired)
        if work.two_way is None:
            return await writer.settle(desired, kept=kept)
        pair, upstream = _pair(work.two_way, work, writer, spot)
        return await pair.settle(upstream, desired, kept=kept)

    async def _finalize(self, sync: AnySync, memory: Memory) -> Report | None:
        """Let go of the copies as the policy says. Never traps the sync."""
        work = self._work(sync)
        reached = await self._sites.reach(work, self.wakes, former=True) if work is not None else Reached()
        ending = await self._remover.finalize(sync, work, memory, reached)
        if ending.warning:
            await self._reporter.warn(sync, "CopiesLeft", ending.warning)
        self._reporter.ended(ending.outcomes)
        if ending.problem is not None:
            failed = [outcome for outcome in ending.outcomes if outcome.state not in ("Synced", "Skipped")]
            again = soonest(reached.again, ending.problem.again)
            return Report(sync=sync, problem=ending.problem, outcomes=failed, retry=True, again=again)
        return None

    async def preview(self, wire: SyncWire, access: Access = UNCHECKED) -> Preview:
        """Plan a turn without taking it; the sync need not exist. What `access` refuses is told as failed."""
        sync = self._trust.trusted(self.kind.read(wire))
        try:
            work = self._lower(sync)
            reached = await self._sites.reach(work, self.wakes)
            gathered = await self._gatherer.gather(work)
            surveyed = await survey(work, reached.sites, gathered.sources, self._shared.renderer)
            wish = await desire(work, surveyed.spots, gathered.patches, self._shared.renderer, self._hub.key)
            self._shared.quotas.check_targets(self.kind.name, sync, len(surveyed.spots))
        except Problem as problem:
            return Preview(problem=problem)
        kept = frozenset(sync.status.kept)
        planned: list[tuple[Site | None, Action | Outcome]] = []
        for spot, item in wish.desired:
            writer = self._writer(spot.site)
            had = kept_mark(spot.site.cluster, item.target) in kept
            if work.two_way is not None:
                pair, upstream = _pair(work.two_way, work, writer, spot)
                planned.append((spot.site, await foreseen_pair(pair.preview(upstream, item, kept=had), item)))
                continue
            planned.append((spot.site, await foreseen(writer, item, kept=had)))
        waiting = await self._phantoms(work, reached, gathered.absent)
        wanted = await self._wanted(work, reached, gathered, (surveyed, waiting))
        edit = await self._scopes.judge_copies(work, reached, gathered, wanted)
        removals, held = self._remover.preview(work, reached, gathered, wanted, edit.requested)
        sites = {site.place.cluster: site for site in (*reached.former, *reached.sites)}
        planned += [(sites.get(removal.target.cluster), removal) for removal in removals]
        actions, refused = await allowed(access, work.user, planned)
        passed_over = (*refused, *wish.failed, *surveyed.unnamed, *surveyed.passed_over, *reached.outcomes)
        return Preview(
            actions=tuple(actions),
            passed_over=passed_over,
            problem=held or gathered.problem,
            desired=tuple((spot.site, item) for spot, item in wish.desired),
        )


def _pair(strategies: KeyPolicies, work: Work, writer: Writer, spot: Spot) -> tuple[TwoWay, Upstream]:
    source, site = spot.source, spot.site
    upstream = Upstream(
        target=source.target, uid=source.meta.uid, version=source.meta.resource_version, manifest=source.manifest
    )
    pair = TwoWay(site.cluster, site.client, writer, strategies, keys=work.keys, transforms=work.transforms)
    return pair, upstream


def _next(work: Work) -> float | None:
    """Return after how many seconds to look again though nothing has happened."""
    if work.interval is not None:
        return work.interval
    return RIGHTS_INTERVAL if work.user is not None else None


def _waits(target: Target, state: TargetState, reason: str, message: str) -> Outcome:
    return Outcome(target=target, state=state, reason=reason, message=message)
