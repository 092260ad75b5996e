"""A pool of worker processes: started for work, kept for a while, ended after a failure.

Tenants share the workers fairly. A single tenant can never use the last worker, so hostile work of one tenant blocks
no other tenant. Work that takes too much time or memory is stopped, and retried only after a backoff. A retry cannot
use the last free worker.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext

from syncline.fairness import FairSemaphore
from syncline.render.errors import RenderFailed
from syncline.render.tool_process import WAIT_SECONDS, Overrun, Unconfined
from syncline.render.workers.backoff import Backoffs
from syncline.render.workers.process import WorkerCrashed, WorkerProcess, WorkerProgram
from syncline.render.workers.protocol import Answer, Job

IDLE_SECONDS = 60.0
"""The seconds that an idle worker is kept."""

UNCONFINED = (
    "rendering is refused, because the operator's --allow-unconfined-builds is off and this machine has no filter of "
    "system calls (seccomp, on x86-64 and arm64)"
)


class WorkerStopped(Exception):  # noqa: N818 - what happened
    """The work exceeded a limit. The message names the limit."""


class OutOfMemory(WorkerStopped):
    """The worker ran out of memory, or of stack."""


class WorkerPool:
    """Worker processes of one program. Each serves one caller at a time."""

    def __init__(self, program: WorkerProgram, *, workers: int, deadline: float, unconfined: bool = False) -> None:
        self._program = program
        self._workers = workers
        self._deadline = deadline
        self._unconfined = unconfined
        self._slots = FairSemaphore(workers, share=max(1, workers - 1))
        self._slots_of_suspects = FairSemaphore(max(1, workers - 1))
        self._backoffs = Backoffs()
        self._idle: dict[WorkerProcess, asyncio.TimerHandle] = {}
        self._closed = False
        self._closing = asyncio.Lock()
        self.processes: set[WorkerProcess] = set()

    @asynccontextmanager
    async def supervised(self, digest: bytes, tenant: str, reason: Callable[[str], str]) -> AsyncIterator[None]:
        """Run the work of the caller, unless it is in backoff. `reason` makes the message from the cause of a stop.

        Raises RenderFailed if the work is stopped, and with the same message during its backoff.
        """
        now = asyncio.get_running_loop().time
        if backoff := self._backoffs.of(digest, now()):
            raise RenderFailed(backoff.reason, retry_after=backoff.seconds)
        try:
            async with self._slots_of_suspects.slot(tenant) if digest in self._backoffs else nullcontext():
                yield
        except Unconfined as refused:
            raise RenderFailed(str(refused), retry_after=60.0) from None
        except (WorkerStopped, Overrun) as stopped:
            backoff = self._backoffs.add(digest, reason(str(stopped)), now())
            raise RenderFailed(backoff.reason, retry_after=backoff.seconds) from None
        self._backoffs.reset(digest)

    def slot(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """Wait for a slot of the tenant. A process is borrowed only within a slot."""
        return self._slots.slot(tenant)

    @asynccontextmanager
    async def borrow(self, *, fresh: bool = False) -> AsyncIterator[WorkerProcess]:
        """Yield an idle process, or start one. If the caller fails or is cancelled, the process is killed.

        `fresh`: start a new process, and end an idle one for it.
        """
        self._refuse_when_closed()
        idle: WorkerProcess | None = None
        if self._idle:
            idle, retirement = self._idle.popitem()
            retirement.cancel()
            if fresh:
                idle.kill()
        process = await self._start() if fresh or idle is None else idle
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        if not process.gone.done():
            self._idle[process] = asyncio.get_running_loop().call_later(IDLE_SECONDS, process.kill)

    async def ask(self, process: WorkerProcess, job: Job, *, renew: bool = True) -> list[Answer]:
        """Return the answers of a process to a job; the last is `Done` or `Failed`. Raises `WorkerStopped`."""
        try:
            return await process.perform(job, self._deadline, renew=renew)
        except TimeoutError:
            raise WorkerStopped(f"took longer than {self._deadline * WAIT_SECONDS:g} s") from None
        except WorkerCrashed:
            self._refuse_when_closed()
            if await process.is_out_of_time():
                raise WorkerStopped(f"took more than {self._deadline:g} s of processor time") from None
            memory = self._program.memory >> 20
            raise OutOfMemory(f"took more than {memory} MiB of memory, or nested too deeply,") from None

    async def close(self) -> None:
        """End all processes, and wait for their end. Current work fails with `RenderFailed`."""
        self._closed = True
        for process in self.processes:
            process.kill()
        async with self._closing, AsyncExitStack() as held:
            # While this task has all slots, no other task can start a process.
            for _ in range(self._workers):
                await held.enter_async_context(self._slots.slot(""))
            await asyncio.gather(*(process.gone for process in self.processes))

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise RenderFailed("rendering has ended, because the operator is stopping")

    def _refuse_unconfined(self, process: WorkerProcess) -> None:
        if not (process.confined or self._unconfined):
            raise RenderFailed(UNCONFINED, retry_after=60.0)

    async def _start(self) -> WorkerProcess:
        try:
            process = await WorkerProcess.start(self._program)
        except OSError as error:
            raise RenderFailed(f"a worker process cannot be started: {error.strerror}", retry_after=1.0) from None
        self.processes.add(process)
        process.gone.add_done_callback(lambda _: self._forget(process))
        try:
            self._refuse_when_closed()
            await process.ready()
            self._refuse_unconfined(process)
        except WorkerCrashed:
            process.kill()
            self._refuse_when_closed()
            raise RenderFailed("a worker process did not start", retry_after=1.0) from None
        except BaseException:
            process.kill()
            raise
        return process

    def _forget(self, process: WorkerProcess) -> None:
        self.processes.discard(process)
        if retirement := self._idle.pop(process, None):
            retirement.cancel()
