"""Runs programs that must not outlive their time, fill the disk, flood the memory or look around.

They run behind walls (`syncline.confinement`): they see what the call is about and nothing else, and reach no server
but where they must. Arguments are lists, never read by a shell. The environment is made anew: nothing of the operator's
own, no configuration of the machine or of a home folder, no prompts. The program and all that it starts is one process
group, which is killed when the time is over or the caller gives up.
"""

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from syncline.confinement.programs import Unconfined, Walls, missing_walls, system
from syncline.confinement.walls import UNCONFINED
from syncline.programs import bury, finished, kill, started

_CHUNK = 256 * 1024
_ERROR_LIMIT = 64 * 1024
_HELPERS = {"git": ("ssh", "sh")}
"""What programs start: git talks by ssh, and has a shell read how."""

BASE = {
    "GIT_ASKPASS": "/bin/false",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "SSH_ASKPASS_REQUIRE": "never",
}
"""What every program is told; `PATH` is added, and what a caller has to say."""


Sink = Callable[[bytes], Awaitable[None]]
"""Takes what a program prints, piece by piece."""


class ProcessResult(Struct, frozen=True):
    """How a program ended."""

    code: int
    out: bytes
    error: str
    """What it said on its error output, cut off when long."""
    flooded: bool = False
    """Whether it was killed because it printed more than allowed."""


class ProcessLimits(Struct, frozen=True):
    """What a program may take, see and reach."""

    seconds: float
    output: int = 64 * 1024 * 1024
    file_size: int = 0
    """The largest file that it may write; 0 for no cap."""
    memory: int = 0
    """What it and each of its children may allocate; 0 for no cap."""
    write: Sequence[Path] = ()
    """Folders that it may read and write."""
    read: Sequence[Path] = ()
    """Folders that it may read."""
    port: int | None = None
    """Where it may connect to; None: it has no network."""
    unconfined: bool = False
    """Whether it runs where it cannot be confined."""


async def run(
    arguments: Sequence[str | Path],
    caps: ProcessLimits,
    *,
    environment: Mapping[str, str] | None = None,
    given: bytes | None = None,
    sink: Sink | None = None,
) -> ProcessResult:
    """Run a program to its end and return how it ended; raise `TimeoutError` when it takes too long.

    What it prints goes to `sink` as it comes, if there is one, and is not kept; while the sink takes its time, the
    program waits, and what the sink raises ends it. Nothing that it started is left, whatever happens. Raises `OSError`
    where it cannot be started, and `Unconfined` where it cannot be confined.
    """
    process = await started(
        asyncio.create_subprocess_exec(
            *_confined(arguments, caps),
            stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**BASE, "PATH": os.environ.get("PATH", os.defpath), **(environment or {})},
            cwd="/",
            start_new_session=True,
        )
    )
    try:
        async with asyncio.timeout(caps.seconds):
            (out, flooded), error = await _talk(process, given, caps.output, sink)
            if flooded:
                kill(process)
            code = await process.wait()
    except BaseException:
        kill(process)
        await finished(bury(process))
        raise
    if code == UNCONFINED and not caps.unconfined and (missing := await missing_walls()):
        raise Unconfined(f"{Path(arguments[0]).name} is", missing)
    return ProcessResult(code, out, error.decode(errors="replace"), flooded)


async def _talk(
    process: asyncio.subprocess.Process, given: bytes | None, limit: int, sink: Sink | None
) -> tuple[tuple[bytes, bool], bytes]:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    assert process.stderr is not None  # noqa: S101
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(_read(process, process.stdout, limit, is_flood=True, sink=sink)),
        asyncio.create_task(_read(process, process.stderr, _ERROR_LIMIT)),
        asyncio.create_task(_write(process, given)),
    ]
    try:
        out, (error, _), _ = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        # An error that leads back to itself would keep all that it has met in memory for long.
        del task
        tasks.clear()
    return out, error


async def _read(
    process: asyncio.subprocess.Process,
    stream: asyncio.StreamReader,
    limit: int,
    *,
    is_flood: bool = False,
    sink: Sink | None = None,
) -> tuple[bytes, bool]:
    """Read to the end and keep what fits, or hand it on."""
    chunks: list[bytes] = []
    size = 0
    while chunk := await stream.read(_CHUNK):
        size += len(chunk)
        if size <= limit and sink is not None:
            await sink(chunk)
        elif size <= limit:
            chunks.append(chunk)
        elif is_flood:
            kill(process)
        elif not chunks:
            chunks.append(chunk[:limit])
    return b"".join(chunks), size > limit


async def _write(process: asyncio.subprocess.Process, given: bytes | None) -> None:
    if given is None or process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await process.stdin.wait_closed()


def _confined(arguments: Sequence[str | Path], caps: ProcessLimits) -> list[str]:
    """Return what runs a program behind its walls: they are there before it starts, and for all that it starts."""
    name, *rest = map(str, arguments)
    program = shutil.which(name)
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    run, read = system(name, *_HELPERS.get(name, ()))
    walls = Walls(
        write=caps.write,
        read=(*read, *caps.read),
        run=run,
        ports=None if caps.port is None else (caps.port,),
        memory=caps.memory or None,
        file_size=caps.file_size or None,
        unconfined=caps.unconfined,
    )
    return walls.around(os.path.realpath(program), rest)
