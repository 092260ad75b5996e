"""What the tests of this package share."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.kube.scripted import ScriptedServer, scripted_server

from syncline.kube import NAMESPACES, Client, load_kubeconfig
from syncline.sandbox import Sandbox

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
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    """An admin's client of the sandbox."""
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as running:
        yield running


@pytest.fixture
async def namespace(client: Client) -> str:
    """A namespace of this test's own."""
    name = f"kube-test-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedServer]:
    """A server that answers as told."""
    async with scripted_server() as server:
        yield server
