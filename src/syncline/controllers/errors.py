"""The errors that end a reconcile. Each becomes the Ready condition of its sync."""

from syncline.api.common import ConditionStatus
from syncline.controllers.requeue import Requeue
from syncline.core.sync_status import StatusProblem
from syncline.core.tenancy import NOT_ALLOWED, Violation


class SyncError(Exception):
    """The reconcile of a sync cannot continue. It becomes the Ready condition."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        status: ConditionStatus = "False",
        stalled: bool = False,
        retry: bool = False,
        again: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status
        self.stalled = stalled
        """Whether only an edit of the spec or the source can help."""
        self.requeue = Requeue(after=again, backoff=retry)

    def for_status(self) -> StatusProblem:
        """Return the problem for the status."""
        return StatusProblem(reason=self.reason, message=self.message, status=self.status, stalled=self.stalled)


def refuse_suspended(*, suspended: bool, field: str = "suspend") -> None:
    """Raise `SyncError` for a sync that is suspended, by this field of its spec."""
    if suspended:
        raise SyncError("Suspended", f"spec.{field} is true: nothing is read or written", status="Unknown")


class QuotaError(SyncError):
    """A quota of a TenantPolicy is exhausted. Objects that were applied before stay in sync."""

    def __init__(self, violation: Violation, *, again: float | None = None) -> None:
        super().__init__(NOT_ALLOWED, str(violation), stalled=again is None, again=again)


class SourceError(SyncError):
    """A source, or its content, is not valid."""
