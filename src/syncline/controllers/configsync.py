"""The story of one ConfigSync, from top to bottom.

    follow the sources -> choose a revision -> build -> reach the clusters -> write in stages -> prune -> look at health

A sync without environments goes one way, else each environment goes its own; see `tracks`. Nothing is ever waited for
in a turn: what is not there yet wakes the sync when it comes, so that something newer is always taken up at once.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec import structs

from syncline.api.common import PUSHED_AT, REQUESTED_AT
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.api.configsync import Track as TrackStatus
from syncline.controllers.access import UNCHECKED, Access
from syncline.controllers.building import Builder, Builds, Commission
from syncline.controllers.configsynckind import ConfigSyncKind, GitReport, basic_interest, is_requested, spec_of
from syncline.controllers.controller import Controller, Order, Shared, key_of, soonest
from syncline.controllers.copier import RIGHTS_INTERVAL
from syncline.controllers.dependencies import WAITS, Dependencies
from syncline.controllers.foresight import Preview, together
from syncline.controllers.judging import JudgedEdit, ScopeJudge
from syncline.controllers.keeping import KeepRoom, unmarked
from syncline.controllers.laps import Departed, Lap, Lapped, SyncMemory, TrackMemory, permitted, wellness
from syncline.controllers.memory import Memory
from syncline.controllers.origins import Origins
from syncline.controllers.parts import departed_parts, has_copies, part_of, wanted_of
from syncline.controllers.preparing import Preparer
from syncline.controllers.preview import Planner
from syncline.controllers.push_records import PushRecords
from syncline.controllers.references import Asking, References
from syncline.controllers.removal import NOTHING_WANTED, Ending, owned
from syncline.controllers.reporting import AnySync, Problem, Report
from syncline.controllers.resting import Rests, rest_of
from syncline.controllers.sites import Reached, Sites
from syncline.controllers.source_checks import SourceChecks
from syncline.controllers.staging import Wanted as Wish
from syncline.controllers.staging import write_in_stages
from syncline.controllers.tracks import tracks_of
from syncline.controllers.validation import RevisionValidator, pass_over
from syncline.controllers.visibility import Visibility
from syncline.controllers.webhook_secrets import WebhookSecrets
from syncline.controllers.work import Work
from syncline.core.durations import seconds
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Scope
from syncline.core.tenancy import NOT_ALLOWED
from syncline.core.tenant_requests import configsync_request
from syncline.engine.claims import Claim, Want
from syncline.engine.fanout import FanOut
from syncline.engine.interests import Interest
from syncline.engine.record import SyncWire
from syncline.git import Mirrors
from syncline.kube.cache import Key

# What wants an object beside this sync is never its source.
_GIT = Target("", "", "")
_PROGRESSING = frozenset({"Synced", "Skipped"})
_APPLIED = frozenset({"Synced", "Skipped", "Conflict"})


class ConfigSyncs(Controller):
    """Reconciles all ConfigSyncs."""

    def __init__(self, kind: ConfigSyncKind, sites: Sites, shared: Shared, mirrors: Mirrors, builder: Builder) -> None:
        super().__init__(kind, sites, shared)
        self.kind = kind
        self._tenancy = kind.tenancy
        self._references = References(shared.hub)
        self._origins = Origins(self._references, mirrors, shared.quotas)
        self._preparer = Preparer(self._origins, Builds(shared.hub, self._references, builder, shared.quotas))
        self._scopes = ScopeJudge(sites)
        self._validator = RevisionValidator(builder, self._writer)
        self._dependencies = Dependencies()
        self.checks = SourceChecks(self._origins)
        self.webhook_secrets = WebhookSecrets(shared.hub, self._references, self._get, self._asking)
        self._push_records = PushRecords(shared.hub.client, kind.resource)
        self._rests = Rests(mirrors, self.queue.add)

    def repository_changed(self, who: object) -> None:
        """Take the news that a repository which a sync follows has changed, failed or answers again."""
        match who:
            case (Key() as key, str(remote)):
                self._rests.told(key, remote)

    async def pushed(self, namespace: str, name: str, *, leading: bool) -> None:
        """Take the hint that a repository has changed: check it, or let the leader do so. Raises `KubeError`."""
        key = Key(namespace, name)
        if leading:
            self.checks.start(key)
        else:
            await self._push_records.record(key)

    def hook_secrets(self, namespace: str, name: str) -> tuple[bytes, ...] | None:
        """Return what proves a push for a sync: nothing where it has no secret, None where there is no such sync."""
        key = Key(namespace, name)
        return self.webhook_secrets.of(key) if self._get(key) is not None else None

    async def read_webhook_secrets(self) -> None:
        """Keep the secrets of webhooks at hand, until their queue is closed."""
        await self.webhook_secrets.run(key for reflector in self.syncs.values() for key, _ in reflector.items())

    def _remember(self, fan_out: FanOut) -> Memory:
        return SyncMemory(fan_out)

    def _interest(self, sync: AnySync) -> tuple[Interest, Claim | None]:
        spec = spec_of(sync)
        self._dependencies.put(key_of(sync), spec)
        return basic_interest(sync, spec), None if spec.suspend or sync.deleting else self._claim(sync, spec)

    def _sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None, by: str) -> None:
        super()._sync_changed(key, old, new, by)
        self.webhook_secrets.sync_changed(key, new)
        if new is None:
            self._dependencies.drop(key)
            self.checks.forget(key)
        elif old is None or _request_of(old) != _request_of(new):
            # Whoever creates or edits a sync, resumes it or asks for it now expects what is in Git now.
            self.checks.require(key)
        elif old.metadata.annotations.get(PUSHED_AT) != new.metadata.annotations.get(PUSHED_AT):
            self.checks.start(key)
        self._wake_dependents(key, old, new)

    def _wake_dependents(self, key: Key, old: AnySync | None, new: AnySync | None) -> None:
        new = self._trust.trusted(new) if new is not None else None
        if self._dependencies.is_news(old, new):
            for dependent in self._dependencies.of(key):
                self.queue.add(dependent)

    async def _turn(self, sync: AnySync, memory: Memory) -> Report:
        assert isinstance(memory, SyncMemory)  # noqa: S101 - see _remember
        self._rests.disturb(key_of(sync))
        try:
            spec = self._runnable(sync)
            asking = self._asking(sync, spec)
            if not spec.dry_run:
                sync = await self._hold(sync, memory)
        except Problem as problem:
            self._origins.forget(key_of(sync))
            if problem.reason == NOT_ALLOWED:
                self._shared.claims.drop(sync.owner.ref)  # nobody waits for a sync that may not write
            return Report(sync=sync, problem=problem, retry=problem.retry, again=problem.again, waits=problem.retry)
        tracks = tracks_of(spec, sync.metadata.namespace)
        with suppress(Problem):  # each track meets it again, and reports it
            await self._origins.remotes(asking, tracks)
        await self.checks.complete(asking.key)
        waits_for = self._waits_for(sync, spec)
        telling = _tells(sync)
        commissions = [Commission(asking=asking, spec=spec, track=track, telling=telling) for track in tracks]
        prepared = await asyncio.gather(*(self._preparer.prepare(one, sync, memory, waits_for) for one in commissions))
        laps = [permitted(lap.spread(), asking.limits) for lap in prepared]
        work = self.kind.lower(sync, (one for lap in laps for one in lap.desired()))
        reached = await self._sites.reach(work, self.wakes)
        laps = [await self._validated(work, spec, reached, lap, memory) for lap in laps]
        work = self.kind.lower(sync, (one for lap in laps for one in lap.desired()))
        work = structs.replace(work, limits=asking.limits)
        self._tenancy.confirm(asking.key.namespace, asking.limits)
        self._care(work, spec, reached, laps)
        self._count_targets(sync, reached, laps)
        if spec.dry_run:
            return await self._dry_run(work, reached, laps)
        edit = self._scopes.judge_built(work, reached, laps)
        # The kinds follow, each before its first write: one that cannot be watched is never written.
        await self._record(structs.replace(work, sources=()), reached, edit.text)
        room = KeepRoom(work.sync)
        lapped = [await self._advance(work, reached, lap, memory, edit, room=room) for lap in laps]
        former = await self._let_go_of_former(work, reached, lapped, memory, edit)
        memory.keep(work.parts)
        report = self._report(work, reached, lapped, former, edit, room=room)
        if _is_room_made(report):
            self.queue.add(asking.key)
        self._rests.settle(asking.key, rest_of(spec, report, self._origins.opened(asking.key)))
        return report

    def _runnable(self, sync: AnySync) -> ConfigSyncSpec:
        """Return the spec, or say why nothing is to be done for this sync at all."""
        spec = spec_of(sync)
        if spec.suspend:
            raise Problem("Suspended", "spec.suspend is true: nothing is read or written", status="Unknown")
        namespace = sync.metadata.namespace
        self._tenancy.admit(namespace, configsync_request(spec, namespace))
        self.kind.check_identity(sync, spec)
        self._shared.quotas.admit(self.kind.name, sync)
        return spec

    def _asking(self, sync: AnySync, spec: ConfigSyncSpec) -> Asking:
        return Asking(
            key=key_of(sync),
            user=self._tenancy.user(sync.metadata.namespace, spec.service_account_name),
            interval=self._tenancy.interval(spec.refresh_interval),
            limits=self._tenancy.limits(sync.metadata.namespace),
        )

    def _waits_for(self, sync: AnySync, spec: ConfigSyncSpec) -> Problem | None:
        return self._dependencies.problem(key_of(sync), spec, self._get)

    def _count_targets(self, sync: AnySync, reached: Reached, laps: Sequence[Lap], *, only_look: bool = False) -> None:
        """Raise `OverQuota` where the sync would have more targets than a TenantPolicy allows."""
        if all(lap.made is None for lap in laps):
            return
        wanted = sum(len(lap.desired()) * len(part_of(reached, lap.track.name).sites) for lap in laps)
        whole = all(lap.made is not None for lap in laps)
        quotas = self._shared.quotas
        count = quotas.check_targets if only_look or spec_of(sync).dry_run else quotas.take_targets
        count(self.kind.name, sync, wanted, whole=whole)

    async def _record(self, work: Work, reached: Reached, scope: str | None = None) -> None:
        """Write down the environments too, before the first write, so that none is ever lost."""
        latest = self._latest(work.sync)
        status = latest.status
        assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
        known = {entry.name for entry in status.environments}
        new = [TrackStatus(name=part) for part in work.parts if part and part not in known]
        if new:
            named = structs.replace(status, environments=[*status.environments, *new])
            await self._reporter.record(latest, named)
        await super()._record(work, reached, scope)

    async def _validated(self, work: Work, spec: ConfigSyncSpec, reached: Reached, lap: Lap, memory: SyncMemory) -> Lap:
        """Return what is to be applied of a track, now that all of it was checked."""
        sites = part_of(reached, lap.track.name).sites
        return await self._validator.validate(work, spec, lap, sites, memory.track(lap.track.name))

    def _care(self, work: Work, spec: ConfigSyncSpec, reached: Reached, laps: Sequence[Lap]) -> None:
        """Wake for what was found: the objects themselves, their namespaces, other clusters."""
        basic = basic_interest(work.sync, spec)
        wants: list[Want] = []
        namespaces: set[str] = set()
        for lap in laps:
            for desired in lap.desired():
                target = desired.target
                namespaces |= {target.namespace} if target.namespace else set()
                scope = Scope(names=frozenset({target.namespace})) if target.namespace else None
                wants += [Want((site.cluster.name, target.kind, target.name), scope, _GIT) for site in reached.sites]
        names = Scope(names=frozenset(namespaces))
        interest = structs.replace(
            basic,
            names=frozenset(want.name for want in wants),
            scopes=tuple((site.cluster.name, names) for site in reached.sites),
            clusters=reached.clusters,
        )
        self.wakes.take_interest(key_of(work.sync), interest, self._claim(work.sync, spec, tuple(wants)))

    def _claim(self, sync: AnySync, spec: ConfigSyncSpec, wants: tuple[Want, ...] = ()) -> Claim | None:
        """Return what a sync lays claim to, which is known only once it was built; to nothing without an identity."""
        try:
            user = self._tenancy.user(sync.metadata.namespace, spec.service_account_name)
        except Problem:
            return None
        created = sync.metadata.creation_timestamp
        return Claim(ref=sync.owner.ref, created=created, wants=wants, user=user, dry_run=spec.dry_run)

    async def _advance(
        self, work: Work, reached: Reached, lap: Lap, memory: SyncMemory, edit: JudgedEdit, *, room: KeepRoom
    ) -> Lapped:
        """Write what a track wants, remove what it no longer wants, and look how it does."""
        spec = spec_of(work.sync)
        known = memory.track(lap.track.name)
        part = part_of(reached, lap.track.name, departed_parts(work))
        if lap.made is None:
            soon = lap.problem.again if lap.problem is not None else None
            return Lapped(lap=lap, problem=lap.problem, again=soon, waits=_passes(lap.problem))
        sites, left_out = pass_over(lap, part.sites)
        part = structs.replace(part, sites=sites)
        outcomes = [*await self._write(work, part, lap, known, room), *left_out]
        removed: list[Outcome] = []
        held: Problem | None = None
        again: float | None = None
        later: float | None = None
        done = lap.certain and all(outcome.state in _APPLIED for outcome in outcomes)
        if done:
            self._tenancy.confirm(work.sync.metadata.namespace, work.limits)
            pruned = await self._remover.prune(work, known, part, wanted_of(part, lap), edit.requested)
            removed, held, again, later = list(pruned.outcomes), pruned.held, pruned.again, pruned.look_again
        well = wellness(lap, part.sites, outcomes, known, seconds(spec.timeout)) if spec.wait else None
        if well is not None:
            if well.state == "Failed" and known.health != "Failed" and spec.failure_policy == "Rollback":
                self.queue.add(key_of(work.sync))
            known.health = well.state
            known.failed = lap.made.inputs if well.state == "Failed" else known.failed
        problem = held or lap.problem or (well.problem if well is not None else None)
        return Lapped(
            lap=lap,
            outcomes=(*outcomes, *removed),
            health=well.state if well is not None else "Pending",
            problem=problem,
            again=soonest(again, later, well.again if well else None, problem.again if problem else None),
            waits=again is not None or (well is not None and well.state == "Pending") or _passes(problem),
            scope_done=done and held is None and again is None and not any(_is_undone(one) for one in removed),
        )

    async def _record_kinds(self, work: Work, part: Reached, orders: Sequence[Order]) -> None:
        """Write down the kinds that are about to be written, and in which clusters."""
        kinds: dict[int, set[str]] = {}
        for site, target, _ in orders:
            kinds.setdefault(id(site), set()).add(target.kind)
        for alike in {frozenset(found) for found in kinds.values()}:  # mostly one: every cluster takes the same kinds
            sites = tuple(site for site in part.sites if frozenset(kinds.get(id(site), ())) == alike)
            sources = tuple(ref for ref in work.sources if ref.kind_name in alike)
            about = structs.replace(work, sources=sources, places=tuple(site.place for site in sites))
            await super()._record(about, structs.replace(part, sites=sites, former=(), superseded=()))

    async def _write(self, work: Work, part: Reached, lap: Lap, known: TrackMemory, room: KeepRoom) -> list[Outcome]:
        desired, revision = lap.desired(), lap.revision or ""
        writers = {id(site): self._writer(site) for site in part.sites}
        total = len(desired) * len(part.sites)
        before: list[Outcome] = []

        async def progress(so_far: list[Outcome]) -> None:
            await self._reporter.progress(self._latest(work.sync), [*before, *so_far], total, revision)

        visibility = self._visibility(work)

        async def write(stage: Sequence[Wish]) -> list[Outcome]:
            closed: list[Outcome] = []
            orders: list[Order] = []
            for wish in stage:
                target, writer = wish.desired.target, writers[id(wish.site)]
                outcome = _closed(wish, room)
                if outcome is None:
                    job = partial(writer.settle, wish.desired, kept=room.has(wish.site, target))
                    orders.append((wish.site, target, job))
                elif outcome.state == "Skipped" and await visibility.is_hidden(target):
                    orders.append((wish.site, target, partial(writer.ask_to_create, wish.desired)))
                else:
                    closed.append(outcome)
            await self._record_kinds(work, part, orders)
            written = await self._carry_out(work, known, orders, progress)
            before.extend(written)
            return [*closed, *written]

        is_wanted = partial(self.queue.is_wanted, key_of(work.sync))
        return await write_in_stages(part.sites, desired, write, is_wanted)

    async def _let_go_of_former(
        self, work: Work, reached: Reached, lapped: Sequence[Lapped], memory: SyncMemory, edit: JudgedEdit
    ) -> Departed:
        """Remove what belongs to environments that left the spec, once the others have taken over what they want."""
        departed = Departed()
        for name in departed_parts(work):
            part = part_of(reached, name)
            if not has_copies(part):
                continue
            if not all(map(_is_applied, lapped)):
                departed = structs.replace(departed, names=(*departed.names, *([name] if name else [])), done=False)
                continue
            self._tenancy.confirm(work.sync.metadata.namespace, work.limits)
            pruned = await self._remover.prune(work, memory.track(name), part, NOTHING_WANTED, edit.requested)
            undone = pruned.held is not None or pruned.again is not None or any(map(_is_undone, pruned.outcomes))
            departed = Departed(
                names=(*departed.names, *([name] if name and has_copies(part) else [])),
                outcomes=(*departed.outcomes, *pruned.outcomes),
                problem=departed.problem or pruned.held,
                again=soonest(departed.again, pruned.again, pruned.look_again),
                done=departed.done and not undone,
            )
        return departed

    def _report(
        self,
        work: Work,
        reached: Reached,
        lapped: Sequence[Lapped],
        former: Departed,
        edit: JudgedEdit,
        *,
        room: KeepRoom,
    ) -> Report:
        outcomes = [outcome for one in lapped for outcome in one.outcomes]
        outcomes += [*reached.outcomes, *former.outcomes]
        looked_at = any(one.lap.made is not None for one in lapped)
        problem = next((one.problem for one in lapped if one.problem is not None), former.problem)
        if problem is None and all(outcome.state in _PROGRESSING for outcome in outcomes):
            problem = _rolled_back(lapped)
        done = all(one.scope_done for one in lapped) and not reached.unsure and former.done
        retry = any(outcome.retry for outcome in outcomes) or any(one.problem and one.problem.retry for one in lapped)
        return GitReport(
            sync=work.sync,
            outcomes=outcomes if looked_at else None,
            problem=problem,
            revision=_revision(lapped),
            scope=edit.after(one for name in work.parts for one in owned(part_of(reached, name))),
            done=done,
            kept=room.marks(reached.sites, outcomes, (), partial_view=reached.unsure or not looked_at),
            retry=retry,
            again=soonest(
                reached.again,
                former.again,
                RIGHTS_INTERVAL if work.user is not None else None,
                *(one.again for one in lapped),
            ),
            waits=any(one.waits for one in lapped),
            warnings=reached.warnings,
            unmatched=reached.unmatched,
            laps=tuple(lapped),
            former=former.names,
        )

    async def _dry_run(self, work: Work, reached: Reached, laps: Sequence[Lap]) -> Report:
        """Say what would be written, and write nothing."""
        seen = await self._foresee(work, reached, laps, visibility=self._visibility(work))
        lines, problem = seen.lines(), seen.problem
        if problem is None and lines:
            problem = Problem("DryRun", f"{seen.changes} changes would be made: see status.plan; set dryRun to false")
        lapped = tuple(Lapped(lap=lap) for lap in laps)
        return GitReport(sync=work.sync, problem=problem, plan=tuple(lines), laps=lapped)

    async def preview(self, wire: SyncWire, access: Access = UNCHECKED) -> Preview:
        """Plan a turn without taking it; the sync need not exist. What `access` refuses is told as failed."""
        sync = self._trust.trusted(self.kind.read(wire))
        memory = SyncMemory(FanOut(lambda: None))
        try:
            spec = self._runnable(sync)
            asking = self._asking(sync, spec)
        except Problem as problem:
            return Preview(problem=problem)
        laps = [
            await self._preparer.prepare(Commission(asking=asking, spec=spec, track=track), sync, memory, None)
            for track in tracks_of(spec, sync.metadata.namespace)
        ]
        laps = [permitted(lap, asking.limits) for lap in laps]
        work = self.kind.lower(sync, (one for lap in laps for one in lap.desired()))
        reached = await self._sites.reach(work, self.wakes)
        laps = [await self._validated(work, spec, reached, lap, memory) for lap in laps]
        try:
            self._count_targets(sync, reached, laps, only_look=True)
        except Problem as problem:
            return Preview(problem=problem)
        return await self._foresee(work, reached, laps, access)

    async def _foresee(
        self,
        work: Work,
        reached: Reached,
        laps: Sequence[Lap],
        access: Access = UNCHECKED,
        visibility: Visibility | None = None,
    ) -> Preview:
        edit = self._scopes.judge_built(work, reached, laps)
        planner = Planner(self._writer, self._remover, access, edit.requested, visibility)
        left = departed_parts(work)
        previews = [await planner.plan(work, part_of(reached, lap.track.name, left), lap) for lap in laps]
        return together([Preview(passed_over=reached.outcomes), *previews])

    def _visibility(self, work: Work) -> Visibility:
        return Visibility(work, self._hub, self._shared.claims.access)

    async def _finalize(self, sync: AnySync, memory: Memory) -> Report | None:
        """Let go of everything as the policy says. Never traps the sync."""
        assert isinstance(memory, SyncMemory)  # noqa: S101 - see _remember
        self._rests.disturb(key_of(sync))
        work: Work | None = None
        try:
            work = self.kind.lower(sync)
        except Problem:
            work = None
        reached = await self._sites.reach(work, self.wakes, former=True) if work is not None else Reached()
        endings: list[Ending] = []
        for name in work.parts if work is not None else ("",):
            part = part_of(reached, name)
            endings.append(await self._remover.finalize(sync, work, memory.track(name), part))
        outcomes = [outcome for ending in endings for outcome in ending.outcomes]
        for warning in dict.fromkeys(ending.warning for ending in endings if ending.warning):
            await self._reporter.warn(sync, "CopiesLeft", warning)
        self._reporter.ended(outcomes)
        problem = next((ending.problem for ending in endings if ending.problem is not None), None)
        if problem is not None:
            failed = [outcome for outcome in outcomes if outcome.state not in _PROGRESSING]
            again = soonest(reached.again, problem.again)
            return Report(sync=sync, problem=problem, outcomes=failed, retry=True, again=again)
        return None

    def _forget(self, key: Key) -> None:
        super()._forget(key)
        self._origins.forget(key)
        self._rests.disturb(key)


def _closed(wish: Wish, room: KeepRoom) -> Outcome | None:
    """Say of a namespace that keeps every sync out that it does, and of a place that cannot be remembered."""
    target = wish.desired.target
    namespace = wish.site.cluster.namespace(target.namespace) if target.namespace else None
    if namespace is None or not namespace.ignored:
        return None if room.take(wish.site, target) else unmarked(target)
    message = f"namespace {target.namespace!r} is labelled syncline.dev/ignore: no sync writes there"
    return Outcome(target=target, state="Skipped", reason="NamespaceIgnored", message=message)


def _request_of(sync: AnySync) -> tuple[object, ...]:
    """Return what its user asks for: a spec, or a look now."""
    return sync.metadata.uid, sync.metadata.generation, sync.metadata.annotations.get(REQUESTED_AT)


def _tells(sync: AnySync) -> bool:
    """Whether the status is written anyway: then it tells the newest revision though nothing of it has changed."""
    return is_requested(sync) or sync.status.observed_generation != sync.metadata.generation


def _passes(problem: Problem | None) -> bool:
    """Whether a problem is one that is expected to pass by itself."""
    return problem is not None and (problem.retry or problem.again is not None or problem.reason == WAITS)


def _is_room_made(report: Report) -> bool:
    """Whether one part of the sync has let go of something while another could not have what it wants."""
    outcomes = report.outcomes or ()
    return any(one.gone and one.written is not None for one in outcomes) and any(
        one.reason == "OwnedByOther" for one in outcomes
    )


def _is_applied(one: Lapped) -> bool:
    """Whether all that a track wants now was written, or is somebody else's."""
    return one.lap.certain and all(outcome.state in _APPLIED or outcome.gone for outcome in one.outcomes)


def _is_undone(removal: Outcome) -> bool:
    return removal.retry or removal.state == "Pending"


def _revision(lapped: Sequence[Lapped]) -> str | None:
    if len(lapped) == 1 and not lapped[0].lap.track.name:
        return lapped[0].lap.revision
    return None


def _rolled_back(lapped: Sequence[Lapped]) -> Problem | None:
    """Say of a sync that all is well with that it is not where the source is."""
    for one in lapped:
        decision = one.lap.decision
        if decision is not None and decision.reason == "RolledBackOnFailure":
            return Problem(decision.reason, decision.why)
        if decision is not None and decision.reason == "RolledBack":
            return Problem(decision.reason, decision.why, status="True")
    return None
