"""Repository checks: when a sync has its repositories checked, and does not rely on what is known of them.

Checks are shared: a sync that appears, is edited, or is asked for now, needs one that begins after that, and one serves
all syncs of a repository that asked before it began. So a thousand syncs that are created together cost one check.
"""

import asyncio
from typing import Protocol

from syncline.kube.cache import Key


class FollowedRepositories(Protocol):
    """The repositories that the syncs of a kind follow."""

    def followers(self) -> tuple[Key, ...]:
        """Return the syncs that follow repositories."""

    async def refresh(self, key: Key, since: float) -> None:
        """Have the repositories of a sync checked, unless a check that began at this time or later has ended."""


class RepositoryChecks:
    """The moment since when a check counts, for each sync."""

    def __init__(self, origins: FollowedRepositories) -> None:
        self._origins = origins
        self._since: dict[Key, float] = {}
        self._leading_since = float("-inf")
        self._running: set[asyncio.Task[None]] = set()

    def require(self, key: Key) -> None:
        """From now on, checks that began earlier do not count for a sync."""
        self._since[key] = _now()

    def start(self, key: Key) -> None:
        """Check the repositories of a sync now; it reconciles if there is something new for it."""
        self.require(key)
        self._start(key)

    def lead(self) -> None:
        """Begin to lead: what another replica was told, this one may not have heard."""
        self._leading_since = _now()
        for key in self._origins.followers():
            self._start(key)

    def forget(self, key: Key) -> None:
        """Forget a sync."""
        self._since.pop(key, None)

    async def complete(self, key: Key) -> None:
        """Wait until a check that counts has ended, well or not, for each repository of a sync."""
        await self._origins.refresh(key, max(self._since.get(key, self._leading_since), self._leading_since))

    def _start(self, key: Key) -> None:
        task = asyncio.get_running_loop().create_task(self.complete(key))
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def _now() -> float:
    return asyncio.get_running_loop().time()
