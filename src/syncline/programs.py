"""Starts programs and threads so that a cancelled caller leaves no process or thread behind.

If a start is cancelled halfway, nobody ends the program, and asyncio can wait for it forever. A thread cannot be
cancelled: a caller that stops waiting would clean up while the thread still runs.
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

    If the caller is cancelled in the meantime, the program starts and is then ended, with all processes that it has
    started.
    """
    task = asyncio.ensure_future(starting)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await finished(_abandon(task))
        raise
    return task.result()


async def finished(work: Awaitable[T]) -> T:
    """Return the result of some work. A cancellation of the caller is raised after the end of the work."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # nobody is left to handle it
        raise cancelled
    return task.result()


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread. When this returns or raises, even if cancelled, the function has ended."""
    return await finished(asyncio.to_thread(work, *args, **kwargs))


def kill(process: Process) -> None:
    """Kill a process with its own session, and all processes that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def bury(process: Process) -> None:
    """Wait for the end of a killed process. Its pipes are read to the end, else the loop keeps them."""
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
