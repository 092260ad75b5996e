"""The known deliveries, so that a repeated delivery does nothing. Their number is bounded."""

from collections import OrderedDict
from collections.abc import Hashable


class Deliveries:
    """The answered deliveries, up to a maximum number. The oldest are dropped."""

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
