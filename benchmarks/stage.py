"""Where a benchmark plays: a sandbox with Syncline installed, and the means to fill it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from syncline.controllers.configmapsync import RESOURCE as SYNCS
from syncline.kube.client import Client, PatchKind
from syncline.kube.config import load_kubeconfig
from syncline.kube.resources import CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS, Resource
from syncline.sandbox import Options, Sandbox
from syncline.testing.audit import AuditLog
from syncline.testing.operator import install

__all__ = ["HOME", "SYNCS", "Stage", "config_map", "stage", "sync"]

HOME = "bench-home"
"""The namespace of sources and syncs."""
_FILLERS = 32
_PAYLOAD = "".join(f"setting-{number}: the value of this setting\n" for number in range(25))


class Stage:
    """A control plane with Syncline installed and its operator not yet running."""

    def __init__(self, sandbox: Sandbox, client: Client, kubeconfig: Path) -> None:
        self.sandbox = sandbox
        self.client = client
        self.kubeconfig = kubeconfig
        """For the operator: its own ServiceAccount."""
        self.audit = AuditLog(sandbox)

    @property
    def server_pids(self) -> tuple[int, int]:
        pids = self.sandbox.pids
        return pids["kube-apiserver"], pids["etcd"]

    async def create(self, resource: Resource, bodies: Iterable[dict[str, Any]]) -> None:
        """Create objects, many at once."""
        rest = iter(bodies)

        async def work() -> None:
            for body in rest:
                await self.client.create(resource, body, body["metadata"].get("namespace"))

        async with asyncio.TaskGroup() as group:
            for _ in range(_FILLERS):
                group.create_task(work())

    async def create_namespaces(self, names: Iterable[str], labels: dict[str, str]) -> None:
        """Create namespaces, and wait until the control plane has done its own work in each."""
        wanted = {*names}
        await self.create(NAMESPACES, ({"metadata": {"name": name, "labels": labels}} for name in wanted))
        furnished: set[str] = set()
        while not wanted <= furnished:
            accounts, _ = await self.client.list(SERVICEACCOUNTS, metadata_only=True)
            furnished = {account["metadata"]["namespace"] for account in accounts}
            await asyncio.sleep(0.2)

    async def edit(self, name: str, token: str) -> str:
        """Change a source, and return its new version."""
        patch = {"data": {"token": token}}
        changed = await self.client.patch(CONFIGMAPS, name, HOME, patch, PatchKind.MERGE)
        return str(changed["metadata"]["resourceVersion"])


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Set a stage, and leave nothing of it."""
    with Sandbox.create(Options(audit_log=True)) as sandbox:
        kubeconfig = install(sandbox)
        async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
            await client.create(NAMESPACES, {"metadata": {"name": HOME}})
            yield Stage(sandbox, client, kubeconfig)


def config_map(namespace: str, name: str, token: str) -> dict[str, Any]:
    """Return a ConfigMap of about 1 KB that can be known by its token."""
    return {"metadata": {"namespace": namespace, "name": name}, "data": {"token": token, "settings.yaml": _PAYLOAD}}


def sync(name: str, source: str, **spec: object) -> dict[str, Any]:
    """Return a ConfigMapSync of a source."""
    return {
        "apiVersion": SYNCS.api_version,
        "kind": SYNCS.kind,
        "metadata": {"namespace": HOME, "name": name},
        "spec": {"sourceNamespace": HOME, "configMapName": source, **spec},
    }
