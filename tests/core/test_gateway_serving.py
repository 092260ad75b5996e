"""What a gateway is served: nothing before the leader has looked, and only what the status records."""

from typing import Any

from msgspec import structs

from syncline.api.common import Condition
from syncline.api.ignition_git import IgnitionGit
from syncline.api.ignition_status import IgnitionSyncStatus, RolloutGateway, RolloutStatus
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.core.gateway_rollout import RolloutState
from syncline.core.gateway_serving import Serving, rollout_state, rollout_status, serving, withdrawn

A, B = "a" * 40, "b" * 40
SPEC = IgnitionSyncSpec(git=IgnitionGit(repo="https://git.example.com/plant.git", ref="main"))


def status(**rollout: Any) -> IgnitionSyncStatus:
    recorded = RolloutStatus(**{"generation": 3, "commit": A, "healthy_commit": A, **rollout})
    ready = Condition(type="Ready", status="True", reason="Synced", last_transition_time="2026-01-01T00:00:00Z")
    return IgnitionSyncStatus(
        observed_generation=3, conditions=[ready], last_sync_ref="main", last_sync_commit=A, rollout=recorded
    )


def test_the_commit_of_the_rollout_is_served() -> None:
    assert serving(SPEC, 3, status(), "gw-0") == Serving("Publish", "", "main", A)


def test_a_spec_that_the_leader_has_not_looked_at_serves_nobody() -> None:
    assert serving(SPEC, 4, status(), "gw-0") is None
    assert serving(SPEC, 1, IgnitionSyncStatus(), "gw-0") is None


def test_a_sync_that_is_not_carried_out_serves_no_files() -> None:
    for recorded in (withdrawn(status()), structs.replace(status(), rollout=None), status(generation=2)):
        served = serving(SPEC, 3, recorded, "gw-0")
        assert served is not None
        assert served.action == "Hold"
        assert served.commit == ""


def test_a_spec_that_cannot_be_read_serves_no_files() -> None:
    served = serving(None, 3, status(), "gw-0")
    assert served is not None
    assert served.action == "Hold"


def test_a_suspended_sync_pauses_its_gateways() -> None:
    for spec in (structs.replace(SPEC, suspend=True), structs.replace(SPEC, paused=True)):
        served = serving(spec, 3, status(), "gw-0")
        assert served is not None
        assert served.action == "Pause"


def test_a_sync_that_is_deleted_leaves_the_files_where_they_are() -> None:
    served = serving(SPEC, 4, status(), "gw-0", deleting=True)
    assert served is not None
    assert served.action == "Hold"


def test_without_a_commit_gateways_hold() -> None:
    served = serving(SPEC, 3, status(commit="", healthy_commit=""), "gw-0")
    assert served is not None
    assert (served.action, "RefResolved" in served.message) == ("Hold", True)


def test_a_staged_rollout_serves_each_gateway_its_own_commit() -> None:
    recorded = status(commit=B, stage="canary", gateways=[RolloutGateway(pod="gw-0", commit=B)])
    assert serving(SPEC, 3, recorded, "gw-0") == Serving("Publish", "", "main", B)
    assert serving(SPEC, 3, recorded, "gw-1") == Serving("Publish", "", "main", A)
    first = status(commit=B, stage="canary", healthy_commit="", gateways=[RolloutGateway(pod="gw-0", commit=B)])
    waiting = serving(SPEC, 3, first, "gw-1")
    assert waiting is not None
    assert (waiting.action, "canary" in waiting.message) == ("Hold", True)


def test_the_state_of_a_rollout_survives_the_status() -> None:
    state = RolloutState(
        commit=B,
        stage="canary",
        since=1767225600.0,
        healthy_commit=A,
        failed_commits=("c" * 40,),
        assigned={"gw-0": B},
    )
    assert rollout_state(rollout_status(state, 7)) == state
    assert rollout_state(None) == RolloutState()
    assert rollout_status(RolloutState(), 7) == RolloutStatus(generation=7)
    assert rollout_state(RolloutStatus(since="yesterday")).since == 0.0
