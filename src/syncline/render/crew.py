"""Children of one kind: started when there is work, kept warm for a while, ended when one misbehaves or all is over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from syncline.fairness import FairSemaphore
from syncline.render.child import ChildCrashed, Process
from syncline.render.errors import RenderFailed

IDLE_SECONDS = 60.0
"""How long a child without work is kept."""

UNCONFINED = (
    "rendering is refused, because the operator's --allow-unconfined-builds is off and this machine has no filter of "
    "system calls (seccomp, on x86-64 and arm64)"
)

P = TypeVar("P", bound=Process)


class Crew(Generic[P]):
    """Lends children, each to one at a time."""

    def __init__(self, kind: type[P], *, unconfined: bool = False) -> None:
        self._kind = kind
        self._unconfined = unconfined
        self._idle: dict[P, asyncio.TimerHandle] = {}
        self._closed = False
        self._closing = asyncio.Lock()
        self.children: set[P] = set()

    @asynccontextmanager
    async def lend(self, *, fresh: bool = False) -> AsyncIterator[P]:
        """Lend a child; one that was in the middle of something when the caller gave up is killed.

        `fresh`: one that has done nothing yet, in place of one that waits.
        """
        self.refuse_when_closed()
        idle: P | None = None
        if self._idle:
            idle, retirement = self._idle.popitem()
            retirement.cancel()
            if fresh:
                idle.kill()
        child = await self._start() if fresh or idle is None else idle
        try:
            yield child
        except BaseException:
            child.kill()
            raise
        if not child.gone.done():
            self._idle[child] = asyncio.get_running_loop().call_later(IDLE_SECONDS, child.kill)

    async def close(self, turns: FairSemaphore, places: int) -> None:
        """End all children, and wait until they are gone; `turns` has so many places, without which none is started."""
        self._closed = True
        for child in self.children:
            child.kill()
        async with self._closing, AsyncExitStack() as held:
            # Who holds all places knows that nobody is about to start a child.
            for _ in range(places):
                await held.enter_async_context(turns.slot(""))
            await asyncio.gather(*(child.gone for child in self.children))

    def refuse_when_closed(self) -> None:
        """Raise when all is over."""
        if self._closed:
            raise RenderFailed("rendering has ended, because the operator is stopping")

    def _refuse_unconfined(self, child: P) -> None:
        if not (child.confined or self._unconfined):
            raise RenderFailed(UNCONFINED, retry_after=60.0)

    async def _start(self) -> P:
        try:
            child = await self._kind.start()
        except OSError as error:
            raise RenderFailed(
                f"no process for rendering could be started: {error.strerror}", retry_after=1.0
            ) from None
        self.children.add(child)
        child.gone.add_done_callback(lambda _: self._forget(child))
        try:
            self.refuse_when_closed()
            await child.ready()
            self._refuse_unconfined(child)
        except ChildCrashed:
            child.kill()
            self.refuse_when_closed()
            raise RenderFailed("a process for rendering did not start", retry_after=1.0) from None
        except BaseException:
            child.kill()
            raise
        return child

    def _forget(self, child: P) -> None:
        self.children.discard(child)
        if retirement := self._idle.pop(child, None):
            retirement.cancel()
