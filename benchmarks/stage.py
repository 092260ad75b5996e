"""Where a benchmark plays: a sandbox with Syncline installed, and the means to fill it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from syncline.kube.client import Client
from syncline.kube.config import load_kubeconfig
from syncline.kube.resources import NAMESPACES, SERVICEACCOUNTS, Resource
from syncline.sandbox import Options, Sandbox
from syncline.testing.audit import AuditLog
from syncline.testing.operator import install

HOME = "bench-home"
"""The namespace of sources and syncs."""
_FILLERS = 32


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


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Set a stage, and leave nothing of it."""
    with Sandbox.create(Options(audit_log=True)) as sandbox:
        kubeconfig = install(sandbox)
        async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
            await client.create(NAMESPACES, {"metadata": {"name": HOME}})
            yield Stage(sandbox, client, kubeconfig)
