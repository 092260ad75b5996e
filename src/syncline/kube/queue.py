"""A work queue of keys: each key at most once, by one worker, with priorities, and with backoff after failures.

It is fair between groups, such as namespaces: each group has a share of the concurrent work, and the groups alternate.
Waiting work holds no worker: work that takes longer than a moment waits for a response, and the worker starts another
key. No group has more than half of the workers, so that the next group finds a free worker.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from syncline.kube import metrics
from syncline.kube.lanes import Lanes

K = TypeVar("K", bound=Hashable)

# The maximum number of concurrent keys of one group, and of all groups together.
SHARE = 32
MOST = 512
# Work that takes longer waits for an answer, and frees its worker.
WAITING_AFTER = 0.5

log: FilteringBoundLogger = structlog.get_logger(__name__)


class QueueClosed(Exception):  # noqa: N818  # a state, not a mistake
    """There is nothing more to get."""


class _QueueEntry(Generic[K]):
    __slots__ = ("due", "key", "priority", "since", "timer")

    def __init__(self, key: K, due: float, priority: int) -> None:
        self.key = key
        self.due = due
        self.priority = priority
        self.since: float | None = None
        self.timer: asyncio.TimerHandle | None = None


class Queue(Generic[K]):
    """Keys that wait for a worker.

    Adding a key that waits already only makes it earlier or more urgent, never later. A key that is added while a
    worker has it is handed out again after `done`. `group` names the group of a key; no group has more than `share`
    keys in work at once. Make it and use it in one event loop.
    """

    def __init__(
        self,
        name: str = "main",
        *,
        group: Callable[[K], str] = lambda _: "",
        share: int = SHARE,
        retry_first: float = 0.2,
        retry_cap: float = 300.0,
    ) -> None:
        self.name = name
        self._group = group
        self._share = share
        self._retry_first = retry_first
        self._retry_cap = retry_cap
        self._waiting: dict[K, _QueueEntry[K]] = {}
        self._again: dict[K, tuple[float, int]] = {}
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._in_work: Counter[str] = Counter()
        self._begun: Counter[str] = Counter()
        self._workers: int | None = None
        self._full: set[str] = set()
        self._due: Lanes[_QueueEntry[K]] = Lanes(lambda entry: self._waiting.get(entry.key) is entry)
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        metrics.queue_depth.labels(name).set_function(self.depth)
        metrics.queue_oldest.labels(name).set_function(self.oldest)

    def add(self, key: K, *, delay: float = 0.0, priority: int = 0) -> None:
        """Ask for work on a key, `delay` seconds from now; lower priorities go first among those that are due."""
        if not self._closed:
            self._add(key, self._loop.time() + max(0.0, delay), priority)

    async def get(self) -> K:
        """Wait for a key, which is then the caller's until `done`. Raises `QueueClosed` once the queue is closed."""
        while not self._closed:
            entry = self._due.pop(self._full)
            if entry is not None:
                del self._waiting[entry.key]
                self._working.add(entry.key)
                self._count(entry.key, in_work=1, begun=1)
                return entry.key
            self._news.clear()
            await self._news.wait()
        raise QueueClosed

    def done(self, key: K) -> None:
        """Give a key back."""
        self._working.discard(key)
        self._count(key, in_work=-1)
        again = self._again.pop(key, None)
        if again and not self._closed:
            self._add(key, *again)

    def divide(self, workers: int) -> None:
        """Give each group at most half of this number of workers."""
        self._workers = workers

    def leave_worker(self, key: K) -> None:
        """Note that a key has ended, or waits: it holds no worker any more."""
        self._count(key, begun=-1)

    def retry(self, key: K, *, priority: int = 0) -> float:
        """Retry a key after a failure, with a longer delay for each failure in a row. Return the delay."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay: float = min(self._retry_cap, self._retry_first * 2 ** min(count - 1, 32))
        delay *= random.uniform(0.75, 1.0)  # noqa: S311  # spreads load, keeps no secret
        metrics.queue_retries.labels(self.name).inc()
        self.add(key, delay=delay, priority=priority)
        return delay

    def forget(self, key: K) -> None:
        """Note a success: the next failure counts as the first."""
        self._failures.pop(key, None)

    def is_wanted(self, key: K) -> bool:
        """Whether a key in work was added again, without a delay."""
        again = self._again.get(key)
        return again is not None and again[0] <= self._loop.time()

    def failures(self, key: K) -> int:
        """Return how many failures in a row a key has had."""
        return self._failures.get(key, 0)

    def close(self) -> None:
        """Hand out nothing more. Keys that workers have stay theirs until `done`."""
        if not self._closed:
            self._closed = True
            for entry in self._waiting.values():
                if entry.timer:
                    entry.timer.cancel()
            self._news.set()
            metrics.queue_depth.remove(self.name)
            metrics.queue_oldest.remove(self.name)

    def depth(self) -> int:
        """Return how many keys are due and wait."""
        return sum(entry.since is not None for entry in self._waiting.values())

    def oldest(self) -> float:
        """Return the waiting time of the oldest due key, in seconds."""
        since = [entry.since for entry in self._waiting.values() if entry.since is not None]
        return self._loop.time() - min(since) if since else 0.0

    def _add(self, key: K, due: float, priority: int) -> None:
        if key in self._working:
            earlier, urgent = self._again.get(key, (due, priority))
            self._again[key] = (min(due, earlier), min(priority, urgent))
            return
        held = self._waiting.get(key)
        if held:
            if held.due <= due and held.priority <= priority:
                return
            due, priority = min(due, held.due), min(priority, held.priority)
            if held.timer:
                held.timer.cancel()
        # An entry that is already due stays in its lane, and is ignored when it comes up.
        entry = self._waiting[key] = _QueueEntry(key, due, priority)
        if due <= self._loop.time():
            entry.since = held.since if held and held.since is not None else due
            self._put(entry)
        else:
            entry.timer = self._loop.call_at(due, self._fall_due, entry)

    def _fall_due(self, entry: _QueueEntry[K]) -> None:
        entry.timer = None
        entry.since = entry.due
        self._put(entry)

    def _put(self, entry: _QueueEntry[K]) -> None:
        self._due.push(self._group(entry.key), entry.priority, entry)
        self._news.set()

    def _count(self, key: K, *, in_work: int = 0, begun: int = 0) -> None:
        group = self._group(key)
        self._in_work[group] += in_work
        self._begun[group] += begun
        full = self._in_work[group] >= self._share
        if self._workers is not None and group:
            full |= self._begun[group] >= max(1, self._workers // 2)
        (self._full.add if full else self._full.discard)(group)
        for counter in (self._in_work, self._begun):
            if not counter[group]:
                del counter[group]
        if not full:
            self._news.set()


async def run_workers(
    queue: Queue[K],
    count: int,
    handler: Callable[[K], Awaitable[None]],
    *,
    ready: Callable[[], Awaitable[object]] | None = None,
    waiting_after: float = WAITING_AFTER,
) -> None:
    """Work on keys until the queue is closed and the keys in hand are finished.

    This many keys run at once. Work that takes longer than `waiting_after` seconds does not count: it waits for an
    answer. `ready` is awaited before each key. An exception of the handler is logged, and the key is retried. A return
    without a `queue.retry` counts as a success.
    """
    busy, all_in_hand = asyncio.Semaphore(count), asyncio.Semaphore(MOST)
    queue.divide(count)
    async with asyncio.TaskGroup() as group:
        while True:
            await busy.acquire()
            await all_in_hand.acquire()
            try:
                if ready is not None:
                    await ready()
                key = await queue.get()
            except QueueClosed:
                return
            task = group.create_task(_work(queue, key, handler))
            _hold(task, waiting_after, partial(_leave, queue, key, busy))
            task.add_done_callback(lambda _: all_in_hand.release())


def _hold(task: "asyncio.Task[None]", waiting_after: float, leave: Callable[[], None]) -> None:
    """Hold a worker until a task ends, or for this long."""
    timer = asyncio.get_running_loop().call_later(waiting_after, leave)

    def ended(_: object) -> None:
        if timer.when() > asyncio.get_running_loop().time() and not timer.cancelled():
            timer.cancel()
            leave()

    task.add_done_callback(ended)


def _leave(queue: Queue[K], key: K, busy: asyncio.Semaphore) -> None:
    queue.leave_worker(key)
    busy.release()


async def _work(queue: Queue[K], key: K, handler: Callable[[K], Awaitable[None]]) -> None:
    failures = queue.failures(key)
    try:
        await handler(key)
        if queue.failures(key) == failures:
            queue.forget(key)
    except Exception as error:
        delay = queue.retry(key)
        log.exception(
            "a worker failed",
            queue=queue.name,
            key=str(key),
            error=str(error),
            retry_in=round(delay, 1),
        )
    finally:
        queue.done(key)
