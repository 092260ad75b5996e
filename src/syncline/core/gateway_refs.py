"""The ref that gateways follow: that of the spec, or a ref that a webhook or a person has requested. Pure.

A request is three annotations on the sync: the ref, when and by whom. It holds until `spec.git.ref` changes or names
the same ref, or until somebody removes the annotations.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from syncline.api.ignition_annotations import NEWEST_EVENT, REQUESTED_REF, REQUESTED_REF_AT, REQUESTED_REF_BY
from syncline.api.ignition_git import RefWebhook
from syncline.api.ignition_status import RequestedRef
from syncline.core.pushes import TAGS, Push, is_same_ref, short_ref
from syncline.core.selectors import glob_matches

REQUEST_ANNOTATIONS = (REQUESTED_REF, REQUESTED_REF_AT, REQUESTED_REF_BY)

_MAX_REF = 256
_MAX_AT = 64
_MAX_BY = 253
_RANGE = re.compile(r"^[=!<>^~]|[\s,|*]")
"""What a range of versions has, and the short name of a ref has not: `>=2`, `1.0 || 2.x`."""
_REQUESTS = frozenset({"Release", "Promotion", "Notification"})


class RefChoice(Struct, frozen=True):
    """The ref to follow."""

    ref: str
    requested: RequestedRef | None = None
    """The request, while it is active."""
    ended: bool = False
    """Whether the annotations of a request are to be removed, because it has ended or its ref was removed."""


def choose_ref(spec_ref: str, annotations: Mapping[str, str], recorded: RequestedRef | None) -> RefChoice:
    """Return the ref to follow. `recorded` is the request that was active before."""
    wanted = annotations.get(REQUESTED_REF, "").strip()
    if not wanted:
        return RefChoice(spec_ref, ended=any(name in annotations for name in REQUEST_ANNOTATIONS))
    at, by = annotations.get(REQUESTED_REF_AT, "")[:_MAX_AT], annotations.get(REQUESTED_REF_BY, "")[:_MAX_BY]
    known = recorded if recorded is not None and (recorded.ref, recorded.at) == (wanted[:_MAX_REF], at) else None
    if is_same_ref(wanted, spec_ref) or (known is not None and known.instead_of != spec_ref):
        return RefChoice(spec_ref, ended=True)
    return RefChoice(wanted, RequestedRef(ref=wanted[:_MAX_REF], at=at, by=by, instead_of=spec_ref))


def is_request(push: Push) -> bool:
    """Whether a delivery requests a ref. A push event of a Git host does not: it only announces a change."""
    return push.kind in _REQUESTS or (push.host == "Generic" and push.kind == "Push")


def requested_ref(webhook: RefWebhook, spec_ref: str, push: Push) -> str:
    """Return the ref that a delivery requests and that the spec allows; empty if there is none."""
    if not is_request(push):
        return ""
    if not push.refs:
        return push.commit if push.commit and _is_listed(webhook.allowed_refs, push.commit) else ""
    return next((found for ref in push.refs if (found := _allowed(webhook.allowed_refs, spec_ref, ref))), "")


def is_outdated(push: Push, annotations: Mapping[str, str]) -> bool:
    """Whether a sync has taken the event of a delivery already, or a newer one.

    Signatures cover the body and not the id of a delivery, so somebody can send an old body again under another id. The
    time in the body is compared with the times of earlier events, so no clock of ours has to be right.
    """
    return bool(push.time) and push.time <= annotations.get(NEWEST_EVENT, "")


def request_annotations(ref: str, at: str, by: str) -> dict[str, str]:
    """Return the annotations of a request."""
    return {REQUESTED_REF: ref, REQUESTED_REF_AT: at, REQUESTED_REF_BY: by}


def _allowed(patterns: list[str], spec_ref: str, ref: str) -> str:
    """Return a requested ref; empty if the spec does not allow it."""
    if len(ref) > _MAX_REF:
        return ""
    if patterns:
        return ref if _is_listed(patterns, ref) else ""
    if is_same_ref(ref, spec_ref):
        return spec_ref
    # Only the full name distinguishes a tag from a branch of the same name.
    is_other = ref.startswith("refs/") and not ref.startswith(TAGS)
    return "" if is_other else TAGS + short_ref(ref)


def _is_listed(patterns: list[str], ref: str) -> bool:
    """Whether patterns allow a ref. A range of versions can mean more than its text, so it has to be in the list."""
    if not ref.startswith("refs/") and _RANGE.search(ref):
        return ref in patterns
    return any(glob_matches(pattern, name) for pattern in patterns for name in {ref, short_ref(ref)})
