"""The condition BidirectionalReady, from the spec and from what agents report."""

from typing import Any

import pytest
from tests.core.gateway_world import mapped, mapping

from syncline.api.ignition_status import GatewayEdits, RefusedEdit
from syncline.core.bidirectional_status import EditedGateway, bidirectional_ready, gateway_edits
from syncline.core.gateway_plan import ReportedEdits, ReportedRefusal

BACK = {"enabled": True, "watchPaths": ["projects/**"], "targetBranch": "edits"}
GIT = {
    "repo": "https://git.example.com/plant.git",
    "ref": "main",
    "auth": {"token": {"secretRef": {"name": "git", "key": "token"}}},
}


def condition(
    *reported: ReportedEdits | None, back: dict[str, Any] | None = None, has_depot: bool = True, **more: Any
) -> tuple[str, str, str]:
    spec = mapped(mapping("projects", "projects"), bidirectional=back or BACK, **{"git": GIT, **more})
    gateways = [EditedGateway(f"gw-{number}", f"pod-{number}", one) for number, one in enumerate(reported)]
    found = bidirectional_ready(spec, gateways, followed="main", has_depot=has_depot)
    assert found is not None
    return found.status, found.reason, found.message


def test_a_sync_that_sends_nothing_back_has_no_such_condition() -> None:
    for back in (None, {**BACK, "enabled": False}):
        spec = mapped(mapping("projects", "projects"), **({"bidirectional": back} if back else {}))
        assert bidirectional_ready(spec, [], followed="main", has_depot=True) is None


def test_edits_are_watched() -> None:
    assert condition() == ("True", "EditsWatched", "edits are watched; none is outstanding")
    assert condition(None, ReportedEdits(sent=2), ReportedEdits(sent=1)) == (
        "True",
        "EditsWatched",
        "3 edits are in branches and not in main",
    )
    assert condition(ReportedEdits(sent=1))[2] == "1 edit is in a branch and not in main"


def test_what_the_spec_and_the_operator_lack_is_told() -> None:
    anonymous = {key: value for key, value in GIT.items() if key != "auth"}
    assert condition(git=anonymous)[:2] == ("False", "CredentialMissing")
    assert condition(has_depot=False)[:2] == ("False", "DepotDisabled")
    spec = mapped(mapping("projects", "projects"), bidirectional=BACK, git=GIT)
    found = bidirectional_ready(spec, [EditedGateway("gw", "pod", None, False)], followed="main", has_depot=True)
    assert found is not None
    assert found.reason == "InvalidBranch"
    assert "gw (pod pod)" in found.message


@pytest.mark.parametrize(
    ("edits", "reason", "words"),
    [
        (ReportedEdits(problem="the depot answers 503"), "EditsNotSent", "gw-0 (pod pod-0): the depot answers 503"),
        (ReportedEdits(conflicts=("projects/a",)), "EditConflict", "gw-0 (pod pod-0): projects/a"),
        (
            ReportedEdits(refused=(ReportedRefusal("projects/k", "it looks like a private key"),)),
            "EditsRefused",
            "gw-0 (pod pod-0): projects/k: it looks like a private key",
        ),
    ],
)
def test_what_agents_report_is_told(edits: ReportedEdits, reason: str, words: str) -> None:
    status, found, message = condition(edits)
    assert (status, found) == ("False", reason)
    assert words in message


def test_a_gateway_that_reports_nonsense_breaks_no_status() -> None:
    refused = (ReportedRefusal("a", "b"),)
    assert gateway_edits(ReportedEdits(sent=-1, waiting=-2, refused=refused)) == GatewayEdits(
        refused=[RefusedEdit(path="a", why="b")]
    )
