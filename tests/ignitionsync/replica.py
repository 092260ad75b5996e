"""A replica of the operator that does not lead, in the process of the test: it serves plans, and decides nothing."""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

from tests.configmapsync.world import until
from tests.ignitionsync.world import Pod

from syncline import deploy
from syncline.controllers.gateways.fleet import DepotAccess
from syncline.core.gateway_plan import BlobRequest, GatewayPlan, GatewayReport
from syncline.core.pod_tokens import PodIdentity
from syncline.depot.plans import DepotRefusal
from syncline.engine.cluster import Cluster
from syncline.engine.markkeys import read_mark_keys
from syncline.engine.serving_authority import ServingAuthority
from syncline.kube.client import Client
from syncline.kube.config import load_kubeconfig
from syncline.kube.events import EventRecorder
from syncline.reconcilers import BuildTools, new_reconcilers
from syncline.render.build_pool import BuildPool
from syncline.render.transform_pool import TransformPool
from syncline.settings import Settings
from syncline.testing.loop import OnLoop


class Replica(OnLoop):
    """Lives as long as its `with` block."""

    thread_name = "replica"

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        self._kubeconfig = kubeconfig
        self._settings = Settings(allow_loopback=True, git_cache=str(cache))

    async def _open(self) -> None:
        self._held = AsyncExitStack()
        client = await self._held.enter_async_context(Client(load_kubeconfig(self._kubeconfig)))
        mirrors = await self._held.enter_async_context(self._settings.mirrors())
        hub = Cluster(client)
        hub.marks.keys = await read_mark_keys(client, deploy.NAMESPACE)
        tools = BuildTools(TransformPool(), BuildPool(), mirrors)
        authority = ServingAuthority(client, deploy.NAMESPACE, ("localhost",))
        await authority.start()
        self._held.push_async_callback(authority.stop)
        events, depot = EventRecorder(client, "tests", "tests"), DepotAccess(ca=lambda: authority.ca)
        self._gateways = new_reconcilers(hub, tools, events, self._settings, depot=depot).gateways
        hub.start()
        self._held.push_async_callback(hub.stop)
        self._watches = [asyncio.create_task(one.run()) for one in self._gateways.syncs.values()]
        for one in self._gateways.syncs.values():
            await one.synced.wait()
        self._gateways.fleet.start()

    async def _close(self) -> None:
        await self._gateways.fleet.stop()
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await self._held.aclose()

    def plan(self, pod: Pod, *, uid: str = "") -> GatewayPlan:
        """Return the plan of a pod; ask again while the leader has not looked at the sync, as agents do."""
        identity = _identity(pod, uid)

        def ask() -> GatewayPlan | None:
            try:
                return self._thread.run(self._gateways.fleet.plans.plan(identity))
            except DepotRefusal as refused:
                if refused.status != 503:
                    raise
                return None

        plan = until(ask, lambda found: found is not None)
        assert plan is not None
        return plan

    def refusal(self, pod: Pod, *, uid: str = "") -> DepotRefusal:
        """Return why a pod gets no plan."""
        try:
            plan = self.plan(pod, uid=uid)
        except DepotRefusal as refused:
            return refused
        raise AssertionError(f"the pod gets a plan: {plan.action} {plan.message}")

    def wait(self, pod: Pod, have: str, seconds: float) -> bool:
        """Wait for another plan."""
        return self._thread.run(self._gateways.fleet.plans.wait(_identity(pod), have, seconds), seconds + 60)

    def blobs(self, pod: Pod, plan: str, ids: Collection[str]) -> dict[str, bytes]:
        """Return files of a plan, by their ids."""
        return self._thread.run(self._blobs(_identity(pod), BlobRequest(plan, tuple(ids))))

    def files(self, pod: Pod) -> dict[str, bytes]:
        """Return the content of all files of the plan of a pod, by path."""
        plan = self.plan(pod)
        found = self.blobs(pod, plan.id, {file.blob for file in plan.files})
        return {file.path: found[file.blob] for file in plan.files}

    def report(self, pod: Pod, report: GatewayReport) -> None:
        """Store a report."""
        self._thread.run(self._gateways.fleet.plans.report(_identity(pod), report))

    def sync_up(self, pod: Pod) -> GatewayPlan:
        """Report that a pod has the files of its plan; return the plan."""
        plan = self.plan(pod)
        self.report(pod, GatewayReport(state="Synced", reason="Synced", plan=plan.id, commit=plan.commit, ref=plan.ref))
        return plan

    def fail(self, pod: Pod, reason: str) -> GatewayPlan:
        """Report that a pod cannot take up its plan; return the plan."""
        plan = self.plan(pod)
        self.report(pod, GatewayReport(state="Error", reason=reason, plan=plan.id, message="it does not work"))
        return plan

    async def _blobs(self, identity: PodIdentity, request: BlobRequest) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        async with aclosing(await self._gateways.fleet.plans.blobs(identity, request)) as blobs:
            async for blob in blobs:
                found[blob.id] = b"".join([chunk async for chunk in blob.content])
        return found


def _identity(pod: Pod, uid: str = "") -> PodIdentity:
    return PodIdentity(pod.namespace, pod.name, uid or pod.uid, "default")
