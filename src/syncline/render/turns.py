"""Turn-taking: a few places, given out in rotation between groups, so that a crowd in one holds up only that one."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Places for a few at a time; those who wait get them group by group, and within a group in their order."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, group: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it for the length of the block."""
        await self._take(group)
        try:
            yield
        finally:
            self._pass_on()

    async def _take(self, group: str) -> None:
        if self._free:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            group = next(iter(self._waiting))
            queue = self._waiting.pop(group)
            place = queue.popleft()
            if queue:
                self._waiting[group] = queue  # behind the other groups
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
