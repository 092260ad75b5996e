"""The side that was written last, by managed fields: `write_time_of`, `later_side`. For LastWriteWins only.

The only times that API servers keep are those of managed fields: whole seconds of that server's clock, one for each
manager. They are a hint. Where the hint is too weak to tell, the order in which the changes were observed decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from syncline.core.fields import MANAGER
from syncline.core.object_paths import KeyedItem, Segment, split_path
from syncline.core.twoway import Side

# Whole seconds, and small differences of synchronised clocks.
TOLERANCE = 5.0


class WriteTime(Struct, frozen=True, order=True):
    """The time of the last write, by the clock of the server."""

    time: float
    """Seconds since 1970."""
    manager: str = ""


def write_time_of(
    managed_fields: Iterable[Mapping[str, object]], paths: Iterable[str], *, ours: str = MANAGER
) -> WriteTime | None:
    """Return the latest write of the entries that own one of the paths; None if no entry does.

    Our own writes and writes to a subresource do not count. A path is one of `object_paths`. A deleted path has no
    owner any more.
    """
    ways = [split_path(path) for path in paths]
    times = [
        WriteTime(time, str(entry.get("manager", "")))
        for entry in managed_fields
        if entry.get("manager") != ours
        and not entry.get("subresource")
        and (time := _seconds(entry.get("time"))) is not None
        and any(_owns(entry.get("fieldsV1"), way) for way in ways)
    ]
    return max(times, default=None)


def later_side(
    up: WriteTime | None,
    down: WriteTime | None,
    *,
    now: float,
    seen_order: Sequence[Side] = (),
    tolerance: float = TOLERANCE,
    skew: float = 0.0,
) -> Side:
    """Return the side that was changed later.

    The times of the writes decide if both are known, neither is in the future, and they differ by more than the
    tolerance and the measured `skew` of the two clocks. Otherwise it is the side whose change this process observed
    last (`seen_order`, oldest first); if it has observed none, the upstream side.
    """
    margin = tolerance + abs(skew)
    if up is not None and down is not None and max(up.time, down.time) <= now + margin:
        if up.time > down.time + margin:
            return "Upstream"
        if down.time > up.time + margin:
            return "Downstream"
    return seen_order[-1] if seen_order else "Upstream"


def _owns(fields: object, way: Sequence[Segment]) -> bool:
    """Whether a set of managed fields holds the path; one that ends above it holds a value as a whole."""
    for segment in way:
        if not isinstance(fields, Mapping):
            return False
        if not fields:
            return True
        if isinstance(segment, str):
            fields = fields.get(f"f:{segment}")
        else:
            fields = next((below for element, below in fields.items() if _names(element, segment)), None)
    return fields is not None


def _names(element: str, segment: Segment) -> bool:
    """Whether an element of managed fields names this item of a list."""
    prefix, wanted = ("k:", dict(segment.keys)) if isinstance(segment, KeyedItem) else ("v:", segment[0])
    if not element.startswith(prefix):
        return False
    try:
        found = msgspec.json.decode(element[len(prefix) :])
    except msgspec.DecodeError:
        return False
    return bool(found == wanted)


def _seconds(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.timestamp() if time.tzinfo is not None else None
