"""The gateways of a sync: found by a watch, counted while they run, and reported before any agent speaks."""

import json

from tests.configmapsync.world import until
from tests.ignitionsync.world import PROJECT, PlantWorld

from syncline.testing.operator import OperatorProcess


def test_running_pods_are_counted_and_a_new_number_is_an_event(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    sync.condition("Ready", reason="NoGatewaysDiscovered")
    world.pod("gw-0")
    world.pod("gw-1", phase="Pending")
    sync.condition("AllGatewaysSynced", status="False", message="0/1 gateways synced")
    assert sync.tells("GatewaysDiscovered")["note"] == "1 gateway runs; before, 0 did"
    gateway = sync.gateway_at("gw-0", "Pending", reason="NoReport")
    assert (gateway["name"], gateway["namespace"], gateway["profile"]) == ("gw-0", world.home, "default")
    assert sync.condition("Ready", status="False", reason="SyncInProgress")
    world.pod("gw-2")
    sync.condition("AllGatewaysSynced", message="0/2 gateways synced")


def test_a_pod_that_ends_or_goes_is_no_gateway_any_more(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    pods = [world.pod(f"gw-{number}") for number in range(3)]
    sync.condition("AllGatewaysSynced", message="0/3 gateways synced")
    pods[0].phase("Succeeded")
    sync.condition("AllGatewaysSynced", message="0/2 gateways synced")
    pods[1].remove()
    sync.condition("AllGatewaysSynced", message="0/1 gateways synced")
    pods[2].annotate({"ignition-sync.io/cr-name": "other"})
    sync.condition("AllGatewaysSynced", message="0/0 gateways synced")


def test_pods_of_other_syncs_and_namespaces_are_not_counted(world: PlantWorld) -> None:
    world.push(PROJECT)
    elsewhere = world.namespace("elsewhere")
    sync, other = world.isync(), world.isync("other")
    world.pod("gw-0")
    world.pod("gw-1", "other")
    world.pod("gw-2", namespace=elsewhere)
    sync.condition("AllGatewaysSynced", message="0/1 gateways synced")
    other.condition("AllGatewaysSynced", message="0/1 gateways synced")
    assert sync.gateway("gw-1") == {}
    assert other.gateway("gw-0") == {}


def test_the_name_of_a_gateway_is_its_annotation_its_label_or_its_pod(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    world.pod("gw-0", annotations={"gateway-name": "blue"}, labels={"app.kubernetes.io/name": "red"})
    labelled = world.pod("gw-1", labels={"app.kubernetes.io/name": "red"})
    plain = world.pod("gw-2")
    for pod in (labelled, plain):
        pod.annotate({"ignition-sync.io/gateway-name": None})
    until(
        lambda: sorted(one["name"] for one in sync.status.get("discoveredGateways", [])),
        lambda names: names == ["blue", "gw-2", "red"],
    )


def test_a_pod_without_a_valid_profile_is_named(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    world.pod("gw-0", annotations={"profile": "nowhere"})
    gateway = sync.gateway_at("gw-0", "Error", reason="ProfileNotFound")
    assert "nowhere" in gateway["message"]
    assert "gw-0" in sync.condition("Ready", status="False", reason="SyncFailed")["message"]


def test_a_commit_with_files_that_are_refused_names_them(world: PlantWorld) -> None:
    world.push({**PROJECT, "projects/Plant/VIEWS/main.json": "{}"})
    sync = world.isync()
    world.pod()
    assert "VIEWS" in sync.gateway_at("gw-0", "Error", reason="CaseClash")["message"]


def test_a_pod_that_wanted_an_agent_and_has_none_is_named(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    world.pod("gw-0", annotations={"inject": "true"})
    sync.gateway_at("gw-0", "MissingSidecar", reason="AgentMissing")
    assert "gw-0" in sync.condition("AgentsReady", status="False", reason="AgentMissing")["message"]


def test_the_metadata_config_map_says_what_gateways_get(world: PlantWorld) -> None:
    commit = world.push(PROJECT)
    sync = world.isync()
    world.pod()
    metadata = world.metadata()
    found = until(metadata.look, lambda body: body and "gw-0" in body.get("data", {}).get("profiles", ""))
    assert found is not None
    assert found["data"]["commit"] == commit
    assert found["data"]["ref"] == "main"
    assert json.loads(found["data"]["profiles"]) == {"gw-0": "default"}
    owner = found["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("IgnitionSync", "plant", sync.read()["metadata"]["uid"])


def test_the_metadata_config_map_changes_only_with_its_content_and_is_restored(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    sync.condition("Ready", reason="NoGatewaysDiscovered")
    metadata = world.metadata()
    version = metadata.read()["metadata"]["resourceVersion"]
    sync.now()
    sync.now()
    assert metadata.read()["metadata"]["resourceVersion"] == version
    metadata.delete()
    metadata.appears()
    metadata.set(commit="made up")
    until(metadata.look, lambda body: body and body["data"]["commit"] != "made up")


def test_a_config_map_of_somebody_else_is_not_touched(world: PlantWorld) -> None:
    world.push(PROJECT)
    mine = world.put(world.home, "ignition-sync-metadata-plant", colour="red")
    sync = world.isync()
    world.pod()
    sync.condition("AllGatewaysSynced", message="0/1 gateways synced")
    sync.now()
    assert mine.data == {"colour": "red"}
    sync.delete()
    sync.gone()
    assert mine.data == {"colour": "red"}


def test_the_end_of_a_sync_removes_its_config_maps(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    pod = world.pod()
    sync.condition("AllGatewaysSynced", message="0/1 gateways synced")
    world.metadata().appears()
    sync.delete()
    sync.gone()
    world.metadata().gone()
    assert pod.look() is not None


def test_the_end_of_a_sync_is_quiet_in_the_log(world: PlantWorld, operator: OperatorProcess) -> None:
    world.push(PROJECT)
    sync, other = world.isync(), world.isync("other")
    pod = world.pod()
    sync.condition("AllGatewaysSynced", message="0/1 gateways synced")
    sync.now()
    before = operator.events()
    assert [one for one in before if one.get("sync") == f"{world.home}/plant"]
    sync.delete()
    sync.gone()
    world.metadata().gone()
    other.now()
    pod.remove()
    # What the operator sees of this pod, it sees after the end of the other one.
    world.pod("gw-1", "other")
    other.condition("AllGatewaysSynced", message="0/1 gateways synced")
    after = [one for one in operator.events()[len(before) :] if f"{world.home}/plant" in str(one)]
    assert [one for one in after if one["level"] not in ("debug", "info")] == []
    lines = [one["event"] for one in after]
    assert len(lines) == len(set(lines)), lines


def test_a_quiet_sync_writes_nothing(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    world.pod()
    sync.condition("AllGatewaysSynced", message="0/1 gateways synced")
    sync.now()
    since = world.mark()
    sync.now()
    written = world.writes(since)
    assert [one for one in written if "configmaps" in one] == []
