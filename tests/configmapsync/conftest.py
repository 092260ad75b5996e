"""A world for each test, and the operator that acts in it."""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import World

from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess


@pytest.fixture
def world(sandbox: Sandbox, operator: OperatorProcess) -> Iterator[World]:
    """Namespaces of this test's own, in a cluster where the operator runs."""
    world = World(sandbox)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]
