"""What keeps a flood cheap: rates by who asks, a memory of deliveries, a budget of bytes. All of bounded size."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address

Clock = Callable[[], float]

_SITE = 64
"""Bits of an IPv6 address that say whose it is; the rest its owner chooses."""


class Buckets:
    """A token bucket for each of many: `burst` at once, then `rate` a second.

    When there are more than `capacity`, those that were quiet for longest are forgotten, and start full again.
    """

    def __init__(self, *, rate: float, burst: int, capacity: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._capacity = capacity
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> float:
        """Take one; return 0, or where there is none, the seconds after which there will be."""
        now = self._clock()
        tokens, since = self._buckets.get(key, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - since) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._buckets[key] = (tokens if wait else tokens - 1, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return wait

    def give_back(self, key: Hashable) -> None:
        """Undo a take: what it was taken for has turned out to be welcome."""
        if key in self._buckets:
            tokens, since = self._buckets[key]
            self._buckets[key] = (min(float(self._burst), tokens + 1), since)

    def __len__(self) -> int:
        return len(self._buckets)


class Deliveries:
    """The deliveries that were answered, as many as there is room for; the oldest are forgotten."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._known: OrderedDict[Hashable, None] = OrderedDict()

    def __contains__(self, delivery: Hashable) -> bool:
        return delivery in self._known

    def add(self, delivery: Hashable) -> None:
        """Remember a delivery."""
        self._known[delivery] = None
        while len(self._known) > self._capacity:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._known)


class OverBudgetError(Exception):
    """All that is being read at this moment is too much; a little later there is room again."""


class Budget:
    """Bytes that all requests together may hold."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Give a function that claims bytes until the block ends; it raises `OverBudgetError`."""
        mine = 0

        def claim(size: int) -> None:
            nonlocal mine
            if self._held + size > self._limit:
                raise OverBudgetError
            self._held += size
            mine += size

        try:
            yield claim
        finally:
            self._held -= mine


def source_of(address: str | None) -> str:
    """Name who asks: an IPv4 address, or the network of an IPv6 one."""
    try:
        found = ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Address(int(found) >> _SITE << _SITE))
    return str(found)
