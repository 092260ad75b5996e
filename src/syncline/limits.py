"""Limits against floods: rates by sender, and a budget of bytes. All have a bounded size."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address, ip_network

Clock = Callable[[], float]

_SITE = 64
"""The bits of an IPv6 address that identify its network. The owner chooses the others."""
_NEIGHBOURS = {4: 24, 6: 48}
"""The bits that senders of one owner often share, by the version of the address."""


class Buckets:
    """A token bucket for each key: `burst` at once, then `rate` in each second.

    If there are more than `capacity` keys, the least recently used are dropped, and start with a full bucket again.
    """

    def __init__(self, *, rate: float, burst: int, capacity: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._capacity = capacity
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> float:
        """Take a token. Return 0, or the seconds until the next token if there is none."""
        now = self._clock()
        tokens, since = self._buckets.get(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - since) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._buckets[key] = (tokens if wait else tokens - 1, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return wait

    def wait(self, key: Hashable) -> float:
        """Return the seconds until there is a token, without taking it."""
        tokens, since = self._buckets.get(key, (float(self._burst), 0.0))
        return max(0.0, (1 - tokens) / self._rate - (self._clock() - since)) if tokens < 1 else 0.0

    def give_back(self, key: Hashable) -> None:
        """Return a token, because the request was valid."""
        if key in self._buckets:
            tokens, since = self._buckets[key]
            self._buckets[key] = (min(float(self._burst), tokens + 1), since)

    def __len__(self) -> int:
        return len(self._buckets)


class OverBudgetError(Exception):
    """The requests that are read at this moment use the whole budget. The sender can retry soon."""


class BodyBudget:
    """A budget of bytes for all requests together.

    The first `free` bytes of each request are not counted, so that small requests find room at any time. One sender
    has at most `share` of the budget.
    """

    def __init__(self, limit: int, *, share: int | None = None, free: int = 0) -> None:
        self._limit = limit
        self._share = limit if share is None else share
        self._free = free
        self._held: Counter[str] = Counter()

    @contextmanager
    def share(self, sender: str = "") -> Iterator[Callable[[int], None]]:
        """Yield a function that claims bytes until the end of the block. It raises `OverBudgetError`."""
        size = mine = 0

        def claim(more: int) -> None:
            nonlocal size, mine
            counted = max(0, size + more - self._free) - mine
            if self._held.total() + counted > self._limit or self._held[sender] + counted > self._share:
                raise OverBudgetError
            self._held[sender] += counted
            size, mine = size + more, mine + counted

        try:
            yield claim
        finally:
            self._held -= Counter({sender: mine})


def source_of(address: str | None) -> str:
    """Return the identity of a sender: an IPv4 address, or the network of an IPv6 address."""
    try:
        found = ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Address(int(found) >> _SITE << _SITE))
    return str(found)


def network_of(source: str) -> str:
    """Return the network of a sender: 256 addresses of IPv4, or 65,536 networks of IPv6."""
    try:
        found = ip_address(source)
    except ValueError:
        return ""
    return str(ip_network((found, _NEIGHBOURS[found.version]), strict=False))
