"""Many targets at once. A slow or failing one never holds back the others, nor the next turn of its sync."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import structlog

from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.kube.errors import KubeError

log = structlog.get_logger(__name__)

Job = Callable[[], Awaitable[Outcome | None]]
Progress = Callable[[list[Outcome]], Awaitable[None]]

WIDTH = 32
# How often progress is told, and after how many such turns without any the stragglers are left behind.
TICK = 2.0
PATIENCE = 3


class FanOut:
    """The writes of one sync. Stragglers go on behind the scenes; `on_late` is called when one comes home."""

    def __init__(self, on_late: Callable[[], None]) -> None:
        self._on_late = on_late
        self._busy: set[Target] = set()
        self._late: set[asyncio.Task[None]] = set()

    async def run(self, jobs: Iterable[tuple[Target, Job]], progress: Progress) -> list[Outcome]:
        """Carry out the jobs; a target that is still busy from an earlier turn is Pending."""
        waiting = deque(jobs)
        outcomes = [_still_busy(target) for target, _ in waiting if target in self._busy]
        waiting = deque((target, job) for target, job in waiting if target not in self._busy)
        started: set[Target] = set()
        finished: dict[Target, Outcome | None] = {}

        async def work() -> None:
            while waiting:
                target, job = waiting.popleft()
                self._busy.add(target)
                started.add(target)
                try:
                    finished[target] = await job()
                except Exception as error:
                    log.exception("a target failed in an unforeseen way", target=str(target))
                    finished[target] = _unforeseen(target, error)
                finally:
                    self._busy.discard(target)

        tasks = {asyncio.create_task(work()) for _ in range(min(WIDTH, len(waiting)))}
        idle = 0
        try:
            while tasks and idle < PATIENCE:
                known = len(finished)
                _, tasks = await asyncio.wait(tasks, timeout=TICK)
                idle = idle + 1 if len(finished) == known and not waiting else 0
                if tasks:
                    await _tell(progress, [outcome for outcome in finished.values() if outcome is not None])
        except asyncio.CancelledError:
            # A graceful stop lets the writes in flight finish, and starts no more.
            waiting.clear()
            await _give_up(tasks, None)
            raise
        for task in tasks:
            self._late.add(task)
            task.add_done_callback(self._came_home)
        outcomes += [outcome for outcome in finished.values() if outcome is not None]
        outcomes += [_still_busy(target) for target in started - finished.keys()]
        return outcomes

    async def drain(self, grace: float) -> None:
        """Wait so long for the stragglers, then give them up."""
        await _give_up(set(self._late), grace)

    def _came_home(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        self._on_late()


async def _give_up(tasks: set[asyncio.Task[None]], grace: float | None) -> None:
    """Let tasks end by themselves; end them after the grace, or when we are told twice."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
    finally:
        for task in tasks:
            task.cancel()


async def _tell(progress: Progress, so_far: list[Outcome]) -> None:
    """Tell how far it is; where that fails, the writes go on, and the end of the turn tells it all."""
    try:
        await progress(so_far)
    except KubeError as error:
        log.warning("cannot tell how far it is", error=str(error))


def _still_busy(target: Target) -> Outcome:
    return Outcome(
        target=target, state="Pending", reason="InProgress", message="the API server has not answered yet; still trying"
    )


def _unforeseen(target: Target, error: Exception) -> Outcome:
    message = f"unforeseen {type(error).__name__}; the operator's log has the details"
    return Outcome(target=target, state="Failed", reason="InternalError", message=message, retry=True)
