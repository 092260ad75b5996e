"""Builds of revisions: work that grows with a repository blocks nobody else."""

import asyncio
import threading
from typing import Any, cast

from syncline.controllers.sources.build import RevisionBuilder


async def test_the_large_repositories_of_one_namespace_block_neither_the_loop_nor_another_namespace() -> None:
    nothing = cast("Any", None)
    builder = RevisionBuilder(nothing, nothing, nothing, nothing)
    gate = threading.Event()
    held = [asyncio.create_task(builder._in_thread("mallory", gate.wait)) for _ in range(3)]
    try:
        assert await builder._in_thread("victim", lambda: "placed") == "placed"
        assert not any(one.done() for one in held)
    finally:
        gate.set()
        await asyncio.gather(*held)
