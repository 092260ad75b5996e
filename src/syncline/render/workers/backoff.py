"""Work that had to be stopped: why, and how long it is left alone before it is tried again."""

from typing import NamedTuple

FIRST_WAIT = 10.0
LONGEST_WAIT = 600.0
"""Seconds; each further time that a job is stopped doubles its wait."""

CAPACITY = 1000
"""Jobs remembered; beyond that the oldest is forgotten."""


class Backoff(NamedTuple):
    """Why a job is left alone, and for how many more seconds."""

    reason: str
    seconds: float


class _Failure(NamedTuple):
    reason: str
    times: int
    until: float


class Backoffs:
    """Remembers jobs by their digests; the caller brings the clock."""

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
        """Return why a job is left alone, or None when it may be tried."""
        entry = self._entries.get(key)
        return Backoff(entry.reason, entry.until - now) if entry and entry.until > now else None

    def reset(self, key: bytes) -> None:
        """Forget a job that succeeded."""
        self._entries.pop(key, None)
