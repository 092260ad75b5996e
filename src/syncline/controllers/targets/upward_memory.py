"""The memory of statuses that were written upstream: an unchanged object causes no requests."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from syncline.controllers.lowered import SourceObject
from syncline.controllers.targets.copy_statuses import KeptStatuses, StatusInputs
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.kube.cache import is_older

Json = dict[str, Any]
RightKey = tuple[str, str, str]
"""A kind, a namespace and its workspace."""

STATUS = "status"
# A schema that lacks fields of a status may be replaced: this many of them are left out for this long.
DROPPED_SECONDS = 600.0
DROPPED_FIELDS = 32
# A target that cannot be looked at for a moment, such as after a start, is no reason to say so upstream.
AWAY_GRACE = 10.0
# A reconcile may know an object as it was before our own write for this long.
READ_LAG = 30.0


class StatusMemo(Struct):
    """The memory of one upstream object."""

    source: SourceObject
    """The last read or answered state."""
    inputs: StatusInputs | None = None
    """The inputs of the last status, if no work is left for it."""
    outcome: Outcome | None = None
    """The cause for a status that is not written."""
    written: float = float("-inf")
    sent: str = ""
    answered: str = ""
    """The digests of the last status that was written, and of what the server made of it."""
    overtaken: bool = False
    """Whether somebody has changed the object since the reconcile read it."""

    def take(self, source: SourceObject) -> None:
        """Take an object as it was read, unless that was before our own last write."""
        new, held = source.meta, self.source.meta
        is_late = time.monotonic() - self.written < READ_LAG and is_older(new.resource_version, held.resource_version)
        if new.uid == held.uid and new.resource_version == held.resource_version:
            self.overtaken = False
        elif new.uid != held.uid or not is_late:
            self.source, self.inputs, self.overtaken = source, None, False

    def settle(self, inputs: StatusInputs, outcome: Outcome | None = None) -> Outcome | None:
        """Note that nothing is left to be done before something changes."""
        self.inputs, self.outcome = inputs, outcome
        return outcome


class UpwardMemory:
    """The memory of one sync."""

    def __init__(self) -> None:
        self.memos: dict[Target, StatusMemo] = {}
        self.kept = KeptStatuses()
        self.refused: dict[RightKey, tuple[float, str]] = {}
        """What may not be written: when the server is asked again, and what to do about it."""
        self._away: dict[str, float] = {}
        """The targets that cannot be looked at, and since when."""
        self._dropped: dict[str, dict[str, float]] = {}
        """By kind: the fields of a status that the upstream drops, such as ones that its schema lacks, since when."""

    def note_away(self, names: Iterable[str]) -> None:
        """Record the targets that cannot be read now."""
        now = time.monotonic()
        self._away = {name: self._away.get(name, now) for name in names}

    def grace_left(self, names: Iterable[str]) -> float:
        """Return for how many seconds what these targets would report is still waited for."""
        now = time.monotonic()
        return max((self._away.get(name, now) + AWAY_GRACE - now for name in names), default=0.0)

    def kept_fields(self, kind: str, status: Json, there: Mapping[str, Any]) -> Json:
        """Return a status without the fields that the upstream drops: a restart must not send them for each object."""
        dropped, now = self._dropped.get(kind, {}), time.monotonic()
        for name in [name for name, since in dropped.items() if now - since > DROPPED_SECONDS]:
            del dropped[name]
        return {name: value for name, value in status.items() if name not in dropped or name in there}

    def learn_dropped(self, kind: str, sent: Json, answered: Mapping[str, Any]) -> None:
        """Note which fields the upstream has dropped from a status."""
        dropped, now = self._dropped.setdefault(kind, {}), time.monotonic()
        for name in list(without_empty(sent).keys() - answered.keys())[: DROPPED_FIELDS - len(dropped)]:
            dropped.setdefault(name, now)


def right_of(target: Target) -> RightKey:
    """Return what the right to write an object is asked for: its kind, its namespace and its workspace."""
    return target.kind, target.namespace, target.cluster


def status_of(manifest: Mapping[str, Any]) -> Json:
    """Return the status of an object; one that is no map counts as none."""
    status = manifest.get(STATUS)
    return status if isinstance(status, dict) else {}


def without_empty(status: Json) -> Json:
    """Return a status without empty fields: servers leave out a count of 0, and it means the same."""
    return {name: value for name, value in status.items() if value or value is False}
