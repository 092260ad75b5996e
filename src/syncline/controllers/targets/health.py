"""Health of a revision in its clusters: reads it from the watches, and remembers since when it is not healthy."""

import time

from msgspec import Struct

from syncline.controllers.errors import SyncError
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.state import UnitState
from syncline.controllers.targets.stages import DesiredAt
from syncline.core.health import Health
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.revision_health import judge_health
from syncline.core.revisions import RevisionHealth

_NOT_THERE = Health("Unknown", "is not there")


class HealthResult(Struct, frozen=True, kw_only=True):
    """The health of the applied objects."""

    state: RevisionHealth = "Pending"
    problem: SyncError | None = None
    requeue: Requeue = NO_REQUEUE


def check_health(
    inputs: str, items: tuple[DesiredAt, ...], outcomes: tuple[Outcome, ...], unit: UnitState, timeout: float
) -> HealthResult:
    """Check whether all applied objects are healthy, and how long to wait for it. `inputs` identifies the revision."""
    now = time.monotonic()
    healths = ((item.desired.target, _health(item)) for item in items)
    verdict = judge_health(outcomes, healths, waited=lambda: unit.unhealthy_for(inputs, now), timeout=timeout)
    if verdict.state == "Healthy":
        unit.mark_healthy(inputs, now)
    problem = SyncError(verdict.reason, verdict.message) if verdict.reason else None
    requeue = Requeue(after=verdict.left, pending=verdict.state == "Pending")
    return HealthResult(state=verdict.state, problem=problem, requeue=requeue)


def _health(item: DesiredAt) -> Health:
    target: Target = item.desired.target
    observed = item.site.cluster.managed_at(target.local())
    return observed.health if observed is not None else _NOT_THERE
