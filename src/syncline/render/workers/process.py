"""One worker process: start, run a job, kill."""

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from syncline.programs import started
from syncline.render.tool_process import WAIT_SECONDS
from syncline.render.workers.confinement import TRANSFORM_MEMORY
from syncline.render.workers.framing import LENGTH_BYTES, frame
from syncline.render.workers.protocol import Answer, Done, Failed, Job, Ready, decode_answer

START_SECONDS = 30.0
"""The maximum seconds for the start of a worker, on a busy machine."""

PIECE = 1024 * 1024
"""The bytes that are sent to a worker at once."""

ANSWER_BYTES = 64
"""The memory of the operator for one answer, in addition to its content."""

_TICKS = 100


class WorkerProgram(NamedTuple):
    """The program of a worker process, and its limits."""

    module: str
    memory: int
    """The maximum memory in bytes, for messages."""
    frame_limit: int
    """The maximum bytes of one answer."""
    answers_limit: int
    """The maximum bytes of all answers to one job. An honest worker sends less."""


TRANSFORM = WorkerProgram("syncline.render.workers.transform", TRANSFORM_MEMORY, 8 << 20, 16 << 20)
BUILD = WorkerProgram("syncline.render.workers.build", 200 << 20, 32 << 20, 256 << 20)


class WorkerCrashed(Exception):  # noqa: N818 - what happened to it
    """The worker ended, or sent an invalid answer. It must be killed."""


class WorkerProcess:
    """A process that does one job at a time. `gone` is done when the process has ended."""

    def __init__(
        self,
        program: WorkerProgram,
        process: asyncio.subprocess.Process,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
    ) -> None:
        self._program = program
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self._reading = asyncio.Lock()
        self._draining: asyncio.Task[None] | None = None
        self.confined = False
        self.learned = False
        """Whether it may have schemas in its memory."""
        self.gone = asyncio.create_task(self._reap())

    @classmethod
    async def start(cls, program: WorkerProgram) -> Self:
        """Start a process. It accepts jobs after `ready`."""
        process = await started(
            asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-m", program.module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                start_new_session=True,  # a Ctrl-C in the operator's terminal ends only the operator
            )
        )
        if process.stdin is None or process.stdout is None:
            raise WorkerCrashed
        return cls(program, process, process.stdin, process.stdout)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ready(self) -> None:
        """Wait until the worker is confined."""
        try:
            async with asyncio.timeout(START_SECONDS):
                answer, _ = await self._answer()
        except TimeoutError:
            raise WorkerCrashed from None
        if not isinstance(answer, Ready):
            raise WorkerCrashed
        self.confined = answer.seccomp

    async def perform(self, job: Job, seconds: float, *, renew: bool = True) -> list[Answer]:
        """Return the answers to a job; the last one is `Done` or `Failed`.

        The worker has this many seconds of processor time for it. Without `renew` it has what is left of what it was
        allowed before. Raises TimeoutError when time is up, WorkerCrashed when the worker ended.
        """
        if renew:
            self.allow(seconds)
        answers: list[Answer] = []
        said = 0
        async with asyncio.timeout(seconds * WAIT_SECONDS):
            await self._say(frame(job))
            while said <= self._program.answers_limit:
                answer, size = await self._answer()
                answers.append(answer)
                if isinstance(answer, Done | Failed):
                    return answers
                said += size + ANSWER_BYTES
        raise WorkerCrashed

    def used_seconds(self) -> float:
        """Return the used processor time, or the elapsed time if the system does not report it."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def allow(self, seconds: float) -> None:
        """Let the kernel end the worker after this much more processor time. There is also a limit of wall time."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                limit = int(self.used_seconds() + seconds) + 1
                resource.prlimit(self.pid, resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))

    async def is_out_of_time(self) -> bool:
        """Wait for the end of the worker; return whether it used up its processor time."""
        self.kill()
        await self.gone
        return self._process.returncode == -signal.SIGXCPU

    def kill(self) -> None:
        """Kill the worker. `gone` is done when the process has ended."""
        if not self.gone.done():
            # Not with the process object, which would consume the exit status before the event loop reads it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            # Unread output would keep its pipe open, and the event loop would wait for it.
            self._draining = self._draining or asyncio.create_task(self._drain())

    async def _say(self, message: bytes) -> None:
        """Send a frame in pieces: a large frame is not copied as a whole."""
        rest = memoryview(message)
        with contextlib.suppress(OSError):  # a dead worker is detected when it does not answer
            while rest:
                self._stdin.write(rest[:PIECE])
                await self._stdin.drain()
                rest = rest[PIECE:]

    async def _answer(self) -> tuple[Answer, int]:
        """Wait for an answer. Return the answer and its size."""
        try:
            async with self._reading:
                length = int.from_bytes(await self._stdout.readexactly(LENGTH_BYTES), "big")
                if length > self._program.frame_limit:
                    raise WorkerCrashed
                body = await self._stdout.readexactly(length)
            return decode_answer(body), length
        except (asyncio.IncompleteReadError, OSError, msgspec.DecodeError):
            raise WorkerCrashed from None

    async def _reap(self) -> None:
        await self._process.wait()
        await self._drain()
        self._stdin.close()
        with contextlib.suppress(OSError):
            await self._stdin.wait_closed()

    async def _drain(self) -> None:
        """Read to the end: only an empty pipe closes."""
        async with self._reading:
            while await self._stdout.read(PIECE):
                pass
