"""The status of an upstream object, from the statuses of its copies: `upward_status`. Pure, total, without a clock.

The status of one copy is copied. The statuses of several copies are combined so that a client that waits upstream waits
for all of them: counters are summed if replicas are divided, otherwise the worst counts; a condition is True only if it
is True for all. A target that cannot be reached is in no counter, and makes conditions Unknown.

Statuses are given as servers return them. A server leaves zeros of its own kinds out; so a zero is written only where
a copy has one, because a zero that the upstream server leaves out again would be written for ever.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from syncline.core.conditions import MAX_MESSAGE, shorten

Json = dict[str, Any]
Status = Mapping[str, Any]
ReplicasMode = Literal["Duplicate", "Divide"]

UNREACHABLE = "TargetUnreachable"
NOT_REPORTED = "NotReported"
NEGATIVE_CONDITIONS = frozenset({"ReplicaFailure", "Degraded", "Stalled", "Failed"})
"""Conditions that are bad when True."""

_ALLOWED: Mapping[str, frozenset[str]] = {
    "Deployment.apps": frozenset(
        {
            "availableReplicas",
            "collisionCount",
            "conditions",
            "observedGeneration",
            "readyReplicas",
            "replicas",
            "terminatingReplicas",
            "unavailableReplicas",
            "updatedReplicas",
        }
    ),
    "Service": frozenset({"conditions", "loadBalancer"}),
}
_LEAST = frozenset(
    {
        "availableReplicas",
        "currentHealthy",
        "currentReplicas",
        "disruptionsAllowed",
        "fullyLabeledReplicas",
        "ready",
        "readyReplicas",
        "succeeded",
        "updatedReplicas",
    }
)
_GREATEST = frozenset(
    {
        "active",
        "desiredHealthy",
        "desiredReplicas",
        "expectedPods",
        "failed",
        "replicas",
        "terminating",
        "terminatingReplicas",
        "unavailableReplicas",
    }
)
# Counters of nodes: clusters never share nodes, so these are always summed.
_SUMMED = frozenset(
    {
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberAvailable",
        "numberMisscheduled",
        "numberReady",
        "numberUnavailable",
        "updatedNumberScheduled",
    }
)
_COUNTERS = _LEAST | _GREATEST | _SUMMED
_OBSERVED = "observedGeneration"
_CONDITIONS = "conditions"
_TIMES = ("lastTransitionTime", "lastUpdateTime")
_SAID = frozenset({"type", "status", "reason", "message", _OBSERVED, *_TIMES})
# The only reason for a complete rollout: it counts only if all copies have it.
_COMPLETE = "NewReplicaSetAvailable"


class CopyStatus(Struct, frozen=True, kw_only=True):
    """The copy of an object at one target, as it was observed."""

    target: str
    reachable: bool = True
    last_seen: str = ""
    """The time of the last connection, for people, if the target cannot be reached."""
    generation: int = 0
    """Of the copy; 0: there is none yet."""
    marked_generation: int = 0
    """The upstream generation that Syncline's mark on the copy names."""
    status: Status = {}


def allowed_fields(kind: str) -> frozenset[str] | None:
    """Return the fields of a status that go up, of a kind (`Service`, `Deployment.apps`); None: all of them."""
    return _ALLOWED.get(kind)


def upward_status(
    kind: str,
    generation: int,
    status: Status,
    copies: Sequence[CopyStatus],
    mode: ReplicasMode = "Duplicate",
    *,
    fields: frozenset[str] | None = None,
) -> Json | None:
    """Return the whole status to write to an upstream object; None where it has it already.

    `generation` and `status` are those of the upstream object, `copies` one for each target, in any order. `fields`:
    the fields that go up, instead of `allowed_fields`. Other fields of the upstream status stay.
    """
    if not copies:
        return None
    allowed = allowed_fields(kind) if fields is None else fields
    sources = sorted(copies, key=lambda copy: copy.target)
    merge = _Merge(generation, status, sources, mode, allowed)
    kept = {} if allowed is None else {name: value for name, value in status.items() if name not in allowed}
    result = {**deepcopy(kept), **(merge.one(sources[0]) if merge.is_single else merge.several())}
    return None if result == status else result


class _Merge:
    """The work on one object."""

    def __init__(
        self,
        generation: int,
        previous: Status,
        sources: Sequence[CopyStatus],
        mode: ReplicasMode,
        allowed: frozenset[str] | None,
    ) -> None:
        self._generation = generation
        self._previous = {name: value for name, value in previous.items() if allowed is None or name in allowed}
        self._reached = [copy for copy in sources if copy.reachable]
        self._lost = [copy for copy in sources if not copy.reachable]
        self._mode = mode
        self._statuses: list[Json] = [
            {name: value for name, value in copy.status.items() if allowed is None or name in allowed}
            for copy in self._reached
        ]
        self.is_single = len(sources) == 1 and not self._lost
        self._is_observed = not self._lost and all(self._has_observed(copy) for copy in self._reached)
        self._old_conditions = _conditions(self._previous)

    def one(self, copy: CopyStatus) -> Json:
        """Return the status of the only copy."""
        result = deepcopy(self._statuses[0])
        self._translate(result, self._previous, self._marks_current(copy) and self._is_observed)
        if isinstance(conditions := result.get(_CONDITIONS), list):
            for condition in conditions:
                if isinstance(condition, dict) and _OBSERVED in condition:
                    seen = condition[_OBSERVED] == copy.generation and self._marks_current(copy)
                    self._translate(condition, self._old_conditions.get(str(condition.get("type")), {}), seen)
        return result

    def several(self) -> Json:
        """Return the combined status of all copies."""
        result: Json = {}
        for name in sorted({*(name for status in self._statuses for name in status)}):
            values = [status[name] for status in self._statuses if name in status]
            merged = self._field(name, values)
            if merged is not None:
                result[name] = merged
        if not self._reached:
            gone = {*_COUNTERS, _OBSERVED, _CONDITIONS}
            result = {name: deepcopy(value) for name, value in self._previous.items() if name not in gone}
        if conditions := self._merged_conditions():
            result[_CONDITIONS] = conditions
        if _OBSERVED in self._previous or any(_OBSERVED in status for status in self._statuses):
            self._translate(result, self._previous, self._is_observed)
        return result

    def _has_observed(self, copy: CopyStatus) -> bool:
        seen: Any = copy.status.get(_OBSERVED)
        return self._marks_current(copy) and _is_count(seen) and bool(seen >= copy.generation)

    def _marks_current(self, copy: CopyStatus) -> bool:
        return copy.generation > 0 and copy.marked_generation == self._generation

    def _translate(self, into: Json, before: Mapping[str, Any], is_observed: bool) -> None:
        """Give a generation of the upstream in place of one of a target; the previous one stays until all have it."""
        into_had = into.pop(_OBSERVED, None)
        if is_observed and (into_had is not None or not self.is_single):
            into[_OBSERVED] = self._generation
        elif before.get(_OBSERVED) is not None:
            into[_OBSERVED] = before[_OBSERVED]

    def _field(self, name: str, values: Sequence[Any]) -> Any:
        """Return one field; None where it is left out."""
        if name in (_OBSERVED, _CONDITIONS):
            return None
        if name in _COUNTERS and all(map(_is_count, values)):
            return self._count(name, values)
        before = self._previous.get(name)
        if name == "loadBalancer" and all(isinstance(value, Mapping) for value in values):
            return self._balancer(values, before if isinstance(before, Mapping) else {})
        if name == "addresses" and all(isinstance(value, list) for value in values):
            return self._united(values, before)
        return self._agreed(values)

    def _count(self, name: str, values: Sequence[int]) -> int | None:
        numbers = [*values, *([0] * (len(self._reached) - len(values)))]
        if self._mode == "Divide" or name in _SUMMED:
            number = sum(numbers)
        else:
            number = min(numbers) if name in _LEAST else max(numbers)
        return number if number or 0 in values else None

    def _agreed(self, values: Sequence[Any]) -> Any:
        """Return the value that all have."""
        first = values[0]
        is_same = len(values) == len(self._reached) and all(_text(value) == _text(first) for value in values)
        return deepcopy(first) if is_same else None

    def _balancer(self, values: Sequence[Mapping[str, Any]], before: Mapping[str, Any]) -> Json:
        result: Json = {}
        for name in sorted({name for value in values for name in value}):
            found = [value[name] for value in values if name in value]
            if name == "ingress" and all(isinstance(one, list) for one in found):
                merged: Any = self._united(found, before.get(name))
            else:
                merged = self._agreed(found)
            if merged is not None:
                result[name] = merged
        if self._lost and "ingress" in before:
            result.setdefault("ingress", deepcopy(before["ingress"]))
        return result

    def _united(self, lists: Sequence[Sequence[Any]], before: Any) -> list[Any]:
        """Return the union of addresses. Addresses of an unreachable target stay, because it may still serve them."""
        known = [*lists, before] if self._lost and isinstance(before, list) else lists
        united = {_text(address): address for addresses in known for address in addresses}
        return [deepcopy(united[text]) for text in sorted(united)]

    def _merged_conditions(self) -> list[Json]:
        found = [_conditions(status) for status in self._statuses]
        kinds = {kind for conditions in found for kind in conditions}
        if self._lost:
            kinds |= self._old_conditions.keys()
        return [
            self._condition(kind, {copy.target: one.get(kind) for copy, one in zip(self._reached, found, strict=True)})
            for kind in sorted(kinds)
        ]

    def _condition(self, kind: str, found: Mapping[str, Status | None]) -> Json:
        status = self._verdict(kind, [None if one is None else one.get("status") for one in found.values()])
        deciding = {target: one for target, one in found.items() if one is not None and one.get("status") == status}
        told = [one for one in found.values() if one is not None]
        result: Json = {"type": kind, "status": status}
        if reason := self._reason(status, deciding):
            result["reason"] = reason
        result["message"] = self._message(status, deciding, found)
        result |= self._times(self._old_conditions.get(kind, {}), status, told)
        if any(_OBSERVED in one for one in told):
            self._translate(result, self._old_conditions.get(kind, {}), self._is_observed)
        others = {name for one in deciding.values() for name in one} - _SAID
        for name in sorted(others):
            values = [one.get(name) for one in deciding.values()]
            if all(_text(value) == _text(values[0]) for value in values):
                result[name] = deepcopy(values[0])
        return result

    def _verdict(self, kind: str, statuses: Sequence[Any]) -> str:
        """Return True, False or Unknown; None is a copy without the condition."""
        bad, good = ("True", "False") if kind in NEGATIVE_CONDITIONS else ("False", "True")
        if bad in statuses:
            return bad
        # A negative condition is often absent while all is well.
        fine = (good, None) if kind in NEGATIVE_CONDITIONS else (good,)
        return good if not self._lost and statuses and all(one in fine for one in statuses) else "Unknown"

    def _reason(self, status: str, deciding: Mapping[str, Status]) -> str:
        if status == "Unknown" and self._lost:
            return UNREACHABLE
        reasons = [str(one["reason"]) for one in deciding.values() if one.get("reason")]
        if not reasons:
            return NOT_REPORTED if status == "Unknown" else ""
        return next((reason for reason in reasons if reason != _COMPLETE), reasons[0])

    def _message(self, status: str, deciding: Mapping[str, Status], found: Mapping[str, Status | None]) -> str:
        messages = {target: str(one.get("message") or "") for target, one in deciding.items()}
        if not self._lost and len(messages) == len(self._reached) and len({*messages.values()}) == 1:
            return shorten(next(iter(messages.values())), MAX_MESSAGE)
        words = [f"{copy.target} cannot be reached, last seen {copy.last_seen or 'never'}" for copy in self._lost]
        words += [f"{target}: {message}" for target, message in messages.items() if message]
        if status == "Unknown":
            words += [f"{target} does not report it" for target, one in found.items() if one is None]
        return shorten("; ".join(words), MAX_MESSAGE)

    def _times(self, before: Status, status: str, told: Iterable[Status]) -> Json:
        result: Json = {}
        sources = list(told)
        for name in _TIMES:
            times = [str(one[name]) for one in sources if one.get(name)]
            if name == "lastTransitionTime":
                times += [seen for copy in self._lost if (seen := _whole_seconds(copy.last_seen))]
                if before.get("status") == status and before.get(name):
                    times = [str(before[name])]
            newest = max(times, key=_moment, default=before.get(name))
            if newest:
                result[name] = newest
        return result


def _conditions(status: Status) -> dict[str, Status]:
    conditions = status.get(_CONDITIONS)
    if not isinstance(conditions, list):
        return {}
    return {str(one.get("type")): one for one in conditions if isinstance(one, Mapping) and one.get("type")}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _parsed(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def _moment(text: str) -> tuple[float, str]:
    time = _parsed(text)
    return (time.timestamp() if time is not None else float("-inf"), text)


def _whole_seconds(text: str) -> str:
    """Return a time as servers write it in conditions; empty where there is none."""
    time = _parsed(text)
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time is not None else ""
