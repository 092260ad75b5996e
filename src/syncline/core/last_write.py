"""Which side wrote last, as far as that can be told: `stamp_of`, `later_side`. For LastWriteWins and nothing else.

The only times that API servers keep are those of managed fields: whole seconds of that server's clock, one for each
manager. They are a hint. Where the hint is too weak to tell, the order in which the changes were seen decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from syncline.core.fields import MANAGER
from syncline.core.twoway import Side

# Whole seconds, and clocks that are set by the same time servers, more or less.
TOLERANCE = 5.0


class WriteTime(Struct, frozen=True, order=True):
    """When somebody last wrote, by the clock of the server."""

    time: float
    """Seconds since 1970."""
    manager: str = ""


def write_time_of(
    managed_fields: Iterable[Mapping[str, object]], paths: Iterable[str], *, ours: str = MANAGER
) -> WriteTime | None:
    """Return the latest stamp over the entries that own one of the paths; None where nobody is known to.

    Our own writes and writes to a subresource do not count. A path is segments joined by `/`, escaped as in a JSON
    pointer. A deleted path has no owner any more.
    """
    ways = [[part.replace("~1", "/").replace("~0", "~") for part in path.split("/")] for path in paths]
    stamps = [
        WriteTime(time, str(entry.get("manager", "")))
        for entry in managed_fields
        if entry.get("manager") != ours
        and not entry.get("subresource")
        and (time := _seconds(entry.get("time"))) is not None
        and any(_owns(entry.get("fieldsV1"), way) for way in ways)
    ]
    return max(stamps, default=None)


def later_side(
    up: WriteTime | None,
    down: WriteTime | None,
    *,
    now: float,
    seen_order: Sequence[Side] = (),
    tolerance: float = TOLERANCE,
    skew: float = 0.0,
    tie: Side = "Upstream",
) -> Side:
    """Return the side that was changed later.

    Stamps decide if both are there, neither is in the future, and they differ by more than the tolerance and the
    measured skew of the clocks. Otherwise it is the side whose change this process saw last (`seen_order`, oldest
    first); if it has seen none, `tie`.
    """
    margin = tolerance + abs(skew)
    if up is not None and down is not None and max(up.time, down.time) <= now + margin:
        if up.time > down.time + margin:
            return "Upstream"
        if down.time > up.time + margin:
            return "Downstream"
    return seen_order[-1] if seen_order else tie


def _owns(fields: object, way: Sequence[str]) -> bool:
    """Whether a set of managed fields holds the path; one that ends above it holds a value as a whole."""
    for part in way:
        if not isinstance(fields, Mapping):
            return False
        if not fields:
            return True
        # Items of keyed lists (`k:...`) and of sets (`v:...`) are named as they are.
        fields = fields.get(f"f:{part}", fields.get(part))
    return fields is not None


def _seconds(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time.timestamp() if time.tzinfo is not None else None
