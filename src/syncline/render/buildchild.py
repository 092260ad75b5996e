"""A child that builds, as the operator sees it."""

import asyncio
import contextlib
import resource
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from syncline.render.buildjobs import ANSWER_LIMIT, Answer, Done, Failed, Job, Ready, decode_answer
from syncline.render.child import ChildCrashed, Process
from syncline.render.errors import BuildError
from syncline.render.frames import frame
from syncline.render.toolrun import PATIENCE

_TICKS = 100


class BuildChild(Process):
    """A child that decrypts, templates, evaluates and parses."""

    module = "syncline.render.buildworker"
    learned = False
    """Whether it may hold schemas, which take from its memory."""

    async def _confined(self) -> bool:
        answer = await self._answer()
        if not isinstance(answer, Ready):
            raise ChildCrashed
        return answer.seccomp

    async def perform(self, job: Job, seconds: float, *, renew: bool = True) -> AsyncIterator[Answer]:
        """Give the answers to a job, one by one. The child has so many seconds of processor time for it.

        Without `renew` it has what is left of what it was allowed.
        Raises BuildError where the files are wrong, TimeoutError when time is up, ChildCrashed when the child ended.
        """
        if renew:
            self.allow(seconds)
        async with asyncio.timeout(seconds * PATIENCE):
            await self.say(frame(job))
            while not isinstance(answer := await self._answer(), Done):
                if isinstance(answer, Failed):
                    raise BuildError(answer.cause, file=answer.file, line=answer.line)
                yield answer

    async def out_of_time(self) -> bool:
        """Whether it ended because its processor time was up; waits for its end."""
        self.kill()
        await self.gone
        return self._process.returncode == -signal.SIGXCPU

    def allow(self, seconds: float) -> None:
        """Let the kernel end the child after so much more processor time; the clock is there as well."""
        if sys.platform != "linux":
            return
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / _TICKS
            resource.prlimit(self.pid, resource.RLIMIT_CPU, (int(used + seconds) + 1, resource.RLIM_INFINITY))

    async def _answer(self) -> Answer:
        body = await self.hear(ANSWER_LIMIT)
        try:
            return decode_answer(body)
        except msgspec.DecodeError:
            raise ChildCrashed from None
