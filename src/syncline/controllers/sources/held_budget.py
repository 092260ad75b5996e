"""Held budget: limits the upstream objects in memory, for all syncs together and for one namespace.

An upstream may belong to a tenant, and may serve any number of objects of any size.
"""

from typing import Protocol
from weakref import WeakSet

# Of one namespace at most half, so that the others find room.
MOST_BYTES = 256 * 1024 * 1024
MOST_BYTES_OF_NAMESPACE = MOST_BYTES // 2


class Holder(Protocol):
    """Holds upstream objects for one sync."""

    @property
    def namespace(self) -> str:
        """The namespace of the sync."""

    @property
    def sizes(self) -> dict[str, int]:
        """The approximate size of the held objects, by kind."""


class HeldBudget:
    """The budget of all syncs."""

    def __init__(self, most: int = MOST_BYTES, of_namespace: int = MOST_BYTES_OF_NAMESPACE) -> None:
        self._most = most
        self._of_namespace = of_namespace
        self._holders: WeakSet[Holder] = WeakSet()

    def room(self, holder: Holder, kind: str) -> int:
        """Return how many bytes of a kind a sync may hold. From then on, its objects count."""
        self._holders.add(holder)
        own = holder.sizes.get(kind, 0)
        sizes = [(one.namespace, sum(one.sizes.values())) for one in self._holders]
        in_all = sum(size for _, size in sizes)
        in_namespace = sum(size for namespace, size in sizes if namespace == holder.namespace)
        return own + min(self._most - in_all, self._of_namespace - in_namespace)
