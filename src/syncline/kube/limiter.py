"""A limit of concurrent requests that is fair between namespaces and between syncs, and adapts to a busy server."""

import asyncio
from collections import OrderedDict, deque
from types import TracebackType

from syncline.fairness import on_behalf_of

_CUT_INTERVAL = 1.0

_Turns = OrderedDict[str, deque[asyncio.Future[None]]]
"""Those who wait, by their keys."""


class FairLimiter:
    """At most `limit` holders of a slot at once; waiting groups take turns, and within a group its keys.

    A sync with 5,000 targets and a sync with two targets, with their own keys, get every second slot while both wait.
    The group is whoever the task works for (`fairness.on_behalf_of`): a namespace with a hundred syncs has no more
    turns than a namespace with one. No group holds more than `share` slots, even if others are free: a server can
    hold the requests of one account for a long time, and the next group must find a free slot. Work without a group
    has no share.
    `on_throttle()` halves the share of the group, or without a group the limit, at most once in a second, because one
    overload refuses many requests: the server throttles each account by itself, so the others are not slowed down.
    As many calls of `on_success()` as there are slots add one slot, up to the full share.
    """

    def __init__(self, max: int = 32, *, share: int | None = None) -> None:  # noqa: A002  # reads best at the call
        self.share = max if share is None else share
        self.in_flight = 0
        self._all = _Allowance(max)
        self._held: dict[str, int] = {}
        self._throttled: dict[str, _Allowance] = {}
        """The groups that the server has throttled, until they have their full share again."""
        self._waiting: OrderedDict[str, _Turns] = OrderedDict()

    @property
    def limit(self) -> int:
        """How many may hold a slot at once."""
        return self._all.limit

    def slot(self, key: str = "") -> "_Slot":
        """Hold one slot, and wait for the turn of `key`."""
        return _Slot(self, key)

    def waiting(self, key: str) -> int:
        """Return how many wait under a key."""
        return sum(len(keys.get(key, ())) for keys in self._waiting.values())

    def on_throttle(self) -> None:
        """Note that the server throttled a request."""
        group = on_behalf_of.get()
        allowance = self._throttled.setdefault(group, _Allowance(self.share)) if group else self._all
        allowance.cut(asyncio.get_running_loop().time())

    def on_success(self) -> None:
        """Note that a request was served."""
        group = on_behalf_of.get()
        own = self._throttled.get(group)
        grown = own.grow() if own is not None else False
        if own is not None and own.is_full:
            del self._throttled[group]
        if self._all.grow() or grown:
            self._hand_out()

    async def acquire(self, key: str) -> str:
        """Take a slot, and return the group that holds it. Prefer `slot`, which releases it."""
        group = on_behalf_of.get()
        # While there are free slots, only those wait whose group has its share.
        if self.in_flight < self.limit and group not in self._waiting and self._may_hold_more(group):
            self._take(group)
            return group
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, OrderedDict()).setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was assigned during the cancellation: pass it on
                self.release(group)
            else:
                self._withdraw(group, key, turn)
            raise
        return group

    def release(self, group: str) -> None:
        """Release a slot of a group."""
        self.in_flight -= 1
        if self._held[group] > 1:
            self._held[group] -= 1
        else:
            del self._held[group]
        self._hand_out()

    def _may_hold_more(self, group: str) -> bool:
        own = self._throttled.get(group)
        return not group or self._held.get(group, 0) < (self.share if own is None else own.limit)

    def _take(self, group: str) -> None:
        self.in_flight += 1
        self._held[group] = self._held.get(group, 0) + 1

    def _hand_out(self) -> None:
        while self.in_flight < self.limit:
            group = next(filter(self._may_hold_more, self._waiting), None)
            if group is None:
                return
            keys = self._waiting.pop(group)
            key, turns = keys.popitem(last=False)
            turn = turns.popleft()
            if turns:
                keys[key] = turns  # to the back of the queue of keys
            if keys:
                self._waiting[group] = keys
            if not turn.done():
                self._take(group)
                turn.set_result(None)

    def _withdraw(self, group: str, key: str, turn: asyncio.Future[None]) -> None:
        keys = self._waiting.get(group, OrderedDict())
        turns = keys.get(key)
        if turns and turn in turns:
            turns.remove(turn)
            if not turns:
                del keys[key]
            if not keys:
                del self._waiting[group]


def fair_limiter(most: int) -> FairLimiter:
    """Return a limiter of the requests to a server: one namespace has two thirds of the slots at most."""
    return FairLimiter(most, share=max(1, 2 * most // 3))


class _Allowance:
    """How many slots there are while a server throttles, and how many there were before."""

    __slots__ = ("_last_cut", "_most", "_successes", "limit")

    def __init__(self, most: int) -> None:
        self.limit = most
        self._most = most
        self._successes = 0
        self._last_cut = float("-inf")

    @property
    def is_full(self) -> bool:
        """Whether nothing is left of a cut."""
        return self.limit == self._most

    def cut(self, now: float) -> None:
        """Halve it, unless that was done just now."""
        if now - self._last_cut >= _CUT_INTERVAL:
            self._last_cut = now
            self._successes = 0
            self.limit = max(1, self.limit // 2)

    def grow(self) -> bool:
        """Count a success; return whether there is one more slot."""
        if self.is_full:
            return False
        self._successes += 1
        if self._successes < self.limit:
            return False
        self._successes = 0
        self.limit += 1
        return True


class _Slot:
    """A held slot. Every request takes one, and a generator would cost several times as much."""

    __slots__ = ("_group", "_key", "_limiter")

    def __init__(self, limiter: FairLimiter, key: str) -> None:
        self._limiter = limiter
        self._key = key
        self._group = ""

    async def __aenter__(self) -> None:
        self._group = await self._limiter.acquire(self._key)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release(self._group)
