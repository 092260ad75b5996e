"""Requeue: the next reconcile of a sync without a change."""

from msgspec import Struct


class Requeue(Struct, frozen=True):
    """A request for another reconcile. Two of them combine with `|` to the sooner and stronger one."""

    after: float | None = None
    """Reconcile after this many seconds."""
    backoff: bool = False
    """Reconcile soon, and after each failure later."""
    pending: bool = False
    """Work is left: the sync is reported as Reconciling."""

    def __or__(self, other: "Requeue") -> "Requeue":
        return Requeue(
            after=soonest(self.after, other.after),
            backoff=self.backoff or other.backoff,
            pending=self.pending or other.pending,
        )


NO_REQUEUE = Requeue()


def soonest(*seconds: float | None) -> float | None:
    """Return the smallest number."""
    return min((given for given in seconds if given is not None), default=None)
