"""Requeue: when a sync is reconciled again though nothing has changed."""

from msgspec import Struct


class Requeue(Struct, frozen=True):
    """A wish for another reconcile. Two of them combine with `|` to the sooner and stronger one."""

    after: float | None = None
    """Reconcile after this many seconds."""
    backoff: bool = False
    """Reconcile soon, and after each failure later."""
    pending: bool = False
    """Something is still to be done then: the sync is reported as Reconciling."""

    def __or__(self, other: "Requeue") -> "Requeue":
        return Requeue(
            after=soonest(self.after, other.after),
            backoff=self.backoff or other.backoff,
            pending=self.pending or other.pending,
        )


NO_REQUEUE = Requeue()


def soonest(*seconds: float | None) -> float | None:
    """Return the least of the given numbers."""
    return min((given for given in seconds if given is not None), default=None)
