"""Starts programs, and threads, so that giving up on one leaves nothing behind.

A start that is cancelled halfway is one whose program nobody ends, and which asyncio may wait for for ever. A thread
cannot be cancelled at all: who stops waiting for it would clean up while it goes on.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Coroutine
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_CHUNK = 256 * 1024


async def started(starting: Coroutine[None, None, Process]) -> Process:
    """Return the process that a call of `asyncio.create_subprocess_exec`, with `start_new_session`, starts.

    If the caller gives up meanwhile, the program is let start, and ended then, with all that it has started.
    """
    task = asyncio.ensure_future(starting)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await finished(_abandon(task))
        raise
    return task.result()


async def finished(work: Awaitable[T]) -> T:
    """Return the result of some work. A caller that is cancelled meanwhile hears of it when the work has ended."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # nobody is left to hear of it
        raise cancelled
    return task.result()


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread. When this returns or raises, cancelled or not, the thread is done with it."""
    return await finished(asyncio.to_thread(work, *args, **kwargs))


def kill(process: Process) -> None:
    """Kill a process that was started in a session of its own, and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def bury(process: Process) -> None:
    """Wait until a process that was killed is gone. Its pipes are read to their ends, or the loop would keep them."""
    if process.stdin is not None:
        process.stdin.close()
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(_CHUNK):
            pass
    await process.wait()


async def _abandon(starting: asyncio.Future[Process]) -> None:
    with contextlib.suppress(OSError):
        process = await starting
        kill(process)
        await bury(process)
