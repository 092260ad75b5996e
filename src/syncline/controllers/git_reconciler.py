"""The reconciler of ConfigSyncs, from top to bottom.

    follow the sources -> choose a revision -> build -> connect clusters -> apply in stages -> prune -> health -> status

A sync has one unit, or one for each environment; see `core.environments`. A reconcile waits for nothing: what is not
there yet enqueues the sync when it comes, so that something newer is always taken up at once.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec import structs

from syncline.api.common import PUSHED_AT, REQUESTED_AT
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.api.configsync import Track as TrackStatus
from syncline.controllers.base import ApplyJob, BaseReconciler, SharedServices
from syncline.controllers.errors import SyncError
from syncline.controllers.git_preview import EnvironmentPlanner
from syncline.controllers.kinds.configsync import ConfigSyncKind
from syncline.controllers.lowered import AnySync, LoweredSpec, key_of
from syncline.controllers.reconciler import RIGHTS_INTERVAL
from syncline.controllers.result import ReconcileResult, soonest
from syncline.controllers.scope_edits import ScopeEdit, ScopeEditJudge
from syncline.controllers.sources.build import BuildRequest, ManifestBuilder, RevisionBuilder
from syncline.controllers.sources.changes import ChangeFilter, built_from
from syncline.controllers.sources.checks import RepositoryChecks
from syncline.controllers.sources.dependencies import DEPENDENCY_NOT_READY, DependencyGraph
from syncline.controllers.sources.environments import (
    as_environment,
    has_objects,
    is_reconcile_requested,
    removed_from_spec,
    spec_of,
    spec_watches,
)
from syncline.controllers.sources.git import GitSources
from syncline.controllers.sources.prepared import (
    ApplyResult,
    ConfigSyncResult,
    ConfigSyncState,
    PreparedRevision,
    RemovedEnvironments,
    UnitState,
    check_health,
    keep_set_of,
    within_limits,
)
from syncline.controllers.sources.push_records import PushRecords
from syncline.controllers.sources.references import ReferenceReader, Requester
from syncline.controllers.sources.revision import RevisionSelector
from syncline.controllers.sources.validation import RevisionValidator, skip_clusters
from syncline.controllers.sources.webhook_secrets import WebhookSecrets
from syncline.controllers.state import SyncState
from syncline.controllers.targets.clusters import ClusterResolver, ConnectedClusters
from syncline.controllers.targets.keep_policy import KeepMarks, no_room_outcome
from syncline.controllers.targets.preview import Preview, merge
from syncline.controllers.targets.prune import KEEP_NOTHING, FinalizeResult, managed_objects
from syncline.controllers.targets.stages import DesiredAt as Wish
from syncline.controllers.targets.stages import apply_in_stages
from syncline.controllers.targets.visibility import Visibility
from syncline.controllers.targets.write_access import UNCHECKED, WriteAccess
from syncline.core.durations import seconds
from syncline.core.environments import environments_of
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


class ConfigSyncReconciler(BaseReconciler):
    """Reconciles all ConfigSyncs."""

    def __init__(
        self,
        kind: ConfigSyncKind,
        sites: ClusterResolver,
        shared: SharedServices,
        mirrors: Mirrors,
        builder: ManifestBuilder,
    ) -> None:
        super().__init__(kind, sites, shared)
        self.kind = kind
        self._tenancy = kind.tenancy
        self._references = ReferenceReader(shared.hub)
        self._sources = GitSources(self._references, mirrors, shared.quotas)
        self._preparer = RevisionSelector(
            self._sources, RevisionBuilder(shared.hub, self._references, builder, shared.quotas)
        )
        self._scopes = ScopeEditJudge(sites)
        self._validator = RevisionValidator(builder, self._writer)
        self._dependencies = DependencyGraph()
        self.checks = RepositoryChecks(self._sources)
        self.webhook_secrets = WebhookSecrets(shared.hub, self._references, self._get, self._requester)
        self._push_records = PushRecords(shared.hub.client, kind.resource)
        self._changes = ChangeFilter(mirrors, self.queue.add)

    def repository_changed(self, who: object) -> None:
        """Take the news that a repository which a sync follows has changed, failed or answers again."""
        match who:
            case (Key() as key, str(remote)):
                self._changes.on_push(key, remote)

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

    def _new_state(self, fan_out: FanOut) -> SyncState:
        return ConfigSyncState(fan_out)

    def _watches_of(self, sync: AnySync) -> tuple[Interest, Claim | None]:
        spec = spec_of(sync)
        self._dependencies.put(key_of(sync), spec)
        return spec_watches(sync, spec), None if spec.suspend or sync.deleting else self._claim(sync, spec)

    def _sync_changed(self, key: Key, old: AnySync | None, new: AnySync | None, by: str) -> None:
        super()._sync_changed(key, old, new, by)
        self.webhook_secrets.sync_changed(key, new)
        if new is None:
            self._dependencies.drop(key)
            self.checks.forget(key)
        elif old is None or _requested_by_user(old) != _requested_by_user(new):
            # Whoever creates or edits a sync, resumes it or asks for it now expects what is in Git now.
            self.checks.require(key)
        elif old.metadata.annotations.get(PUSHED_AT) != new.metadata.annotations.get(PUSHED_AT):
            self.checks.start(key)
        self._enqueue_dependents(key, old, new)

    def _enqueue_dependents(self, key: Key, old: AnySync | None, new: AnySync | None) -> None:
        new = self._trust.trusted(new) if new is not None else None
        if self._dependencies.is_news(old, new):
            for dependent in self._dependencies.of(key):
                self.queue.add(dependent)

    async def _reconcile_sync(self, sync: AnySync, state: SyncState) -> ReconcileResult:
        assert isinstance(state, ConfigSyncState)  # noqa: S101 - see _remember
        self._changes.forget(key_of(sync))
        try:
            spec = self._check_spec(sync)
            requester = self._requester(sync, spec)
            if not spec.dry_run:
                sync = await self._ensure_finalizer(sync, state)
        except SyncError as problem:
            self._sources.forget(key_of(sync))
            if problem.reason == NOT_ALLOWED:
                self._shared.claims.drop(sync.owner.ref)  # nobody waits for a sync that may not write
            return ReconcileResult(
                sync=sync, problem=problem, retry=problem.retry, again=problem.again, waits=problem.retry
            )
        environments = environments_of(spec, sync.metadata.namespace)
        with suppress(SyncError):  # each environment meets it again, and reports it
            await self._sources.follow(requester, environments)
        await self.checks.complete(requester.key)
        unready = self._unready_dependency(sync, spec)
        force_report = _must_report_revision(sync)
        requests = [
            BuildRequest(requester=requester, spec=spec, environment=environment, force_report=force_report)
            for environment in environments
        ]
        prepared = await asyncio.gather(*(self._preparer.prepare(one, sync, state, unready) for one in requests))
        revisions = [within_limits(prepared.unpack(), requester.limits) for prepared in prepared]
        lowered = self.kind.lower(sync, (one for prepared in revisions for one in prepared.desired()))
        connected = await self._sites.connect(lowered, self.triggers)
        revisions = [await self._validated(lowered, spec, connected, prepared, state) for prepared in revisions]
        lowered = self.kind.lower(sync, (one for prepared in revisions for one in prepared.desired()))
        lowered = structs.replace(lowered, limits=requester.limits)
        self._tenancy.confirm(requester.key.namespace, requester.limits)
        self._update_watches(lowered, spec, connected, revisions)
        self._count_targets(sync, connected, revisions)
        if spec.dry_run:
            return await self._dry_run(lowered, connected, revisions)
        edit = self._scopes.judge_built(lowered, connected, revisions)
        # The kinds follow, each before its first write: one that cannot be watched is never written.
        await self._record_inventory(structs.replace(lowered, sources=()), connected, edit.text)
        room = KeepMarks(lowered.sync)
        results = [
            await self._apply_environment(lowered, connected, prepared, state, edit, room=room)
            for prepared in revisions
        ]
        former = await self._prune_removed_environments(lowered, connected, results, state, edit)
        state.keep(lowered.parts)
        report = self._report(lowered, connected, results, former, edit, room=room)
        if _released_for_other_environment(report):
            self.queue.add(requester.key)
        self._changes.remember(requester.key, built_from(spec, report, self._sources.open_remotes(requester.key)))
        return report

    def _check_spec(self, sync: AnySync) -> ConfigSyncSpec:
        """Return the spec, or say why nothing is to be done for this sync at all."""
        spec = spec_of(sync)
        if spec.suspend:
            raise SyncError("Suspended", "spec.suspend is true: nothing is read or written", status="Unknown")
        namespace = sync.metadata.namespace
        self._tenancy.admit(namespace, configsync_request(spec, namespace))
        self.kind.check_identity(sync, spec)
        self._shared.quotas.admit(self.kind.name, sync)
        return spec

    def _requester(self, sync: AnySync, spec: ConfigSyncSpec) -> Requester:
        return Requester(
            key=key_of(sync),
            user=self._tenancy.user(sync.metadata.namespace, spec.service_account_name),
            interval=self._tenancy.interval(spec.refresh_interval),
            limits=self._tenancy.limits(sync.metadata.namespace),
        )

    def _unready_dependency(self, sync: AnySync, spec: ConfigSyncSpec) -> SyncError | None:
        return self._dependencies.problem(key_of(sync), spec, self._get)

    def _count_targets(
        self,
        sync: AnySync,
        connected: ConnectedClusters,
        revisions: Sequence[PreparedRevision],
        *,
        only_look: bool = False,
    ) -> None:
        """Raise `OverQuota` where the sync would have more targets than a TenantPolicy allows."""
        if all(prepared.artifact is None for prepared in revisions):
            return
        wanted = sum(
            len(prepared.desired()) * len(as_environment(connected, prepared.environment.name).sites)
            for prepared in revisions
        )
        whole = all(prepared.artifact is not None for prepared in revisions)
        quotas = self._shared.quotas
        count = quotas.check_targets if only_look or spec_of(sync).dry_run else quotas.take_targets
        count(self.kind.name, sync, wanted, whole=whole)

    async def _record_inventory(
        self, lowered: LoweredSpec, connected: ConnectedClusters, scope: str | None = None
    ) -> None:
        """Write down the environments too, before the first write, so that none is ever lost."""
        latest = self._latest(lowered.sync)
        status = latest.status
        assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
        known = {entry.name for entry in status.environments}
        new = [TrackStatus(name=part) for part in lowered.parts if part and part not in known]
        if new:
            named = structs.replace(status, environments=[*status.environments, *new])
            await self._status.record(latest, named)
        await super()._record_inventory(lowered, connected, scope)

    async def _validated(
        self,
        lowered: LoweredSpec,
        spec: ConfigSyncSpec,
        connected: ConnectedClusters,
        prepared: PreparedRevision,
        state: ConfigSyncState,
    ) -> PreparedRevision:
        """Return what is to be applied of an environment, now that all of it was checked."""
        sites = as_environment(connected, prepared.environment.name).sites
        return await self._validator.validate(lowered, spec, prepared, sites, state.unit(prepared.environment.name))

    def _update_watches(
        self,
        lowered: LoweredSpec,
        spec: ConfigSyncSpec,
        connected: ConnectedClusters,
        revisions: Sequence[PreparedRevision],
    ) -> None:
        """Enqueue for what was found: the objects themselves, their namespaces, other clusters."""
        basic = spec_watches(lowered.sync, spec)
        wants: list[Want] = []
        namespaces: set[str] = set()
        for prepared in revisions:
            for desired in prepared.desired():
                target = desired.target
                namespaces |= {target.namespace} if target.namespace else set()
                scope = Scope(names=frozenset({target.namespace})) if target.namespace else None
                wants += [Want((site.cluster.name, target.kind, target.name), scope, _GIT) for site in connected.sites]
        names = Scope(names=frozenset(namespaces))
        interest = structs.replace(
            basic,
            names=frozenset(want.name for want in wants),
            scopes=tuple((site.cluster.name, names) for site in connected.sites),
            clusters=connected.clusters,
        )
        self.triggers.set_watches(key_of(lowered.sync), interest, self._claim(lowered.sync, spec, tuple(wants)))

    def _claim(self, sync: AnySync, spec: ConfigSyncSpec, wants: tuple[Want, ...] = ()) -> Claim | None:
        """Return what a sync lays claim to, which is known only once it was built; to nothing without an identity."""
        try:
            user = self._tenancy.user(sync.metadata.namespace, spec.service_account_name)
        except SyncError:
            return None
        created = sync.metadata.creation_timestamp
        return Claim(ref=sync.owner.ref, created=created, wants=wants, user=user, dry_run=spec.dry_run)

    async def _apply_environment(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        prepared: PreparedRevision,
        state: ConfigSyncState,
        edit: ScopeEdit,
        *,
        room: KeepMarks,
    ) -> ApplyResult:
        """Write what an environment wants, remove what it no longer wants, and look how it does."""
        spec = spec_of(lowered.sync)
        known = state.unit(prepared.environment.name)
        part = as_environment(connected, prepared.environment.name, removed_from_spec(lowered))
        if prepared.artifact is None:
            soon = prepared.problem.again if prepared.problem is not None else None
            return ApplyResult(
                prepared=prepared, problem=prepared.problem, again=soon, waits=_is_transient(prepared.problem)
            )
        sites, left_out = skip_clusters(prepared, part.sites)
        part = structs.replace(part, sites=sites)
        outcomes = [*await self._write(lowered, part, prepared, known, room), *left_out]
        removed: list[Outcome] = []
        held: SyncError | None = None
        again: float | None = None
        later: float | None = None
        done = prepared.certain and all(outcome.state in _APPLIED for outcome in outcomes)
        if done:
            self._tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
            pruned = await self._pruner.prune(lowered, known, part, keep_set_of(part, prepared), edit.requested)
            removed, held, again, later = list(pruned.outcomes), pruned.held, pruned.again, pruned.look_again
        well = check_health(prepared, part.sites, outcomes, known, seconds(spec.timeout)) if spec.wait else None
        if well is not None:
            if well.state == "Failed" and known.health != "Failed" and spec.failure_policy == "Rollback":
                self.queue.add(key_of(lowered.sync))
            known.health = well.state
            known.failed = prepared.artifact.inputs if well.state == "Failed" else known.failed
        problem = held or prepared.problem or (well.problem if well is not None else None)
        return ApplyResult(
            prepared=prepared,
            outcomes=(*outcomes, *removed),
            health=well.state if well is not None else "Pending",
            problem=problem,
            again=soonest(again, later, well.again if well else None, problem.again if problem else None),
            waits=again is not None or (well is not None and well.state == "Pending") or _is_transient(problem),
            scope_done=done and held is None and again is None and not any(_is_unfinished(one) for one in removed),
        )

    async def _record_kinds(self, lowered: LoweredSpec, part: ConnectedClusters, orders: Sequence[ApplyJob]) -> None:
        """Write down the kinds that are about to be written, and in which clusters."""
        kinds: dict[int, set[str]] = {}
        for site, target, _ in orders:
            kinds.setdefault(id(site), set()).add(target.kind)
        for alike in {frozenset(found) for found in kinds.values()}:  # mostly one: every cluster takes the same kinds
            sites = tuple(site for site in part.sites if frozenset(kinds.get(id(site), ())) == alike)
            sources = tuple(ref for ref in lowered.sources if ref.kind_name in alike)
            about = structs.replace(lowered, sources=sources, destinations=tuple(site.destination for site in sites))
            await super()._record_inventory(about, structs.replace(part, sites=sites, former=(), renamed=()))

    async def _write(
        self,
        lowered: LoweredSpec,
        part: ConnectedClusters,
        prepared: PreparedRevision,
        known: UnitState,
        room: KeepMarks,
    ) -> list[Outcome]:
        desired, revision = prepared.desired(), prepared.revision or ""
        writers = {id(site): self._writer(site) for site in part.sites}
        total = len(desired) * len(part.sites)
        before: list[Outcome] = []

        async def progress(so_far: list[Outcome]) -> None:
            await self._status.progress(self._latest(lowered.sync), [*before, *so_far], total, revision)

        visibility = self._visibility(lowered)

        async def write(stage: Sequence[Wish]) -> list[Outcome]:
            closed: list[Outcome] = []
            orders: list[ApplyJob] = []
            for wish in stage:
                target, writer = wish.desired.target, writers[id(wish.site)]
                outcome = _ignored_namespace(wish, room)
                if outcome is None:
                    job = partial(writer.settle, wish.desired, kept=room.has(wish.site, target))
                    orders.append((wish.site, target, job))
                elif outcome.state == "Skipped" and await visibility.is_hidden(target):
                    orders.append((wish.site, target, partial(writer.ask_to_create, wish.desired)))
                else:
                    closed.append(outcome)
            await self._record_kinds(lowered, part, orders)
            written = await self._apply_all(lowered, known, orders, progress)
            before.extend(written)
            return [*closed, *written]

        is_wanted = partial(self.queue.is_wanted, key_of(lowered.sync))
        return await apply_in_stages(part.sites, desired, write, is_wanted)

    async def _prune_removed_environments(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        results: Sequence[ApplyResult],
        state: ConfigSyncState,
        edit: ScopeEdit,
    ) -> RemovedEnvironments:
        """Remove what belongs to environments that left the spec, once the others have taken over what they want."""
        departed = RemovedEnvironments()
        for name in removed_from_spec(lowered):
            part = as_environment(connected, name)
            if not has_objects(part):
                continue
            if not all(map(_is_applied, results)):
                departed = structs.replace(departed, names=(*departed.names, *([name] if name else [])), done=False)
                continue
            self._tenancy.confirm(lowered.sync.metadata.namespace, lowered.limits)
            pruned = await self._pruner.prune(lowered, state.unit(name), part, KEEP_NOTHING, edit.requested)
            undone = pruned.held is not None or pruned.again is not None or any(map(_is_unfinished, pruned.outcomes))
            departed = RemovedEnvironments(
                names=(*departed.names, *([name] if name and has_objects(part) else [])),
                outcomes=(*departed.outcomes, *pruned.outcomes),
                problem=departed.problem or pruned.held,
                again=soonest(departed.again, pruned.again, pruned.look_again),
                done=departed.done and not undone,
            )
        return departed

    def _report(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        results: Sequence[ApplyResult],
        former: RemovedEnvironments,
        edit: ScopeEdit,
        *,
        room: KeepMarks,
    ) -> ReconcileResult:
        outcomes = [outcome for one in results for outcome in one.outcomes]
        outcomes += [*connected.outcomes, *former.outcomes]
        looked_at = any(one.prepared.artifact is not None for one in results)
        problem = next((one.problem for one in results if one.problem is not None), former.problem)
        if problem is None and all(outcome.state in _PROGRESSING for outcome in outcomes):
            problem = _rollback_condition(results)
        done = all(one.scope_done for one in results) and not connected.incomplete and former.done
        retry = any(outcome.retry for outcome in outcomes) or any(one.problem and one.problem.retry for one in results)
        return ConfigSyncResult(
            sync=lowered.sync,
            outcomes=outcomes if looked_at else None,
            problem=problem,
            revision=_revision(results),
            scope=edit.after(one for name in lowered.parts for one in managed_objects(as_environment(connected, name))),
            done=done,
            kept=room.marks(connected.sites, outcomes, (), partial_view=connected.incomplete or not looked_at),
            retry=retry,
            again=soonest(
                connected.again,
                former.again,
                RIGHTS_INTERVAL if lowered.user is not None else None,
                *(one.again for one in results),
            ),
            waits=any(one.waits for one in results),
            warnings=connected.warnings,
            unmatched=connected.unmatched,
            results=tuple(results),
            former=former.names,
        )

    async def _dry_run(
        self, lowered: LoweredSpec, connected: ConnectedClusters, revisions: Sequence[PreparedRevision]
    ) -> ReconcileResult:
        """Say what would be written, and write nothing."""
        seen = await self._plan(lowered, connected, revisions, visibility=self._visibility(lowered))
        lines, problem = seen.lines(), seen.problem
        if problem is None and lines:
            problem = SyncError("DryRun", f"{seen.changes} changes would be made: see status.plan; set dryRun to false")
        results = tuple(ApplyResult(prepared=prepared) for prepared in revisions)
        return ConfigSyncResult(sync=lowered.sync, problem=problem, plan=tuple(lines), results=results)

    async def preview(self, wire: SyncWire, access: WriteAccess = UNCHECKED) -> Preview:
        """Plan a reconcile without taking it; the sync need not exist. What `access` refuses is reported as failed."""
        sync = self._trust.trusted(self.kind.read(wire))
        state = ConfigSyncState(FanOut(lambda: None))
        try:
            spec = self._check_spec(sync)
            requester = self._requester(sync, spec)
        except SyncError as problem:
            return Preview(problem=problem)
        revisions = [
            await self._preparer.prepare(
                BuildRequest(requester=requester, spec=spec, environment=environment), sync, state, None
            )
            for environment in environments_of(spec, sync.metadata.namespace)
        ]
        revisions = [within_limits(prepared, requester.limits) for prepared in revisions]
        lowered = self.kind.lower(sync, (one for prepared in revisions for one in prepared.desired()))
        connected = await self._sites.connect(lowered, self.triggers)
        revisions = [await self._validated(lowered, spec, connected, prepared, state) for prepared in revisions]
        try:
            self._count_targets(sync, connected, revisions, only_look=True)
        except SyncError as problem:
            return Preview(problem=problem)
        return await self._plan(lowered, connected, revisions, access)

    async def _plan(
        self,
        lowered: LoweredSpec,
        connected: ConnectedClusters,
        revisions: Sequence[PreparedRevision],
        access: WriteAccess = UNCHECKED,
        visibility: Visibility | None = None,
    ) -> Preview:
        edit = self._scopes.judge_built(lowered, connected, revisions)
        planner = EnvironmentPlanner(self._writer, self._pruner, access, edit.requested, visibility)
        left = removed_from_spec(lowered)
        previews = [
            await planner.plan(lowered, as_environment(connected, prepared.environment.name, left), prepared)
            for prepared in revisions
        ]
        return merge([Preview(skipped=connected.outcomes), *previews])

    def _visibility(self, lowered: LoweredSpec) -> Visibility:
        return Visibility(lowered, self._hub, self._shared.claims.access)

    async def _finalize(self, sync: AnySync, state: SyncState) -> ReconcileResult | None:
        """Release everything as the policy says. Never traps the sync."""
        assert isinstance(state, ConfigSyncState)  # noqa: S101 - see _remember
        self._changes.forget(key_of(sync))
        lowered: LoweredSpec | None = None
        try:
            lowered = self.kind.lower(sync)
        except SyncError:
            lowered = None
        connected = (
            await self._sites.connect(lowered, self.triggers, former=True)
            if lowered is not None
            else ConnectedClusters()
        )
        endings: list[FinalizeResult] = []
        for name in lowered.parts if lowered is not None else ("",):
            part = as_environment(connected, name)
            endings.append(await self._pruner.finalize(sync, lowered, state.unit(name), part))
        outcomes = [outcome for ending in endings for outcome in ending.outcomes]
        for warning in dict.fromkeys(ending.warning for ending in endings if ending.warning):
            await self._status.warn(sync, "CopiesLeft", warning)
        self._status.report_finalized(outcomes)
        problem = next((ending.problem for ending in endings if ending.problem is not None), None)
        if problem is not None:
            failed = [outcome for outcome in outcomes if outcome.state not in _PROGRESSING]
            again = soonest(connected.again, problem.again)
            return ReconcileResult(sync=sync, problem=problem, outcomes=failed, retry=True, again=again)
        return None

    def _drop_state(self, key: Key) -> None:
        super()._drop_state(key)
        self._sources.forget(key)
        self._changes.forget(key)


def _ignored_namespace(wish: Wish, room: KeepMarks) -> Outcome | None:
    """Say of a namespace that keeps every sync out that it does, and of a place that cannot be remembered."""
    target = wish.desired.target
    namespace = wish.site.cluster.namespace(target.namespace) if target.namespace else None
    if namespace is None or not namespace.ignored:
        return None if room.take(wish.site, target) else no_room_outcome(target)
    message = f"namespace {target.namespace!r} is labelled syncline.dev/ignore: no sync writes there"
    return Outcome(target=target, state="Skipped", reason="NamespaceIgnored", message=message)


def _requested_by_user(sync: AnySync) -> tuple[object, ...]:
    """Return what its user asks for: a spec, or a look now."""
    return sync.metadata.uid, sync.metadata.generation, sync.metadata.annotations.get(REQUESTED_AT)


def _must_report_revision(sync: AnySync) -> bool:
    """Whether the status is written anyway: then it tells the newest revision though nothing of it has changed."""
    return is_reconcile_requested(sync) or sync.status.observed_generation != sync.metadata.generation


def _is_transient(problem: SyncError | None) -> bool:
    """Whether a problem is one that is expected to pass by itself."""
    return problem is not None and (
        problem.retry or problem.again is not None or problem.reason == DEPENDENCY_NOT_READY
    )


def _released_for_other_environment(report: ReconcileResult) -> bool:
    """Whether one part of the sync has release something while another could not have what it wants."""
    outcomes = report.outcomes or ()
    return any(one.gone and one.written is not None for one in outcomes) and any(
        one.reason == "OwnedByOther" for one in outcomes
    )


def _is_applied(one: ApplyResult) -> bool:
    """Whether all that an environment wants now was written, or is somebody else's."""
    return one.prepared.certain and all(outcome.state in _APPLIED or outcome.gone for outcome in one.outcomes)


def _is_unfinished(removal: Outcome) -> bool:
    return removal.retry or removal.state == "Pending"


def _revision(results: Sequence[ApplyResult]) -> str | None:
    if len(results) == 1 and not results[0].prepared.environment.name:
        return results[0].prepared.revision
    return None


def _rollback_condition(results: Sequence[ApplyResult]) -> SyncError | None:
    """Say of a sync that all is well with that it is not where the source is."""
    for one in results:
        decision = one.prepared.decision
        if decision is not None and decision.reason == "RolledBackOnFailure":
            return SyncError(decision.reason, decision.why)
        if decision is not None and decision.reason == "RolledBack":
            return SyncError(decision.reason, decision.why, status="True")
    return None
