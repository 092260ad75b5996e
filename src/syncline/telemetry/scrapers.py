"""The clients that can read the metrics: the API server reviews their bearer tokens.

Reviews are cached for a short time and rate-limited, so that unknown clients cannot cause many requests to the API
server. A scraper that was accepted before has its own share: unknown clients cannot block it.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from enum import IntEnum

from prometheus_client import Counter

ALLOWED_SECONDS = 60.0
DENIED_SECONDS = 10.0
REVIEW_SECONDS = 5.0
"""The time for which a review is cached, and the timeout of a review."""

REMEMBERED = 256
"""The maximum number of cached tokens, and of addresses."""

_FRIEND_SECONDS = 3600.0
"""For this long, an accepted token does not count towards the limit of unknown clients."""

_refused = Counter("syncline_scrapes_refused", "Number of refused requests for metrics, by status code.", ["code"])


class ScrapeVerdict(IntEnum):
    """The result of a request, as its status code."""

    ALLOWED = 200
    UNAUTHENTICATED = 401
    FORBIDDEN = 403
    TOO_MANY = 429
    UNKNOWN = 503


Review = Callable[[str], Awaitable[ScrapeVerdict]]
"""Reviews a token with the API server. If it raises any exception, the request is refused."""
Authorize = Callable[[str, str], Awaitable[ScrapeVerdict]]
"""Decides about a request by its Authorization header and its source address."""
Clock = Callable[[], float]


class Scrapers:
    """Decides which clients can read the metrics."""

    def __init__(self, review: Review, clock: Clock = time.monotonic) -> None:
        self._review = review
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[ScrapeVerdict, float]] = OrderedDict()
        self._friends: OrderedDict[bytes, float] = OrderedDict()
        self._reviews: dict[bytes, asyncio.Task[ScrapeVerdict]] = {}
        self._all = _Rate(5, 10, clock)
        self._addresses: OrderedDict[str, _Rate] = OrderedDict()

    async def authorize(self, authorization: str, address: str) -> ScrapeVerdict:
        """Decide about a request, and count a refusal."""
        access = await self._decide(authorization, address)
        if access is not ScrapeVerdict.ALLOWED:
            _refused.labels(str(int(access))).inc()
        return access

    async def _decide(self, authorization: str, address: str) -> ScrapeVerdict:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ScrapeVerdict.UNAUTHENTICATED
        key = hashlib.sha256(token.encode()).digest()
        access, until = self._known.get(key, (ScrapeVerdict.UNKNOWN, 0.0))
        if self._clock() < until:
            return access
        review = self._reviews.get(key)
        if review is None:
            if not self._has_room(key, address):
                return ScrapeVerdict.TOO_MANY
            review = self._reviews[key] = asyncio.create_task(self._ask(key, token))
            review.add_done_callback(lambda _: self._reviews.pop(key, None))
        return await asyncio.shield(review)

    def _has_room(self, key: bytes, address: str) -> bool:
        if self._clock() < self._friends.get(key, 0.0):
            return True
        mine = self._addresses.setdefault(address, _Rate(1, 5, self._clock))
        self._addresses.move_to_end(address)
        _trim(self._addresses)
        return mine.take() and self._all.take()

    async def _ask(self, key: bytes, token: str) -> ScrapeVerdict:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                access = await self._review(token)
        except Exception:  # noqa: BLE001 - whatever it was, nobody was found to be allowed
            return ScrapeVerdict.UNKNOWN
        now = self._clock()
        self._known[key] = access, now + (ALLOWED_SECONDS if access is ScrapeVerdict.ALLOWED else DENIED_SECONDS)
        self._known.move_to_end(key)
        _trim(self._known)
        if access is ScrapeVerdict.ALLOWED:
            self._friends[key] = now + _FRIEND_SECONDS
            self._friends.move_to_end(key)
            _trim(self._friends)
        else:
            self._friends.pop(key, None)
        return access


class _Rate:
    """A token bucket: `burst` at once, then `rate` in each second."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._since = float(burst), clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _trim(
    remembered: "OrderedDict[bytes, float] | OrderedDict[bytes, tuple[ScrapeVerdict, float]] | OrderedDict[str, _Rate]",
) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)
