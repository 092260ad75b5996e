"""Looks up the addresses of names in threads of its own, which groups share fairly.

A name server that does not answer holds a thread for half a minute, and a thread cannot be stopped. So a caller who
waits no more still counts: its slot is free when the thread has ended.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

from aiohttp.abc import AbstractResolver, ResolveResult

from syncline.fairness import FairSemaphore, on_behalf_of

THREADS = 16
SECONDS = 15.0
"""The longest that a caller waits for an answer."""

AddressInfo = tuple[int, str]
"""The family of an address, and the address."""


class Lookups:
    """The threads, and their slots. The creator closes it."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="name-lookup")
        self._slots = FairSemaphore(threads, share=max(1, threads // 2))
        self._ending: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End the threads, as soon as they have their answers."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, host: str, port: int, *groups: str) -> list[AddressInfo]:
        """Return the addresses of a name. Raises `TimeoutError`, and `OSError` if there are none."""
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._slots.slot(*groups))
            answer = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
            try:
                async with asyncio.timeout(SECONDS):
                    return await asyncio.shield(answer)
            finally:
                if not answer.done():
                    self._release_at_the_end(answer, held.pop_all())
        raise AssertionError  # the block returns or raises

    def _release_at_the_end(self, answer: "asyncio.Future[list[AddressInfo]]", held: AsyncExitStack) -> None:
        async def release() -> None:
            await asyncio.wait([answer])
            if not answer.cancelled():
                answer.exception()  # nobody waits for it
            await held.aclose()

        task = asyncio.create_task(release())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class FairResolver(AbstractResolver):
    """Looks names up for the group of the running task."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name."""
        try:
            found = await self._lookups.find(host, port, on_behalf_of.get())
        except TimeoutError:
            raise OSError(None, "the name server does not answer") from None
        del family
        return [resolved(host, address, port, kind) for kind, address in found]

    async def close(self) -> None:
        """Nothing is kept."""


def resolved(host: str, address: str, port: int, family: int) -> ResolveResult:
    """Return an address of a name, for aiohttp."""
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=family,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )


def _look_up(host: str, port: int) -> list[AddressInfo]:
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "this is not a valid host name") from None
    return list(dict.fromkeys((int(info[0]), str(info[4][0])) for info in infos))
