"""A kernel without Landlock: nothing of Git is built unconfined, and the operator says so wherever somebody looks."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.configmapsync.world import until
from tests.configsync.conftest import allow
from tests.configsync.world import GitWorld, config_map
from tests.kernel import without_landlock
from tests.manifestsync.conftest import grant

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess, execute

__all__ = ["without_landlock"]


@pytest.fixture
def world(arena: Sandbox, arena_kubeconfig: Path, git_server: GitServer) -> Iterator[GitWorld]:  # noqa: ARG001
    """A repository and namespaces in a cluster where no operator runs but those that the test starts."""
    grant(arena)
    allow(arena)
    world = GitWorld(arena, git_server)
    yield world
    world.end_alone()


def readiness(operator: OperatorProcess) -> tuple[int, str]:
    return operator.get("health", "/readyz?verbose")


def metrics(operator: OperatorProcess) -> list[str]:
    return operator.get("metrics", "/metrics")[1].splitlines()


def test_without_landlock_git_is_refused_and_readyz_says_so(
    world: GitWorld, arena_kubeconfig: Path, without_landlock: Sequence[str]
) -> None:
    world.push({"app.yaml": config_map("app")})
    launch = partial(execute, runner=without_landlock)
    with OperatorProcess(arena_kubeconfig, "--allow-loopback", wait=False, launch=launch) as operator:
        sync = world.csync()
        refused = sync.becomes("Refused")["message"]
        assert "--allow-unconfined-builds is off and this machine has no Landlock" in refused
        told = "builds and git are refused, because they cannot be confined here: no Landlock"
        until(lambda: readiness(operator), lambda answer: "[+] watches: " in answer[1])
        status, text = readiness(operator)
        assert status == 503
        (failing,) = (line for line in text.splitlines() if line.startswith("[-]"))
        assert failing.startswith(f"[-] confinement: {told}")
        assert told in operator.log()
        assert {'syncline_self_check{check="confinement"} 0.0', "syncline_builds_unconfined 0.0"} <= {
            *metrics(operator)
        }

        # What needs no confinement goes on.
        target = world.namespace("target")
        world.msync("copy", world.secret("source"), into=[target]).becomes("Synced", synced=1)
    assert world.find("ConfigMap", world.home).look() is None


def test_without_landlock_builds_run_unconfined_only_on_request_and_that_is_told(
    world: GitWorld, arena_kubeconfig: Path, without_landlock: Sequence[str]
) -> None:
    commit = world.push({"app.yaml": config_map("app")})
    flags = ("--allow-loopback", "--allow-unconfined-builds")
    launch = partial(execute, runner=without_landlock)
    with OperatorProcess(arena_kubeconfig, *flags, launch=launch) as operator:
        world.csync().at(commit)
        told = "builds and git run unconfined, as --allow-unconfined-builds says: no Landlock"
        status, text = readiness(operator)
        assert status == 200
        assert f"[+] confinement: {told}" in text
        assert told in operator.log()
        assert {'syncline_self_check{check="confinement"} 0.0', "syncline_builds_unconfined 1.0"} <= {
            *metrics(operator)
        }
