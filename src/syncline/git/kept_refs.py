"""The cache of the lists of refs of all remotes, with a memory limit."""

from collections.abc import Hashable

from syncline.git.refs import Refs


class KeptRefs:
    """Caches lists up to a total size. The largest lists are dropped first: small remotes keep theirs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lists: dict[Hashable, Refs] = {}
        self._size = 0

    def put(self, key: Hashable, refs: Refs) -> None:
        """Cache a list in place of the previous one, unless it is the largest and exceeds the limit."""
        self.drop(key)
        self._lists[key] = refs
        self._size += refs.size
        while self._size > self._most:
            self.drop(max(self._lists, key=lambda each: self._lists[each].size))

    def get(self, key: Hashable) -> Refs | None:
        """Return a list, if it is cached."""
        return self._lists.get(key)

    def drop(self, key: Hashable) -> None:
        """Drop a list."""
        refs = self._lists.pop(key, None)
        if refs is not None:
            self._size -= refs.size
