"""A world for each test, a git server for all of them, and the operator that acts in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configsync.conftest import git_server
from tests.ignitionsync.replica import Replica
from tests.ignitionsync.world import PlantWorld

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

__all__ = ["git_server"]


@pytest.fixture
def world(sandbox: Sandbox, operator: OperatorProcess, git_server: GitServer) -> Iterator[PlantWorld]:
    """Namespaces, pods and a repository of this test's own, in a cluster where the operator runs."""
    world = PlantWorld(sandbox, git_server)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture(scope="module")
def replica(
    operator: OperatorProcess,  # noqa: ARG001 - it leads, and has made the keys
    installed: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Replica]:
    """A replica that serves plans and does not lead.

    It ends with its module: it takes random numbers in this process, and property tests must be alone in that.
    """
    with Replica(installed, tmp_path_factory.mktemp("replica")) as running:
        yield running
