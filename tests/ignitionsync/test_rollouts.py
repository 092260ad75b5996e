"""Rollouts: stages that wait for reports, an order, the way back, and rollbacks that a person asks for."""

from tests.configmapsync.world import until
from tests.ignitionsync.replica import Replica
from tests.ignitionsync.world import PROJECT, PlantWorld

CANARY = {
    "strategy": "canary",
    "stages": [{"name": "canary", "gatewaySelector": {"tier": "canary"}}],
    "autoRollback": {"enabled": True, "triggers": ["scanFailure", "verifyFailure"]},
}
MORE = {"projects/Plant/more.json": "{}"}


def commit_of(replica: Replica, pod: object) -> str:
    return replica.plan(pod).commit  # type: ignore[arg-type]


def test_a_stage_waits_for_the_reports_of_the_stage_before(world: PlantWorld, replica: Replica) -> None:
    first = world.push(PROJECT)
    sync = world.isync(deployment=CANARY)
    canary, rest = world.pod("gw-0", labels={"tier": "canary"}), world.pod("gw-1")
    until(lambda: commit_of(replica, canary), lambda commit: commit == first)
    assert replica.plan(rest).action == "Hold"
    replica.sync_up(canary)
    until(lambda: commit_of(replica, rest), lambda commit: commit == first)
    replica.sync_up(rest)
    sync.condition("Ready", status="True")
    second = world.push(MORE)
    until(lambda: commit_of(replica, canary), lambda commit: commit == second)
    assert sync.status["rollout"]["stage"] == "canary"
    assert commit_of(replica, rest) == first
    sync.gateway_at("gw-1", "Pending", reason="WaitingForStage")
    replica.sync_up(canary)
    until(lambda: commit_of(replica, rest), lambda commit: commit == second)
    replica.sync_up(rest)
    sync.condition("Ready", status="True")
    assert sync.status["rollout"] == {"generation": 1, "commit": second, "healthyCommit": second} | {
        "since": sync.status["rollout"]["since"]
    }


def test_a_failed_commit_brings_all_gateways_back_and_is_not_tried_again(world: PlantWorld, replica: Replica) -> None:
    first = world.push(PROJECT)
    sync = world.isync(deployment=CANARY)
    canary, rest = world.pod("gw-0", labels={"tier": "canary"}), world.pod("gw-1")
    for pod in (canary, rest):
        until(lambda pod=pod: commit_of(replica, pod), lambda commit: commit == first)
        replica.sync_up(pod)
    sync.condition("Ready", status="True")
    second = world.push(MORE)
    until(lambda: commit_of(replica, canary), lambda commit: commit == second)
    replica.fail(canary, "ScanFailed")
    until(lambda: commit_of(replica, canary), lambda commit: commit == first)
    assert "gw-0" in sync.tells("RolloutRolledBack")["note"]
    assert sync.status["rollout"]["failedCommits"] == [second]
    replica.sync_up(canary)
    ready = sync.condition("Ready", status="False", reason="RolledBackOnFailure")
    assert second[:12] in ready["message"]
    assert sync.condition("AllGatewaysSynced", status="True")
    assert {commit_of(replica, pod) for pod in (canary, rest)} == {first}
    third = world.push({"projects/Plant/better.json": "{}"})
    until(lambda: commit_of(replica, canary), lambda commit: commit == third)
    for pod in (canary, rest):
        until(lambda pod=pod: commit_of(replica, pod), lambda commit: commit == third)
        replica.sync_up(pod)
    sync.condition("Ready", status="True")


def test_a_person_can_have_a_failed_commit_tried_again(world: PlantWorld, replica: Replica) -> None:
    first = world.push(PROJECT)
    sync = world.isync(deployment={"autoRollback": {"enabled": True}})
    pod = world.pod()
    replica.sync_up(pod)
    sync.condition("Ready", status="True")
    second = world.push(MORE)
    until(lambda: commit_of(replica, pod), lambda commit: commit == second)
    replica.fail(pod, "ScanFailed")
    until(lambda: commit_of(replica, pod), lambda commit: commit == first)
    replica.sync_up(pod)
    sync.now()
    until(lambda: commit_of(replica, pod), lambda commit: commit == second)
    replica.sync_up(pod)
    sync.condition("Ready", status="True")


def test_gateways_go_in_the_order_of_the_spec(world: PlantWorld, replica: Replica) -> None:
    commit = world.push(PROJECT)
    sync = world.isync(deployment={"syncOrder": ["gw-1", "gw-0"]})
    pods = {name: world.pod(name) for name in ("gw-0", "gw-1", "gw-2")}
    for name in ("gw-1", "gw-0", "gw-2"):
        until(lambda name=name: commit_of(replica, pods[name]), lambda found: found == commit)
        later = {"gw-1": ("gw-0", "gw-2"), "gw-0": ("gw-2",), "gw-2": ()}[name]
        assert [replica.plan(pods[one]).action for one in later] == ["Hold"] * len(later)
        replica.sync_up(pods[name])
    sync.condition("Ready", status="True")


def test_a_rollback_of_the_spec_pins_a_commit_until_it_is_removed(world: PlantWorld, replica: Replica) -> None:
    first = world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    replica.sync_up(pod)
    sync.condition("Ready", status="True")
    second = world.push(MORE)
    until(lambda: commit_of(replica, pod), lambda commit: commit == second)
    replica.sync_up(pod)
    sync.condition("Ready", status="True")
    sync.change(rollback={"to": "Previous"})
    until(lambda: commit_of(replica, pod), lambda commit: commit == first)
    replica.sync_up(pod)
    ready = sync.condition("Ready", status="True", reason="RolledBack")
    assert first[:12] in ready["message"]
    world.push({"projects/Plant/newest.json": "{}"})
    sync.now()
    assert commit_of(replica, pod) == first
    sync.change(rollback=None)
    until(lambda: commit_of(replica, pod), lambda commit: commit not in (first, second))


def test_a_git_server_that_is_away_changes_nothing(world: PlantWorld, replica: Replica) -> None:
    commit = world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    plan = replica.sync_up(pod)
    sync.condition("Ready", status="True")
    world.server.statuses[world.name] = 503
    sync.now()
    sync.condition("RefResolved", status="Unknown", reason="GitUnreachable")
    assert sync.becomes("GitUnreachable")["status"] == "Unknown"
    found = replica.plan(pod)
    assert (found.id, found.commit) == (plan.id, commit)
    assert replica.plan(world.pod("gw-1")).commit == commit
    del world.server.statuses[world.name]
    sync.now()
    replica.sync_up(pod)
    sync.condition("RefResolved", status="True")
