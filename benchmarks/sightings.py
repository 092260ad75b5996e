"""Seeing with one watch when a change has arrived. Lines are searched, not decoded, so that looking on costs little."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from syncline.kube.client import Client
from syncline.kube.errors import Unreachable
from syncline.kube.resources import Resource

Check = Callable[[bytes], bool]
DELETED = b'"type":"DELETED"'
_ERROR = b'{"type":"ERROR"'
_BOOKMARK = b'{"type":"BOOKMARK"'
_HOUR = 3600
_POLL = 0.1
_PATIENCE = 300.0


class Sightings:
    """One open watch; ask `until` before making the change that is to be seen."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Check, asyncio.Future[float]]] = []

    def until(self, check: Check) -> "asyncio.Task[float]":
        """Return the moment at which a line of the watch first passes the check."""
        seen: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((check, seen))
        return asyncio.create_task(_patiently(seen))

    def look_at(self, line: bytes) -> None:
        for check, seen in self._waiting:
            if not seen.done() and check(line):
                seen.set_result(time.monotonic())
        self._waiting = [entry for entry in self._waiting if not entry[1].done()]


@asynccontextmanager
async def watching(client: Client, resource: Resource, labels: str | None = None) -> AsyncIterator[Sightings]:
    """Open a watch; on entry the server has accepted it."""
    sightings, accepted = Sightings(), asyncio.Event()

    async def follow() -> None:
        version = None
        while True:  # the server drops watchers that fall behind on a busy machine, and may itself be ended
            seen = client.watch(resource, labels=labels, version=version, seconds=_HOUR, silence=_HOUR)
            async with aclosing(seen) as lines, _come_back():
                async for line in lines:
                    accepted.set()
                    if line.startswith(_ERROR):  # after a restart of the server it may not know the version any more
                        version = None
                        break
                    if line:
                        version = _text_after(b'"resourceVersion":"', line).decode()
                        if not line.startswith(_BOOKMARK):
                            sightings.look_at(line)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        await accepted.wait()
        yield sightings
        task.cancel()


@asynccontextmanager
async def _come_back() -> AsyncIterator[None]:
    try:
        yield
    except Unreachable:
        await asyncio.sleep(_POLL)


def in_all(count: int, needle: bytes) -> Check:
    """Check for as many objects that have been seen with this text."""
    places: set[tuple[bytes, bytes]] = set()

    def check(line: bytes) -> bool:
        if needle in line:
            places.add((_text_after(b'"namespace":"', line), _text_after(b'"name":"', line)))
        return len(places) >= count

    return check


def _text_after(field: bytes, line: bytes) -> bytes:
    start = line.index(field) + len(field)
    return line[start : line.index(b'"', start)]


async def _patiently(seen: asyncio.Future[float]) -> float:
    async with asyncio.timeout(_PATIENCE):
        return await seen
