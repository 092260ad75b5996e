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
    """Return the findings as conditions; a time moves only with a status. What is not found any more goes."""
    before = {condition.type: condition for condition in known}
    settled = []
    for finding in findings:
        old = before.get(finding.type)
        changed = old is None or old.status != finding.status
        settled.append(
            Condition(
                type=finding.type,
                status=finding.status,
                reason=finding.reason,
                message=shorten(finding.message, MAX_MESSAGE),
                observed_generation=generation,
                last_transition_time=now if changed or old is None else old.last_transition_time,
            )
        )
    return settled


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of this type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def shorten(text: str, limit: int) -> str:
    """Cut a text for a field with a limit, in the middle: what to do stands at the end, or at the beginning."""
    return fitting.shorten(text, limit)
