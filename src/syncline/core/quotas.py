"""Quotas of a namespace: the syncs that keep their place, the remaining targets, and the next free time.

Each namespace is counted separately, so that no tenant uses the quota of another. A quota never removes existing
objects: it stops new ones, and above the limit the oldest syncs keep their place.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

WINDOW = 3600.0
_STEP = 60.0


class Seat(Struct, frozen=True, order=True):
    """The place of a sync in the order of age. A sync that does not exist yet is the newest."""

    created: str
    uid: str

    @staticmethod
    def of(created: str, uid: str) -> "Seat":
        """Return the place of a sync by its creationTimestamp and uid."""
        return Seat(created or "~", uid)


class Holding(Struct, frozen=True):
    """The usage of a sync."""

    seat: Seat
    targets: int


def has_place(seat: Seat, others: Iterable[Seat], quota: int) -> bool:
    """Whether a sync is among the oldest ones that the quota allows."""
    return sum(1 for other in others if other < seat) < quota


def fits(wanted: int, own: Holding, others: Collection[Holding], quota: int) -> bool:
    """Whether a sync may have this number of targets.

    A sync that wants more targets than it has needs room in addition to all existing ones. Else it keeps its place if
    it is among the oldest syncs that have room together.
    """
    if wanted > own.targets:
        return wanted + sum(other.targets for other in others) <= quota
    used = 0
    for older in sorted((other for other in others if other.seat < own.seat), key=lambda other: other.seat):
        if used + older.targets <= quota:
            used += older.targets
    return used + wanted <= quota


class Meter:
    """Seconds that were used within the last hour, counted by the minute."""

    def __init__(self) -> None:
        self._used: deque[tuple[int, float]] = deque()

    def add(self, seconds: float, now: float) -> None:
        """Record used seconds."""
        minute = int(now // _STEP)
        if self._used and self._used[-1][0] == minute:
            minute, before = self._used.pop()
            seconds += before
        self._used.append((minute, seconds))
        self._forget(now)

    def used(self, now: float) -> float:
        """Return the number of used seconds."""
        self._forget(now)
        return sum(seconds for _, seconds in self._used)

    def wait(self, quota: float, now: float) -> float:
        """Return the seconds until less than the quota is used; 0: it is already, or will never be."""
        left = self.used(now)
        for minute, seconds in self._used:
            if left < quota:
                break
            left -= seconds
            until = minute * _STEP + _STEP + WINDOW
            if left < quota:
                return until - now
        return 0.0

    def _forget(self, now: float) -> None:
        while self._used and self._used[0][0] * _STEP + _STEP + WINDOW <= now:
            self._used.popleft()


class SharedTime:
    """Shared time: it is divided between concurrent users, so that no tenant pays for the delay by others."""

    def __init__(self) -> None:
        self._inside: dict[int, float] = {}
        self._last = 0.0
        self._next = 0

    def enter(self, now: float) -> int:
        """Begin. Return the token for `leave`."""
        self._pass(now)
        self._next += 1
        self._inside[self._next] = 0.0
        return self._next

    def leave(self, visit: int, now: float) -> float:
        """End. Return the seconds to count."""
        self._pass(now)
        return self._inside.pop(visit)

    def _pass(self, now: float) -> None:
        if self._inside:
            share = (now - self._last) / len(self._inside)
            self._inside = {visit: seconds + share for visit, seconds in self._inside.items()}
        self._last = now


def charged(size: int, asked: Mapping[str, int], tenant: str) -> int:
    """Return the bytes of a shared cache that count for a tenant: those that were fetched for it.

    `asked` has the bytes that were fetched for each tenant. No tenant pays for the fetches of others.
    """
    known, own = sum(asked.values()), asked.get(tenant, 0)
    return own * size // known if known > size else own  # it may have been packed again
