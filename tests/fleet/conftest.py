"""What the tests of this package share: two real control planes, and a fleet in a hurry."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from tests.fleet.world import QUICK, Remote, proxied

from syncline.fleet import Fleet
from syncline.sandbox import Sandbox
from syncline.testing.proxy import FaultProxy

Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
def until() -> Until:
    """Wait until a condition holds; fail when it does not within 180 seconds."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(180):
            while not condition():  # noqa: ASYNC110  # what tests wait for has no event of its own
                await asyncio.sleep(0.01)

    return wait


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
