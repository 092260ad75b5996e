"""A control plane that stops, starts again with its data, and goes back to a backup of it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fleet.world import Remote
from tests.workspacesync.world import Cluster, KcpUpstream

from syncline.sandbox import Access, Sandbox
from syncline.testing.faults import Fault
from syncline.testing.kcp import KcpWorkspace
from syncline.testing.proxy import FaultProxy


class Restorable:
    """A cluster or a kcp, and one backup of it."""

    def __init__(self, sandbox: Sandbox, backup: Path) -> None:
        self._sandbox = sandbox
        self._backup = backup
        self._server = "kcp" if sandbox.options.kcp else "kube-apiserver"
        self.front = Access(sandbox.folder, sandbox.server.partition("/clusters/")[0], sandbox.ca, sandbox.token)
        """For a proxy: workspaces have paths of their own."""

    def account(self) -> Cluster:
        """Return access to all of the cluster, or of a new workspace."""
        if self._sandbox.options.kcp:
            return KcpUpstream(KcpWorkspace.create(self._sandbox))
        account = Remote(self._sandbox)
        account.allow("*", groups=("*",))
        return account

    def stop(self) -> None:
        """Stop it, like a crash."""
        for component in (self._server, "etcd"):
            self._sandbox.kill(component)

    def start(self) -> None:
        """Start it with its data, at its old address."""
        for component in ("etcd", self._server):
            self._sandbox.start(component)

    def back_up(self) -> None:
        """Copy its data while it is stopped."""
        shutil.copytree(self._sandbox.folder / "etcd", self._backup)

    @contextmanager
    def restored(self, link: FaultProxy) -> Iterator[None]:
        """Restore it from its backup, and let nobody see it before its versions have passed all that it had."""
        newest = self._write("newest")
        away = link.inject(Fault(lost=True), when=lambda _: True)
        link.cut_watches()
        self.stop()
        shutil.rmtree(self._sandbox.folder / "etcd")
        shutil.copytree(self._backup, self._sandbox.folder / "etcd")
        self.start()
        number = 0
        while self._write(f"since-{number}") <= newest:
            number += 1
        yield
        away.lift()

    def _write(self, name: str) -> int:
        """Write something that no sync follows; return the version of the server."""
        made = self._sandbox.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
        return int(made["metadata"]["resourceVersion"])
