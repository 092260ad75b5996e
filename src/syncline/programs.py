"""Starts programs so that giving up on one leaves nothing behind.

A start that is cancelled halfway is one whose program nobody ends, and which asyncio may wait for for ever.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Coroutine

_CHUNK = 256 * 1024


async def started(starting: Coroutine[None, None, Process]) -> Process:
    """Return the process that a call of `asyncio.create_subprocess_exec`, with `start_new_session`, starts.

    If the caller gives up meanwhile, the program is let start, and ended then, with all that it has started.
    """
    task = asyncio.ensure_future(starting)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await asyncio.shield(_abandon(task))
        raise
    return task.result()


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
