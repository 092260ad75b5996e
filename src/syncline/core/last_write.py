"""The side that was written last, by managed fields: `write_time_of`, `later_side`. For LastWriteWins only.

The only times that API servers keep are those of managed fields: whole seconds of that server's clock, one for each
manager. They are a hint. Where the hint is too weak to tell, the order in which the changes were observed decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from syncline.core.fields import MANAGER
from syncline.core.object_paths import KeyedItem, Segment, SetMember, split_path
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
    items = _Items()
    times = [
        WriteTime(time, str(entry.get("manager", "")))
        for entry in managed_fields
        if entry.get("manager") != ours
        and not entry.get("subresource")
        and (time := _seconds(entry.get("time"))) is not None
        and any(_owns(entry.get("fieldsV1"), way, items) for way in ways)
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


def _owns(fields: object, way: Sequence[Segment], items: "_Items") -> bool:
    """Whether a set of managed fields holds the path; one that ends above it holds a value as a whole."""
    for segment in way:
        if not isinstance(fields, Mapping):
            return False
        if not fields:
            return True
        fields = fields.get(f"f:{segment}") if isinstance(segment, str) else items.below(fields, segment)
    return fields is not None


class _Items:
    """The items of lists in managed fields. The elements of a list are read once."""

    def __init__(self) -> None:
        self._lists: dict[int, tuple[Mapping[str, object], dict[bytes, object]]] = {}

    def below(self, fields: Mapping[str, object], segment: KeyedItem | SetMember) -> object:
        """Return the fields of an item of a list; None if it is not among them."""
        if id(fields) not in self._lists:
            found: dict[bytes, object] = {}
            for element, below in fields.items():
                if (text := _text(element)) is not None:
                    found.setdefault(text, below)
            self._lists[id(fields)] = fields, found
        wanted = dict(segment.keys) if isinstance(segment, KeyedItem) else segment.value
        return self._lists[id(fields)][1].get(_prefixed("k" if isinstance(segment, KeyedItem) else "v", wanted))


def _text(element: str) -> bytes | None:
    """Return one text for an element, however it is written; None for one that names no item."""
    if not element.startswith(("k:", "v:")):
        return None
    try:
        return _prefixed(element[0], msgspec.json.decode(element[2:]))
    except msgspec.DecodeError:
        return None


def _prefixed(prefix: str, value: object) -> bytes:
    return prefix.encode() + msgspec.json.encode(value, order="sorted")


def _seconds(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.timestamp() if time.tzinfo is not None else None
