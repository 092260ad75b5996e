"""A tenant whose Git servers send without end: the operator lives on under the limits of its pod, and serves others."""

import resource
import threading
from contextlib import AsyncExitStack
from pathlib import Path

from tests.git.test_memory import never_ending
from tests.manifestsync.world import Manifests
from tests.tenancy.tenants import Tenant

from syncline.deploy.workload import MEMORY, OPERATOR_MEMORY
from syncline.testing.loop import OnLoop
from syncline.testing.operator import OperatorProcess


class EndlessServers(OnLoop):
    """Git servers whose lists of refs never end."""

    thread_name = "endless-servers"

    async def _open(self) -> None:
        self._servers = AsyncExitStack()
        started = [await self._servers.enter_async_context(never_ending(protocol)) for protocol in (0, 2) * 4]
        self.urls = [url for url, _ in started]

    async def _close(self) -> None:
        await self._servers.aclose()


class Memory:
    """Looks at the memory of a process and of all that it has started, until it is told to end."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        self.peak = 0

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.peak = max(self.peak, sum(map(_resident, _family(self._pid))))


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def test_git_servers_of_a_tenant_that_never_stop_sending_fit_into_the_pod_and_hold_up_nobody(
    alone: Manifests, quiet: Path
) -> None:
    mallory = Tenant(alone, alone.namespace("mallory"))
    nobody = mallory.account()
    there = alone.namespace("there")
    alone.source()
    with EndlessServers() as servers, OperatorProcess(quiet, "--allow-loopback", "--allow-insecure-git") as operator:
        resource.prlimit(operator.pid, resource.RLIMIT_DATA, (OPERATOR_MEMORY, OPERATOR_MEMORY))
        memory = Memory(operator.pid)
        try:
            attacks = [
                mallory.sync(
                    "ConfigSync", f"endless-{number}", serviceAccountName=nobody, source={"git": {"repo": url}}
                )
                for number, url in enumerate(servers.urls)
            ]
            victim = alone.sync("copies", destinationNamespaces=[there])
            victim.becomes("Synced", synced=1)
            for attack in attacks:
                attack.becomes("TooLarge")
        finally:
            memory.end()
        assert operator.returncode is None
        assert memory.peak < MEMORY
        for attack in attacks:
            attack.delete()
