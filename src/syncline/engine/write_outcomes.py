"""Write outcomes: the result at one target of a write that failed, was undone, or came too late."""

from syncline.api.common import TargetState
from syncline.core.objects import Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import NAMED, Action
from syncline.core.schema_errors import explain_schema_error, is_schema_error
from syncline.engine.write_attempts import TRIES
from syncline.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Unreachable,
)

INVALID_MANIFEST = "InvalidManifest"
_TERMINATING = "NamespaceTerminating"


def is_stale(error: KubeError, *, existed: bool) -> bool:
    """Whether an error only means that the object differs from the observed one: then it is read and planned again."""
    if isinstance(error, Unreachable):
        return error.ambiguous
    return isinstance(error, AlreadyExists | Conflict) or (existed and isinstance(error, Invalid | NotFound))


def failure(target: Target, error: KubeError, *, gone: bool = False) -> Outcome:
    """Return the outcome of a refused write, and whether a retry may succeed."""
    state: TargetState = "Failed"
    reason, message = "Failed", str(error)
    if isinstance(error, Unreachable):
        state, reason = "Unknown", "Unreachable"
    elif isinstance(error, ApiError) and _TERMINATING in error.causes:
        state, reason, message = "Skipped", _TERMINATING, f"namespace {target.namespace!r} is being deleted"
    elif isinstance(error, NotFound) and error.about == target.namespace:
        state, reason, message = "Pending", "NamespaceNotFound", f"namespace {target.namespace!r} does not exist"
    elif isinstance(error, ServerError) and is_schema_error(error.message):
        reason, message = INVALID_MANIFEST, explain_schema_error(error.message) or message
    elif isinstance(error, ApiError):
        reason = error.reason
    return Outcome(target=target, state=state, reason=reason, message=message, retry=state != "Skipped", gone=gone)


def failed_repair(action: Action | None, error: KubeError, hint: str = "") -> Outcome | None:
    """Return the outcome of a repair that the server refuses, or None if the action repairs nothing."""
    if action is None or not action.drift or not isinstance(error, BadRequest | Forbidden | Invalid):
        return None
    message = f"{action.message}, and the API server refuses the repair{f'; {hint}' if hint else ''}: {error}"
    return Outcome(target=action.target, state="Failed", reason="RepairRefused", message=message, retry=not hint)


def not_recreated(action: Action, error: ApiError) -> Outcome:
    """Return the outcome of an object that stays because the server would refuse its replacement."""
    message = (
        "it would have to be deleted and created again, but stays, because the API server would refuse the new one; "
        f"allow that, or delete the object yourself: {error}"
    )
    return Outcome(target=action.target, state="Failed", reason="RecreateRefused", message=message, retry=True)


def altered(target: Target, left: Action) -> Outcome:
    """Return the outcome of an object that something on the way to the server changes at each write."""
    what = names if (names := ", ".join(left.lost_fields[:NAMED])) else "its content, labels or annotations"
    message = (
        f"{what} of the object differ from what was sent, although nobody else has written it: an admission webhook or "
        "policy changes it on the way; exempt the object from that, or make the same change in the source"
    )
    return Outcome(target=target, state="Conflict", reason="Mutated", message=message, retry=True)


def write_loop(target: Target, rounds: int, observed: Observed | None) -> Outcome:
    """Return the outcome of an object that another writer changes back each time."""
    who = (observed.changed_by if observed is not None else "") or "somebody"
    how = "changed" if observed is not None else "deleted"
    message = (
        f"written {rounds} times in a short while and {how} again each time, last by {who}; repairs are spaced out: "
        "let one of the two manage the object, or annotate it with syncline.dev/reconcile: Disabled"
    )
    return Outcome(target=target, state="Conflict", reason="WriteLoop", message=message, retry=True)


def contended(target: Target, times: int = TRIES, *, gone: bool = False) -> Outcome:
    """Return the outcome of an object that others keep changing while we write it."""
    message = f"the object changed {times} times while it was being written; it is tried again"
    return Outcome(target=target, state="Failed", reason="Contended", message=message, retry=True, gone=gone)
