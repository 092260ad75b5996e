"""An operator that comes back, from a crash or an upgrade, goes by what is so, not by what it knew."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.configsync.conftest import allow
from tests.configsync.world import GitWorld, config_map, fares, stateful_set

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

Start = Callable[[], OperatorProcess]


@pytest.fixture
def world(arena: Sandbox, start: Start, git_server: GitServer) -> Iterator[GitWorld]:  # noqa: ARG001 - it installs
    """A repository and namespaces in a cluster where no operator runs but those that the test starts."""
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
