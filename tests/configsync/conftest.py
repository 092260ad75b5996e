"""A world for each test, a git server for all of them, and the operator that acts in it."""

from collections.abc import Iterator

import pytest
from tests.configsync.world import GitWorld
from tests.manifestsync.conftest import rights

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

__all__ = ["rights"]


@pytest.fixture(scope="session")
def git_server() -> Iterator[GitServer]:
    """Repositories over https."""
    with GitServer() as server:
        yield server


@pytest.fixture
def world(
    sandbox: Sandbox,
    operator: OperatorProcess,
    rights: None,
    git_server: GitServer,
) -> Iterator[GitWorld]:
    """Namespaces and a repository of this test's own, in a cluster where the operator runs."""
    world = GitWorld(sandbox, git_server)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]
