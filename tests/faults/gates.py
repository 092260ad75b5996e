"""Gates for what passes the proxy: a watch that tells nothing for a while, a request that waits to be let through."""

import asyncio
import threading
from collections.abc import Callable

from syncline.testing.faults import Asked, Fault, Lines, Rule
from syncline.testing.proxy import FaultProxy

PATIENCE = 60.0


class WatchGate:
    """Watches of one resource, and selector; while it is closed they tell nothing, and lose nothing."""

    def __init__(self, proxy: FaultProxy, resource: str, selector: str | None = None) -> None:
        self._closed = False
        proxy.inject(
            Fault(events=self._pass),
            when=lambda asked: (
                asked.verb == "watch"
                and asked.resource == resource
                and selector in (None, asked.query.get("labelSelector"))
            ),
        )

    def close(self) -> None:
        self._closed = True

    def open(self) -> None:
        self._closed = False

    async def _pass(self, lines: Lines) -> Lines:
        async for line in lines:
            while self._closed:  # noqa: ASYNC110 - the test closes it from another thread
                await asyncio.sleep(0.02)
            yield line


class RequestGate:
    """The first request of a kind waits before the server, until it is let through."""

    def __init__(self, proxy: FaultProxy, when: Callable[[Asked], bool]) -> None:
        self._released = threading.Event()
        self.rule: Rule = proxy.inject(Fault(before=self._wait), when=when, times=1)

    def release(self) -> None:
        self._released.set()

    @property
    def is_reached(self) -> bool:
        return bool(self.rule.hits)

    def _wait(self) -> None:
        self._released.wait(PATIENCE)
