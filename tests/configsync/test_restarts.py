"""An operator that comes back, from a crash or an upgrade, goes by what is so, not by what it knew."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import until
from tests.configsync.conftest import allow
from tests.configsync.world import ConfigSync, GitWorld, config_map, fares, manifest, stateful_set
from tests.manifestsync.conftest import grant

from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

Start = Callable[[], OperatorProcess]
# The writes of each step, counted from its beginning, over which the operator dies: before one, and after another.
LOST, DONE = 2, 4


@pytest.fixture
def world(arena: Sandbox, start: Start, git_server: GitServer) -> Iterator[GitWorld]:  # noqa: ARG001 - it installs
    """A repository and namespaces in a cluster where no operator runs but those that the test starts."""
    grant(arena)
    allow(arena)
    world = GitWorld(arena, git_server)
    yield world
    world.end_alone()


@pytest.fixture
def start(arena_kubeconfig: Path) -> Iterator[Start]:
    """Start operators; those that still run are stopped at the end."""
    running: list[OperatorProcess] = []

    def begin() -> OperatorProcess:
        running.append(OperatorProcess(arena_kubeconfig, "--allow-loopback"))
        return running[-1]

    yield begin
    for operator in running:
        operator.stop()


def test_an_operator_that_comes_back_writes_only_what_it_has_missed(world: GitWorld, start: Start) -> None:
    first = world.push(
        {
            "same.yaml": config_map("same"),
            "edited.yaml": config_map("edited", a="1"),
            "old.yaml": config_map("old"),
            "app.yaml": stateful_set(),
        }
    )
    operator = start()
    sync = world.csync(wait=True)
    app = world.find("StatefulSet", world.home)
    app.appears()
    fares(app)
    sync.at(first)
    operator.kill()
    edited = world.find("ConfigMap", world.home, "edited")
    edited.put("data", "a", value="2")
    second = world.push({"old.yaml": None, "new.yaml": config_map("new")})
    mark = world.mark()
    start()
    world.find("ConfigMap", world.home, "old").gone()
    sync.at(second)
    edited.holds_data(a="1")
    assert sorted(entry.split()[0] for entry in world.copying(mark)) == ["create", "delete", "patch"]
    assert sync.history == [second, first]


def test_the_worker_that_builds_a_new_sync_starts_while_its_repository_is_checked(
    world: GitWorld, start: Start
) -> None:
    first = world.push({"app.yaml": config_map("app")})
    operator = start()
    world.server.hold(world.name)
    try:
        sync = world.csync()
        until(lambda: world.server.waiting(world.name), lambda waiting: waiting == 1)
        until(lambda: _workers(operator.pid), bool)
        assert world.server.waiting(world.name) == 1  # the check has not ended
    finally:
        world.server.release(world.name)
    sync.at(first)


def _workers(pid: int) -> list[Path]:
    """Return the processes of an operator that build."""
    children = [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
    found = [Path("/proc", child) for task in children for child in task.read_text(encoding="ascii").split()]
    return [process for process in found if b"syncline.render.workers.build" in (process / "cmdline").read_bytes()]


class Mortal:
    """An operator that dies over writes, and is started again."""

    def __init__(self, proxy: FaultProxy, kubeconfig: Path) -> None:
        self.deaths = 0
        self._proxy = proxy
        self._kubeconfig = proxy.kubeconfig(kubeconfig)
        self._operator = OperatorProcess(self._kubeconfig, "--allow-loopback")

    def dies(self) -> None:
        """Die over two of the writes that come next."""
        so_far = self._proxy.count(lambda asked: asked.changes)
        for number, fault in ((LOST, Fault(before=self._kill, lost=True)), (DONE, Fault(after=self._kill))):
            self._proxy.inject(fault, when=lambda asked, at=so_far + number: asked.number >= at, times=1)

    def sees_to(self, done: Callable[[], object]) -> None:
        """Wait until something is done, by as many operators as it takes."""

        def look() -> object:
            if self._operator.returncode is not None:
                self._operator.stop()
                self._operator = OperatorProcess(self._kubeconfig, "--allow-loopback")
            return done()

        until(look, bool)

    def stop(self) -> None:
        self._operator.stop()

    def _kill(self) -> None:
        self.deaths += 1
        self._operator.kill()


@pytest.fixture
def mortal(arena: Sandbox, arena_kubeconfig: Path) -> Iterator[Mortal]:
    with FaultProxy(arena) as proxy:
        mortal = Mortal(proxy, arena_kubeconfig)
        yield mortal
        mortal.stop()


def _names(world: GitWorld) -> set[str]:
    """Name what the sync has in the cluster, of all kinds that are used here."""
    kinds = {"api/v1": ("configmaps", "services"), "apis/apps/v1": ("statefulsets",)}
    found = [
        item
        for group, plurals in kinds.items()
        for plural in plurals
        for item in world.sandbox.request("GET", f"/{group}/namespaces/{world.home}/{plural}")["items"]
    ]
    return {item["metadata"]["name"] for item in found if "syncline.dev/owner" in item["metadata"].get("labels", {})}


def _is_at(sync: ConfigSync, commit: str) -> bool:
    body = sync.read().get("status", {})
    ready = {one["type"]: one["status"] for one in body.get("conditions", [])}.get("Ready")
    return body.get("sourceRevision") == commit and ready == "True"


def test_an_operator_that_dies_over_its_writes_leaves_nothing_out_and_nothing_behind(
    world: GitWorld, mortal: Mortal
) -> None:
    service = manifest("v1", "Service", "web", spec={"ports": [{"port": 80}]})
    commit = world.push(
        {
            "one.yaml": config_map("one"),
            "two.yaml": config_map("two"),
            "web.yaml": service,
            "app.yaml": stateful_set(),
        }
    )
    mortal.dies()
    sync = world.csync()
    mortal.sees_to(lambda: _is_at(sync, commit))
    assert _names(world) == {"one", "two", "web", "app"}
    mortal.dies()
    commit = world.push(
        {
            "one.yaml": config_map("one", changed="yes"),
            "two.yaml": None,
            "web.yaml": None,
            "new.yaml": config_map("new"),
        }
    )
    sync.annotate({"syncline.dev/requestedAt": "now"})
    mortal.sees_to(lambda: _is_at(sync, commit) and _names(world) == {"one", "new", "app"})
    world.find("ConfigMap", world.home, "one").holds_data(changed="yes")
    mortal.dies()
    sync.delete()
    mortal.sees_to(lambda: sync.look() is None)
    assert _names(world) == set()
    assert mortal.deaths > 3, "it died in every step"
