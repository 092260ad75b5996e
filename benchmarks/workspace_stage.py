"""Where WorkspaceSync is measured: a hub with the operator, an upstream, and clusters below it, each a sandbox.

`BENCH_KCP=1` makes the upstream a workspace of a real kcp.
"""

import asyncio
import base64
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.sightings import Check
from benchmarks.stage import HOME, Stage, stage
from benchmarks.taking import Taken, TimedChange
from benchmarks.usage import Machine, at_rest, cpu_seconds
from syncline.controllers.kinds.workspacesync import RESOURCE as WORKSPACESYNCS
from syncline.controllers.targets.synctargets import RESOURCE as SYNCTARGETS
from syncline.kube.client import Client, PatchKind
from syncline.kube.config import load_kubeconfig
from syncline.kube.resources import SECRETS
from syncline.sandbox import Options, Sandbox
from syncline.testing.audit import OPERATOR, Entry
from syncline.testing.kcp import KcpWorkspace
from syncline.testing.operator import OperatorProcess

Json = dict[str, Any]

UPSTREAM = "upstream"
_KCP = os.environ.get("BENCH_KCP", "") not in {"", "0"}
_ACCOUNT = "bench-account"
_WEEK = 7 * 24 * 3600
_MANAGER = "fieldManager=syncline"
_AT_ONCE = 2
_POLL = 0.1


class Plane(Stage):
    """The upstream or a target, and the credential that the operator has for it."""

    def __init__(self, name: str, sandbox: Sandbox, client: Client, kubeconfig: Path) -> None:
        super().__init__(sandbox, client, kubeconfig)
        self.name = name

    def credential(self, server: str = "") -> Json:
        """Return the Secret that leads there, or through another address to it."""
        config = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        if server:
            config["clusters"][0]["cluster"]["server"] = server
        value = base64.b64encode(yaml.safe_dump(config).encode()).decode()
        return {"metadata": {"namespace": HOME, "name": self.name}, "data": {"value": value}}

    def asked(self, since: int, until: int | None = None) -> list[Entry]:
        """Return what the operator asked for, watches aside; its account is nobody else's, but in kcp."""
        user = None if _KCP and self.name == UPSTREAM else f"system:serviceaccount:{_ACCOUNT}:syncline"
        found = self.audit.entries(user, since=since, until=until)
        return [one for one in found if one.verb != "watch" and (user or _MANAGER in one.uri or not one.changes)]


class Workspaces:
    """The whole arrangement."""

    def __init__(self, hub: Stage, upstream: Plane, targets: Sequence[Plane]) -> None:
        self.hub = hub
        self.upstream = upstream
        self.targets = targets

    @property
    def planes(self) -> tuple[Plane, ...]:
        return (self.upstream, *self.targets)

    def sync(self, name: str, resource: Json, *, status: bool = False) -> Json:
        """Return a sync of one resource, of the namespaces whose label `bench` is its name, to all targets."""
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": UPSTREAM}}
        return {
            "apiVersion": WORKSPACESYNCS.api_version,
            "kind": WORKSPACESYNCS.kind,
            "metadata": {"namespace": HOME, "name": name},
            "spec": {
                "upstream": {"connection": connection},
                "downstream": {"syncTargets": [target.name for target in self.targets]},
                "resources": [resource],
                "namespaces": {"selector": {"matchLabels": {"bench": name}}},
                "statusSync": status,
            },
        }

    @contextmanager
    def operator(self) -> Iterator[OperatorProcess]:
        """Run the operator."""
        with OperatorProcess(self.hub.kubeconfig, "--allow-loopback") as running:
            yield running

    async def settled(self, operator: OperatorProcess) -> None:
        """Wait until all targets are Ready and the operator has nothing to do."""
        ready = False
        while not ready:
            found, _ = await self.hub.client.list(SYNCTARGETS, HOME)
            ready = len(found) == len(self.targets) and all(map(is_ready, found))
            await asyncio.sleep(_POLL)
        await at_rest(operator.pid)

    async def redirect(self, plane: Plane, server: str) -> None:
        """Have the operator reach a cluster through another address."""
        body = {"data": plane.credential(server)["data"]}
        await self.hub.client.patch(SECRETS, plane.name, HOME, body, PatchKind.MERGE)

    def marks(self) -> "Marks":
        """Note a place in the audit logs of all."""
        return Marks(self)


class Marks:
    """A place in all audit logs; `asked` tells what the operator asked for since then, by cluster."""

    def __init__(self, scene: Workspaces) -> None:
        self._scene = scene
        self._hub = scene.hub.audit.mark()
        self._planes = {plane.name: plane.audit.mark() for plane in scene.planes}

    def asked(self) -> Mapping[str, list[Entry]]:
        hub = self._scene.hub.audit
        found = {"hub": hub.entries(OPERATOR, since=self._hub, until=hub.mark())}
        found["hub"] = [one for one in found["hub"] if one.verb != "watch" and one.resource != "leases"]
        return found | {one.name: one.asked(self._planes[one.name], one.audit.mark()) for one in self._scene.planes}


def is_ready(found: Json) -> bool:
    """Whether an object says that it is Ready."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def synced(name: str, copies: int) -> Check:
    """Check for a sync that is Ready with so many copies."""

    def check(line: bytes) -> bool:
        found: Json = msgspec.json.decode(line)["object"]
        if found["metadata"]["name"] != name or not is_ready(found):
            return False
        return sum(one.get("synced", 0) for one in found["status"].get("resources") or ()) == copies

    return check


async def take_all(
    scene: Workspaces, senders: Sequence[int], change: TimedChange, seen: Sequence["asyncio.Task[float]"]
) -> Taken:
    """Make a change, and wait until all that was asked for has been seen."""
    servers = [pid for plane in (scene.hub, *scene.planes) for pid in plane.sandbox.pids.values()]
    machine = Machine(*senders, *servers)
    own, other, started = cpu_seconds(*senders), cpu_seconds(*servers), time.monotonic()
    if (under_way := change()) is not None:
        await under_way
    ended = max(await asyncio.gather(*seen))
    own, other = cpu_seconds(*senders) - own, cpu_seconds(*servers) - other
    return Taken(ended - started, own + other, own, machine.others())


@asynccontextmanager
async def workspaces(targets: int) -> AsyncIterator[Workspaces]:
    """Set the stage, with so many targets that are declared to the operator, and leave nothing of it."""
    names = [UPSTREAM, *(f"target-{number}" for number in range(targets))]
    async with stage() as hub, AsyncExitStack() as clients:
        with ExitStack() as sandboxes, ThreadPoolExecutor(_AT_ONCE) as threads:
            running = [sandboxes.enter_context(one) for one in threads.map(_start, names)]
            planes = [await _plane(name, sandbox, clients) for name, sandbox in zip(names, running, strict=True)]
            scene = Workspaces(hub, planes[0], planes[1:])
            await hub.create(SECRETS, [plane.credential() for plane in planes])
            await hub.create(SYNCTARGETS, [_synctarget(plane) for plane in scene.targets])
            yield scene
            await clients.aclose()


def _start(name: str) -> Sandbox:
    return Sandbox.create(Options(audit_log=True, kcp=_KCP and name == UPSTREAM))


async def _plane(name: str, sandbox: Sandbox, clients: AsyncExitStack) -> Plane:
    access, account = await asyncio.to_thread(_admin, name, sandbox)
    client = await clients.enter_async_context(Client(load_kubeconfig(access)))
    return Plane(name, sandbox, client, account)


def _admin(name: str, sandbox: Sandbox) -> tuple[Path, Path]:
    """Return the kubeconfigs of a user and of the operator."""
    if _KCP and name == UPSTREAM:
        workspace = KcpWorkspace.create(sandbox)
        workspace.serve_workloads()
        return workspace.kubeconfig, workspace.kubeconfig
    return sandbox.kubeconfig, _account(sandbox)


def _account(sandbox: Sandbox) -> Path:
    """Make an account for the operator that may do everything."""
    home, rbac = f"/api/v1/namespaces/{_ACCOUNT}", "/apis/rbac.authorization.k8s.io/v1"
    sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": _ACCOUNT}})
    sandbox.request("POST", f"{home}/serviceaccounts", {"metadata": {"name": "syncline"}})
    binding = {
        "metadata": {"name": "syncline"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "syncline", "namespace": _ACCOUNT}],
    }
    sandbox.request("POST", f"{rbac}/clusterrolebindings", binding)
    return sandbox.kubeconfig_for(sandbox.service_account_token(_ACCOUNT, "syncline", seconds=_WEEK), "syncline")


def _synctarget(plane: Plane) -> Json:
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": plane.name}}
    return {
        "apiVersion": SYNCTARGETS.api_version,
        "kind": SYNCTARGETS.kind,
        "metadata": {"namespace": HOME, "name": plane.name},
        "spec": {"connection": connection},
    }
