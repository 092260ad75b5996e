"""Renderers, and eyes on their children."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from tests.render.children import Watcher

from syncline.render.build_pool import BuildPool
from syncline.render.transform_pool import TransformPool

Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
async def renderer() -> AsyncIterator[TransformPool]:
    async with TransformPool() as renderer:
        yield renderer


@pytest.fixture
def until() -> Until:
    """Wait, with the event loop running, until a check holds; fail when it does not within 180 seconds."""

    async def wait(check: Callable[[], bool]) -> None:
        async with asyncio.timeout(180):
            while not check():  # noqa: ASYNC110 - it is about other processes
                await asyncio.sleep(0.01)

    return wait


@pytest.fixture
async def watcher(renderer: TransformPool) -> AsyncIterator[Watcher]:
    watcher = Watcher(renderer)
    task = asyncio.create_task(watcher.watch())
    yield watcher
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def builder(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BuildPool]:
    """One builder for the tests of a module; whatever it wrote to disk is gone at the end."""
    folder = tmp_path_factory.mktemp("builds")
    async with BuildPool(folder=folder) as builder:
        yield builder
    assert list(folder.iterdir()) == []
