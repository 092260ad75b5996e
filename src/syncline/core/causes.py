"""Causes: the problems of a status, without the parts that differ between retries."""

import re
from collections.abc import Collection

from syncline.api.common import TargetState, TargetStatus
from syncline.api.status import SyncStatus
from syncline.core.conditions import find

_BAD: frozenset[TargetState] = frozenset({"Failed", "Conflict", "Unknown", "Pending"})
# UIDs, digests, times, versions, durations, addresses, counts. A number that is part of a name, as in quota-2, is none.
_VARIES = re.compile(
    r"\b(?=[a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b"
    r"|\b\d{4}-\d\d-\d\dT[\d:.]+Z?"
    r"|(?<![\w-])\d[\d.:,_-]*"
)
_SPACE = re.compile(r"\s+")
_CUT = 1000
# The length of a target's message in the message of Ready.
_QUOTED = 100


def causes(status: SyncStatus) -> frozenset[str]:
    """Return the cause, without the targets and the number of retries. Empty: there is no problem."""
    ready = find(status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return frozenset()
    bad = [entry for entry in status.target_statuses if entry.status in _BAD]
    found = {f"{entry.reason}: {_essence(entry.message, _names(entry))}" for entry in bad}
    if not any(entry.message[:_QUOTED] in ready.message for entry in bad if entry.message):
        found.add(f"{ready.reason}: {_essence(ready.message, ())}")
    return frozenset(found)


def _names(entry: TargetStatus) -> tuple[str, ...]:
    """Return the names of the target, the longest first, because one may be part of another."""
    names = (entry.cluster_name, entry.namespace, entry.name)
    return tuple(sorted((name for name in names if name), key=len, reverse=True))


def _essence(message: str, names: Collection[str]) -> str:
    text = message[:_CUT]
    if told := [name for name in names if name in text]:
        words = "|".join(re.escape(name) for name in told)
        text = re.sub(rf"(?<![\w.-])(?:{words})(?![\w.-]*\w)", "*", text)
    return _SPACE.sub(" ", _VARIES.sub("#", text)).strip()
