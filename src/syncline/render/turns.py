"""Turn-taking: a few places, given out fairly between groups, so that a crowd in one holds up only that one."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Places for a few at a time. A free place goes to the group that holds fewest; equals take turns."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, group: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it for the length of the block."""
        await self._take(group)
        try:
            yield
        finally:
            self._give_back(group)

    async def _take(self, group: str) -> None:
        if self._free:
            self._free -= 1
            self._held[group] += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._give_back(group)
            raise

    def _give_back(self, group: str) -> None:
        self._held -= Counter([group])
        while self._waiting:
            following = min(self._waiting, key=self._held.__getitem__)
            queue = self._waiting.pop(following)
            place = queue.popleft()
            if queue:
                self._waiting[following] = queue  # behind its equals
            if not place.done():
                self._held[following] += 1
                place.set_result(None)
                return
        self._free += 1
