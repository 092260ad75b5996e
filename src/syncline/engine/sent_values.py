"""The values that were written to sources of two-way syncs, until their copies record them as agreed.

The copy can be edited between the two writes, or the answer to the first one can be lost. Then the value of the source
is our own, and no change of somebody else. All of this may be lost: then such an edit is a conflict.
"""

from collections.abc import Mapping
from typing import NamedTuple

from syncline.core.digest import combined_digest
from syncline.core.twoway import Base

MAX_VALUES = 20_000
"""The maximum number of values of all pairs. A tenant can have the second write of many pairs fail for ever."""
MAX_TRIES = 8
"""The maximum number of writes of a value that are remembered."""


class _Sent(NamedTuple):
    base: str
    """The digest of the base when they were sent: with another base, they are recorded or of no use."""
    digests: Mapping[str, tuple[str, ...]]
    """By path, the last ones first; empty for a value that was removed. Which of them arrived is not known."""


class SentValues:
    """The values of all two-way syncs of a process."""

    def __init__(self) -> None:
        self._pairs: dict[str, _Sent] = {}
        """The last noted one at the end."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def note(self, pair: str, base: Base, digests: Mapping[str, str]) -> None:
        """Note what is about to be written to the source of a pair."""
        at = combined_digest(base.up)
        known = self._pairs.get(pair)
        merged = dict(known.digests) if known is not None and known.base == at else {}
        for path, digest in digests.items():
            merged[path] = (digest, *merged.get(path, ()))[:MAX_TRIES]
        self.forget(pair)
        self._pairs[pair] = _Sent(at, merged)
        self._size += _size(merged)
        while self._size > MAX_VALUES:
            self.forget(next(iter(self._pairs)))

    def added_to(self, base: Base | None, pair: str, up: Mapping[str, str]) -> Base | None:
        """Return the base with the values that the source still has as we wrote them."""
        known = self._pairs.get(pair)
        if base is None or known is None:
            return base
        if known.base != combined_digest(base.up):
            self.forget(pair)
            return base
        kept = {path: up.get(path, "") for path, digests in known.digests.items() if up.get(path, "") in digests}
        after = {path: digest for path, digest in {**base.up, **kept}.items() if digest}
        return Base.same(after) if kept else base

    def forget(self, pair: str) -> None:
        """Forget a pair whose copy has recorded its base."""
        known = self._pairs.pop(pair, None)
        if known is not None:
            self._size -= _size(known.digests)


def _size(digests: Mapping[str, tuple[str, ...]]) -> int:
    return sum(map(len, digests.values()))
