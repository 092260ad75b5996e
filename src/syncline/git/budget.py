"""How much memory the lists of files take, of all commits that are in use or kept."""

import asyncio
import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Collection

from syncline.git.errors import CacheFailure

PATIENCE = 60.0
"""For how long room is waited for."""

MakeRoom = Callable[[str | None], bool]
"""Lets go of something that is kept and maybe not in use: of a tenant, or of anybody. Says whether there was any."""


class Ticket:
    """Room that is taken; it is given back with the object that it is tied to, or by `release`."""

    def __init__(self, give_back: Callable[[], None], tenant: str) -> None:
        self.tenant = tenant
        self._give_back = give_back
        self._is_tied = False

    def tie(self, what: object) -> None:
        """Give the room back when an object is gone."""
        self._is_tied = True
        weakref.finalize(what, self._give_back).atexit = False

    def release(self) -> None:
        """Give the room back, unless an object has it."""
        if not self._is_tied:
            self._give_back()


class MemoryBudget:
    """Bytes that all may take together, and half of them one tenant."""

    def __init__(self, most: int, make_room: MakeRoom) -> None:
        self._most = most
        self._make_room = make_room
        self._held: Counter[str] = Counter()
        self._given_back = asyncio.Event()

    @property
    def held(self) -> int:
        """How many bytes are taken."""
        return self._held.total()

    async def take(self, size: int, tenants: Collection[str]) -> Ticket:
        """Take room, waiting for it where others use it; raise `CacheFailure` where it takes too long.

        What several tenants want is counted to the one that has least.
        """
        tenant = min(tenants, key=self._held.__getitem__, default="")
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self._fits(size, tenant):
                    self._given_back.clear()
                    await self._given_back.wait()
        except TimeoutError:
            raise CacheFailure(
                f"it is tried again: the lists of files of commits that are in use take more than the {self._most} "
                "bytes that they may"
            ) from None
        self._held[tenant] += size
        loop = asyncio.get_running_loop()

        def give_back() -> None:
            # Objects end in any thread, and after the loop too.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._release, size, tenant)

        return Ticket(give_back, tenant)

    async def _fits(self, size: int, tenant: str) -> bool:
        while tenant and self._held[tenant] + size > self._most // 2:
            if not self._make_room(tenant):
                return False
            await asyncio.sleep(0)  # what was let go of is given back by then, unless somebody uses it
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
