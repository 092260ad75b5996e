"""A world for each test: the hub is the upstream too, and one or two clusters are below it."""

from collections.abc import Iterator

import pytest
from tests.cli.conftest import syncline
from tests.fleet.world import Remote, proxied
from tests.workspacesync.world import KcpUpstream, Workspaces

from syncline.sandbox import Sandbox
from syncline.testing.fixtures import WorkspaceFactory
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

__all__ = ["syncline"]


def _account(sandbox: Sandbox) -> Remote:
    remote = Remote(sandbox)
    remote.allow("*", groups=("*",))
    return remote


@pytest.fixture(scope="session")
def above(sandbox: Sandbox) -> Remote:
    """The hub as an upstream: a credential that may do everything there."""
    return _account(sandbox)


@pytest.fixture(scope="session")
def lone(arena: Sandbox) -> Remote:
    """The arena as an upstream, beside being the hub of operators that a test starts."""
    return _account(arena)


@pytest.fixture(scope="session")
def east(arena: Sandbox) -> Remote:
    """A cluster below, with an audit log."""
    return _account(arena)


@pytest.fixture(scope="session")
def west(far: Sandbox) -> Remote:
    """A second cluster below."""
    return _account(far)


@pytest.fixture
def upstream_proxy(sandbox: Sandbox) -> Iterator[FaultProxy]:
    """A proxy before the upstream."""
    with proxied(sandbox) as running:
        yield running


@pytest.fixture
def east_proxy(arena: Sandbox) -> Iterator[FaultProxy]:
    """A proxy before the cluster below."""
    with proxied(arena) as running:
        yield running


@pytest.fixture
def west_proxy(far: Sandbox) -> Iterator[FaultProxy]:
    """A proxy before the second cluster below."""
    with proxied(far) as running:
        yield running


@pytest.fixture
def world(sandbox: Sandbox, operator: OperatorProcess, above: Remote, east: Remote) -> Iterator[Workspaces]:
    """An upstream and one cluster below it, where the operator runs."""
    world = Workspaces(sandbox, above, east=east)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture
def wide(
    sandbox: Sandbox, operator: OperatorProcess, above: Remote, east: Remote, west: Remote
) -> Iterator[Workspaces]:
    """An upstream and two clusters below it, where the operator runs."""
    world = Workspaces(sandbox, above, east=east, west=west)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture
def plain_kcp_world(
    sandbox: Sandbox, operator: OperatorProcess, workspace_factory: WorkspaceFactory, east: Remote
) -> Iterator[Workspaces]:
    """A workspace of a real kcp with what every workspace serves, such as ConfigMaps, and one cluster below it."""
    world = Workspaces(sandbox, KcpUpstream(workspace_factory()), east=east)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture
def kcp_world(
    sandbox: Sandbox, operator: OperatorProcess, workspace_factory: WorkspaceFactory, east: Remote
) -> Iterator[Workspaces]:
    """A workspace of a real kcp that serves Deployments and Services, and one cluster below it."""
    world = Workspaces(sandbox, KcpUpstream(workspace_factory(workloads=True)), east=east)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture
def wide_kcp_world(
    sandbox: Sandbox, operator: OperatorProcess, workspace_factory: WorkspaceFactory, east: Remote, west: Remote
) -> Iterator[Workspaces]:
    """A workspace of a real kcp that serves Deployments and Services, and two clusters below it."""
    world = Workspaces(sandbox, KcpUpstream(workspace_factory(workloads=True)), east=east, west=west)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]
