"""The values that were written to sources of two-way syncs, until their copies record them as agreed.

The copy can be edited between the two writes, or the answer to the first one can be lost. Then the value of the source
is our own, and no change of somebody else. All of this may be lost: then such an edit is a conflict.
"""

from collections.abc import Mapping
from typing import NamedTuple

from syncline.core.digest import combined_digest
from syncline.core.twoway import Base

MAX_PAIRS = 10_000
"""The maximum number of pairs. Each is here only between its two writes, or while the second one fails."""
MAX_TRIES = 8
"""The maximum number of writes of a value that are remembered."""
MAX_PATHS = 1_000
"""The maximum number of values of a pair."""


class _Sent(NamedTuple):
    base: str
    """The digest of the base when they were sent: with another base, they are recorded or of no use."""
    digests: Mapping[str, tuple[str, ...]]
    """By path, the last ones first; empty for a value that was removed. Which of them arrived is not known."""


class SentValues:
    """The values of all two-way syncs of a process."""

    def __init__(self) -> None:
        self._pairs: dict[str, _Sent] = {}

    def note(self, pair: str, base: Base, digests: Mapping[str, str]) -> None:
        """Note what is about to be written to the source of a pair."""
        at = combined_digest(base.up)
        known = self._pairs.pop(pair, None)
        merged = dict(known.digests) if known is not None and known.base == at else {}
        for path, digest in digests.items():
            merged[path] = (digest, *merged.get(path, ()))[:MAX_TRIES]
        if len(merged) <= MAX_PATHS:
            self._pairs[pair] = _Sent(at, merged)
        if len(self._pairs) > MAX_PAIRS:
            del self._pairs[next(iter(self._pairs))]

    def added_to(self, base: Base | None, pair: str, up: Mapping[str, str]) -> Base | None:
        """Return the base with the values that the source still has as we wrote them."""
        known = self._pairs.get(pair)
        if base is None or known is None:
            return base
        if known.base != combined_digest(base.up):
            del self._pairs[pair]
            return base
        kept = {path: up.get(path, "") for path, digests in known.digests.items() if up.get(path, "") in digests}
        after = {path: digest for path, digest in {**base.up, **kept}.items() if digest}
        return Base.same(after) if kept else base

    def forget(self, pair: str) -> None:
        """Forget a pair whose copy has recorded its base."""
        self._pairs.pop(pair, None)
