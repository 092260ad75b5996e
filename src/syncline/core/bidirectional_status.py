"""The condition BidirectionalReady, and the edits on a gateway for the status. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from syncline.api.ignition_status import GatewayEdits, RefusedEdit
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.conditions import Finding, shorten
from syncline.core.gateway_plan import ReportedEdits

BIDIRECTIONAL_READY = "BidirectionalReady"
_NAMED = 3
_MAX_MESSAGE = 1000


class EditedGateway(Struct, frozen=True):
    """A gateway whose edits go back."""

    name: str
    pod: str
    edits: ReportedEdits | None
    has_branch: bool = True
    """Whether the target branch is a valid one for the gateway."""


def gateway_edits(edits: ReportedEdits) -> GatewayEdits:
    """Return the edits on a gateway for the status."""
    return GatewayEdits(
        branch=edits.branch,
        commit=edits.commit,
        pull_request=edits.pull_request,
        sent=max(0, edits.sent),
        files=list(edits.files),
        waiting=max(0, edits.waiting),
        refused=[RefusedEdit(path=one.path, why=one.why) for one in edits.refused],
        conflicts=list(edits.conflicts),
        problem=edits.problem,
    )


def bidirectional_ready(
    spec: IgnitionSyncSpec, gateways: Sequence[EditedGateway], *, followed: str, has_depot: bool
) -> Finding | None:
    """Return the condition; None if the spec sends no edits back. `followed` is the ref that gateways follow."""
    back = spec.bidirectional
    if back is None or not back.enabled:
        return None
    if (found := next(_problems(spec, gateways, followed, has_depot=has_depot), None)) is not None:
        reason, message = found
        return Finding(BIDIRECTIONAL_READY, "False", reason, shorten(message, _MAX_MESSAGE))
    sent = sum(one.edits.sent for one in gateways if one.edits is not None)
    return Finding(BIDIRECTIONAL_READY, "True", "EditsWatched", _outstanding(sent, followed))


def _outstanding(sent: int, followed: str) -> str:
    if not sent:
        return "edits are watched; none is outstanding"
    return f"{'1 edit is in a branch' if sent == 1 else f'{sent} edits are in branches'} and not in {followed}"


def _problems(
    spec: IgnitionSyncSpec, gateways: Sequence[EditedGateway], followed: str, *, has_depot: bool
) -> Iterator[tuple[str, str]]:
    if spec.git.auth is None:
        yield "CredentialMissing", "edits cannot be pushed without a credential: write git.auth"
    if astray := [_called(one) for one in gateways if not one.has_branch]:
        rule = f"it begins with a fixed text, is a valid name, and is not {followed}"
        yield "InvalidBranch", f"targetBranch is no branch for the edits of {_listed(astray)}: {rule}"
    if not has_depot:
        yield "DepotDisabled", "the operator serves no depot, which takes edits: start it with --depot-bind"
    told = [(one, one.edits) for one in gateways if one.edits is not None]
    if failed := [f"{_called(one)}: {edits.problem}" for one, edits in told if edits.problem]:
        yield "EditsNotSent", _listed(failed)
    if held := [f"{_called(one)}: {', '.join(edits.conflicts[:_NAMED])}" for one, edits in told if edits.conflicts]:
        yield "EditConflict", f"Git and the gateway have both changed files, which stay as they are; {_listed(held)}"
    refused = [
        f"{_called(one)}: {edits.refused[0].path}: {edits.refused[0].why}" for one, edits in told if edits.refused
    ]
    if refused:
        yield "EditsRefused", f"some edits are never sent; {_listed(refused)}"


def _called(one: EditedGateway) -> str:
    return f"{one.name} (pod {one.pod})"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _NAMED
    return "; ".join(texts[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
