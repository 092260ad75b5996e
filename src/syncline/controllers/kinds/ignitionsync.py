"""IgnitionSync: resolves the ref of a repository, decides which gateway gets which commit, and reports its gateways.

    admit -> finalizer -> resolve the ref -> observe gateways -> decide the rollout -> metadata -> status

It writes no files, and no objects by plan. Its decision is in its status, and the depot of every replica serves it.
"""

import asyncio
import time
from datetime import UTC, datetime

import structlog
from msgspec import Struct, structs

from syncline.api import ignitionsync as api
from syncline.api.common import GROUP, VERSION, ObjectMeta
from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.api.ignitionsync import IgnitionSyncSpec, is_paused
from syncline.controllers.base import BaseReconciler, SharedServices
from syncline.controllers.errors import SyncError, refuse_suspended
from syncline.controllers.gateways.cleanup import delete_config_maps
from syncline.controllers.gateways.fleet import DepotAccess, GatewayFleet
from syncline.controllers.gateways.fleet_conditions import FleetSituation, conditions_of, problem_of
from syncline.controllers.gateways.metadata import FleetMetadata, metadata_target
from syncline.controllers.gateways.metrics import FleetMetrics
from syncline.controllers.gateways.named_secrets import missing_secret, named_secrets
from syncline.controllers.gateways.observer import ObservedFleet
from syncline.controllers.gateways.owned_config_maps import NotOurs
from syncline.controllers.gateways.plans import GatewaySync, commit_of
from syncline.controllers.gateways.pods import GatewayPod
from syncline.controllers.gateways.repositories import UNPOLLED
from syncline.controllers.lowered import LoweredSpec, key_of, spec_of
from syncline.controllers.quotas import Quotas
from syncline.controllers.requeue import Requeue, soonest
from syncline.controllers.result import ReconcileResult, failed_result
from syncline.controllers.sources.environments import is_reconcile_requested
from syncline.controllers.sources.references import Requester
from syncline.controllers.state import SyncState
from syncline.controllers.status.ignitionsync import extend_ignitionsync
from syncline.controllers.sync_kind import SyncKind
from syncline.controllers.targets.prune import FINALIZE_PATIENCE, is_abandoned
from syncline.controllers.tenancy import Tenancy
from syncline.core.gateway_refs import RefChoice, choose_ref
from syncline.core.gateway_rollout import RolloutState, decide
from syncline.core.gateway_serving import Serving, rollout_state, rollout_status, serve_commit
from syncline.core.gateway_status import FleetReport, discovered, outcomes_of, progress_of
from syncline.core.gateway_target import strategy_of, target_commit
from syncline.core.objects import Target
from syncline.core.tenancy import TenantRequest
from syncline.core.tenant_requests import ignitionsync_request
from syncline.engine.claims import Claim
from syncline.engine.sync_object import RawSync
from syncline.engine.watch_index import WatchSet
from syncline.git import CommitTree, Mirrors, Remote
from syncline.kube.cache import Key
from syncline.kube.errors import ApiError, KubeError
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)
RIGHTS_INTERVAL = 300.0
"""The rights of a service account can change without an event."""
WATCH_PATIENCE = 10.0
"""The seconds that a reconcile waits for the first list of pods and reports."""
_POLL = 0.05

Result = ReconcileResult[IgnitionSyncSpec, IgnitionSyncStatus]

log = structlog.get_logger(__name__)


class IgnitionSyncKind(SyncKind[IgnitionSyncSpec, IgnitionSyncStatus]):
    """The kind, configured by the flags of the operator."""

    def __init__(self, tenancy: Tenancy) -> None:
        super().__init__(tenancy, RESOURCE, IgnitionSyncSpec, IgnitionSyncStatus)

    def request(self, spec: IgnitionSyncSpec, namespace: str) -> TenantRequest:  # noqa: ARG002 - it has no other
        """Return the request of a sync to the TenantPolicies."""
        return ignitionsync_request(spec)

    def extend_status(self, report: Result, status: IgnitionSyncStatus, now: str) -> IgnitionSyncStatus:
        """Add the gateways, the rollout and the other status fields of this kind."""
        return extend_ignitionsync(report, status, now)

    def lower(self, sync: GatewaySync) -> LoweredSpec[IgnitionSyncSpec, IgnitionSyncStatus]:
        """Lower a spec. It has no destinations, because it writes no objects by plan."""
        spec, namespace = spec_of(sync), sync.metadata.namespace
        return LoweredSpec(
            sync=sync,
            destinations=(),
            user=self.tenancy.user(namespace, spec.service_account_name),
            suspended=is_paused(spec),
        )

    def admit(self, sync: GatewaySync) -> LoweredSpec[IgnitionSyncSpec, IgnitionSyncStatus]:
        """Lower the spec of a sync for a reconcile. Raises `SyncError` if the sync is not admitted."""
        spec = spec_of(sync)
        refuse_suspended(suspended=spec.paused and not spec.suspend, field="paused")
        return super().admit(sync)

    def watches(self, sync: GatewaySync) -> tuple[WatchSet, Claim | None]:
        """Return the watches of a sync: its Secrets, and its metadata ConfigMap."""
        spec, meta = spec_of(sync), sync.metadata
        secrets = {Target(meta.namespace, name, "Secret") for name, _ in named_secrets(spec)}
        return WatchSet(objects=frozenset({*secrets, metadata_target(meta.namespace, meta.name)})), None

    def requester(self, sync: GatewaySync) -> Requester:
        """Return the identity with which a sync reads and writes, and its interval. Raises `SyncError`."""
        spec, namespace = spec_of(sync), sync.metadata.namespace
        polling = spec.polling
        return Requester(
            kind=self.name,
            key=key_of(sync),
            user=self.tenancy.user(namespace, spec.service_account_name),
            interval=self.tenancy.interval(polling.interval) if polling.enabled else UNPOLLED,
            limits=self.tenancy.limits(namespace),
        )


class ResolvedRef(Struct, frozen=True, kw_only=True):
    """The result of resolving a ref."""

    choice: RefChoice
    remote: Remote | None = None
    commit: str = ""
    """Empty if it could not be resolved."""
    error: SyncError | None = None


class IgnitionSyncReconciler(BaseReconciler[IgnitionSyncSpec, IgnitionSyncStatus]):
    """Reconciles all IgnitionSyncs."""

    def __init__(
        self,
        kind: IgnitionSyncKind,
        shared: SharedServices,
        mirrors: Mirrors,
        depot: DepotAccess | None = None,
        *,
        takes_webhooks: bool = False,
        global_secret: bool = False,
    ) -> None:
        """`takes_webhooks`: whether webhooks are received at all; `global_secret`: whether one secret verifies all."""
        super().__init__(kind, shared)
        self.kind = kind
        self._takes_webhooks = takes_webhooks
        self._global_secret = global_secret
        self._metrics = FleetMetrics()
        self._quotas: Quotas = shared.quotas
        self.fleet = GatewayFleet(
            self, shared.hub, mirrors, shared.quotas, resource=kind.resource, depot=depot or DepotAccess()
        )

    def get(self, key: Key) -> GatewaySync | None:
        """Return a sync with its trusted status."""
        return self._get(key)

    def is_followed(self, namespace: str) -> bool:
        """Whether the syncs of a namespace are reconciled by this operator."""
        return self._reflector(namespace) is not None

    def read(self, wire: RawSync) -> GatewaySync:
        """Decode a sync."""
        return self.kind.read(wire)

    def requester(self, sync: GatewaySync) -> Requester:
        """Return the identity with which a sync reads and writes. Raises `SyncError`."""
        return self.kind.requester(sync)

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Reconcile a sync soon, if there is one."""
        if (reflector := self._reflector(key.namespace)) is not None and reflector.get(key) is not None:
            self.queue.add(key, delay=delay)

    async def emit_event(self, sync: ObjectMeta, reason: str, message: str, *, warning: bool = False) -> None:
        """Send an event about a sync, from any replica."""
        await self._emit(sync, "Warning" if warning else "Normal", reason, message, "Commit")

    async def _reconcile_sync(self, sync: GatewaySync, state: SyncState) -> Result:
        key = key_of(sync)
        try:
            requester = self._admit(sync)
            sync = await self._ensure_finalizer(sync, state)
        except SyncError as error:
            self.fleet.forget(key)
            return failed_result(sync, error)
        resolved = await self._resolve(sync, requester)
        if resolved.choice.ended:
            await self.fleet.requests.end(sync)
        try:
            await self._wait_for_watches(key.namespace)
        except SyncError as error:
            return self._unobserved(sync, resolved, error)
        return await self._carry_out(sync, requester, resolved)

    def _admit(self, sync: GatewaySync) -> Requester:
        """Return the identity of an admitted sync. Raises `SyncError` if the sync is not admitted."""
        if sync.spec is None:
            raise SyncError("InvalidSpec", sync.error, stalled=True)
        self.kind.admit(sync)
        self._quotas.admit(self.kind.name, sync)
        pods = self.fleet.pods.of_sync(key_of(sync))
        self._quotas.take_targets(self.kind.name, sync, sum(pod.running for pod in pods))
        return self.kind.requester(sync)

    async def _resolve(self, sync: GatewaySync, requester: Requester) -> ResolvedRef:
        """Find the commit of the ref, and fetch it."""
        spec, key = spec_of(sync), requester.key
        choice = choose_ref(spec.git.ref, sync.metadata.annotations, sync.status.requested_ref)
        repositories = self.fleet.repositories
        try:
            remote = await repositories.remote(requester, spec.git)
        except SyncError as error:
            repositories.forget(key)
            return ResolvedRef(choice=choice, error=error)
        try:
            repositories.follow(requester, remote, choice.ref)
            await self.fleet.checks.complete(key)
            commit = await repositories.resolve(remote, choice.ref)
            await repositories.tree(requester, remote, commit)
        except SyncError as error:
            return ResolvedRef(choice=choice, remote=remote, error=error)
        return ResolvedRef(choice=choice, remote=remote, commit=commit.sha)

    async def _wait_for_watches(self, namespace: str) -> None:
        """Wait for the first list of pods and reports. Raises `SyncError` if they cannot be listed.

        A list that failed must not look like a namespace without gateways.
        """
        deadline = time.monotonic() + WATCH_PATIENCE
        for what, watches in (("pods", self.fleet.pods.watches), ("ConfigMaps", self.fleet.reports.watches)):
            while problem := watches.problem(namespace):
                reflector = watches.reflector(namespace)
                status = reflector.status() if reflector is not None else None
                if (status is not None and (status.refused or status.full)) or time.monotonic() > deadline:
                    message = f"the {what} of namespace {namespace} are not known: {problem}"
                    raise SyncError("GatewaysUnknown", message, status="Unknown", retry=True)
                await asyncio.sleep(_POLL)

    def _unobserved(self, sync: GatewaySync, resolved: ResolvedRef, error: SyncError) -> Result:
        """Report that the gateways are not known. They are served as before."""
        status, generation = sync.status, sync.metadata.generation
        rollout = rollout_status(rollout_state(status.rollout), generation)
        fleet = FleetReport(
            ref=resolved.choice.ref,
            commit=resolved.commit,
            requested=resolved.choice.requested,
            rollout=rollout,
            rollback=status.rollback,
        )
        return structs.replace(failed_result(sync, error), fleet=fleet)

    async def _carry_out(self, sync: GatewaySync, requester: Requester, resolved: ResolvedRef) -> Result:
        """Decide what each gateway gets, and report all of them."""
        spec, status, now = spec_of(sync), sync.status, time.time()
        pods = self.fleet.pods.of_sync(requester.key)
        target = target_commit(spec, status, resolved.commit, _text(now))
        before = rollout_state(status.rollout)
        observed = await self._observe_gateways(sync, requester, resolved, pods, before)
        decision = decide(
            strategy_of(spec),
            before,
            target.commit or before.commit,
            [progress_of(one) for one in observed.gateways],
            now,
            retry=is_reconcile_requested(sync) or target.rollback is not None,
        )
        if decision.state != before:
            observed = await self._observe_gateways(sync, requester, resolved, pods, decision.state)
        situation = FleetSituation(
            observed=observed.gateways,
            gateways=tuple(discovered(one, decision.state.commit) for one in observed.gateways if one.running),
            decision=decision,
            target=target,
            resolution=resolved.error,
            ref=resolved.choice.ref,
            commit=resolved.commit,
            missing_secret=await missing_secret(self._hub, requester, spec),
            metadata=await self._write_metadata(sync, requester, resolved, observed, decision.state),
            webhook=self._webhook_state(spec, requester.key),
            depot=bool(self.fleet.depot.url()),
        )
        return self._result(sync, requester, resolved, observed, situation)

    async def _observe_gateways(
        self,
        sync: GatewaySync,
        requester: Requester,
        resolved: ResolvedRef,
        pods: list[GatewayPod],
        state: RolloutState,
    ) -> ObservedFleet:
        """Observe the gateways as they are served in a state of the rollout."""
        ref = resolved.choice.ref
        latest = structs.replace(sync.status, last_sync_ref=ref, last_sync_commit=resolved.commit)

        async def read_tree(served: Serving) -> CommitTree:
            if resolved.remote is None:
                raise resolved.error or SyncError("RefNotResolved", "the repository is not known")
            return await self.fleet.repositories.tree(requester, resolved.remote, commit_of(latest, served))

        return await self.fleet.observer.observe(
            sync, pods, lambda pod: serve_commit(state, ref, pod), read_tree, time.time()
        )

    async def _write_metadata(
        self,
        sync: GatewaySync,
        requester: Requester,
        resolved: ResolvedRef,
        observed: ObservedFleet,
        state: RolloutState,
    ) -> SyncError | None:
        """Write the metadata ConfigMap; return the cause of a failure."""
        depot = self.fleet.depot
        metadata = FleetMetadata(
            ref=resolved.choice.ref,
            commit=state.commit,
            profiles={one.pod: one.profile for one in observed.gateways},
            depot_url=depot.url(),
            depot_ca=depot.ca(),
        )
        try:
            await self.fleet.metadata.write(sync, requester, metadata)
        except NotOurs as error:
            return SyncError("NotOurs", str(error))
        except ApiError as error:
            return SyncError("MetadataNotWritten", f"the metadata ConfigMap cannot be written: {error}", retry=True)
        return None

    def _webhook_state(self, spec: IgnitionSyncSpec, key: Key) -> tuple[bool, bool, bool]:
        """Return whether webhooks are received, whether this sync accepts them, and whether a secret verifies them."""
        proven = self._global_secret or bool(self.fleet.webhook_secrets.of(key))
        return self._takes_webhooks, spec.webhook.enabled, proven

    def _result(
        self,
        sync: GatewaySync,
        requester: Requester,
        resolved: ResolvedRef,
        observed: ObservedFleet,
        situation: FleetSituation,
    ) -> Result:
        spec, decision = spec_of(sync), situation.decision
        problem = problem_of(situation)
        fleet = FleetReport(
            ref=resolved.choice.ref,
            commit=resolved.commit,
            requested=resolved.choice.requested,
            rollout=rollout_status(decision.state, sync.metadata.generation),
            rollback=situation.target.rollback,
            gateways=situation.gateways,
            findings=conditions_of(spec, situation),
            completed=decision.event == "RolloutCompleted",
            profiles=len(spec.sync.profiles),
            event=decision.event,
            message=decision.message,
        )
        after = soonest(decision.wait, observed.silence_in, RIGHTS_INTERVAL if requester.user is not None else None)
        requeue = Requeue(after=after)
        if problem is not None:
            waits = problem.reason in ("SyncInProgress", "NoGatewaysDiscovered")
            requeue |= Requeue(
                after=problem.requeue.after, backoff=problem.requeue.backoff, pending=waits or problem.requeue.backoff
            )
        return ReconcileResult(
            sync=sync,
            outcomes=outcomes_of(situation.gateways),
            problem=problem,
            revision=decision.state.commit or None,
            requeue=requeue,
            fleet=fleet,
            complete=problem is None,
        )

    async def _finalize(self, sync: GatewaySync, state: SyncState) -> Result | None:
        """Delete the ConfigMaps of a sync; the files of its gateways stay. A failure blocks only for a limited time."""
        self.fleet.forget(key_of(sync))
        try:
            user = self.kind.requester(sync).user if sync.spec is not None else None
            await delete_config_maps(self._hub, user, sync.metadata)
        except (SyncError, KubeError) as error:
            state.finalizing_since = state.finalizing_since or time.monotonic()
            left = state.finalizing_since + FINALIZE_PATIENCE - time.monotonic()
            if left > 0 and not is_abandoned(sync):
                problem = error if isinstance(error, SyncError) else SyncError("CleanupFailed", str(error))
                return ReconcileResult(sync=sync, problem=problem, requeue=Requeue(backoff=True, pending=True))
            await self._status.warn(sync, "CopiesLeft", f"ConfigMaps of the sync were left: {error}")
        return None

    async def _after(self, sync: GatewaySync, result: Result) -> None:
        """Update the metrics, and send events about the number of gateways and the steps of a rollout."""
        fleet = result.fleet
        if fleet is None or fleet.gateways is None:
            return
        self._metrics.update(sync.metadata.namespace, sync.metadata.name, fleet, time.time())
        before = sync.status.targets.desired if sync.status.targets is not None else 0
        if before != len(fleet.gateways):
            count = len(fleet.gateways)
            message = f"{count} {'gateway runs' if count == 1 else 'gateways run'}; before, {before} did"
            await self._emit(sync.metadata, "Normal", "GatewaysDiscovered", message, "Sync")
        if fleet.event in ("RolloutRolledBack", "RolloutFailed"):
            await self._emit(sync.metadata, "Warning", fleet.event, fleet.message, "Rollout")
        elif fleet.event:
            await self._emit(sync.metadata, "Normal", fleet.event, fleet.message, "Rollout")

    def _watches_of(self, sync: GatewaySync) -> tuple[WatchSet, Claim | None]:
        return self.kind.watches(sync)

    def _sync_changed(self, key: Key, old: GatewaySync | None, new: GatewaySync | None, by: str) -> None:
        super()._sync_changed(key, old, new, by)
        self.fleet.sync_changed(key, old, new)

    def _drop_state(self, key: Key) -> None:
        super()._drop_state(key)
        self._metrics.forget(key.namespace, key.name)


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
