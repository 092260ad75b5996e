"""What a tenant with `edit` in a namespace must not get through an IgnitionSync, its pods or its ConfigMaps."""

import json

import pytest
from tests.configmapsync.world import until
from tests.ignitionsync.replica import Replica
from tests.ignitionsync.world import PROJECT, PlantWorld

from syncline.controllers.gateways.pods import GATEWAYS_BYTES
from syncline.core.gateway_plan import GatewayReport
from syncline.depot.plans import DepotRefusal


def test_a_pod_of_another_namespace_gets_nothing(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    thief = world.pod("thief", namespace=world.namespace("thieves"))
    refused = replica.refusal(thief)
    assert refused.status == 404
    assert "in the namespace of the pod" in refused.message


def test_a_pod_that_names_a_sync_with_its_namespace_gets_nothing(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    elsewhere = world.namespace("thieves")
    for number, name in enumerate((f"{world.home}/plant", f"../{world.home}/plant", "plant\n", "p" * 5000)):
        assert replica.refusal(world.pod(f"thief-{number}", name, namespace=elsewhere)).status == 404


def test_an_identity_that_is_not_this_very_pod_gets_nothing(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    pod = world.pod()
    assert replica.refusal(pod, uid="00000000-0000-0000-0000-000000000000").status == 404
    old = pod.uid
    pod.remove()
    pod.gone()
    again = world.pod()
    assert replica.refusal(again, uid=old).status == 404


def test_a_pod_that_has_ended_gets_nothing(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    world.isync()
    pod = world.pod(phase="Succeeded")
    until(lambda: replica.refusal(pod).status, lambda status: status == 403)


def test_files_that_are_not_mapped_cannot_be_had(world: PlantWorld, replica: Replica) -> None:
    world.push({**PROJECT, "other/secret.txt": "not mapped"})
    world.isync()
    pod = world.pod()
    plan = replica.plan(pod)
    hidden = world.repository.git("rev-parse", "main:other/secret.txt")
    with pytest.raises(DepotRefusal) as refused:
        replica.blobs(pod, plan.id, [hidden])
    assert refused.value.status == 404


def test_a_status_that_a_tenant_writes_serves_nothing(world: PlantWorld, replica: Replica) -> None:
    """Whoever may write the status cannot have another commit served, nor an unchecked spec."""
    first = world.push(PROJECT)
    second = world.push({"projects/Plant/hidden.json": "{}"}, ref="refs/heads/hidden")
    sync = world.isync()
    pod = world.pod()
    plan = replica.sync_up(pod)
    sync.condition("Ready", status="True")
    body = sync.read()
    body["status"]["rollout"]["commit"] = body["status"]["rollout"]["healthyCommit"] = second
    body["status"]["lastSyncCommit"] = second
    sync.sandbox.request("PUT", f"{sync.path}/status", body)
    until(lambda: sync.status["rollout"]["commit"], lambda commit: commit == first)
    found = replica.plan(pod)
    assert (found.commit, found.id) == (first, plan.id)


def test_a_forged_report_counts_for_nothing(world: PlantWorld, replica: Replica) -> None:
    commit = world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    plan = replica.plan(pod)
    report = {"state": "Synced", "reason": "Synced", "plan": plan.id, "commit": commit}
    meta = {
        "labels": {"ignition-sync.io/object": "status", "ignition-sync.io/cr-name": "plant"},
        "annotations": {
            "ignition-sync.io/cr-name": "plant",
            "ignition-sync.io/owner": sync.read()["metadata"]["uid"],
            "ignition-sync.io/proof": "00000000.00000000000000000000000000000000",
        },
    }
    data = {"podUID": pod.uid, "time": "2026-01-01T00:00:00Z", "report": json.dumps(report), "proof": "00000000.0"}
    forged = world.put(world.home, "ignition-sync-status-gw-0", metadata=meta, **data)
    sync.now()
    sync.gateway_at("gw-0", "Pending", reason="NoReport")
    # It is not ours, so that it is not overwritten either.
    with pytest.raises(DepotRefusal) as refused:
        replica.sync_up(pod)
    assert refused.value.status == 409
    assert forged.data == data
    forged.delete()
    replica.sync_up(pod)
    sync.condition("Ready", status="True")


def test_a_report_that_a_tenant_edits_counts_for_nothing_and_is_written_again(
    world: PlantWorld, replica: Replica
) -> None:
    world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    plan = replica.plan(pod)
    replica.report(pod, GatewayReport(state="Error", reason="ScanFailed", plan=plan.id))
    sync.gateway_at("gw-0", "Error", reason="ScanFailed")
    report = world.report()
    report.set(report=report.data["report"].replace('"Error"', '"Synced"'))
    sync.gateway_at("gw-0", "Pending", reason="NoReport")
    replica.sync_up(pod)
    sync.condition("Ready", status="True")


def test_a_report_of_one_pod_says_nothing_about_another(world: PlantWorld, replica: Replica) -> None:
    """A copy of a proven report, under the name of another pod or in another namespace, proves nothing."""
    world.push(PROJECT)
    sync = world.isync()
    replica.sync_up(world.pod("gw-0"))
    world.pod("gw-1")
    body = world.report("gw-0").read()
    meta = {key: body["metadata"][key] for key in ("labels", "annotations")}
    world.put(world.home, "ignition-sync-status-gw-1", metadata=meta, **body["data"])
    sync.condition("AllGatewaysSynced", status="False", message="1/2 gateways synced")
    sync.now()
    sync.gateway_at("gw-1", "Pending", reason="NoReport")


def test_a_pod_with_endless_metadata_is_refused_and_harms_nobody(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    sync = world.isync()
    many = {f"x-{number}": "y" * 1000 for number in range(40)}
    huge = world.pod("huge", annotations=many)
    plan = replica.plan(huge)
    assert plan.action == "Hold"
    assert "too many labels and annotations" in plan.message
    sync.gateway_at("huge", "Error", reason="InvalidAnnotation")
    assert replica.plan(world.pod("gw-0")).action == "Publish"


def test_annotations_of_a_pod_lead_nowhere_but_to_the_repository(world: PlantWorld, replica: Replica) -> None:
    world.push(PROJECT)
    sync = world.isync(sync={}, additionalFiles=[])
    for number, path in enumerate(("../..", "/etc", "projects/../../..", "{{ vars.secret }}")):
        pod = world.pod(f"gw-{number}", annotations={"service-path": path})
        plan = replica.plan(pod)
        assert (plan.files, plan.action in ("Hold", "Publish")) == ((), True)
    sync.condition("AllGatewaysSynced", status="False")


def test_a_spec_that_is_edited_serves_nobody_until_the_leader_has_looked(world: PlantWorld, replica: Replica) -> None:
    """What a tenant writes into a spec is not served before it was admitted: here it is not."""
    world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    replica.sync_up(pod)
    sync.change(polling={"interval": "1s"})
    sync.becomes("InvalidSpec")
    until(lambda: replica.plan(pod).action, lambda action: action == "Hold")
    sync.change(polling={"interval": "10s"})
    until(lambda: replica.plan(pod).action, lambda action: action == "Publish")


def test_mappings_that_multiply_the_files_of_a_commit_are_refused_before_they_are_planned(
    world: PlantWorld, replica: Replica
) -> None:
    """Fifty mappings of a large commit would be millions of files in the memory of the operator."""
    world.push({f"projects/{number}.json": "{}" for number in range(1_100)})
    mappings = [{"source": "projects", "destination": f"copies/{number}"} for number in range(50)]
    sync = world.isync(sync={"profiles": {"default": {"mappings": mappings}}})
    plan = replica.plan(world.pod())
    assert (plan.action, plan.files) == ("Hold", ())
    assert "the mappings have more than 50000 files" in plan.message
    sync.gateway_at("gw-0", "Error", reason="TooManyFiles")


def test_pods_with_large_annotations_do_not_fill_the_memory(world: PlantWorld) -> None:
    """One Deployment of a tenant can make thousands of them, each with the most that is kept of a pod."""
    world.push(PROJECT)
    sync = world.isync()
    sync.becomes("NoGatewaysDiscovered")
    for number in range(GATEWAYS_BYTES // 4 // (64 * 1024) + 10):
        world.pod(f"gw-{number}", phase="Pending", annotations={"filled": "\N{GRINNING FACE}" * 16_000})
    ready = sync.becomes("GatewaysUnknown")
    assert "its gateways and their reports take more than 16 MiB of memory" in ready["message"]
