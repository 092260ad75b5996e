"""One run of an external program, confined, in its own folder."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from syncline.confinement.programs import Unconfined, Walls, missing_walls
from syncline.confinement.walls import UNCONFINED
from syncline.programs import bury, finished, kill, started

OUTPUT_LIMIT = 24 * 1024 * 1024
"""The maximum size of its output, and of one file that it writes, in bytes."""

MEMORY_LIMIT = 200 * 1024 * 1024
"""The maximum memory of a program, in bytes."""

MAPPING_LIMIT = 64 * 1024 * 1024
"""The largest single allocation, in bytes: the heap of Go grows by this size, and more is one huge value."""

WAIT_SECONDS = 12
"""The maximum ratio of wall time to processor time: a busy machine must not fail a build."""

__all__ = ["Overrun", "ToolResult", "Unconfined", "missing_walls", "run"]

_HEAP = "130MiB"
_UNTOUCHED = 64 * 1024 * 1024  # a Go program reserves it at start, and hardly uses it
_ERROR_LIMIT = 64 * 1024
_CHUNK = 64 * 1024
_CPU_SIGNALS = {-signal.SIGXCPU, -signal.SIGKILL}


class ToolResult(msgspec.Struct, frozen=True):
    """The result of a run."""

    code: int
    output: bytes
    errors: bytes


class Overrun(Exception):  # noqa: N818 - what happened
    """The program exceeded a limit. The message names it."""


def _base_environment(folder: Path) -> dict[str, str]:
    return {"PATH": "", "HOME": str(folder), "TMPDIR": str(folder), "GOMEMLIMIT": _HEAP, "GOMAXPROCS": "2"}


async def run(
    program: Path,
    arguments: Sequence[str],
    folder: Path,
    *,
    seconds: float,
    environment: Mapping[str, str],
    unconfined: bool = False,
) -> ToolResult:
    """Run a program in a folder. It has this many seconds of processor time, and several times that of wall time.

    Raises Overrun if it exceeds a limit, and Unconfined if it cannot be confined, unless `unconfined` allows it. No
    process is left in any case.
    """
    walls = Walls(
        write=(folder,),
        seconds=max(1, round(seconds)),
        # The last mapping can exceed the limit by its whole size.
        memory=MEMORY_LIMIT + _UNTOUCHED - MAPPING_LIMIT,
        mapping=MAPPING_LIMIT,
        file_size=OUTPUT_LIMIT,
        threads=True,
        unconfined=unconfined,
    )
    process = await started(
        asyncio.create_subprocess_exec(
            *walls.around(program, arguments),
            cwd=folder,
            env={**_base_environment(folder), **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        async with asyncio.timeout(seconds * WAIT_SECONDS):
            output, errors = await asyncio.gather(
                _read(process.stdout, OUTPUT_LIMIT), _read(process.stderr, _ERROR_LIMIT, rest=True)
            )
            code = await process.wait()
    except TimeoutError:
        raise Overrun(f"took longer than {seconds * WAIT_SECONDS:g} s") from None
    finally:
        kill(process)
        await finished(bury(process))
    if code in _CPU_SIGNALS:
        raise Overrun(f"took more than {seconds:g} s of processor time")
    if b"out of memory" in errors or b"cannot allocate memory" in errors:
        raise Overrun(f"took more than {MEMORY_LIMIT >> 20} MiB of memory")
    if code == UNCONFINED and not unconfined:
        raise Unconfined("builds are", await missing_walls())
    return ToolResult(code, output, errors)


async def _read(stream: asyncio.StreamReader | None, limit: int, *, rest: bool = False) -> bytes:
    """Read up to a limit. More output raises Overrun, or is dropped if `rest` is not needed."""
    chunks: list[bytes] = []
    size = 0
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        if size + len(chunk) <= limit:
            chunks.append(chunk)
            size += len(chunk)
        elif not rest:
            raise Overrun(f"wrote more than {limit >> 20} MiB")
    return b"".join(chunks)
