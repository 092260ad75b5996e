"""The result of one reconcile, from which status, events and metrics are made."""

from collections.abc import Sequence
from typing import Generic

from msgspec import Struct

from syncline.api.manifestsync import SourceObservedState
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import Spec, Spec_co, Status, Status_co
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.sources.desired import UnitResult
from syncline.core.gateway_status import FleetReport
from syncline.core.outcome import Outcome
from syncline.engine.sync_object import Sync

_APPLIED = frozenset({"Synced", "Skipped"})


class ReconcileResult(Struct, Generic[Spec_co, Status_co], frozen=True, kw_only=True):
    """The result of one reconcile."""

    sync: Sync[Spec_co, Status_co]
    outcomes: Sequence[Outcome] | None = None
    """None: the targets were not read, and their status stays as it is."""
    problem: SyncError | None = None
    revision: str | None = None
    observed: SourceObservedState | None = None
    """The first source that was read."""
    scope: str | None = None
    kept: list[str] | None = None
    requeue: Requeue = NO_REQUEUE
    warnings: tuple[str, ...] = ()
    """Warnings about future problems, such as credentials that expire."""
    unmatched: tuple[str, ...] = ()
    """Descriptions of the selectors that match nothing."""

    units: tuple[UnitResult, ...] = ()
    """The results of the units; empty if the sync as a whole failed."""
    removed_units: tuple[str, ...] = ()
    """Units that the spec no longer has, and that still own objects."""
    plan: tuple[str, ...] | None = None
    """The planned actions of a dry run; None if this was not a dry run."""
    fleet: FleetReport | None = None
    """The gateways of the sync; None if they were not observed, or if the sync has none."""
    complete: bool = False
    """Whether everything was read, and nothing is left to remove."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do until something changes."""
        applied = all(outcome.state in _APPLIED for outcome in self.outcomes or ())
        waits = self.requeue.backoff or self.requeue.pending
        return self.complete and self.problem is None and not waits and applied


def failed_result(
    sync: Sync[Spec, Status],
    error: SyncError,
    outcomes: Sequence[Outcome] | None = None,
    requeue: Requeue = NO_REQUEUE,
) -> ReconcileResult[Spec, Status]:
    """Return the result of a failed sync. `requeue` is used if the error has no requeue."""
    after = error.requeue.after if error.requeue.after is not None else requeue.after
    pending = after is not None or error.requeue.backoff
    again = Requeue(after=after, backoff=error.requeue.backoff, pending=pending)
    return ReconcileResult(sync=sync, problem=error, outcomes=outcomes, requeue=again)
