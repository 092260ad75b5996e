"""The backoff of work that was stopped: the cause, and the time until the next attempt."""

from typing import NamedTuple

FIRST_WAIT = 10.0
LONGEST_WAIT = 600.0
"""The first and the longest wait in seconds. The wait doubles each time that a job is stopped."""

CAPACITY = 1000
"""The maximum number of remembered jobs. The oldest is dropped first."""


class Backoff(NamedTuple):
    """The cause of a backoff, and the seconds until its end."""

    reason: str
    seconds: float


class _Failure(NamedTuple):
    reason: str
    times: int
    until: float


class Backoffs:
    """The backoffs of jobs, by the digests of the jobs. The clock is an argument."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Failure] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def add(self, key: bytes, reason: str, now: float) -> Backoff:
        """Remember that a job was stopped."""
        last = self._entries.pop(key, None)
        times = last.times if last else 0
        wait = min(FIRST_WAIT * 2.0**times, LONGEST_WAIT)
        self._entries[key] = _Failure(reason, times + 1, now + wait)
        if len(self._entries) > CAPACITY:
            del self._entries[next(iter(self._entries))]
        return Backoff(reason, wait)

    def of(self, key: bytes, now: float) -> Backoff | None:
        """Return the backoff of a job, or None if the job can be tried."""
        entry = self._entries.get(key)
        return Backoff(entry.reason, entry.until - now) if entry and entry.until > now else None

    def reset(self, key: bytes) -> None:
        """Forget a job that succeeded."""
        self._entries.pop(key, None)
