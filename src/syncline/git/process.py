"""Runs programs with limits of time, disk and memory, in a sandbox.

They run confined (`syncline.confinement`): they can read only the files of the call, and connect only to the necessary
server. Arguments are lists, never parsed by a shell. The environment is new: without the variables of the operator,
without configuration of the machine or of a home folder, without prompts. The program and all its children are one
process group, which is killed at the timeout or when the caller is cancelled.
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
"""The programs that git starts: ssh, through a shell."""

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
"""The environment of every program. `PATH` and the variables of the caller are added."""


Sink = Callable[[bytes], Awaitable[None]]
"""Receives the output of a program in pieces."""


class ProcessResult(Struct, frozen=True):
    """The result of a program."""

    code: int
    out: bytes
    error: str
    """Its error output, shortened."""
    flooded: bool = False
    """Whether it was killed because its output exceeded the limit."""


class ProcessLimits(Struct, frozen=True):
    """The limits and permissions of a program."""

    seconds: float
    output: int = 64 * 1024 * 1024
    file_size: int = 0
    """The largest file that it can write; 0 means no limit."""
    memory: int = 0
    """The memory that it and each of its children can allocate; 0 means no limit."""
    write: Sequence[Path] = ()
    """Folders that it may read and write."""
    read: Sequence[Path] = ()
    """Folders that it may read."""
    port: int | None = None
    """The port that it can connect to; None: it has no network."""
    unconfined: bool = False
    """Whether it runs even if the machine cannot confine it."""


async def run(
    arguments: Sequence[str | Path],
    caps: ProcessLimits,
    *,
    environment: Mapping[str, str] | None = None,
    given: bytes | None = None,
    sink: Sink | None = None,
) -> ProcessResult:
    """Run a program to its end and return its result. Raises `TimeoutError` at the timeout.

    If there is a `sink`, the output goes to it and is not stored. The program waits for a slow sink, and an exception
    of the sink ends the program. No child process is left in any case. Raises `OSError` if the program cannot start,
    and `Unconfined` if it cannot be confined.
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
        # A reference cycle of an exception would keep its frames in memory for a long time.
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
    """Read to the end, and store the output within its limit or pass it to the sink."""
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
    """Return the command that runs a confined program. Its children are confined too."""
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
