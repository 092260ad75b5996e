"""The result of one reconcile, from which status, events and metrics are made."""

from collections.abc import Sequence

from msgspec import Struct

from syncline.api.manifestsync import SourceObservedState
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.core.outcome import Outcome


class ReconcileResult(Struct, frozen=True, kw_only=True):
    """What came of one reconcile."""

    sync: AnySync
    outcomes: Sequence[Outcome] | None = None
    """None: the targets were not looked at, and what the status says of them stays."""
    problem: SyncError | None = None
    revision: str | None = None
    observed: SourceObservedState | None = None
    """The first source, as it was read."""
    scope: str | None = None
    kept: list[str] | None = None
    retry: bool = False
    again: float | None = None
    """Look again after this many seconds."""
    waits: bool = False
    """Whether something is still to be done then."""
    warnings: tuple[str, ...] = ()
    """What will be wrong soon."""
    unmatched: tuple[str, ...] = ()
    """What of the spec leads to no target now."""


def soonest(*seconds: float | None) -> float | None:
    """Return the least of what is given."""
    return min((given for given in seconds if given is not None), default=None)
