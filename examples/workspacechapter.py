"""The chapters of the demo about an upstream: what is made in one control plane runs in another, and reports back."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stage import PATIENCE, Manifest, Stage, StageError, load, pick
from syncline.sandbox import Access, Options, RequestError, Sandbox, has_kcp
from syncline.testing.kcp import KcpWorkspace
from telling import Teller

EXAMPLES = Path(__file__).parent
EXAMPLE = EXAMPLES / "workspacesync" / "02-kcp-workspace.yaml"
HOME, NAME, KIND = "mill-fleet", "mill", "WorkspaceSync"
UP, DOWN = "mill", "grain-mill"
DEPLOYMENTS, CONFIG = "/apis/apps/v1/namespaces/{}/deployments/stone", "/api/v1/namespaces/{}/configmaps/grain"
# A cluster is probed a few times, later and later, before it counts as lost.
LOST = 60.0
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class WorkspaceChapter:
    """Follows an upstream: a workspace of kcp, or a control plane without controllers."""

    def __init__(self, stage: Stage, teller: Teller) -> None:
        self._stage = stage
        self._tell = teller

    async def play(self) -> None:
        """Tell the chapters, with control planes that end with them."""
        self._tell.chapter("Deploy upstream, run downstream")
        with ExitStack() as ends:
            where = "a workspace of kcp" if has_kcp() else "a control plane without controllers"
            with self._tell.step(f"{where} as the upstream, and a control plane as the cluster east"):
                above, east = await asyncio.to_thread(lambda: (ends.enter_context(_upstream()), _east(ends)))
            await self.deploy(above, east)
            await self.edit(above, east)
            await self.lose(above, east)
            await self._stage.delete(KIND, NAME, HOME)
            await self._stage.until("the sync to go", lambda: not self._stage.has_sync(HOME, NAME, KIND))

    async def deploy(self, above: Access, east: Sandbox) -> None:
        tell = self._tell
        tell.you(f"kubectl apply -f {EXAMPLE.relative_to(EXAMPLES.parent)}, with the kubeconfigs of both in Secrets")
        example = load(EXAMPLE)
        home, sync = pick(example, "Namespace"), pick(example, KIND)
        sync["spec"]["upstream"].pop("workspace")  # the kubeconfig leads there
        sync["spec"]["statusSync"] = True
        await self._stage.apply(home, _secret("kcp", above), _secret("east", east), *example)
        tell.you("create a Deployment and a ConfigMap in the upstream")
        for manifest in (_namespace(), _deployment("stone:1"), _grain(kind="oats")):
            await _apply(above, manifest)
        started = self._stage.now()
        await _until("the copy", lambda: _get(east, DEPLOYMENTS.format(DOWN)) and _pods(east))
        tell.syncline(f"cluster east has the Deployment {DOWN}/stone", self._stage.now() - started)
        tell.you("say in place of a kubelet that its pod runs")
        started = self._stage.now()
        await asyncio.to_thread(_run, east)
        await _until("the status", lambda: _status(above).get("readyReplicas") == 1)
        end = self._stage.now()
        tell.syncline(f"the Deployment {UP}/stone of the upstream has readyReplicas: 1", end - started)
        tell.done("a Deployment goes down, its status goes up", end - started)

    async def edit(self, above: Access, east: Sandbox) -> None:
        tell = self._tell
        tell.chapter("Edit upstream and downstream")
        await self._is_ready(self._stage.now())
        tell.you("set kind to rye in the copy in east, and colour to gold in the ConfigMap of the upstream")
        started = self._stage.now()
        await _apply(east, _grain(DOWN, kind="rye"), manager="miller")
        await _apply(above, _grain(colour="gold"), manager="farmer")
        wanted = {"kind": "rye", "colour": "gold"}
        for access, namespace, side in ((above, UP, "the upstream"), (east, DOWN, "the copy in east")):
            await _until("both edits", partial(_holds, access, namespace, wanted))
            tell.syncline(f"{side} has both edits", self._stage.now() - started)
        tell.done("edits of both sides are merged", self._stage.now() - started)

    async def lose(self, above: Access, east: Sandbox) -> None:
        """A cluster that is away is told upstream, and nothing is deleted."""
        stage, tell = self._stage, self._tell
        tell.chapter("Lose the cluster that runs it")
        tell.you("kill the API server of east; then set a new image in the upstream")
        await asyncio.to_thread(east.kill, "kube-apiserver")
        started = stage.now()
        await _apply(above, _deployment("stone:2"))
        lost = await stage.until("the loss", lambda: stage.ready(HOME, NAME, KIND)[0] == "Unknown")
        tell.syncline(f"Ready is Unknown: {stage.ready(HOME, NAME, KIND)[2]}", lost - started)
        await _until("the conditions", lambda: "Unknown" in _conditions(above), LOST)
        tell.syncline("the conditions of the upstream Deployment are Unknown, and name east", stage.now() - started)
        tell.you("start it again")
        started = stage.now()
        await asyncio.to_thread(east.start, "kube-apiserver")
        end = await self._is_ready(started)
        if _image(east) != "registry.example.com/stone:2":
            raise StageError("east has not caught up")
        tell.syncline("east has the new image")
        tell.done("Unknown while away, also upstream; catches up", end - started)

    async def _is_ready(self, started: float) -> float:
        stage = self._stage
        end = await stage.until("Ready", lambda: stage.ready(HOME, NAME, KIND)[0] == "True")
        self._tell.syncline(f"Ready is True: {stage.ready(HOME, NAME, KIND)[2]}", end - started)
        return end


@contextmanager
def _upstream() -> Iterator[Access]:
    """Start an upstream where nothing works on Deployments: kcp if it is installed, else a control plane."""
    kcp = has_kcp()
    with Sandbox.create(Options(kcp=kcp)) as running:
        if kcp:
            workspace = KcpWorkspace.create(running, "grain")
            workspace.serve_workloads()
            yield workspace
        else:
            running.kill("kube-controller-manager")
            yield running


def _east(ends: ExitStack) -> Sandbox:
    return ends.enter_context(Sandbox.create())


async def _until(what: str, check: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until a cluster that no watch follows shows it."""
    deadline = Stage.now() + patience
    while not await asyncio.to_thread(check):
        if Stage.now() > deadline:
            raise StageError(f"waited {patience:.0f} s for {what}")
        await asyncio.sleep(0.01)


async def _apply(access: Access, manifest: Manifest, manager: str = "kubectl") -> None:
    folder = {"Namespace": "/api/v1/namespaces/{}", "Deployment": DEPLOYMENTS, "ConfigMap": CONFIG}[manifest["kind"]]
    path = folder.format(manifest["metadata"].get("namespace", UP))
    await asyncio.to_thread(access.request, "PATCH", f"{path}?fieldManager={manager}&force=true", manifest)


def _get(access: Access, path: str) -> dict[str, Any]:
    try:
        return access.request("GET", path)
    except RequestError as error:
        if error.status not in (403, 404):
            raise
        return {}


def _pods(east: Sandbox) -> list[str]:
    found = east.request("GET", f"/api/v1/namespaces/{DOWN}/pods")["items"]
    return [str(pod["metadata"]["name"]) for pod in found]


def _run(east: Sandbox) -> None:
    for name in _pods(east):
        path = f"/api/v1/namespaces/{DOWN}/pods/{name}/status?fieldManager=kubelet&force=true"
        east.request("PATCH", path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": RUNNING})


def _status(above: Access) -> dict[str, Any]:
    return _get(above, DEPLOYMENTS.format(UP)).get("status", {})


def _conditions(above: Access) -> list[str]:
    return [one["status"] for one in _status(above).get("conditions", ())]


def _data(access: Access, namespace: str) -> dict[str, str]:
    return _get(access, CONFIG.format(namespace)).get("data", {})


def _holds(access: Access, namespace: str, data: dict[str, str]) -> bool:
    return _data(access, namespace) == data


def _image(east: Sandbox) -> str:
    spec = _get(east, DEPLOYMENTS.format(DOWN))["spec"]
    return str(spec["template"]["spec"]["containers"][0]["image"])


def _namespace() -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": UP}}


def _deployment(image: str) -> Manifest:
    labels = {"app": "stone"}
    containers = [{"name": "stone", "image": f"registry.example.com/{image}"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "stone", "namespace": UP}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _grain(namespace: str = UP, **data: str) -> Manifest:
    metadata = {"name": "grain", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _secret(name: str, access: Access) -> Manifest:
    values = {"value": access.kubeconfig.read_text(encoding="utf-8")}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": HOME}, "stringData": values}
