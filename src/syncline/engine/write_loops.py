"""Fights: somebody else undoes what we write, again and again.

A fight is that the very same write (content, labels and annotations) goes to the same object many times in a short
while, whoever started it and however the write is undone: by an edit, by a delete, or by a webhook that changes what
we send. Then repairs are spaced out. A source that changes often is no fight: each of its writes is another one.
"""

from msgspec import Struct

TOLERATED_WRITES = 5
FIRST_PAUSE = 60.0
LAST_PAUSE = 600.0
MAX_DOUBLINGS = 10
"""How often the pause is doubled at most."""
REMEMBERED_SECONDS = 2 * LAST_PAUSE
"""After how many seconds without a write an object is forgotten: later than the longest pause, or a fight that goes on
would begin anew after each."""
MAX_OBJECTS = 50_000
"""How many objects are remembered at most; beyond that, the one that was written longest ago is forgotten."""


class RepeatedWrite(Struct, gc=False):
    """The same write, several times."""

    digest: str
    count: int
    last: float
    version: str
    """The version of the object that the last one came to: while it is the same, nobody else has written."""


class WriteLoops:
    """How often each object was written alike. Can be lost: a fight shows itself again soon enough."""

    def __init__(self) -> None:
        self._writes: dict[str, RepeatedWrite] = {}
        """By object (`ownership.object_id_of`), the one that was written longest ago first."""

    def __len__(self) -> int:
        return len(self._writes)

    def record(self, object_id: str, digest: str, version: str, now: float) -> None:
        """Take note of a write; the digest (`writing.write_digest`) names all that was sent."""
        known = self._writes.pop(object_id, None)
        count = known.count + 1 if known is not None and known.digest == digest and _is_recent(known, now) else 1
        self._writes[object_id] = RepeatedWrite(digest, count, now, version)
        if len(self._writes) > MAX_OBJECTS:
            del self._writes[next(iter(self._writes))]

    def paused_by(self, object_id: str, digest: str, now: float) -> RepeatedWrite | None:
        """Return the earlier ones of this write, if the next one must wait."""
        self._expire(now)
        known = self._writes.get(object_id)
        if known is None or known.digest != digest or known.count < TOLERATED_WRITES:
            return None
        pause = min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** min(known.count - TOLERATED_WRITES, MAX_DOUBLINGS))
        return known if now - known.last < pause else None

    def forget(self, object_id: str) -> None:
        """Forget an object that we let go of ourselves."""
        self._writes.pop(object_id, None)

    def _expire(self, now: float) -> None:
        """Forget what was written long ago; objects of namespaces and clusters that have gone go so, too."""
        while self._writes:
            place, oldest = next(iter(self._writes.items()))
            if _is_recent(oldest, now):
                return
            del self._writes[place]


def _is_recent(writes: RepeatedWrite, now: float) -> bool:
    return now - writes.last <= REMEMBERED_SECONDS
