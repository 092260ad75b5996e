"""A world for each test, a git server for all of them, and the operator that acts in it."""

from collections.abc import Iterator

import pytest
from tests.configsync.world import GitWorld
from tests.manifestsync.conftest import grant, rights

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

__all__ = ["rights"]

_ALL = ["get", "list", "watch", "create", "patch", "update", "delete"]
APPLIED = [
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": _ALL},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": _ALL},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "verbs": _ALL,
    },
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": _ALL},
]


@pytest.fixture(scope="session")
def git_server() -> Iterator[GitServer]:
    """Repositories over https."""
    with GitServer() as server:
        yield server


def allow(sandbox: Sandbox) -> None:
    """Let the operator also apply what only Git brings along, and wait until that holds."""
    grant(sandbox, APPLIED, "tests-applied-kinds")


@pytest.fixture(scope="session")
def more_rights(sandbox: Sandbox, rights: None) -> None:  # noqa: ARG001 - these are added to those
    """The operator may apply what only Git brings along."""
    allow(sandbox)


@pytest.fixture
def world(
    sandbox: Sandbox,
    operator: OperatorProcess,
    more_rights: None,  # noqa: ARG001 - they are there
    git_server: GitServer,
) -> Iterator[GitWorld]:
    """Namespaces and a repository of this test's own, in a cluster where the operator runs."""
    world = GitWorld(sandbox, git_server)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]
