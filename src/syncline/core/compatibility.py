"""Compatibility of a cluster: the resources that it accepts from syncs, by the outcomes of each kind.

Every user who can read the SyncTarget can read these messages. They name resources, never a sync, a namespace or an
object, and repeat no message of a server.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from syncline.api.synctarget import SyncedResource
from syncline.core.outcome import Outcome

MAX_RESOURCES = 200
# Any user can invent kinds that no cluster serves: they must not displace the kinds that are written.
MAX_INCOMPATIBLE = 100
_NAME = 317

_READS = ("get", "list", "watch")
_VERBS = (*_READS, "create", "update", "patch", "delete")
# The message of an API server for a missing right, in contrast to a refusal by admission.
_NO_RIGHT = re.compile(rf'cannot ({"|".join(_VERBS)}) resource "')


class Verdict(Struct, frozen=True):
    """Whether a cluster accepts a kind; if not, the cause and the remedy."""

    accepted: bool
    message: str = ""


Findings = Mapping[str, Verdict | None]
"""The verdicts by kind. None: the kind will be written, and the cluster has not answered yet."""

ACCEPTED = Verdict(accepted=True)
NOT_SERVED = Verdict(
    accepted=False, message="the cluster does not serve it: install its CustomResourceDefinition there"
)


def no_right(verb: str) -> Verdict:
    """Return the verdict on a kind for which the credential lacks a right."""
    rights = "get, list and watch" if verb in _READS else verb
    return Verdict(accepted=False, message=f"grant {rights} on it there: the credential lacks the right")


def verdict_of(outcome: Outcome) -> Verdict | None:
    """Return the verdict of an outcome on the kind of its target; None: the earlier verdict stays."""
    if outcome.reason == "KindNotServed":
        return NOT_SERVED
    if outcome.reason in ("Forbidden", "KindNotWatched") and (refusal := _NO_RIGHT.search(outcome.message)) is not None:
        return no_right(refusal[1])
    # The refusal of an object proves that the server knows its kind.
    known = outcome.state in ("Synced", "Conflict") or outcome.reason in ("Forbidden", "Invalid")
    return ACCEPTED if known else None


def verdicts(outcomes: Iterable[Outcome], known: Findings) -> dict[str, Verdict | None]:
    """Return the verdicts of a sync on the kinds that it writes to one cluster; `known` are its earlier verdicts."""
    found: dict[str, Verdict | None] = {}
    for outcome in outcomes:
        if outcome.gone:
            continue
        kind = outcome.target.kind
        verdict = verdict_of(outcome)
        if verdict is not None:
            found[kind] = _worse(found.get(kind), verdict)
        elif kind in known or outcome.state in ("Unknown", "Failed"):
            found.setdefault(kind, known.get(kind))
    return found


def synced_resources(found: Iterable[Findings], names: Mapping[str, str]) -> list[SyncedResource]:
    """Merge the verdicts of all syncs on one cluster: refused kinds first, then by name."""
    worst: dict[str, Verdict] = {}
    for one in found:
        for kind, verdict in one.items():
            if verdict is not None:
                name = names.get(kind, kind)[:_NAME]
                worst[name] = _worse(worst.get(name), verdict)
    entries = [
        SyncedResource(name=name, state="Accepted" if verdict.accepted else "Incompatible", message=verdict.message)
        for name, verdict in sorted(worst.items())
    ]
    refused = [entry for entry in entries if entry.state == "Incompatible"][:MAX_INCOMPATIBLE]
    return [*refused, *(entry for entry in entries if entry.state == "Accepted")][:MAX_RESOURCES]


def _worse(one: Verdict | None, other: Verdict) -> Verdict:
    """Return the verdict that counts: a refusal; of two, the first by its message, so that order does not matter."""
    if one is None or one == other:
        return other
    return min(one, other, key=lambda verdict: (verdict.accepted, verdict.message))
