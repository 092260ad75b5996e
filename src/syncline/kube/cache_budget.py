"""Cache budget: limits the caches of clusters that tenants name, in total and for one namespace.

Such a cluster may list any number of objects. A full cache is reported, and never counts as complete.
"""

from collections import Counter
from collections.abc import Mapping

from syncline.kube.errors import CacheFull

MOST_BYTES = 256 * 1024 * 1024
"""The maximum size of all caches. One namespace has at most half of it, and one cluster half of that."""
# The size of the smallest entry.
_NAME_BYTES = 500
# A key, a list or a map of JSON takes much more in memory than its text.
_NODE_BYTES = 100
_TEXT_BYTES = 60
_MAP_BYTES = 100
_SLOT_BYTES = 40


class CacheBudget:
    """The budget of the caches of all clusters, or of other objects that a message calls by `one` and `all_of`."""

    def __init__(
        self,
        most: int = MOST_BYTES,
        *,
        one: str = "the objects of this cluster",
        all_of: str = "the objects of all clusters",
    ) -> None:
        self.most = most
        self.one = one
        self.all_of = all_of
        self.used = 0
        self._of_namespace: Counter[str] = Counter()

    def cluster(self, namespace: str) -> "ClusterShare":
        """Return the share of a cluster for a namespace."""
        return ClusterShare(self, namespace)

    def used_by(self, namespace: str) -> int:
        """Return the bytes that the clusters of a namespace take."""
        return self._of_namespace[namespace]

    def add(self, namespace: str, size: int) -> None:
        """Count more bytes, or fewer."""
        self.used += size
        self._of_namespace[namespace] += size
        if not self._of_namespace[namespace]:
            del self._of_namespace[namespace]


class ClusterShare:
    """The share of one cluster."""

    def __init__(self, budget: CacheBudget, namespace: str) -> None:
        self._budget = budget
        self._namespace = namespace
        self._used = 0

    def account(self) -> "CacheAccount":
        """Return the account of one cache."""
        return CacheAccount(self)

    def add(self, size: int) -> None:
        """Count more bytes, or fewer."""
        self._used += size
        self._budget.add(self._namespace, size)

    @property
    def excess(self) -> str:
        """Return which limit is exceeded; empty while there is room."""
        most, all_of = self._budget.most, self._budget.all_of
        if self._used > most // 4:
            return f"{self._budget.one} take more than {_mib(most // 4)} of memory"
        if self._budget.used_by(self._namespace) > most // 2:
            return f"{all_of} of namespace {self._namespace} take more than {_mib(most // 2)} of memory"
        return f"{all_of} take more than {_mib(most)} of memory" if self._budget.used > most else ""


class CacheAccount:
    """The account of one cache."""

    def __init__(self, share: ClusterShare) -> None:
        self._share = share
        self._size = 0

    def set(self, size: int) -> bool:
        """Set the size of the cache; return whether it grew."""
        grows = size > self._size
        self._share.add(size - self._size)
        self._size = size
        return grows

    def check(self) -> None:
        """Raise `CacheFull` if there is no room for more."""
        if excess := self._share.excess:
            raise CacheFull(excess)


def held_size(text: bytes) -> int:
    """Estimate the bytes that an object takes in memory, by its JSON."""
    nodes = text.count(b'":') + text.count(b"[") + text.count(b"{")
    return _NAME_BYTES + len(text) + nodes * _NODE_BYTES


def text_size(text: str) -> int:
    """Estimate the bytes that a text takes in memory."""
    return _TEXT_BYTES + (len(text) if text.isascii() else 4 * len(text))


def texts_size(texts: Mapping[str, str]) -> int:
    """Estimate the bytes that a map of texts takes in memory."""
    return _MAP_BYTES + sum(_SLOT_BYTES + text_size(key) + text_size(value) for key, value in texts.items())


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"
