"""Source memory: limits the source objects in memory, for all reconciles together and for one namespace.

Users who create objects in a namespace decide how large the sources of its syncs are. Many syncs can hold them at once,
until their writes end. A sync without room releases its sources, and waits in the queue for large sources: one sync of
each namespace at a time.
"""

import asyncio
from collections import Counter

from syncline.controllers.errors import SyncError
from syncline.fairness import FairSemaphore
from syncline.kube.cache_budget import held_size

_MIB = 1024 * 1024
# The maximum size of the sources of one sync, as JSON.
MAX_SOURCE_BYTES = 16 * _MIB
# The maximum size in memory: many short keys and lists take much more than their text.
MAX_HELD_BYTES = 48 * _MIB
# The maximum for all reconciles without waiting. One namespace has at most half, so that others have room.
SHARED_BYTES = 64 * _MIB
SHARED_BYTES_OF_NAMESPACE = SHARED_BYTES // 2
# The number of reconciles that may hold more at once, each of another namespace.
LARGE = 2
MOST_BYTES = SHARED_BYTES + LARGE * MAX_HELD_BYTES
# Each sync may always hold this much: sources of the usual size do not wait.
FREE_BYTES = 256 * 1024
# The time that a sync waits in the queue, before it is reported and retried later.
PATIENCE = 60.0
TOO_LARGE = "SourceTooLarge"


class NoRoomError(Exception):
    """Other reconciles use the whole memory at this moment."""


class SourceMemory:
    """The memory of the source objects of all reconciles."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()
        self.large = FairSemaphore(LARGE, share=1)

    @property
    def used(self) -> int:
        """The bytes in use, without the free amount of each sync and without large sources."""
        return self._used.total()

    def take(self, namespace: str, size: int) -> None:
        """Reserve bytes. Raises `NoRoomError` if there is no room."""
        if self.used + size > SHARED_BYTES or self._used[namespace] + size > SHARED_BYTES_OF_NAMESPACE:
            raise NoRoomError
        self._used[namespace] += size

    def give_back(self, namespace: str, size: int) -> None:
        """Release bytes."""
        self._used -= Counter({namespace: size})


class SourceAccount:
    """The memory of the sources of one reconcile."""

    def __init__(self, memory: SourceMemory, namespace: str) -> None:
        self._memory = memory
        self._namespace = namespace
        self._read = 0
        self._held = 0
        self._counted = 0
        self._is_large = False

    def take(self, text: bytes) -> None:
        """Reserve memory for an object. Raises `SyncError` if the sources are too large, and `NoRoomError`."""
        self._read += len(text)
        self._held += held_size(text)
        if self._read > MAX_SOURCE_BYTES or self._held > MAX_HELD_BYTES:
            most = (
                f"have more than {MAX_SOURCE_BYTES // _MIB} MiB together"
                if self._read > MAX_SOURCE_BYTES
                else f"take more than {MAX_HELD_BYTES // _MIB} MiB of memory together"
            )
            message = f"select fewer objects, or make several syncs: the sources {most}"
            raise SyncError(TOO_LARGE, message, stalled=True)
        more = max(0, self._held - FREE_BYTES) - self._counted
        if more > 0 and not self._is_large:
            self._memory.take(self._namespace, more)
            self._counted += more

    def balance(self) -> tuple[int, int]:
        """Return the present balance, for `go_back_to`."""
        return self._read, self._held

    def go_back_to(self, balance: tuple[int, int]) -> None:
        """Release the memory that was reserved since then, because the objects were dropped."""
        self._read, self._held = balance
        counted = min(self._counted, max(0, self._held - FREE_BYTES))
        self._memory.give_back(self._namespace, self._counted - counted)
        self._counted = counted

    async def wait_for_room(self) -> None:
        """Release all memory, and wait for room. Raises `SyncError` after a timeout. Drop the objects first."""
        self.go_back_to((0, 0))
        try:
            async with asyncio.timeout(PATIENCE):
                await self._memory.large.acquire(self._namespace)
        except TimeoutError:
            message = "the sources of other syncs take all the memory for sources at this moment: it is tried again"
            raise SyncError(TOO_LARGE, message, retry=True) from None
        self._is_large = True

    def release(self) -> None:
        """Release all memory at the end of the reconcile."""
        self.go_back_to((0, 0))
        if self._is_large:
            self._is_large = False
            self._memory.large.release(self._namespace)
