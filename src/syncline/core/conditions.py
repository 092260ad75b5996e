"""Conditions: the truth as of now, with the time of the last change."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from syncline.api import fitting
from syncline.api.common import Condition, ConditionStatus

MAX_MESSAGE = 4096


class Finding(Struct, frozen=True):
    """A condition before it has a time."""

    type: str
    status: ConditionStatus
    reason: str
    message: str


def update_conditions(
    known: Sequence[Condition], findings: Iterable[Finding], generation: int, now: str
) -> list[Condition]:
    """Return the findings as conditions. A time changes only with a status. Conditions without finding are dropped."""
    before = {condition.type: condition for condition in known}
    updated = []
    for finding in findings:
        old = before.get(finding.type)
        changed = old is None or old.status != finding.status
        updated.append(
            Condition(
                type=finding.type,
                status=finding.status,
                reason=finding.reason,
                message=shorten(finding.message, MAX_MESSAGE),
                observed_generation=generation,
                last_transition_time=now if changed or old is None else old.last_transition_time,
            )
        )
    return updated


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of this type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def shorten(text: str, limit: int) -> str:
    """Cut a text in the middle to a limit: the remedy is at the end, or at the beginning."""
    return fitting.shorten(text, limit)
