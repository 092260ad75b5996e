"""A semaphore whose slots are shared fairly between groups: many waiters in one group delay only that group."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

on_behalf_of: ContextVar[str] = ContextVar("on_behalf_of", default="")
"""The group of the running task, such as the namespace of a sync."""


class FairSemaphore:
    """A limited number of slots. A free slot goes to the group with the fewest slots; equal groups alternate.

    No group holds more than `share` slots, even if others are free: a slot can be held for a long time, and the next
    group must find a free slot. Work without a group has no share.
    """

    def __init__(self, slots: int, *, share: int | None = None) -> None:
        self._free = slots
        self._share = slots if share is None else share
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, *groups: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it until the end of the block.

        Work for several groups counts for the group with the fewest slots: no group can delay the work of others by
        requesting the same work.
        """
        group = min(groups, key=self._load, default="")
        await self.acquire(group)
        try:
            yield
        finally:
            self.release(group)

    def _load(self, group: str) -> int:
        return self._held[group] + len(self._waiting.get(group, ()))

    def _may_hold_more(self, group: str) -> bool:
        return not group or self._held[group] < self._share

    async def acquire(self, group: str) -> None:
        """Wait for a slot of a group. It is the caller's until `release`."""
        if self._free and self._may_hold_more(group):
            self._free -= 1
            self._held[group] += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.release(group)
            else:
                self._abandon(group, place)
            raise

    def _abandon(self, group: str, place: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(group)
        if queue is not None and place in queue:
            queue.remove(place)
            if not queue:
                del self._waiting[group]

    def release(self, group: str) -> None:
        """Give back a slot of a group."""
        self._held -= Counter([group])
        self._free += 1
        while ready := [each for each in self._waiting if self._may_hold_more(each)]:
            following = min(ready, key=self._held.__getitem__)
            queue = self._waiting.pop(following)
            place = queue.popleft()
            if queue:
                self._waiting[following] = queue  # after equal groups
            if not place.done():  # a cancelled waiter has not run yet
                self._free -= 1
                self._held[following] += 1
                place.set_result(None)
                return
