"""Write loops: another writer undoes our write again and again.

In a write loop, the same write (content, labels and annotations) goes to the same object many times in a short while.
It does not matter how the write is undone: by an edit, by a delete, or by an admission webhook. Repairs then back off.
A source that changes often is no write loop: each of its writes is different.
"""

from msgspec import Struct

TOLERATED_WRITES = 5
FIRST_PAUSE = 60.0
LAST_PAUSE = 600.0
MAX_DOUBLINGS = 10
"""How many times the pause is doubled at most."""
REMEMBERED_SECONDS = 2 * LAST_PAUSE
"""An object is forgotten after this many seconds without a write: more than the longest pause, or each pause would end
the loop."""
MAX_OBJECTS = 50_000
"""How many objects are remembered at most; then the object with the oldest write is forgotten."""


class RepeatedWrite(Struct, gc=False):
    """One write that was sent several times."""

    digest: str
    count: int
    last: float
    version: str
    """The version of the object after the last write: while it is the same, nobody else has written."""


class WriteLoops:
    """The last write of each object, and how often it was repeated. It may be lost: a loop is soon detected again."""

    def __init__(self) -> None:
        self._writes: dict[str, RepeatedWrite] = {}
        """By object (`ownership.object_id_of`), the oldest write first."""

    def __len__(self) -> int:
        return len(self._writes)

    def record(self, object_id: str, digest: str, version: str, now: float) -> None:
        """Record a write; the digest (`writing.write_digest`) names all that was sent."""
        known = self._writes.pop(object_id, None)
        count = known.count + 1 if known is not None and known.digest == digest and _is_recent(known, now) else 1
        self._writes[object_id] = RepeatedWrite(digest, count, now, version)
        if len(self._writes) > MAX_OBJECTS:
            del self._writes[next(iter(self._writes))]

    def paused_by(self, object_id: str, digest: str, now: float) -> RepeatedWrite | None:
        """Return the earlier writes that pause this one; None where it may be sent now."""
        self._expire(now)
        known = self._writes.get(object_id)
        if known is None or known.digest != digest or known.count < TOLERATED_WRITES:
            return None
        pause = min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** min(known.count - TOLERATED_WRITES, MAX_DOUBLINGS))
        return known if now - known.last < pause else None

    def forget(self, object_id: str) -> None:
        """Forget an object that we deleted or released ourselves."""
        self._writes.pop(object_id, None)

    def _expire(self, now: float) -> None:
        """Forget old writes; this also removes objects of deleted namespaces and clusters."""
        while self._writes:
            place, oldest = next(iter(self._writes.items()))
            if _is_recent(oldest, now):
                return
            del self._writes[place]


def _is_recent(writes: RepeatedWrite, now: float) -> bool:
    return now - writes.last <= REMEMBERED_SECONDS
