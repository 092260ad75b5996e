"""The plans of gateways for the depot. Every replica composes them, whether or not it leads.

A pod gets only the plan of the sync that it names, in its own namespace. The plan follows the decision that the leader
has recorded in the status; the rest comes from the sync, the pod and the tree of the commit.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog
from msgspec import Struct

from syncline.api.common import CONFIRM_DELETION
from syncline.api.ignition_annotations import CR_NAME
from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.api.ignitionsync import KIND, IgnitionSyncSpec
from syncline.controllers.errors import SyncError
from syncline.controllers.gateways.composition import ComposedPlan, PlanComposer, PlanInputs
from syncline.controllers.gateways.owned_config_maps import NotOurs
from syncline.controllers.gateways.pods import GatewayPod, GatewayPods
from syncline.controllers.gateways.reports import GatewayReports
from syncline.controllers.gateways.repositories import GatewayRepositories
from syncline.controllers.gateways.served_files import ServedFiles
from syncline.controllers.sources.references import Requester
from syncline.core.gateway_plan import BlobRequest, ChangeAnswer, ChangeRequest, GatewayPlan, GatewayReport
from syncline.core.gateway_serving import Serving, serving
from syncline.depot.plans import Blob, DepotRefusal, PodIdentity
from syncline.engine.cluster import Cluster
from syncline.engine.sync_object import Sync
from syncline.fairness import on_behalf_of
from syncline.git import Commit, CommitTree, Remote, pinned
from syncline.kube.cache import Key
from syncline.kube.errors import Forbidden, KubeError, NotFound

LEADER_PATIENCE = 5.0
"""The seconds that a request for a plan waits for the first reconcile of the sync by the leader."""
SOON = 2.0
LATER = 10.0

GatewaySync = Sync[IgnitionSyncSpec, IgnitionSyncStatus]

log = structlog.get_logger(__name__)


class GatewaySyncs(Protocol):
    """The IgnitionSyncs, with their trusted statuses."""

    def get(self, key: Key) -> GatewaySync | None:
        """Return a sync."""

    def requester(self, sync: GatewaySync) -> Requester:
        """Return the identity with which a sync reads and writes. Raises `SyncError`."""


class GatewayChanges(Protocol):
    """Commits the edits of gateways."""

    async def commit(
        self,
        subject: "Subject",
        plan: GatewayPlan,
        base: Commit,
        request: ChangeRequest,
        content: AsyncIterator[bytes],
    ) -> ChangeAnswer:
        """Commit edits to the repository. Raises `DepotRefusal`, `SyncError` and `KubeError`."""


class Subject(Struct, frozen=True):
    """The pod of a request, and its sync."""

    sync: GatewaySync
    pod: GatewayPod


class PlanNotifier:
    """Notifies requests that wait for another plan."""

    def __init__(self) -> None:
        self._waiting: dict[Key, set[asyncio.Event]] = {}

    def notify(self, sync: Key) -> None:
        """Notify all that wait for a plan of a sync."""
        for event in self._waiting.get(sync, ()):
            event.set()

    def notify_all(self) -> None:
        """Notify all that wait for a plan."""
        for sync in tuple(self._waiting):
            self.notify(sync)

    @contextmanager
    def listen(self, sync: Key) -> Iterator[asyncio.Event]:
        """Return an event that a notification sets, during a block."""
        event = asyncio.Event()
        self._waiting.setdefault(sync, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._waiting[sync]
            waiting.discard(event)
            if not waiting:
                del self._waiting[sync]


class GatewayPlans:
    """Implements `syncline.depot.plans.Plans`."""

    def __init__(
        self,
        hub: Cluster,
        syncs: GatewaySyncs,
        pods: GatewayPods,
        reports: GatewayReports,
        repositories: GatewayRepositories,
        *,
        composer: PlanComposer,
        notifier: PlanNotifier,
        ca: Callable[[], str],
        changes: GatewayChanges,
    ) -> None:
        """`ca` returns the CA certificates of the depot, as PEM."""
        self._hub = hub
        self._syncs = syncs
        self._pods = pods
        self._reports = reports
        self._repositories = repositories
        self._composer = composer
        self._notifier = notifier
        self._ca = ca
        self._changes = changes
        self._files = ServedFiles(repositories)

    async def plan(self, pod: PodIdentity) -> GatewayPlan:
        """Return the newest plan of a pod. Raises `DepotRefusal`."""
        on_behalf_of.set(pod.namespace)
        subject = await self._subject(pod)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEADER_PATIENCE
        with self._notifier.listen(subject.pod.sync) as notified:
            while (inputs := self._inputs(subject)) is None:
                if not await _set_before(notified, deadline):
                    message = "the operator has not reconciled the IgnitionSync yet: ask again"
                    raise DepotRefusal(503, message, retry_after=SOON)
                subject = await self._subject(pod)
        return (await self._compose(subject, inputs))[0].plan

    async def wait(self, pod: PodIdentity, have: str, seconds: float) -> bool:
        """Wait until the newest plan may have an id other than `have`; return False after the timeout."""
        on_behalf_of.set(pod.namespace)
        deadline = asyncio.get_running_loop().time() + seconds
        subject = await self._subject(pod)
        first = subject.pod.sync
        with self._notifier.listen(first) as notified:
            while subject.pod.sync == first:
                inputs = self._inputs(subject)
                known = self._composer.known(inputs) if inputs is not None else None
                if inputs is not None and (known is None or known.id != have):
                    return True
                if not await _set_before(notified, deadline):
                    return False
                subject = await self._subject(pod)
        return True  # the pod names another sync

    async def blobs(self, pod: PodIdentity, request: BlobRequest) -> AsyncGenerator[Blob, None]:
        """Return the requested files of the newest plan. Raises `DepotRefusal`."""
        on_behalf_of.set(pod.namespace)
        subject = await self._subject(pod)
        inputs = self._inputs(subject)
        if inputs is None:
            raise DepotRefusal(409, "the plan is no longer the newest: ask for the plan again")
        composed, tree, remote = await self._compose(subject, inputs)
        if composed.plan.id != request.plan or tree is None or remote is None:
            raise DepotRefusal(409, "the plan is no longer the newest: ask for the plan again")
        known = {file.blob for file in composed.plan.files}
        if not known.issuperset(request.ids):
            raise DepotRefusal(404, "the plan of this pod has no such file")
        return self._files.read(remote, tree.commit, tree, request.ids, pod.namespace)

    async def report(self, pod: PodIdentity, report: GatewayReport) -> None:
        """Store the report of a pod. Raises `DepotRefusal`."""
        on_behalf_of.set(pod.namespace)
        subject = await self._subject(pod)
        if subject.sync.deleting:
            raise DepotRefusal(404, "the IgnitionSync is being deleted: nothing is reported about it any more")
        uid = subject.sync.metadata.uid
        try:
            client = self._hub.acting_as(self._syncs.requester(subject.sync).user)
            await self._reports.store(client, subject.pod, uid, report)
            if not self._exists(subject.pod.sync, uid):
                await self._reports.remove(client, subject.pod, uid)
        except NotOurs as error:
            raise DepotRefusal(409, str(error), retry_after=LATER) from error
        except (SyncError, KubeError) as error:
            log.warning("a report cannot be stored", pod=f"{pod.namespace}/{pod.name}", error=str(error))
            what = "the service account of the IgnitionSync may not" if isinstance(error, Forbidden) else "cannot"
            raise DepotRefusal(
                503, f"the operator {what} write the ConfigMap of the report", retry_after=LATER
            ) from error

    async def changes(self, pod: PodIdentity, request: ChangeRequest, content: AsyncIterator[bytes]) -> ChangeAnswer:
        """Commit the edits of a gateway. Raises `DepotRefusal`."""
        on_behalf_of.set(pod.namespace)
        subject = await self._subject(pod)
        spec, inputs = subject.sync.spec, self._inputs(subject)
        back = spec.bidirectional if spec is not None else None
        if back is None or not back.enabled:
            raise DepotRefusal(403, "the IgnitionSync takes no edits: bidirectional is not enabled")
        if inputs is None:
            raise DepotRefusal(409, "the plan is no longer the newest: ask for the plan again")
        composed, tree, _ = await self._compose(subject, inputs)
        if composed.plan.id != request.plan or tree is None:
            raise DepotRefusal(409, "the plan is no longer the newest: ask for the plan again")
        try:
            return await self._changes.commit(subject, composed.plan, tree.commit, request, content)
        except (SyncError, KubeError) as error:
            log.warning("edits cannot be committed", pod=f"{pod.namespace}/{pod.name}", error=str(error))
            reason = error.reason if isinstance(error, SyncError) else "ServerError"
            message = f"the edits cannot be committed ({reason}): see the conditions of the IgnitionSync"
            raise DepotRefusal(503, message, retry_after=LATER) from error

    async def _subject(self, identity: PodIdentity) -> Subject:
        """Return the pod and its sync. Raises `DepotRefusal`."""
        try:
            pod = await self._pods.get(identity.namespace, identity.name, identity.uid)
        except NotFound:
            raise DepotRefusal(404, "the pod does not exist any more") from None
        except KubeError as error:
            raise DepotRefusal(503, "the API server does not answer: ask again", retry_after=SOON) from error
        if pod is None:
            raise DepotRefusal(404, f"the pod names no IgnitionSync: write the annotation {CR_NAME}", retry_after=LATER)
        if pod.ended:
            raise DepotRefusal(403, "the pod has ended")
        sync = self._syncs.get(pod.sync)
        if sync is None:
            message = f"there is no {KIND} {pod.sync.name[:253]!r} in the namespace of the pod"
            raise DepotRefusal(404, message, retry_after=LATER)
        return Subject(sync, pod)

    def _exists(self, key: Key, uid: str) -> bool:
        """Whether exactly this sync still exists: it may have been deleted while a report was written."""
        sync = self._syncs.get(key)
        return sync is not None and sync.metadata.uid == uid and not sync.deleting

    def _inputs(self, subject: Subject) -> PlanInputs | None:
        """Return the inputs of the plan of a pod; None while the leader has not reconciled the sync."""
        sync, pod = subject.sync, subject.pod
        meta = sync.metadata
        served = serving(sync.spec, meta.generation, sync.status, pod.facts.pod, deleting=sync.deleting)
        return plan_inputs(sync, pod, served, self._ca()) if served is not None else None

    async def _compose(
        self, subject: Subject, inputs: PlanInputs
    ) -> tuple[ComposedPlan, CommitTree | None, Remote | None]:
        """Compose a plan with the tree of its commit. Raises `DepotRefusal`."""
        sync, served = subject.sync, inputs.serving
        if served.action != "Publish" or sync.spec is None:
            return await self._composer.compose(inputs, sync.spec, None), None, None
        try:
            requester = self._syncs.requester(sync)
            remote = await self._repositories.remote(requester, sync.spec.git)
            tree = await self._repositories.tree(requester, remote, commit_of(sync.status, served))
        except (SyncError, KubeError) as error:
            log.info("a plan cannot be composed", sync="/".join(subject.pod.sync), error=str(error))
            message = "the repository cannot be read now; see the conditions of the IgnitionSync"
            raise DepotRefusal(503, message, retry_after=LATER) from error
        return await self._composer.compose(inputs, sync.spec, tree), tree, remote


def plan_inputs(sync: GatewaySync, pod: GatewayPod, served: Serving, ca: str) -> PlanInputs:
    """Return the inputs of the plan of a pod."""
    meta = sync.metadata
    return PlanInputs(
        sync_uid=meta.uid,
        generation=meta.generation,
        pod_uid=pod.uid,
        facts=pod.facts,
        oversized=pod.oversized,
        serving=served,
        ca=ca,
        confirmed_deletion=meta.annotations.get(CONFIRM_DELETION, ""),
    )


def commit_of(status: IgnitionSyncStatus, served: Serving) -> Commit:
    """Return the commit of a plan. A commit that a person named by its id is fetched for this tenant only."""
    is_head = served.commit == status.last_sync_commit and pinned(served.ref) is None
    return Commit(served.commit, served.ref if is_head else "")


async def _set_before(event: asyncio.Event, deadline: float) -> bool:
    """Wait for an event, and clear it; return False if it is not set before this time."""
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
