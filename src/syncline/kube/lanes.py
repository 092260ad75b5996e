"""Keys that are due, one lane for each group: many keys in one group delay only that group."""

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Container
from typing import Generic, TypeVar

T = TypeVar("T")

# Of this many items of a lane, one is the oldest, whatever the priorities.
OLDEST_EVERY = 4


class Lanes(Generic[T]):
    """Hands out items: the groups take turns, and urgent items of a group go first, but do not starve the others.

    `is_current` tells whether an item is valid: it may have been replaced.
    """

    def __init__(self, is_current: Callable[[T], bool]) -> None:
        self._is_current = is_current
        self._lanes: OrderedDict[str, _Lane[T]] = OrderedDict()
        self._order = itertools.count()

    def push(self, group: str, priority: int, item: T) -> None:
        """Add an item; lower priorities go first."""
        lane = self._lanes.get(group)
        if lane is None:
            lane = self._lanes[group] = _Lane()
        lane.push(priority, next(self._order), item)

    def pop(self, full: Container[str]) -> T | None:
        """Take the next item of the next group, without groups that are full."""
        for group in list(self._lanes):
            if group in full:
                continue
            lane = self._lanes[group]
            item = lane.pop(self._is_current)
            if item is None:
                del self._lanes[group]
                continue
            self._lanes.move_to_end(group)
            return item
        return None


class _Lane(Generic[T]):
    """The items of one group in both orders; an item that was taken from one order is stale in the other."""

    def __init__(self) -> None:
        self._urgent: list[tuple[int, int, T]] = []
        self._oldest: deque[tuple[int, T]] = deque()
        self._taken: set[int] = set()
        self._picks = 0

    def push(self, priority: int, number: int, item: T) -> None:
        heapq.heappush(self._urgent, (priority, number, item))
        self._oldest.append((number, item))

    def pop(self, is_current: Callable[[T], bool]) -> T | None:
        self._picks += 1
        take = self._pop_oldest if self._picks % OLDEST_EVERY == 0 else self._pop_urgent
        while (found := take()) is not None:
            number, item = found
            if number in self._taken:
                self._taken.discard(number)  # seen in both orders now
                continue
            self._taken.add(number)
            if is_current(item):
                return item
        return None

    def _pop_urgent(self) -> tuple[int, T] | None:
        return heapq.heappop(self._urgent)[1:] if self._urgent else None

    def _pop_oldest(self) -> tuple[int, T] | None:
        return self._oldest.popleft() if self._oldest else None
