"""Write attempts: how often and how soon one target is planned again in one reconcile."""

import asyncio
import random

from msgspec import Struct

from syncline.kube.errors import Conflict, KubeError

# How often a target is planned again in one reconcile because it has changed.
TRIES = 5


class ConflictLimit(Struct, frozen=True, kw_only=True):
    """How often a target is planned again after a conflict of versions (409), and after how many seconds."""

    retries: int
    delay: float


class WriteAttempts:
    """The attempts to write one target in one reconcile."""

    def __init__(self, limit: ConflictLimit | None) -> None:
        self.begun = 0
        self._limit = limit
        self._left = TRIES + (limit.retries if limit is not None else 0)
        self._conflicts = 0

    def begin(self) -> bool:
        """Begin the next attempt; return False if there is none left."""
        if not self._left:
            return False
        self._left -= 1
        self.begun += 1
        return True

    async def failed(self, error: KubeError) -> None:
        """Wait after a conflict. The last conflict of the limit leaves no attempt."""
        if self._limit is None or not isinstance(error, Conflict):
            return
        self._conflicts += 1
        if self._conflicts > self._limit.retries:
            self._left = 0
        else:
            await asyncio.sleep(self._limit.delay * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
