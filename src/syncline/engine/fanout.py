"""Writes many targets concurrently. A slow or failing target delays neither the others nor the next reconcile."""

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
# Seconds between two progress reports.
PROGRESS_EVERY = 2.0
# After this long without progress the run ends without the late targets; sooner if the sync is enqueued again.
STALL_AFTER = 6.0
YIELD_AFTER = 0.5
_POLL = 0.25
_UNREPORTED = 1000


class FanOut:
    """The writes of one sync. Late writes go on in the background; `on_late` is called when one ends.

    `is_wanted` returns whether the sync is enqueued again: then `run` waits for late writes only briefly.
    """

    def __init__(self, on_late: Callable[[], None], is_wanted: Callable[[], bool] = lambda: False) -> None:
        self._on_late = on_late
        self._is_wanted = is_wanted
        self._busy: set[Target] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._unreported: dict[Target, Outcome] = {}
        """Writes that ended after their run: the next run reports them."""

    def separate(self) -> "FanOut":
        """Return a separate fan-out for the same sync, for writes to other objects with the same names."""
        return FanOut(self._on_late, self._is_wanted)

    async def run(self, jobs: Iterable[tuple[Target, Job]], progress: Progress) -> list[Outcome]:
        """Run the jobs. A target whose write is still in flight, from this run or an earlier one, is Pending."""
        given = list(jobs)
        workers = _Workers(self._busy, (one for one in given if one[0] not in self._busy))
        busy = [_still_busy(target) for target, _ in given if target in self._busy]
        tasks = workers.start()
        clock = asyncio.get_running_loop().time
        reported = moved = clock()
        known = 0
        try:
            while tasks and clock() - moved < (
                YIELD_AFTER if self._is_wanted() and not workers.has_local_backlog() else STALL_AFTER
            ):
                _, tasks = await asyncio.wait(tasks, timeout=_POLL)
                if len(workers.finished) > known:
                    known, moved = len(workers.finished), clock()
                if tasks and clock() - reported >= PROGRESS_EVERY:
                    await _report(progress, workers.outcomes())
                    reported = clock()
        except asyncio.CancelledError:
            # A graceful stop lets the writes in flight finish, and starts no more.
            workers.cancel_queued()
            await _give_up(tasks, None)
            raise
        late = workers.in_flight()
        for task in tasks:
            self._late.add(task)
            task.add_done_callback(partial(self._on_late_done, workers, late))
        # Jobs that have not started are left to the next reconcile, which may desire something else.
        return [*busy, *map(self._reported, workers.outcomes()), *map(_still_busy, (*late, *workers.cancel_queued()))]

    @property
    def in_flight(self) -> int:
        """How many writes of earlier runs are still in flight."""
        return len(self._late)

    async def drain(self, grace: float) -> None:
        """Wait this long for late writes, then cancel them."""
        await _give_up(set(self._late), grace)

    def _on_late_done(self, workers: "_Workers", late: set[Target], task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        for target in [target for target in late if target in workers.finished]:
            late.discard(target)
            outcome = workers.finished[target]
            if outcome is not None and outcome.written is not None and not outcome.gone:
                self._unreported[target] = outcome
        while len(self._unreported) > _UNREPORTED:  # of targets that no run contains any more
            del self._unreported[next(iter(self._unreported))]
        self._on_late()

    def _reported(self, outcome: Outcome) -> Outcome:
        """Return an outcome; in place of one without a write, the late write that ended since the last run."""
        earlier = self._unreported.pop(outcome.target, None)
        is_idle = outcome.state == "Synced" and outcome.written is None
        return earlier if earlier is not None and is_idle else outcome


class _Workers:
    """The workers of one run. Each cluster has its own: a cluster that does not answer blocks no other."""

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
        """Whether jobs for the sync's own cluster have not started: that cluster is slow, not silent."""
        return bool(self._queues.get(""))

    def cancel_queued(self) -> list[Target]:
        """Start no more jobs; return the targets that have not started."""
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
    """Wait for tasks to end; cancel them after the grace period, or when this wait is cancelled."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
    finally:
        for task in tasks:
            task.cancel()


async def _report(progress: Progress, so_far: list[Outcome]) -> None:
    """Report progress. If that fails, the writes continue, and the end of the reconcile reports everything."""
    try:
        await progress(so_far)
    except KubeError as error:
        log.warning("cannot report progress", error=str(error))


def _still_busy(target: Target) -> Outcome:
    return Outcome(
        target=target, state="Pending", reason=IN_PROGRESS, message="the API server has not answered yet; still trying"
    )


def _internal_error(target: Target, error: Exception) -> Outcome:
    message = f"unforeseen {type(error).__name__}; the operator's log has the details"
    return Outcome(target=target, state="Failed", reason="InternalError", message=message, retry=True)
