"""Gateways beside the stage: pods, agents as processes, and clients that ask the depot as agents do."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.gitstage import AUTHORITY, NAME, GitStage, until
from benchmarks.stage import HOME
from syncline.agent.depot_client import DepotClient, DepotError
from syncline.api.common import API_VERSION
from syncline.api.ignitionsync import KIND, PLURAL
from syncline.core.gateway_plan import AUDIENCE, GatewayReport, ReportedDiff
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.operator import StartedProgram, execute

Json = dict[str, Any]


class GivenAccess:
    """The address of a depot and a token, as a pod has them."""

    def __init__(self, depot: Json, token: str) -> None:
        self._depot = depot
        self._token = token

    async def url(self) -> str:
        return str(self._depot["depotURL"])

    async def token(self) -> str:
        return self._token

    async def ca(self) -> str:
        return str(self._depot["depotCA"])

    async def refresh(self) -> None:
        return None

    async def close(self) -> None:
        return None


class SimulatedAgent:
    """Asks for plans, fetches what it lacks and reports, over real HTTP; it keeps files in no folder."""

    def __init__(self, access: GivenAccess) -> None:
        self._depot = DepotClient(access)
        self._blobs: set[str] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        have = ""
        try:
            while True:
                try:
                    plan = await self._depot.plan(have)
                    if plan is None:
                        continue
                    wanted = {file.blob: file.size for file in plan.files if file.blob not in self._blobs}
                    await self._depot.blobs(plan.id, wanted, _swallow)
                    changed = ReportedDiff(modified=len(wanted))
                    await self._depot.report(
                        GatewayReport(
                            state="Synced", reason="Synced", plan=plan.id, commit=plan.commit, changed=changed
                        )
                    )
                    self._blobs = {file.blob for file in plan.files}
                    have = plan.id
                except DepotError as error:
                    await asyncio.sleep(max(1.0, error.retry_after))
        finally:
            await self._depot.close()


async def _swallow(_blob: str, _size: int, content: AsyncIterator[bytes]) -> None:
    async for _ in content:
        pass


class GatewayStage:
    """IgnitionSyncs, their pods and their agents."""

    def __init__(self, git: GitStage) -> None:
        self.git = git
        self._sandbox: Sandbox = git.scene.sandbox

    async def sync(self, name: str, source: str) -> None:
        """Create a sync that maps one folder of the repository."""
        spec = {
            "git": {"repo": self.git.server.url(NAME), "ref": "main", "caSecretRef": {"name": AUTHORITY}},
            "polling": {"interval": "1h"},
            "apply": {"type": "None"},
            "sync": {"profiles": {"default": {"mappings": [{"source": source, "destination": "data"}]}}},
        }
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
        await self._request("POST", f"/apis/{API_VERSION}/namespaces/{HOME}/{PLURAL}", body)

    async def pods(self, sync: str, names: Sequence[str]) -> None:
        """Create running pods of a sync."""
        for name in names:
            annotations = {"ignition-sync.io/cr-name": sync}
            spec = {"containers": [{"name": "gateway", "image": "example.com/gateway"}]}
            body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
            made = await self._create_pod(body)
            made["status"] = {**made.get("status", {}), "phase": "Running"}
            await self._request("PUT", f"/api/v1/namespaces/{HOME}/pods/{name}/status", made)

    async def depot(self, sync: str) -> Json:
        """Return what agents are told of the depot, once they are."""
        found: Json = {}
        while "depotCA" not in found:
            with suppress(RequestError):
                path = f"/api/v1/namespaces/{HOME}/configmaps/ignition-sync-metadata-{sync}"
                found = (await self._request("GET", path)).get("data", {})
            await asyncio.sleep(0.05)
        return found

    async def token(self, pod: str) -> str:
        """Request a token that is bound to a pod."""
        found = await self._request("GET", f"/api/v1/namespaces/{HOME}/pods/{pod}")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": found["metadata"]["uid"]}
        spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": reference}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self._request("POST", f"/api/v1/namespaces/{HOME}/serviceaccounts/default/token", body)
        return str(answer["status"]["token"])

    def start(self, folder: Path, sync: str, pod: str) -> StartedProgram:
        """Start an agent as a process, with a folder of its own."""
        (folder / pod).mkdir()
        arguments = [
            *("agent", "--kubeconfig", str(self._sandbox.kubeconfig), "--namespace", HOME, "--sync", sync),
            *("--pod", pod, "--data", str(folder / pod)),
        ]
        return execute(arguments, folder / f"{pod}.log")

    @asynccontextmanager
    async def simulated(self, sync: str, pods: Sequence[str]) -> AsyncIterator[None]:
        """Have agents of these pods in this process."""
        depot = await self.depot(sync)
        accesses = [GivenAccess(depot, await self.token(pod)) for pod in pods]
        tasks = [asyncio.create_task(SimulatedAgent(access).run()) for access in accesses]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until_synced(self, sync: str, commit: str, gateways: int) -> None:
        """Wait until the status says that so many gateways have a commit."""
        while True:
            body = await self._request("GET", f"/apis/{API_VERSION}/namespaces/{HOME}/{PLURAL}/{sync}")
            found = body.get("status", {}).get("discoveredGateways", [])
            having = [one for one in found if (one["syncStatus"], one.get("syncedCommit")) == ("Synced", commit)]
            if len(having) == gateways:
                return
            await asyncio.sleep(0.1)

    async def _create_pod(self, body: Json) -> Json:
        made: list[Json] = []

        def create() -> bool:
            with suppress(RequestError):  # the control plane makes the service account of pods a moment later
                made.append(self._sandbox.request("POST", f"/api/v1/namespaces/{HOME}/pods", body))
            return bool(made)

        await until(create)
        return made[0]

    async def _request(self, method: str, path: str, body: Json | None = None) -> Json:
        return await asyncio.to_thread(self._sandbox.request, method, path, body)
