"""The memory of statuses that were written upstream: an unchanged object causes no requests."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Self

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
# A target that cannot be read for a moment, such as after a start, is not reported upstream.
AWAY_GRACE = 10.0
# Rights change without an event: the server is asked again after this many seconds, later and later up to the last.
RIGHTS_AGAIN = (5.0, 60.0)
# A reconcile may know an object as it was before our own write for this long.
READ_LAG = 30.0


class MissingRight(Struct, frozen=True):
    """A right that the upstream refused, and when it is asked again."""

    why: str
    again: float = 0.0
    pause: float = 0.0

    def refused(self, now: float) -> Self:
        """Return the right after one more refusal."""
        first, last = RIGHTS_AGAIN
        pause = min(max(first, self.pause * 2), last)
        return type(self)(self.why, now + pause, pause)


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
    """The digests of the last written status, and of the form that the server stored."""
    overtaken: bool = False
    """Whether somebody has changed the object since the reconcile read it."""

    def take(self, source: SourceObject) -> None:
        """Record a read object, unless it was read before our own last write."""
        new, held = source.meta, self.source.meta
        is_late = time.monotonic() - self.written < READ_LAG and is_older(new.resource_version, held.resource_version)
        if new.uid == held.uid and new.resource_version == held.resource_version:
            self.overtaken = False
        elif new.uid != held.uid or not is_late:
            self.source, self.inputs, self.overtaken = source, None, False

    def settle(self, inputs: StatusInputs, outcome: Outcome | None = None) -> Outcome | None:
        """Record that nothing is left to do until an input changes."""
        self.inputs, self.outcome = inputs, outcome
        return outcome


class UpwardMemory:
    """The memory of one sync."""

    def __init__(self) -> None:
        self.memos: dict[Target, StatusMemo] = {}
        self.kept = KeptStatuses()
        self.refused: dict[RightKey, MissingRight] = {}
        """The missing rights."""
        self._requested: tuple[object, ...] = ()
        self._away: dict[str, float] = {}
        """The targets that cannot be read, with the time since when."""
        self._dropped: dict[str, dict[str, float]] = {}
        """By kind: the fields of a status that the upstream drops, such as ones that its schema lacks, since when."""

    def note_request(self, requested: tuple[object, ...]) -> None:
        """Ask about missing rights again if the user of the sync requests something else than before."""
        if requested != self._requested:
            self._requested = requested
            self.refused = {right: MissingRight(missing.why) for right, missing in self.refused.items()}

    def note_away(self, names: Iterable[str]) -> None:
        """Record the targets that cannot be read now."""
        now = time.monotonic()
        self._away = {name: self._away.get(name, now) for name in names}

    def grace_left(self, names: Iterable[str]) -> float:
        """Return for how many more seconds to wait for the statuses of these targets."""
        now = time.monotonic()
        return max((self._away.get(name, now) + AWAY_GRACE - now for name in names), default=0.0)

    def kept_fields(self, kind: str, status: Json, there: Mapping[str, Any]) -> Json:
        """Return a status without the fields that the upstream drops: a restart must not send them for each object."""
        dropped, now = self._dropped.get(kind, {}), time.monotonic()
        for name in [name for name, since in dropped.items() if now - since > DROPPED_SECONDS]:
            del dropped[name]
        return {name: value for name, value in status.items() if name not in dropped or name in there}

    def learn_dropped(self, kind: str, sent: Json, answered: Mapping[str, Any]) -> None:
        """Record the fields that the upstream has dropped from a status."""
        dropped, now = self._dropped.setdefault(kind, {}), time.monotonic()
        for name in list(without_empty(sent).keys() - answered.keys())[: DROPPED_FIELDS - len(dropped)]:
            dropped.setdefault(name, now)


def right_of(target: Target) -> RightKey:
    """Return the key of the right to write an object: its kind, namespace and workspace."""
    return target.kind, target.namespace, target.cluster


def status_of(manifest: Mapping[str, Any]) -> Json:
    """Return the status of an object; a status that is not a map counts as empty."""
    status = manifest.get(STATUS)
    return status if isinstance(status, dict) else {}


def without_empty(status: Json) -> Json:
    """Return a status without empty fields: servers leave out a count of 0, and it means the same."""
    return {name: value for name, value in status.items() if value or value is False}
