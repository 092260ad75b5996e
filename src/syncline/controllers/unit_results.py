"""The results of the units of a sync: the problem, the requeue and the completeness that follow from them."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from syncline.controllers.errors import SyncError
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sources.dependencies import DEPENDENCY_NOT_READY
from syncline.controllers.sources.desired import DesiredSet, UnitResult
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.controllers.targets.prune import PruneResult
from syncline.controllers.targets.status_upward import UpwardResult
from syncline.core.outcome import Outcome, worst_first
from syncline.engine.fanout import IN_PROGRESS

GOOD = frozenset({"Synced", "Skipped"})
APPLIED = frozenset({"Synced", "Skipped", "Conflict"})


def upward_problem(upward: UpwardResult | None) -> SyncError | None:
    """Return the problem with the upstream statuses. Statuses that an older sync writes are not a problem."""
    if upward is None:
        return None
    failed = min((one for one in upward.failed if one.state not in GOOD), key=worst_first, default=None)
    if upward.forbidden:
        return SyncError("UpstreamForbidden", upward.forbidden)
    return SyncError(failed.reason, f"{failed.target}: {failed.message}") if failed is not None else None


def as_means(outcome: Outcome) -> Outcome:
    """Return the outcome of a namespace that only holds copies. It counts as a change, not as a target."""
    is_means = outcome.target.kind == NAMESPACE and outcome.state == "Synced"
    return structs.replace(outcome, gone=True) if is_means else outcome


def unmatched_selectors(clusters: ConnectedClusters, desired: Iterable[DesiredSet]) -> tuple[str, ...]:
    """Describe the selectors of a sync that match nothing."""
    return (*clusters.unmatched, *(words for one in desired for words in one.unmatched))


def is_open(outcome: Outcome) -> bool:
    """Whether the outcome of a target is not known yet: its end is reported when it comes, whatever the interval."""
    return outcome.state == "Unknown" or outcome.reason == IN_PROGRESS


def requeue_of(problem: SyncError | None) -> Requeue:
    """Return the requeue after a problem. A problem that can end by itself is pending."""
    if problem is None:
        return NO_REQUEUE
    requeue = problem.requeue
    pending = requeue.backoff or requeue.after is not None or problem.reason == DEPENDENCY_NOT_READY
    return Requeue(after=requeue.after, backoff=requeue.backoff, pending=pending)


def is_applied(one: UnitResult) -> bool:
    """Whether all desired objects of a unit are written, or belong to others."""
    return one.desired.certain and all(outcome.state in APPLIED or outcome.gone for outcome in one.outcomes)


def is_pruned(pruned: PruneResult) -> bool:
    """Whether no removal is left to do."""
    unfinished = any(outcome.retry or outcome.state == "Pending" for outcome in pruned.outcomes)
    return pruned.held is None and not pruned.requeue.pending and not unfinished


def released_for_other_unit(result: ReconcileResult) -> bool:
    """Whether a unit has released an object, and another unit lacks an object that is owned by others."""
    outcomes = result.outcomes or ()
    return any(one.gone and one.written is not None for one in outcomes) and any(
        one.reason == "OwnedByOther" for one in outcomes
    )


def rollback_condition(units: Sequence[UnitResult]) -> SyncError | None:
    """Return the condition of a healthy sync that is rolled back."""
    for one in units:
        decision = one.desired.prepared.decision if one.desired.prepared is not None else None
        if decision is not None and decision.reason == "RolledBackOnFailure":
            return SyncError(decision.reason, decision.why)
        if decision is not None and decision.reason == "RolledBack":
            return SyncError(decision.reason, decision.why, status="True")
    return None
