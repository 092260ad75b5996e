"""A limit of concurrent requests that is fair between syncs and adapts to a busy server."""

import asyncio
from collections import OrderedDict, deque
from types import TracebackType

_CUT_INTERVAL = 1.0


class FairLimiter:
    """At most `limit` holders of a slot at once; waiting keys take turns.

    A sync with 5,000 targets and one with two, under their own keys, get every other slot while both wait.
    `on_throttle()` halves the limit, at most once a second since one moment of overload answers many requests; every
    `limit` calls of `on_success()` give one slot back, up to `max`.
    """

    def __init__(self, max: int = 32) -> None:  # noqa: A002  # the word that reads best at the call
        self.max = max
        self.limit = max
        self.in_flight = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._successes = 0
        self._last_cut = float("-inf")

    def slot(self, key: str = "") -> "_Slot":
        """Hold one slot, waiting for the turn of `key`."""
        return _Slot(self, key)

    def on_throttle(self) -> None:
        """Tell that the server asked for less."""
        now = asyncio.get_running_loop().time()
        if now - self._last_cut >= _CUT_INTERVAL:
            self._last_cut = now
            self._successes = 0
            self.limit = max(1, self.limit // 2)

    def on_success(self) -> None:
        """Tell that a request was served."""
        if self.limit == self.max:
            return
        self._successes += 1
        if self._successes >= self.limit:
            self._successes = 0
            self.limit += 1
            self._hand_out()

    async def acquire(self, key: str) -> None:
        """Take a slot; `slot` gives it back by itself."""
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was handed to us as we were cancelled: pass it on
                self.release()
            else:
                self._withdraw(key, turn)
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.in_flight -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            key, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[key] = turns  # to the back of the queue of keys
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    def _withdraw(self, key: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(key)
        if turns and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[key]


class _Slot:
    """A slot while it is held. Every request takes one, and a generator would cost several times as much."""

    __slots__ = ("_key", "_limiter")

    def __init__(self, limiter: FairLimiter, key: str) -> None:
        self._limiter = limiter
        self._key = key

    async def __aenter__(self) -> None:
        await self._limiter.acquire(self._key)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release()
