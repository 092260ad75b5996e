"""Jobs that had to be stopped, and how long each is left alone before it is tried again."""

from typing import NamedTuple

FIRST_WAIT = 10.0
LONGEST_WAIT = 600.0
"""Seconds; each further time a job is stopped doubles its wait."""

CAPACITY = 1000
"""Jobs remembered; beyond that the oldest is forgotten."""


class _Entry(NamedTuple):
    times: int
    until: float


class Quarantine:
    """Remembers by key; the caller brings the clock."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def add(self, key: bytes, now: float) -> float:
        """Note that a job was stopped, and return the seconds for which it is left alone."""
        times = self._entries.pop(key, _Entry(0, now)).times
        wait = min(FIRST_WAIT * 2.0**times, LONGEST_WAIT)
        self._entries[key] = _Entry(times + 1, now + wait)
        if len(self._entries) > CAPACITY:
            del self._entries[next(iter(self._entries))]
        return wait

    def wait(self, key: bytes, now: float) -> float:
        """Return the seconds until a job may be tried; 0 for one that may be tried now."""
        entry = self._entries.get(key)
        return max(0.0, entry.until - now) if entry else 0.0

    def release(self, key: bytes) -> None:
        """Forget a job that went well."""
        self._entries.pop(key, None)
