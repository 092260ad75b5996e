"""The preview of an IgnitionSync: the changes of files in each gateway."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime

from msgspec import Struct

from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.gateways.composition import ComposedPlan
from syncline.controllers.gateways.fleet import GatewayFleet
from syncline.controllers.gateways.plans import GatewaySync, plan_inputs
from syncline.controllers.gateways.pods import GatewayPod, PodWire, to_gateway_pod
from syncline.controllers.lowered import spec_of
from syncline.controllers.sources.references import Requester
from syncline.core.gateway_diff import PathChanges, file_changes
from syncline.core.gateway_plan import PlanAction
from syncline.core.gateway_refs import choose_ref
from syncline.core.gateway_serving import Serving
from syncline.core.gateway_target import target_commit
from syncline.git import Commit, Remote, pinned
from syncline.kube.client import Client
from syncline.kube.resources import PODS


class GatewayPreview(Struct, frozen=True, kw_only=True):
    """The changes in one gateway."""

    pod: str
    gateway: str
    action: PlanAction
    message: str = ""
    before: str = ""
    """The commit of the files that it has; empty if that is not known. Then all files count as added."""
    changes: PathChanges = PathChanges()


class FleetPreview(Struct, frozen=True, kw_only=True):
    """The changes in all gateways of a sync."""

    ref: str = ""
    commit: str = ""
    gateways: tuple[GatewayPreview, ...] = ()
    problem: SyncError | None = None


class _Source(Struct, frozen=True):
    """Where files come from."""

    requester: Requester
    remote: Remote
    ref: str
    commit: Commit


class GatewayPreviewer:
    """Compares the files of gateways with those that a sync would publish. Stages of rollouts are not looked at."""

    def __init__(self, client: Client, fleet: GatewayFleet) -> None:
        self._client = client
        self._fleet = fleet

    async def preview(
        self, sync: GatewaySync, status: IgnitionSyncStatus, living: GatewaySync | None, requester: Requester
    ) -> FleetPreview:
        """Return the changes that a sync would publish; `living` is the sync in the cluster. Raises `KubeError`."""
        spec, repositories = spec_of(sync), self._fleet.repositories
        choice = choose_ref(spec.git.ref, sync.metadata.annotations, status.requested_ref)
        try:
            remote = await repositories.remote(requester, spec.git)
            if pinned(choice.ref) is None:
                repositories.follow(requester, remote, choice.ref)
                await repositories.refresh(requester.key, asyncio.get_running_loop().time())
            resolved = await repositories.resolve(remote, choice.ref)
            now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            target = target_commit(spec, status, resolved.sha, now)
            commit = resolved if target.commit == resolved.sha else Commit(target.commit)
            found = {one.pod_name: one.synced_commit for one in status.discovered_gateways}
            source = _Source(requester, remote, choice.ref, commit)
            gateways = [
                await self._gateway(sync, living, pod, source, found.get(pod.facts.pod, ""))
                for pod in await self._pods(sync)
            ]
        except SyncError as error:
            return FleetPreview(ref=choice.ref, problem=error)
        finally:
            repositories.forget(requester.key)
        return FleetPreview(ref=choice.ref, commit=commit.sha, gateways=tuple(gateways))

    async def _pods(self, sync: GatewaySync) -> list[GatewayPod]:
        meta = sync.metadata
        wires, _ = await self._client.list(PODS, meta.namespace, type=PodWire)
        pods = (to_gateway_pod(wire) for wire in wires)
        return [pod for pod in pods if pod is not None and pod.sync.name == meta.name and not pod.ended]

    async def _gateway(
        self, sync: GatewaySync, living: GatewaySync | None, pod: GatewayPod, source: _Source, had: str
    ) -> GatewayPreview:
        composed, before = await self._compose(sync, pod, source, source.commit), None
        after = composed.plan
        if had and living is not None:
            with contextlib.suppress(SyncError):  # the repository may no longer have it
                before = (await self._compose(living, pod, source, Commit(had))).plan
        return GatewayPreview(
            pod=pod.facts.pod,
            gateway=pod.facts.name,
            action=after.action,
            message=after.message or composed.summary.omitted,
            before=had if before is not None else "",
            changes=file_changes(before, after),
        )

    async def _compose(self, sync: GatewaySync, pod: GatewayPod, source: _Source, commit: Commit) -> ComposedPlan:
        tree = await self._fleet.repositories.tree(source.requester, source.remote, commit)
        inputs = plan_inputs(sync, pod, Serving("Publish", ref=source.ref, commit=commit.sha), "")
        return await self._fleet.composer.compose(inputs, sync.spec, tree)
