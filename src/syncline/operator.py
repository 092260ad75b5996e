"""The operator: one process, with all its parts started in order and stopped in order."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Hashable, Sequence
from functools import partial

import structlog
from msgspec import structs

from syncline.agent_services import AgentServices
from syncline.api.configsync import KIND as CONFIG_SYNC
from syncline.api.ignitionsync import KIND as IGNITION_SYNC
from syncline.api.synctarget import PLURAL as SYNC_TARGETS
from syncline.controllers.author_check import AuthorCheck
from syncline.controllers.kinds.synctarget import SyncTargetReconciler
from syncline.controllers.kinds.tenantpolicy import TenantPolicyReconciler
from syncline.controllers.mark_renewal import MarkRenewal
from syncline.controllers.object_reconciler import ObjectReconciler
from syncline.controllers.targets.fleet_clusters import FleetClusters
from syncline.controllers.targets.member_clusters import user_key
from syncline.controllers.targets.synced_resources import SyncedResourceTracker
from syncline.controllers.targets.synctargets import SyncTargetInformer
from syncline.controllers.tenant_policies import TenantPolicyInformer
from syncline.core.objects import Observed, Target
from syncline.core.pushes import Push
from syncline.engine.cluster import Cluster
from syncline.engine.digestkey import ensure_digest_key
from syncline.engine.installation import Installation
from syncline.engine.kind_informer import MetaWire
from syncline.engine.metrics_guard import metrics_guard
from syncline.engine.own_rights import OwnRights
from syncline.engine.readiness import Readiness
from syncline.engine.selfcheck import Shipped
from syncline.fleet import Fleet
from syncline.kube.account_token import AccountToken
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.credentials import Credential
from syncline.kube.errors import KubeError
from syncline.kube.events import EventRecorder
from syncline.kube.lease import LeaderElection
from syncline.kube.queue import run_workers
from syncline.kube.reflector import AnyReflector, Reflector
from syncline.kube.resources import CRDS, SECRETS
from syncline.receiver import Receiver
from syncline.reconcilers import BuildTools, new_reconcilers
from syncline.render.transform_pool import TransformPool
from syncline.settings import Settings
from syncline.telemetry import Guard, serve

log = structlog.get_logger(__name__)

LEASE = "syncline"
ACCOUNT = "syncline"
WORKERS = 16
_SWITCH_SECONDS = 0.001
# Kubernetes gives a pod 30 s: for the reconciles in progress, then for their writes, then for the lease.
FINISH_GRACE = 12.0
WRITES_GRACE = 6.0
RELEASE_GRACE = 3.0


async def run(connection: Connection, settings: Settings, shipped: Shipped, *, as_installed: bool = False) -> None:
    """Run until SIGINT or SIGTERM; then finish the writes in flight and stop.

    `as_installed`: as the ServiceAccount that was installed, by tokens that the user of the connection requests.
    """
    async with Client(connection) as requester:
        account = AccountToken(requester, settings.namespace, ACCOUNT) if as_installed else None
        if account is not None:
            await account.token()  # an error is for the user who started the command
            connection = structs.replace(connection, client_cert_pem=None, client_key_pem=None)
        await _run(connection, settings, shipped, account)


async def _run(connection: Connection, settings: Settings, shipped: Shipped, credential: Credential | None) -> None:
    # Threads work for single tenants, and the event loop for all: it interrupts them after this time.
    sys.setswitchinterval(_SWITCH_SECONDS)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with (
        Client(connection, credential=credential) as client,
        TransformPool(unconfined=settings.allow_unconfined_builds) as renderer,
        settings.builder() as builder,
        settings.mirrors() as mirrors,
        Fleet(allow_loopback=settings.allow_loopback) as fleet,
    ):
        operator = Operator(Cluster(client), BuildTools(renderer, builder, mirrors), fleet, settings, shipped)
        mirrors.listen(operator.repository_changed)
        await operator.run(stop)


class Operator:
    """One process of the operator."""

    def __init__(self, hub: Cluster, tools: BuildTools, fleet: Fleet, settings: Settings, shipped: Shipped) -> None:
        identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{os.getpid()}"
        client = hub.client
        self._settings = settings
        self._hub = hub
        events = EventRecorder(client, "syncline", identity)
        self._policies = TenantPolicyInformer(hub, self._policies_changed)
        self._targets = SyncTargetInformer(hub, self._targets_changed)
        self._health = SyncTargetReconciler(
            client,
            fleet,
            self._targets,
            events=events,
            watch_namespaces=settings.watch_namespaces,
            on_credential=self._targets_changed,
            policies=self._policies,
        )
        self._resources = SyncedResourceTracker(self._health.set_resources, self._health.resources_complete)
        self._clusters = FleetClusters(hub, fleet, self._targets, self._resources, self._policies)
        self._rights = OwnRights(f"system:serviceaccount:{settings.namespace}:{ACCOUNT}")
        self._installation = Installation(client, shipped, self._authors_changed)
        self._readiness = Readiness(self._installation, settings.waived())
        authors = AuthorCheck(self._installation.policies, settings.default_service_account, hub.marks)
        checked = None if settings.allow_unchecked_authors else authors
        if checked is not None:
            self._targets.authors = checked
        self._agents = AgentServices(settings, client)
        syncs = new_reconcilers(
            hub,
            tools,
            events,
            settings,
            clusters=self._clusters,
            rights=self._rights,
            policies=self._policies,
            authors=checked,
            depot=self._agents.access,
        )
        self._syncs, self._planned, self._git = syncs.all, syncs.planned, syncs.builds.source
        self._git_keys = syncs.builds.keys
        self._gateways = syncs.gateways
        self._agents.connect(self._gateways, checked, ready=lambda: not self._readiness.waits_for)
        self._marks = MarkRenewal(hub, settings.namespace, self._syncs, self._leads)
        self._reports = TenantPolicyReconciler(
            client,
            self._policies,
            lambda namespaces: sum(len(one.syncs_of(namespaces)) for one in self._syncs),
            events=events,
        )
        self._receiver = self._new_receiver()
        self._reflectors: tuple[AnyReflector, ...] = (
            self._new_crd_reflector(),
            self._policies.reflector,
            self._targets.reflector,
            *(reflector for reconciler in self._syncs for reflector in reconciler.syncs.values()),
        )
        hub.listen(self._policies.namespace_changed, self._managed_changed, self._unmanaged_changed, _nobody)
        self._election = self._new_election(identity) if settings.leader_elect else None

    def _new_election(self, identity: str) -> LeaderElection:
        client, namespace = self._hub.client, self._settings.namespace
        return LeaderElection(client, namespace, LEASE, identity, on_leading=self._begin_to_lead)

    def _new_crd_reflector(self) -> Reflector[MetaWire, str]:
        return Reflector(
            self._hub.client,
            CRDS,
            decode=MetaWire,
            project=lambda wire: str(wire.metadata.generation),
            metadata_only=True,
            on_change=self._kinds_changed,
        )

    def _new_receiver(self) -> Receiver:
        settings = self._settings
        return Receiver(
            settings.webhook_bind,
            kinds=(CONFIG_SYNC, IGNITION_SYNC),
            global_secret=settings.webhook_secret(),
            secrets=self._hook_secrets,
            on_push=self._pushed,
            ready=self._knows_secrets,
            trusted_proxies=settings.proxies(),
        )

    def _begin_to_lead(self) -> None:
        self._git.checks.lead()
        self._gateways.fleet.checks.lead()

    def _hook_secrets(self, namespace: str, name: str) -> dict[str, tuple[bytes, ...]]:
        """Return the webhook secrets of the syncs of a name, by kind."""
        found = {
            CONFIG_SYNC: self._git.hook_secrets(namespace, name),
            IGNITION_SYNC: self._gateways.fleet.hook_secrets(namespace, name),
        }
        return {kind: secrets for kind, secrets in found.items() if secrets is not None}

    async def _pushed(self, namespace: str, name: str, push: Push, kinds: frozenset[str]) -> None:
        """Notify the syncs of a name of a delivery with a valid signature."""
        leading = self._leads()
        if CONFIG_SYNC in kinds:
            await self._git.pushed(namespace, name, leading=leading)
        if IGNITION_SYNC in kinds:
            await self._gateways.fleet.pushed(namespace, name, push, leading=leading)

    def _knows_secrets(self) -> bool:
        return self._git.webhook_secrets.complete and self._gateways.fleet.webhook_secrets.complete

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Reconciles and writes in progress are finished, and no new ones start."""
        endpoints = await serve(
            health=self._settings.health_bind,
            metrics=self._settings.metrics_bind,
            guard=self._metrics_guard(),
            checks={
                **self._readiness.checks(
                    self._vital, self._takes_webhooks, partial(self._hub.namespace, self._settings.namespace)
                ),
                **self._agents.checks(),
            },
        )
        served = {name: end.address for name in ("health", "metrics") if (end := getattr(endpoints, name)) is not None}
        await self._receiver.start()
        if self._receiver.address:
            served["webhooks"] = self._receiver.address
        served.update(await self._agents.start())
        await self._rights.introduce(self._hub.client, stop)
        await self._readiness.begin()
        if self._settings.allow_insecure_metrics and "metrics" in served:
            log.warning("metrics are served in plain text to everybody, as --allow-insecure-metrics says")
        if served:
            log.info("serving", **served)
        self._hub.start()
        watches = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
        watches.append(asyncio.create_task(self._installation.run()))
        election = asyncio.create_task(self._election.run()) if self._election else None
        work = asyncio.create_task(self._work())
        stopping = asyncio.create_task(stop.wait())
        log.info("started", namespaces=list(self._settings.watch_namespaces) or "all")
        try:
            # Work has no end of its own: if it ends, the process must too, rather than look alive and do nothing.
            await asyncio.wait([stopping, work], return_when=asyncio.FIRST_COMPLETED)
            patience = FINISH_GRACE if self._is_working() else 0.0
            log.info("stopping: writes in flight finish, nothing new is started", patience=patience)
        finally:
            # Workers end before the watches, and the lease is released last: until then no other replica writes.
            stopping.cancel()
            await self._receiver.stop()
            await self._agents.stop()
            self._git.webhook_secrets.queue.close()
            self._gateways.fleet.webhook_secrets.queue.close()
            for reconciler in self._reconcilers:
                reconciler.queue.close()
            finished, _ = await asyncio.wait([work], timeout=FINISH_GRACE if self._is_working() else 0)
            if finished:
                log.info("reconciles in hand are finished")
            await _end([work], WRITES_GRACE)
            await asyncio.gather(*(reconciler.drain(1.0) for reconciler in self._reconcilers))
            await self._gateways.fleet.stop()
            await self._hub.stop()
            await self._clusters.stop()
            await _end(watches, 1.0)
            if self._election is not None and election is not None:
                await _end([election], 1.0)
                await _end([asyncio.create_task(self._election.release())], RELEASE_GRACE, cancel=False)
            await endpoints.close()
            log.info("stopped")

    async def _work(self) -> None:
        """Reconcile, once all caches are complete and while we lead: an incomplete view decides nothing."""
        self._hub.key = await self._readiness.persist(
            "read or make the key of digests", partial(ensure_digest_key, self._hub.client, self._settings.namespace)
        )
        await self._readiness.persist("find out the UID of the cluster", self._hub.identify)
        if not self._rights.learned:
            await self._readiness.persist("find out its own rights", partial(self._rights.learn, self._hub.client))
        await self._installation.policies.begin()
        for reflector in (self._hub.namespaces, *self._reflectors):
            await reflector.synced.wait()
        log.info("caches are complete")
        await self._readiness.persist("read or make the keys of marks", self._marks.load)
        self._gateways.fleet.start()
        self._readiness.waits_for = ""
        self._resources.expect(
            user_key(reconciler.queue.name, key)
            for reconciler in self._planned
            if reconciler.writes_through(self._clusters)
            for reflector in reconciler.syncs.values()
            for key, _ in reflector.items()
        )
        async with asyncio.TaskGroup() as tasks:
            tending = tasks.create_task(self._marks.run())  # it has no end of its own
            await asyncio.gather(
                self._git.webhook_secrets.run(self._git_keys()),
                self._gateways.fleet.webhook_secrets.run(self._gateways.keys()),
                *(
                    run_workers(one.queue, WORKERS, partial(self._reconcile, one), ready=self._leading)
                    for one in self._reconcilers
                ),
            )
            tending.cancel()

    @property
    def _reconcilers(self) -> tuple[ObjectReconciler, ...]:
        return (*self._syncs, self._health, self._reports)

    def repository_changed(self, who: Hashable) -> None:
        """Enqueue the sync whose repository has changed."""
        self._git.repository_changed(who)
        self._gateways.fleet.repository_changed(who)

    def _leads(self) -> bool:
        return self._election is None or self._election.leading.is_set()

    async def _leading(self) -> None:
        if self._election is not None:
            await self._election.leading.wait()

    async def _reconcile(self, reconciler: ObjectReconciler, key: Key) -> None:
        await self._leading()
        try:
            await reconciler.reconcile(key)
        except KubeError as error:
            # An error of the API server is not a bug of ours: one line, no traceback.
            delay = reconciler.queue.retry(key)
            log.warning(
                "cannot go on; trying again",
                kind=reconciler.queue.name,
                sync="/".join(key),
                error=str(error),
                retry_in=round(delay, 1),
            )

    def _kinds_changed(self, key: Key, _old: str | None, _new: str | None, _by: str) -> None:
        """Enqueue the syncs when a CRD was created, changed or deleted: a missing kind may be served now."""
        self._hub.discovery.forget()
        self._installation.crd_changed(key.name)
        for reconciler in self._syncs:
            reconciler.triggers.kinds_changed()

    def _policies_changed(self, namespaces: frozenset[str]) -> None:
        """Reconcile the namespaces whose TenantPolicies have changed. Objects that are no longer allowed stay."""
        for reconciler in self._syncs:
            reconciler.policies_changed(namespaces)
        self._health.policies_changed(namespaces)

    def _authors_changed(self, plural: str) -> None:
        """Enqueue the syncs of a kind when the check of its authors stops or resumes."""
        for reconciler in self._syncs:
            if reconciler.plural == plural:
                reconciler.authors_changed()
        if plural == SYNC_TARGETS:
            self._health.authors_changed()
            self._targets_changed()

    def _targets_changed(self) -> None:
        """Enqueue the syncs that may refer to a SyncTarget that was created, changed or deleted."""
        for reconciler in self._syncs:
            reconciler.triggers.targets_changed()

    def _managed_changed(self, cluster: Cluster, old: Observed | None, new: Observed | None, by: str) -> None:
        """Handle the change of a managed object: it may be the credential of a SyncTarget."""
        observed = new or old
        if observed is not None:
            self._unmanaged_changed(cluster, observed.target, by)

    def _unmanaged_changed(self, _: Cluster, target: Target, _by: str) -> None:
        if target.kind == SECRETS.kind:
            self._health.secret_changed(Key(target.namespace, target.name))

    def _is_working(self) -> bool:
        """Whether reconciles may run: not before the caches are complete, nor while another replica leads."""
        return self._leads() and not self._readiness.waits_for

    def _metrics_guard(self) -> Guard | None:
        settings = self._settings
        if settings.allow_insecure_metrics:
            return None
        return metrics_guard(self._hub.client, settings.namespace, settings.metrics_cert_dir)

    def _takes_webhooks(self) -> bool:
        return not self._receiver.port or self._knows_secrets()

    def _vital(self) -> tuple[AnyReflector, ...]:
        return (*self._hub.vital, *self._reflectors)


def _nobody(*_: object) -> None:
    return


async def _end(tasks: Sequence["asyncio.Task[None]"], grace: float, *, cancel: bool = True) -> None:
    """Wait for the end of tasks, and cancel them after the grace period."""
    for task in tasks if cancel else ():
        task.cancel()
    done, pending = await asyncio.wait(tasks, timeout=grace)
    for task in pending:
        log.warning("did not end in time", task=task.get_name())
        task.cancel()
    if pending:
        done |= (await asyncio.wait(pending, timeout=1.0))[0]
    for task in done:
        with contextlib.suppress(asyncio.CancelledError):
            task.result()
