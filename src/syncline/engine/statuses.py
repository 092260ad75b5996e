"""Stores statuses: in full, or, if the API server refuses that, the inventory with the reason."""

from typing import Generic, TypeVar

import structlog
from msgspec import Struct

from syncline.api.common import ObjectMeta
from syncline.api.fitting import essential, fit
from syncline.api.status import SyncStatus
from syncline.api.synctarget import SyncTargetStatus
from syncline.api.tenantpolicy import TenantPolicyStatus
from syncline.core.author_policies import UNJUDGED
from syncline.core.conditions import Finding, find, update_conditions
from syncline.engine.sync_object import RawSync, SyncObjectWriter
from syncline.kube.errors import ApiError, BadRequest, Forbidden, Invalid

log = structlog.get_logger(__name__)

REFUSED = "StatusRefused"

Status = TypeVar("Status", bound=SyncStatus | SyncTargetStatus | TenantPolicyStatus)

_TOO_LARGE = 413
# The words of the API server for an object that is too large for etcd.
_TOO_LARGE_WORDS = ("request is too large", "larger than max")


class Stored(Struct, Generic[Status], frozen=True, kw_only=True):
    """The result of storing a status."""

    status: Status
    """The status that was sent last: the full status, or its inventory."""
    wire: RawSync | None = None
    """The object with the status; None if nothing was written."""
    refusal: ApiError | None = None
    """Why the full status is not stored."""


async def store(
    sync_objects: SyncObjectWriter, metadata: ObjectMeta, old: Status, new: Status, now: str
) -> Stored[Status]:
    """Store a status if it differs from the old one.

    If the API server refuses it, the inventory is stored with Ready=False and the refusal. Raises temporary errors.
    """
    if sync_objects.signed(metadata, new) == old:
        return Stored(status=old)
    new = sync_objects.signed(metadata, fit(new, stored=old))
    try:
        return Stored(status=new, wire=await sync_objects.write_status(metadata, old, new))
    except ApiError as error:
        if not is_refusal(error):
            raise
        refusal = error
    log.warning("the API server refused a status", error=str(refusal))
    conditions = update_conditions(old.conditions, [_refused(new, refusal)], metadata.generation, now)
    least = sync_objects.signed(
        metadata, fit(essential(new, conditions=conditions, observed_generation=metadata.generation))
    )
    try:
        return Stored(status=least, wire=await sync_objects.write_status(metadata, old, least), refusal=refusal)
    except ApiError as error:
        if not is_refusal(error):
            raise
        log.warning("the API server refused the essential of a status too", error=str(error))
    return Stored(status=least, refusal=refusal)


def is_refusal(error: ApiError) -> bool:
    """Whether the API server refuses the content, so that it would refuse the same status again."""
    return isinstance(error, BadRequest | Forbidden | Invalid) or is_too_large(error)


def is_too_large(error: ApiError) -> bool:
    """Whether an object has become too large for the API server or its storage."""
    return error.status == _TOO_LARGE or any(words in error.message for words in _TOO_LARGE_WORDS)


def describe_refusal(error: ApiError) -> str:
    """Return the remedy for a refused status, and then the message of the API server."""
    if is_too_large(error):
        remedy = "make the spec and the annotations smaller, or split the object: with its status it is too large"
    elif isinstance(error, Forbidden):
        remedy = "let the policy or webhook that refuses it admit what the operator writes, and check its rights"
    else:
        remedy = "install the CRDs of this version, and let policies and webhooks admit what the operator writes"
    return f"the API server refuses the status; {remedy}: {error}"


def _refused(status: SyncStatus | SyncTargetStatus | TenantPolicyStatus, refusal: ApiError) -> Finding:
    ready = find(status.conditions, "Ready")
    if ready is not None and ready.reason in UNJUDGED:  # otherwise a spec that was too large would count as checked
        return Finding("Ready", ready.status, ready.reason, ready.message)
    otherwise = f"; otherwise Ready would be {ready.status} ({ready.reason})" if ready is not None else ""
    return Finding("Ready", "False", REFUSED, f"{describe_refusal(refusal)}{otherwise}")
