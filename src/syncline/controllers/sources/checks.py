"""Repository checks: when a sync needs a new check of its repositories.

Checks are shared. A sync that is created, edited or requested to reconcile needs a check that begins later, and one
check serves all syncs that requested it before its begin. So a thousand syncs that are created together cost one check.
"""

import asyncio
from typing import Protocol

from syncline.kube.cache import Key


class FollowedRepositories(Protocol):
    """The repositories that the syncs of a kind follow."""

    def followers(self) -> tuple[Key, ...]:
        """Return the syncs that follow repositories."""

    async def refresh(self, key: Key, since: float) -> None:
        """Check the repositories of a sync, unless a check that began at this time or later has ended."""


class RepositoryChecks:
    """The time since when a check counts, for each sync."""

    def __init__(self, origins: FollowedRepositories) -> None:
        self._origins = origins
        self._since: dict[Key, float] = {}
        self._leading_since = float("-inf")
        self._running: set[asyncio.Task[None]] = set()

    def require(self, key: Key) -> None:
        """Require a check that begins after this call."""
        self._since[key] = _now()

    def start(self, key: Key) -> None:
        """Check the repositories of a sync now. A change enqueues the sync."""
        self.require(key)
        self._start(key)

    def lead(self) -> None:
        """Begin to lead: this replica may have missed the pushes that another one received."""
        self._leading_since = _now()
        for key in self._origins.followers():
            self._start(key)

    def forget(self, key: Key) -> None:
        """Forget a sync."""
        self._since.pop(key, None)

    async def complete(self, key: Key) -> None:
        """Wait until a check that counts has ended for each repository of a sync, with success or failure."""
        await self._origins.refresh(key, max(self._since.get(key, self._leading_since), self._leading_since))

    def _start(self, key: Key) -> None:
        task = asyncio.get_running_loop().create_task(self.complete(key))
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def _now() -> float:
    return asyncio.get_running_loop().time()
