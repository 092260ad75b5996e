"""A child process, as the operator sees it: start it, hand it a job, kill it."""

import asyncio
import contextlib
import os
import signal
import sys
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import msgspec

from syncline.programs import started
from syncline.render.frames import LENGTH_BYTES, frame
from syncline.render.jobs import FRAME_LIMIT, Answer, AnyJob, Done, Ready, decode_answer

START_SECONDS = 30.0
"""How long a child may take to start, on a busy machine."""

TURN_LIMIT = 2 * FRAME_LIMIT
"""Bytes that a child may say in one turn; an honest one says less."""

PIECE = 1024 * 1024
"""Bytes that are sent to a child at once."""


class ChildCrashed(Exception):  # noqa: N818 - what happened to it
    """The child ended, or said something that it should not say. It must be killed."""


class Process(ABC):
    """A child process that takes one job at a time; `gone` is done when it has ended."""

    module: ClassVar[str]

    def __init__(
        self, process: asyncio.subprocess.Process, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader
    ) -> None:
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self._reading = asyncio.Lock()
        self._draining: asyncio.Task[None] | None = None
        self.confined = False
        self.gone = asyncio.create_task(self._reap())

    @classmethod
    async def start(cls) -> Self:
        """Start a process; it takes jobs after `ready`."""
        process = await started(
            asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-m", cls.module),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                start_new_session=True,  # a Ctrl-C in the operator's terminal is the operator's alone
            )
        )
        if process.stdin is None or process.stdout is None:
            raise ChildCrashed
        return cls(process, process.stdin, process.stdout)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ready(self) -> None:
        """Wait until the child is confined."""
        try:
            async with asyncio.timeout(START_SECONDS):
                self.confined = await self._confined()
        except TimeoutError:
            raise ChildCrashed from None

    @abstractmethod
    async def _confined(self) -> bool:
        """Wait for the first word of the child: whether system calls are filtered."""

    async def say(self, message: bytes) -> None:
        """Send the child a frame, piece by piece: a large one is not copied at once."""
        rest = memoryview(message)
        with contextlib.suppress(OSError):  # a child that died is noticed when it does not answer
            while rest:
                self._stdin.write(rest[:PIECE])
                await self._stdin.drain()
                rest = rest[PIECE:]

    async def hear(self, limit: int) -> bytes:
        """Wait for the body of a frame, of up to so many bytes."""
        try:
            async with self._reading:
                length = int.from_bytes(await self._stdout.readexactly(LENGTH_BYTES), "big")
                if length > limit:
                    raise ChildCrashed
                return await self._stdout.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            raise ChildCrashed from None

    def kill(self) -> None:
        """End the child at once; `gone` tells when that is done."""
        if not self.gone.done():
            # Not through the process object: that would take a dead child's exit status away from the event loop.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            # What it has said and nobody wants would keep its pipe open, and the event loop waiting for it.
            self._draining = self._draining or asyncio.create_task(self._drain())

    async def _reap(self) -> None:
        await self._process.wait()
        await self._drain()
        self._stdin.close()
        with contextlib.suppress(OSError):
            await self._stdin.wait_closed()

    async def _drain(self) -> None:
        """Read to the end: a pipe closes when nothing is left in it."""
        async with self._reading:
            while await self._stdout.read(FRAME_LIMIT):
                pass


class Child(Process):
    """A child that transforms data and renders texts."""

    module = "syncline.render.worker"

    async def _confined(self) -> bool:
        answer, _ = await self._answer()
        if not isinstance(answer, Ready):
            raise ChildCrashed
        return answer.seccomp

    async def perform(self, job: AnyJob) -> tuple[list[Answer], Done]:
        """Return the child's answers, one a target, and how it ended its turn."""
        await self.say(frame(job))
        answers: list[Answer] = []
        said = 0
        while len(answers) <= len(job.targets) and said <= TURN_LIMIT:
            answer, size = await self._answer()
            if isinstance(answer, Done):
                return answers, answer
            answers.append(answer)
            said += size
        raise ChildCrashed

    async def _answer(self) -> tuple[Answer, int]:
        body = await self.hear(FRAME_LIMIT)
        try:
            return decode_answer(body), len(body)
        except msgspec.DecodeError:
            raise ChildCrashed from None
