"""An agent, a depot and a gateway for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess

from syncline.testing.fixtures import GatewayFactory
from syncline.testing.gateway import GatewayDouble


@pytest.fixture
def depot() -> Iterator[PlanDepot]:
    with PlanDepot() as running:
        yield running


@pytest.fixture
def gateway(tmp_path: Path, gateway_factory: GatewayFactory) -> GatewayDouble:
    (tmp_path / "data").mkdir()
    return gateway_factory(tmp_path / "data")


@pytest.fixture
def plain(tmp_path: Path, depot: PlanDepot) -> Iterator[AgentProcess]:
    """Return an agent of an application that finds its files by itself; it is not started yet."""
    agent = AgentProcess(tmp_path, depot)
    yield agent
    agent.kill()


@pytest.fixture
def agent(tmp_path: Path, depot: PlanDepot, gateway: GatewayDouble) -> Iterator[AgentProcess]:
    """Return an agent of an Ignition gateway; it is not started yet."""
    agent = AgentProcess(tmp_path, depot, gateway)
    yield agent
    agent.kill()
