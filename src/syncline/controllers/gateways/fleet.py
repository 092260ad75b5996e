"""The state that all IgnitionSyncs share: pods, reports, repositories, plans; and the events that enqueue a sync."""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from syncline.api.common import PUSHED_AT, REQUESTED_AT, ObjectMeta
from syncline.api.ignition_annotations import REQUESTED_REF, REQUESTED_REF_AT
from syncline.api.ignitionsync import KIND, is_paused
from syncline.controllers.gateways.composition import PlanComposer
from syncline.controllers.gateways.edit_commits import EditCommits
from syncline.controllers.gateways.metadata import MetadataConfigMaps
from syncline.controllers.gateways.observer import GatewayObserver
from syncline.controllers.gateways.plans import GatewayPlans, GatewaySync, PlanNotifier
from syncline.controllers.gateways.pods import GatewayPod, GatewayPods, gateway_budget
from syncline.controllers.gateways.ref_requests import RefRequests
from syncline.controllers.gateways.reports import GatewayReports
from syncline.controllers.gateways.repositories import GatewayRepositories
from syncline.controllers.quotas import Quotas
from syncline.controllers.sources.checks import RepositoryChecks
from syncline.controllers.sources.push_records import PushRecords
from syncline.controllers.sources.references import ReferenceReader, Requester
from syncline.controllers.sources.webhook_secrets import NamedSecret, WebhookSecrets
from syncline.core.pushes import Push
from syncline.engine.cluster import Cluster
from syncline.git import Mirrors
from syncline.kube.cache import Key
from syncline.kube.resources import Resource

REPORT_DELAY = 0.3
"""The seconds after a report until its sync is reconciled: many agents report at the same time."""


class FleetHost(Protocol):
    """The reconciler of IgnitionSyncs."""

    def get(self, key: Key) -> GatewaySync | None:
        """Return a sync with its trusted status."""

    def requester(self, sync: GatewaySync) -> Requester:
        """Return the identity with which a sync reads and writes. Raises `SyncError`."""

    def enqueue(self, key: Key, delay: float = 0.0) -> None:
        """Reconcile a sync soon."""

    async def emit_event(self, sync: ObjectMeta, reason: str, message: str, *, warning: bool = False) -> None:
        """Send an event about a sync."""


class DepotAccess(Struct, frozen=True):
    """The address and the certificates of the depot, for agents."""

    url: Callable[[], str] = lambda: ""
    """Its address; empty if the operator has no depot."""
    ca: Callable[[], str] = lambda: ""
    """Its CA certificates, as PEM."""


class GatewayFleet:
    """The gateways of all IgnitionSyncs. Its watches run from `start` to `stop`."""

    def __init__(
        self,
        host: FleetHost,
        hub: Cluster,
        mirrors: Mirrors,
        quotas: Quotas,
        *,
        resource: Resource,
        depot: DepotAccess,
    ) -> None:
        self._host = host
        references = ReferenceReader(hub)
        self.depot = depot
        self.composer = PlanComposer()
        self.notifier = PlanNotifier()
        budget = gateway_budget()
        self.pods = GatewayPods(hub.client, self._pod_changed, budget)
        self.reports = GatewayReports(hub, self._report_changed, budget)
        self.repositories = GatewayRepositories(references, mirrors, quotas)
        self.checks = RepositoryChecks(self.repositories)
        self.metadata = MetadataConfigMaps(hub)
        self.observer = GatewayObserver(self.reports, self.composer, depot.ca)
        self.requests = RefRequests(hub.client, resource)
        self.webhook_secrets: WebhookSecrets[GatewaySync] = WebhookSecrets(
            hub, references, host.get, host.requester, _webhook_secret
        )
        self.plans = GatewayPlans(
            hub,
            host,
            self.pods,
            self.reports,
            self.repositories,
            composer=self.composer,
            notifier=self.notifier,
            ca=depot.ca,
            changes=EditCommits(host, self.repositories, mirrors),
        )
        self._push_records = PushRecords(hub.client, resource)
        self._namespaces: Counter[str] = Counter()

    def start(self) -> None:
        """Watch pods and reports from now on. The keys that verify reports are loaded before."""
        self.pods.watches.start()
        self.reports.watches.start()

    async def stop(self) -> None:
        """End the watches."""
        await self.pods.watches.stop()
        await self.reports.watches.stop()

    def sync_changed(self, key: Key, old: GatewaySync | None, new: GatewaySync | None) -> None:
        """Handle a sync that was created, changed or deleted."""
        self.webhook_secrets.sync_changed(key, new)
        self.notifier.notify(key)
        if old is None and new is not None:
            self._namespaces[key.namespace] += 1
            self.pods.watches.follow(key.namespace)
            self.reports.watches.follow(key.namespace)
        if new is None:
            self._forget(key, was_known=old is not None)
        elif old is None or _requested_by_user(old) != _requested_by_user(new):
            # A user who creates, edits or requests a sync expects the present content of Git.
            self.checks.require(key)
        elif old.metadata.annotations.get(PUSHED_AT) != new.metadata.annotations.get(PUSHED_AT):
            self.checks.start(key)

    def certificates_changed(self) -> None:
        """Notify all agents of changed certificates."""
        self.notifier.notify_all()
        for key in self.repositories.followers():
            self._host.enqueue(key)

    def repository_changed(self, who: object) -> None:
        """Handle a repository that has changed, failed or answers again."""
        match who:
            case (kind, Key() as key) if kind == KIND:
                self._host.enqueue(key)

    def hook_secrets(self, namespace: str, name: str) -> tuple[bytes, ...] | None:
        """Return the secrets that verify a delivery for a sync; None if there is no such sync."""
        key = Key(namespace, name)
        sync = self._host.get(key)
        if sync is None or sync.spec is None or not sync.spec.webhook.enabled:
            return None
        return self.webhook_secrets.of(key)

    async def pushed(self, namespace: str, name: str, push: Push, *, leading: bool) -> None:
        """Handle a delivery: request a ref, or check the repository. Raises `RequestRefusedError` and `KubeError`."""
        key = Key(namespace, name)
        sync = self._host.get(key)
        if sync is None or await self.requests.take(sync, push):
            return
        if leading:
            self.checks.start(key)
        else:
            await self._push_records.record(key)

    def forget(self, key: Key) -> None:
        """Stop following the repository of a sync."""
        self.repositories.forget(key)

    def _forget(self, key: Key, *, was_known: bool) -> None:
        self.checks.forget(key)
        self.metadata.forget(key)
        self.repositories.forget(key)
        if was_known:
            self._namespaces[key.namespace] -= 1
        if self._namespaces[key.namespace] <= 0:
            del self._namespaces[key.namespace]
            self.pods.unfollow(key.namespace)
            self.reports.watches.unfollow(key.namespace)

    def _pod_changed(self, old: GatewayPod | None, new: GatewayPod | None) -> None:
        for sync in {pod.sync for pod in (old, new) if pod is not None}:
            self.notifier.notify(sync)
            self._host.enqueue(sync, REPORT_DELAY)

    def _report_changed(self, namespace: str, sync: str) -> None:
        self._host.enqueue(Key(namespace, sync), REPORT_DELAY)


def _webhook_secret(sync: GatewaySync) -> NamedSecret | None:
    """Return the Secret that verifies deliveries for a sync; a suspended sync reads none."""
    spec = sync.spec
    if spec is None or not spec.webhook.enabled or spec.webhook.secret_ref is None or is_paused(spec):
        return None
    return NamedSecret(spec.webhook.secret_ref.name, spec.webhook.secret_ref.key)


def _requested_by_user(sync: GatewaySync) -> tuple[object, ...]:
    """Return the requests of its user: the spec, the ref, and the reconcile request."""
    meta = sync.metadata
    requests = (meta.annotations.get(name) for name in (REQUESTED_AT, REQUESTED_REF, REQUESTED_REF_AT))
    return meta.uid, meta.generation, *requests
