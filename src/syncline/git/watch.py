"""Follows one remote for all its users: one check in each interval, and a call for each affected follower."""

import asyncio
import contextlib
import datetime as dt
import random
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from syncline.fairness import FairSemaphore, on_behalf_of
from syncline.git.errors import GitError, RepositoryUnreachable
from syncline.git.kept_refs import KeptRefs
from syncline.git.limits import Limits
from syncline.git.metrics import CHECKS
from syncline.git.refs import Commit, Refs, choose, needs_all
from syncline.programs import in_thread

log: FilteringBoundLogger = structlog.get_logger(__name__)

JITTER = 0.05
RETRY_SECONDS = 5.0
LONGEST_RETRY = 120.0
"""The delay after a failed check. It doubles with each failure, up to the second value or the interval."""
UNFOLLOWED_SECONDS = 60.0
"""The maximum age of a check for a remote without followers."""
SPACING = 0.5
"""The minimum seconds between the starts of two checks: a check costs more than the request for it."""
SLACK = 60.0
"""The extra age of a check for callers that do not wait for the check in progress."""

_MANY = 5_000
_turns = FairSemaphore(2, share=1)
"""The searches of long lists at once: in total, and for one namespace."""

ListRefs = Callable[[bool], Awaitable[Refs]]
"""Lists the refs of the server: all, or only branches and tags."""


class RemoteStatus(Struct, frozen=True):
    """The state of a remote."""

    checked: dt.datetime | None = None
    """When the server last answered."""
    failure: GitError | None = None
    """The failure of the last check; None if it succeeded, or if there was none."""


class _Follower(Struct, frozen=True):
    interval: float
    revisions: frozenset[str]


class RemoteWatch:
    """One remote. Concurrent callers share a check."""

    def __init__(
        self, list_refs: ListRefs, on_change: Callable[[Hashable], None], kept: KeptRefs | None = None
    ) -> None:
        self._list_refs = list_refs
        self._on_change = on_change
        self._kept = kept or KeptRefs(Limits().all_refs_bytes)
        self._followers: dict[Hashable, _Follower] = {}
        self._digest = b""
        self._status = RemoteStatus()
        self._everything = False
        self._interval = UNFOLLOWED_SECONDS
        self._started = float("-inf")
        self._finished = float("-inf")
        self._told_everything = False
        self._failures = 0
        self._check: asyncio.Task[None] | None = None
        self._poll: asyncio.Task[None] | None = None
        self._rescheduled = asyncio.Event()

    @property
    def status(self) -> RemoteStatus:
        """The state after the last check."""
        return self._status

    @property
    def is_followed(self) -> bool:
        """Whether there are followers."""
        return bool(self._followers)

    @property
    def is_idle(self) -> bool:
        """Whether there are no followers and no waiting callers."""
        return not self._followers and (self._check is None or self._check.done())

    def follow(self, who: Hashable, interval: float, revisions: Collection[str]) -> None:
        """Add a follower. With revisions, it is called only for changes of these."""
        follower = _Follower(interval, frozenset(revisions))
        if self._followers.get(who) == follower:
            return
        self._followers[who] = follower
        self._everything = self._everything or any(map(needs_all, revisions))
        self._reschedule()
        if self._poll is None or self._poll.done():
            self._poll = asyncio.create_task(self._keep_checking())

    def unfollow(self, who: Hashable) -> None:
        """Remove a follower."""
        self._followers.pop(who, None)
        self._reschedule()
        if not self._followers and self._poll is not None:
            self._poll.cancel()
            self._poll = None

    async def close(self) -> None:
        """Stop checking."""
        self._kept.drop(self)
        tasks = [task for task in (self._poll, self._check) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def resolve(self, revision: str) -> Commit:
        """Return the commit of a revision, from the last check if it is recent, else from a new one."""
        self._everything = self._everything or needs_all(revision)
        if self._everything and not self._told_everything and self._digest:
            await self.check(_now())
        age = self._pause
        if self._followers and self._status.failure is None:
            age += SLACK
        await self.check(_now() - age)
        if self._status.failure is not None:
            # It is raised many times: its traceback must not grow each time.
            raise self._status.failure.with_traceback(None)
        refs = self._kept.get(self) or await self._resolve_again()
        return await _choose(refs, revision)

    async def _resolve_again(self) -> Refs:
        """Request a list that is too large for the cache. Only the caller holds it."""
        try:
            return await self._list_refs(self._everything)
        except GitError as error:
            self._fail(error)
            raise

    async def check(self, since: float) -> None:
        """Wait for the end of a check that started at this time of the loop's clock or later."""
        while self._finished < since:
            if self._check is None or self._check.done():
                if (pause := self._started + SPACING - _now()) > 0:
                    await asyncio.sleep(pause)
                    continue
                self._started = _now()
                self._check = asyncio.create_task(self._ask(self._started))
            # A cancelled caller does not cancel the check for the others.
            await asyncio.wait([self._check])
            if self._check.cancelled():
                raise asyncio.CancelledError

    def _reschedule(self) -> None:
        shortest = min((follower.interval for follower in self._followers.values()), default=UNFOLLOWED_SECONDS)
        if shortest != self._interval:
            self._interval = shortest
            self._rescheduled.set()

    @property
    def _pause(self) -> float:
        """The delay after the last check."""
        if not self._failures:
            return self._interval
        return min(self._interval, LONGEST_RETRY, RETRY_SECONDS * 2.0 ** min(self._failures - 1, 16))

    async def _keep_checking(self) -> None:
        while True:
            self._rescheduled.clear()
            due = self._started + self._pause * (1 + random.uniform(0, JITTER))  # noqa: S311 - spreads load
            if (wait := due - _now()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._rescheduled.wait()
                continue
            await self.check(_now())

    async def _ask(self, started: float) -> None:
        before, known, failed, everything = self._kept.get(self), self._digest, self._status.failure, self._everything
        try:
            refs = await self._list_refs(everything)
        except GitError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  # a remote that nobody looks at any more is worse than any of them
            log.warning("git.check_failed", error=type(error).__name__)
            self._fail(
                RepositoryUnreachable(f"the check failed for a reason that should not be: {type(error).__name__}")
            )
        else:
            CHECKS.labels("ok").inc()
            self._failures = 0
            # A long list takes a while, and must not block other callers.
            self._digest = await asyncio.to_thread(getattr, refs, "digest") if len(refs.ids) > _MANY else refs.digest
            self._kept.put(self, refs)
            self._told_everything = everything
            self._status = RemoteStatus(dt.datetime.now(dt.UTC))
            if failed is not None:
                self._notify(self._followers)
            elif known and known != self._digest:
                self._notify(await self._concerned(before, refs) if before is not None else self._followers)
        finally:
            self._finished = started

    def _fail(self, error: GitError) -> None:
        CHECKS.labels(error.reason).inc()
        failed = self._status.failure
        self._failures += 1
        self._status = RemoteStatus(self._status.checked, error.with_traceback(None))
        if failed is None or failed.reason != error.reason:
            self._notify(self._followers)

    async def _concerned(self, before: Refs, after: Refs) -> list[Hashable]:
        """Return the followers with a revision that now resolves to another commit."""
        changed: dict[str, bool] = {}
        for follower in list(self._followers.values()):
            for revision in follower.revisions - changed.keys():
                changed[revision] = await _meaning(before, revision) != await _meaning(after, revision)
        # A revision that somebody follows since is unknown, and counts as changed.
        return [
            who
            for who, follower in self._followers.items()
            if not follower.revisions or any(changed.get(revision, True) for revision in follower.revisions)
        ]

    def _notify(self, followers: Iterable[Hashable]) -> None:
        for who in list(followers):
            self._on_change(who)


async def _choose(refs: Refs, revision: str) -> Commit:
    """Return the commit of a revision: in a thread, because a range of versions takes seconds in a long list.

    Raises `RevisionNotFound`.
    """
    if len(refs.ids) <= _MANY:
        return choose(refs, revision)
    async with _turns.slot(on_behalf_of.get()):
        return await in_thread(choose, refs, revision)


async def _meaning(refs: Refs, revision: str) -> Commit | None:
    try:
        return await _choose(refs, revision)
    except GitError:
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()
