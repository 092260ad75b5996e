"""The lists of refs of all remotes, as many as fit into memory."""

from collections.abc import Hashable

from syncline.git.refs import Refs


class KeptRefs:
    """Keeps lists up to so many bytes together. The largest go first: those with few refs lose nothing to others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lists: dict[Hashable, Refs] = {}
        self._size = 0

    def put(self, key: Hashable, refs: Refs) -> None:
        """Keep a list, in the place of the one before; not if it is the largest and there is no room."""
        self.drop(key)
        self._lists[key] = refs
        self._size += refs.size
        while self._size > self._most:
            self.drop(max(self._lists, key=lambda each: self._lists[each].size))

    def get(self, key: Hashable) -> Refs | None:
        """Return a list, if it is still there."""
        return self._lists.get(key)

    def drop(self, key: Hashable) -> None:
        """Keep a list no longer."""
        refs = self._lists.pop(key, None)
        if refs is not None:
            self._size -= refs.size
