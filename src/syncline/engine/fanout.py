"""Many targets at once. A slow or failing one never holds back the others, nor the next turn of its sync."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import structlog

from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.kube.errors import KubeError

log = structlog.get_logger(__name__)

Job = Callable[[], Awaitable[Outcome | None]]
Progress = Callable[[list[Outcome]], Awaitable[None]]

WIDTH = 32
IN_PROGRESS = "InProgress"
"""The reason of an outcome that is not known yet."""
# How often progress is told.
PROGRESS_EVERY = 2.0
# After so long without any the stragglers are left behind; sooner where the sync has something new to do.
STALL_AFTER = 6.0
YIELD_AFTER = 0.5
_POLL = 0.25
_UNREPORTED = 1000


class FanOut:
    """The writes of one sync. Stragglers go on behind the scenes; `on_late` is called when one comes home.

    `is_wanted` tells whether the next turn of the sync is asked for already: then it does not wait for them for long.
    """

    def __init__(self, on_late: Callable[[], None], is_wanted: Callable[[], bool] = lambda: False) -> None:
        self._on_late = on_late
        self._is_wanted = is_wanted
        self._busy: set[Target] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._unreported: dict[Target, Outcome] = {}
        """What was written after the run that began it had ended: the next look at the target tells it."""

    async def run(self, jobs: Iterable[tuple[Target, Job]], progress: Progress) -> list[Outcome]:
        """Carry out the jobs; a target that is still busy, from this turn or an earlier one, is Pending."""
        given = list(jobs)
        workers = _Workers(self._busy, (one for one in given if one[0] not in self._busy))
        busy = [_still_busy(target) for target, _ in given if target in self._busy]
        tasks = workers.start()
        clock = asyncio.get_running_loop().time
        told = moved = clock()
        known = 0
        try:
            while tasks and clock() - moved < (
                YIELD_AFTER if self._is_wanted() and not workers.has_local_backlog() else STALL_AFTER
            ):
                _, tasks = await asyncio.wait(tasks, timeout=_POLL)
                if len(workers.finished) > known:
                    known, moved = len(workers.finished), clock()
                if tasks and clock() - told >= PROGRESS_EVERY:
                    await _report(progress, workers.outcomes())
                    told = clock()
        except asyncio.CancelledError:
            # A graceful stop lets the writes in flight finish, and starts no more.
            workers.cancel_queued()
            await _give_up(tasks, None)
            raise
        late = workers.in_flight()
        for task in tasks:
            self._late.add(task)
            task.add_done_callback(partial(self._on_late_done, workers, late))
        # The turn of those not begun comes with the next one, which may want something else of them.
        return [*busy, *map(self._reported, workers.outcomes()), *map(_still_busy, (*late, *workers.cancel_queued()))]

    @property
    def in_flight(self) -> int:
        """How many writers of earlier runs have not come home: what they write may still appear."""
        return len(self._late)

    async def drain(self, grace: float) -> None:
        """Wait so long for the stragglers, then give them up."""
        await _give_up(set(self._late), grace)

    def _on_late_done(self, workers: "_Workers", late: set[Target], task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        for target in [target for target in late if target in workers.finished]:
            late.discard(target)
            outcome = workers.finished[target]
            if outcome is not None and outcome.written is not None and not outcome.gone:
                self._unreported[target] = outcome
        while len(self._unreported) > _UNREPORTED:  # of targets that no run has any more
            del self._unreported[next(iter(self._unreported))]
        self._on_late()

    def _reported(self, outcome: Outcome) -> Outcome:
        """Return an outcome; in place of one that found nothing to do, the write that came home since the last run."""
        earlier = self._unreported.pop(outcome.target, None)
        is_idle = outcome.state == "Synced" and outcome.written is None
        return earlier if earlier is not None and is_idle else outcome


class _Workers:
    """The workers of one turn. Each cluster has its own: one that does not answer keeps none from the others."""

    def __init__(self, busy: set[Target], jobs: Iterable[tuple[Target, Job]]) -> None:
        self.finished: dict[Target, Outcome | None] = {}
        self._busy = busy
        self._started: set[Target] = set()
        self._queues: dict[str, deque[tuple[Target, Job]]] = {}
        for target, job in jobs:
            self._queues.setdefault(target.cluster, deque()).append((target, job))

    def start(self) -> set[asyncio.Task[None]]:
        return {
            asyncio.create_task(self._work(queue))
            for queue in self._queues.values()
            for _ in range(min(WIDTH, len(queue)))
        }

    def outcomes(self) -> list[Outcome]:
        return [outcome for outcome in self.finished.values() if outcome is not None]

    def in_flight(self) -> set[Target]:
        return self._started - self.finished.keys()

    def has_local_backlog(self) -> bool:
        """Whether anything in the cluster of the sync itself was not begun with: slow is not silent there."""
        return bool(self._queues.get(""))

    def cancel_queued(self) -> list[Target]:
        """Begin with nothing more; return what was not begun with."""
        left = [target for queue in self._queues.values() for target, _ in queue]
        for queue in self._queues.values():
            queue.clear()
        return left

    async def _work(self, queue: deque[tuple[Target, Job]]) -> None:
        while queue:
            target, job = queue.popleft()
            self._busy.add(target)
            self._started.add(target)
            try:
                self.finished[target] = await job()
            except Exception as error:
                log.exception("a target failed in an unforeseen way", **target.fields())
                self.finished[target] = _internal_error(target, error)
            finally:
                self._busy.discard(target)


async def _give_up(tasks: set[asyncio.Task[None]], grace: float | None) -> None:
    """Let tasks end by themselves; end them after the grace, or when we are told twice."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
    finally:
        for task in tasks:
            task.cancel()


async def _report(progress: Progress, so_far: list[Outcome]) -> None:
    """Tell how far it is; where that fails, the writes go on, and the end of the turn tells it all."""
    try:
        await progress(so_far)
    except KubeError as error:
        log.warning("cannot tell how far it is", error=str(error))


def _still_busy(target: Target) -> Outcome:
    return Outcome(
        target=target, state="Pending", reason=IN_PROGRESS, message="the API server has not answered yet; still trying"
    )


def _internal_error(target: Target, error: Exception) -> Outcome:
    message = f"unforeseen {type(error).__name__}; the operator's log has the details"
    return Outcome(target=target, state="Failed", reason="InternalError", message=message, retry=True)
