"""The memory budget for the lists of files of all commits that are in use or cached."""

import asyncio
import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Collection

from syncline.git.errors import CacheFailure

PATIENCE = 60.0
"""The maximum time to wait for memory, in seconds."""

MakeRoom = Callable[[str | None], bool]
"""Drops a cached list, of a tenant or of all. Returns whether there was one."""


class Ticket:
    """Reserved memory. It is released with its object, or by `release`."""

    def __init__(self, give_back: Callable[[], None], tenant: str) -> None:
        self.tenant = tenant
        self._give_back = give_back
        self._is_tied = False

    def tie(self, what: object) -> None:
        """Release the memory when an object is garbage-collected."""
        self._is_tied = True
        weakref.finalize(what, self._give_back).atexit = False

    def release(self) -> None:
        """Release the memory, unless an object holds it."""
        if not self._is_tied:
            self._give_back()


class MemoryBudget:
    """The maximum of bytes for all tenants together, and half of it for one tenant."""

    def __init__(self, most: int, make_room: MakeRoom) -> None:
        self._most = most
        self._make_room = make_room
        self._held: Counter[str] = Counter()
        self._given_back = asyncio.Event()

    @property
    def held(self) -> int:
        """The number of reserved bytes."""
        return self._held.total()

    async def take(self, size: int, tenants: Collection[str]) -> Ticket:
        """Reserve memory, and wait while others use it. Raises `CacheFailure` after too long a wait.

        Memory for several tenants counts for the tenant with the smallest reservation.
        """
        tenant = min(tenants, key=self._held.__getitem__, default="")
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self._fits(size, tenant):
                    self._given_back.clear()
                    await self._given_back.wait()
        except TimeoutError:
            raise CacheFailure(
                f"the lists of files of all commits in use need more than the allowed {self._most} bytes: the operator"
                " retries"
            ) from None
        self._held[tenant] += size
        loop = asyncio.get_running_loop()

        def give_back() -> None:
            # Objects are garbage-collected in any thread, also after the end of the loop.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._release, size, tenant)

        return Ticket(give_back, tenant)

    async def _fits(self, size: int, tenant: str) -> bool:
        while tenant and self._held[tenant] + size > self._most // 2:
            if not self._make_room(tenant):
                return False
            await asyncio.sleep(0)  # dropped lists are released by then, unless they are in use
        while self._held.total() + size > self._most:
            if not self._make_room(None):
                return False
            await asyncio.sleep(0)
        return True

    def _release(self, size: int, tenant: str) -> None:
        self._held[tenant] -= size
        if not self._held[tenant]:
            del self._held[tenant]
        self._given_back.set()
