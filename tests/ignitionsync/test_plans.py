"""Plans and reports: served by any replica, from what the leader has recorded."""

import os

from tests.configmapsync.world import until
from tests.ignitionsync.replica import Replica
from tests.ignitionsync.world import PROJECT, PlantWorld

from syncline.core.gateway_plan import GatewayReport


def test_a_replica_that_does_not_lead_serves_the_files_of_the_commit(world: PlantWorld, replica: Replica) -> None:
    commit = world.push({**PROJECT, "other/secret.txt": "not mapped"})
    world.isync()
    pod = world.pod()
    plan = replica.plan(pod)
    assert (plan.action, plan.commit, plan.sync, plan.gateway) == ("Publish", commit, "plant", "gw-0")
    assert replica.files(pod) == {path: text.encode() for path, text in PROJECT.items()}


def test_a_pending_pod_is_served_before_it_runs(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    assert replica.plan(world.pod(phase="Pending")).action == "Publish"


def test_a_report_reaches_the_status_and_makes_the_sync_ready(world: PlantWorld, replica: Replica) -> None:
    commit = world.push(PROJECT)
    sync = world.isync()
    pods = [world.pod(f"gw-{number}") for number in range(3)]
    for pod in pods:
        replica.sync_up(pod)
    assert sync.condition("AllGatewaysSynced", status="True")["message"] == "3/3 gateways synced"
    assert sync.condition("Ready", status="True")["message"] == "3/3 gateways synced"
    assert sync.condition("AgentsReady", status="True", reason="AgentsReporting")
    assert sync.gateway("gw-0")["syncedCommit"] == commit
    status = sync.status
    assert status["targets"]["summary"] == "3/3"
    assert status["rollout"]["healthyCommit"] == commit
    assert status["history"][0]["revision"] == commit
    assert sync.tells("RolloutCompleted")


def test_a_report_is_a_config_map_of_its_pod_and_goes_with_it(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    pod = world.pod()
    replica.sync_up(pod)
    report = world.report()
    owner = report.read()["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "gw-0", pod.uid)
    pod.remove()
    report.gone()


def test_a_push_is_news_and_a_report_about_the_old_plan_is_not_enough(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    first = replica.sync_up(pod)
    sync.condition("Ready", status="True")
    assert not replica.wait(pod, first.id, 0.5)
    commit = world.push({"projects/Plant/more.json": "{}"})
    assert replica.wait(pod, first.id, 120)
    assert replica.plan(pod).commit == commit
    sync.gateway_at("gw-0", "Syncing", reason="NewPlan")
    replica.sync_up(pod)
    sync.condition("Ready", status="True")


def test_another_profile_is_news_without_a_commit(world: PlantWorld, replica: Replica) -> None:
    world.push({**PROJECT, "more/a.json": "{}"})
    sync = world.isync()
    pod = world.pod()
    first = replica.sync_up(pod)
    sync.condition("Ready", status="True")
    sync.change(sync={"profiles": {"default": {"mappings": [{"source": "more", "destination": "projects/more"}]}}})
    assert replica.wait(pod, first.id, 120)
    assert [file.path for file in replica.plan(pod).files] == ["projects/more/a.json"]
    sync.gateway_at("gw-0", "Syncing")


def test_a_label_of_a_pod_is_news(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    pod = world.pod()
    first = replica.sync_up(pod)
    assert not replica.wait(pod, first.id, 0.5)
    pod.label(line="seven")
    assert replica.wait(pod, first.id, 120)
    assert replica.plan(pod).rules.values["labels.line"] == "seven"


def test_a_suspended_sync_pauses_its_gateways_and_their_pods_are_served(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    first = replica.sync_up(pod)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    until(lambda: replica.plan(pod).action, lambda action: action == "Pause")
    assert replica.plan(world.pod("gw-1")).action == "Pause"
    sync.change(suspend=None)
    until(lambda: replica.plan(pod).id, lambda found: found == first.id)


def test_large_and_many_files_arrive_whole(world: PlantWorld, replica: Replica) -> None:
    large = {f"projects/large-{number}.bin": os.urandom(1_500_000 + number) for number in range(3)}
    small = {f"projects/small/{number}.bin": os.urandom(40_000) for number in range(120)}
    world.push({**large, **small})
    world.isync()
    assert replica.files(world.pod()) == {**large, **small}


def test_a_confirmed_deletion_is_in_the_plan(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    replica.plan(pod)
    sync.annotate({"syncline.dev/confirm-deletion": "abc"})
    until(lambda: replica.plan(pod).confirmed_deletion, lambda found: found == "abc")


def test_the_end_of_a_sync_removes_the_reports_about_it_and_no_others(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    sync = world.isync()
    other = world.isync("other")
    replica.sync_up(world.pod("gw-0"))
    replica.sync_up(world.pod("gw-1", "other"))
    other.condition("Ready", status="True")
    sync.delete()
    sync.gone()
    world.report("gw-0").gone()
    assert world.report("gw-1").look() is not None


def test_many_reports_of_one_pod_are_few_writes(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    pod = world.pod()
    plan = replica.sync_up(pod)
    since = world.mark()
    for number in range(4):
        replica.report(
            pod, GatewayReport(state="Synced", reason="Synced", plan=plan.id, commit=plan.commit, files=number)
        )
    written = [one for one in world.writes(since) if "configmaps" in one and "status" in one]
    assert len(written) <= 5
    until(lambda: world.report().data["report"], lambda text: '"files":3' in text)
