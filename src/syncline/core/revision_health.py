"""Health of a revision over time: whether the applied objects are healthy, pending, or failed. Pure.

The clock is an argument.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from syncline.core.health import Health
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.revisions import RevisionHealth

_NAMED = 3
_APPLIED = frozenset({"Synced", "Skipped"})

ObjectHealth = tuple[Target, Health]


class HealthVerdict(Struct, frozen=True, kw_only=True):
    """The health of a revision, with a reason if the sync reports it."""

    state: RevisionHealth = "Pending"
    reason: str = ""
    message: str = ""
    left: float | None = None
    """The seconds that are left to become healthy."""


def judge_health(
    outcomes: Sequence[Outcome], healths: Iterable[ObjectHealth], *, waited: Callable[[], float], timeout: float
) -> HealthVerdict:
    """Judge a revision by the outcomes of its apply and the health of its objects.

    `waited` returns for how many seconds it has not been healthy; it is called only if that matters.
    """
    unapplied = {outcome.state for outcome in outcomes if outcome.state not in _APPLIED and not outcome.gone}
    if unapplied == {"Unknown"}:
        return HealthVerdict()  # an unreachable server is no evidence against a revision
    if unapplied:
        # An object that was not applied cannot be healthy. After the timeout, the revision has failed.
        left = timeout - waited()
        return HealthVerdict(state="Pending" if left > 0 else "Failed", left=left if left > 0 else None)
    skipped = {outcome.target for outcome in outcomes if outcome.state == "Skipped"}
    unhealthy = [one for one in healths if one[0] not in skipped and one[1].state != "Current"]
    if not unhealthy:
        return HealthVerdict(state="Healthy")
    left = timeout - waited()
    failed = [one for one in unhealthy if one[1].state == "Failed"]
    if failed or left <= 0:
        late = "" if failed else f" after {timeout:g} s"
        message = f"not healthy{late}: {_words(failed or unhealthy)}"
        return HealthVerdict(state="Failed", reason="HealthCheckFailed", message=message)
    message = f"waits until {_count(unhealthy)} healthy: {_words(unhealthy)}"
    return HealthVerdict(state="Pending", reason="Progressing", message=message, left=left)


def _count(unhealthy: Sequence[object]) -> str:
    return f"{len(unhealthy)} {'object is' if len(unhealthy) == 1 else 'objects are'}"


def _words(unhealthy: Sequence[ObjectHealth]) -> str:
    named = "; ".join(f"{target}: {health.message or health.state}" for target, health in unhealthy[:_NAMED])
    return named + (f"; and {len(unhealthy) - _NAMED} more" if len(unhealthy) > _NAMED else "")
