"""What the tests of this package share: two real control planes, and a fleet in a hurry."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.fleet.world import QUICK, Remote, proxied
from tests.kube.conftest import Until, until

from syncline.fleet import Fleet
from syncline.sandbox import Sandbox
from syncline.testing.proxy import FaultProxy

__all__ = ["Until", "until"]


@pytest.fixture
def remote(far: Sandbox) -> Remote:
    """An account of its own in the second control plane."""
    return Remote(far)


@pytest.fixture
def proxy(far: Sandbox) -> Iterator[FaultProxy]:
    """A proxy before the second control plane."""
    with proxied(far) as running:
        yield running


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """A fleet that may reach this machine, and does not take its time."""
    async with Fleet(allow_loopback=True, timeouts=QUICK) as running:
        yield running
