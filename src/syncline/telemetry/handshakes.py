"""The rate of TLS handshakes of an endpoint. Each takes up to 3 ms of the event loop, before a client proves anything.

A handshake waits for its turn. The turns have a rate: of one address, and in total. Networks that wait take turns, and
so do the addresses within a network, so that neither one address nor many of them keep others out. Addresses that have
sent a valid request, such as those of an API server or a scraper, have turns of their own.
"""

import asyncio
import time
from collections import OrderedDict, deque

from prometheus_client import Counter

from syncline.limits import Buckets, Clock, network_of, source_of

RATE, BURST = 25.0, 100
"""The rate of handshakes of unknown addresses, and the same again for known addresses."""
ADDRESS_RATE, ADDRESS_BURST = 10.0, 40
"""The rate of handshakes of one unknown address."""
KNOWN_SECONDS = 3600.0
"""The time for which an address counts as known after a valid request."""
REMEMBERED = 4096
"""The maximum number of unknown addresses that are counted, and of known addresses."""

Place = asyncio.Future[None]

waited = Counter("syncline_handshakes_delayed", "Number of TLS handshakes that had to wait for their turn.")


class Handshakes:
    """Gives turns to handshakes."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, float] = OrderedDict()
        each = Buckets(rate=ADDRESS_RATE, burst=ADDRESS_BURST, capacity=REMEMBERED, clock=clock)
        self._for_unknown = _Turns(clock, each)
        self._for_known = _Turns(clock)

    async def turn(self, address: str) -> None:
        """Wait for the turn of a handshake with this address."""
        known = self._clock() < self._known.get(address, 0.0)
        await (self._for_known if known else self._for_unknown).turn(address)

    def know(self, address: str) -> None:
        """Note that an address has sent a valid request. Its neighbours in an IPv6 network stay unknown."""
        self._known[address] = self._clock() + KNOWN_SECONDS
        self._known.move_to_end(address)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def close(self) -> None:
        """Give no more turns."""
        self._for_known.close()
        self._for_unknown.close()


class _Turns:
    """Turns at a limited rate, fair between networks and between the addresses of a network."""

    def __init__(self, clock: Clock, each: Buckets | None = None) -> None:
        self._all = Buckets(rate=RATE, burst=BURST, capacity=1, clock=clock)
        self._each = each
        self._waiting: dict[str, dict[str, deque[Place]]] = {}
        """The places by network and source, the next one first."""
        self._timer: asyncio.TimerHandle | None = None

    async def turn(self, address: str) -> None:
        source = source_of(address)
        network = network_of(source)
        place: Place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(network, {}).setdefault(source, deque()).append(place)
        if self._timer is None or not self._all.wait(None):  # the timer can be that of an address
            self._serve()
        if not place.done():
            waited.inc()
        try:
            await place
        except asyncio.CancelledError:
            self._leave(network, source, place)
            raise

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self, network: str, source: str, place: Place) -> None:
        queue = self._waiting.get(network, {}).get(source, deque())
        if place in queue:
            queue.remove(place)
            self._drop_empty(network, source)

    def _serve(self) -> None:
        """Give all turns that are due, and come back when the next one is."""
        self.close()
        while self._waiting:
            wait = self._all.wait(None)
            if not wait:
                chosen, wait = self._choose()
                if chosen is not None:
                    self._all.take(None)
                    self._give(*chosen)
                    continue
            self._timer = asyncio.get_running_loop().call_later(wait, self._serve)
            return

    def _choose(self) -> tuple[tuple[str, str] | None, float]:
        """Return the network and the source of the next turn; if there is none, the seconds until there may be one."""
        soonest = float("inf")
        for network, sources in self._waiting.items():
            for source in sources:
                wait = self._each.take(source) if self._each is not None else 0.0
                if not wait:
                    return (network, source), 0.0
                soonest = min(soonest, wait)
        return None, soonest

    def _give(self, network: str, source: str) -> None:
        place = self._waiting[network][source].popleft()
        if not place.done():  # a cancelled handshake has not left yet
            place.set_result(None)
        # The network, and the source within it, go to the end of the line.
        sources = self._waiting.pop(network)
        sources[source] = sources.pop(source)
        self._waiting[network] = sources
        self._drop_empty(network, source)

    def _drop_empty(self, network: str, source: str) -> None:
        if not self._waiting[network][source]:
            del self._waiting[network][source]
        if not self._waiting[network]:
            del self._waiting[network]
