"""Watches that are late: each event comes in order, and up to a second after it was sent."""

import asyncio
import json
import random
from collections.abc import AsyncIterator

from syncline.testing.faults import Lines, refusal


class Lag:
    """How late all watches of a proxy are. Set from any thread."""

    def __init__(self) -> None:
        self.limit = 0.0
        """The most that an event is late, in seconds."""
        self.expiring = 0.0
        """The share of events in whose place a watch is told that its version is too old."""

    async def edit(self, lines: Lines) -> AsyncIterator[bytes]:
        """Pass on the lines of one watch."""
        loop = asyncio.get_running_loop()
        late = random.random()
        queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()

        async def pump() -> None:
            try:
                async for line in lines:
                    queue.put_nowait((loop.time(), line))
            finally:
                queue.put_nowait(None)

        pumping = asyncio.create_task(pump())
        try:
            while (item := await queue.get()) is not None:
                arrived, line = item
                wait = arrived + self.limit * late - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
                elif random.random() < 0.02:
                    late = random.random()
                if self.expiring and random.random() < self.expiring:
                    yield json.dumps({"type": "ERROR", "object": refusal(410)}).encode() + b"\n"
                    return
                yield line
            await pumping
        finally:
            pumping.cancel()
