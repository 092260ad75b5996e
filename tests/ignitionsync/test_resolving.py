"""The ref of an IgnitionSync: resolved through the shared mirrors, requested, and reported."""

import pytest
from tests.configmapsync.world import until
from tests.ignitionsync.world import PROJECT, PlantWorld


def test_the_ref_is_resolved_and_reported(world: PlantWorld) -> None:
    commit = world.push(PROJECT)
    sync = world.isync()
    status = sync.at(commit)
    assert status["lastSyncRef"] == "main"
    assert status["lastSyncCommitShort"] == commit[:7]
    assert (status["refResolutionStatus"], status["repoCloneStatus"]) == ("Resolved", "Cloned")
    resolved = sync.condition("RefResolved", status="True", reason="RefResolved")
    cloned = sync.condition("RepoCloned", status="True")
    assert resolved["message"] == cloned["message"] == f"main is {commit[:12]}"


def test_a_push_is_found_by_polling(world: PlantWorld) -> None:
    first = world.push(PROJECT)
    sync = world.isync()
    sync.at(first)
    sync.at(world.push({"projects/Plant/more.json": "{}"}))


def test_a_sync_without_gateways_is_not_ready(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync()
    ready = sync.condition("Ready", status="False", reason="NoGatewaysDiscovered")
    assert "ignition-sync.io/cr-name" in ready["message"]
    assert sync.condition("AllGatewaysSynced", status="False")["message"] == "0/0 gateways synced"
    assert sync.condition("AgentsReady", status="Unknown", reason="NoGatewaysDiscovered")


def test_an_annotated_tag_means_its_commit(world: PlantWorld) -> None:
    commit = world.push(PROJECT)
    world.repository.tag("v1", commit, annotated=True)
    sync = world.isync(git={"ref": "v1"})
    sync.at(commit)


def test_a_ref_that_is_not_there_is_reported_and_found_once_it_is(world: PlantWorld) -> None:
    commit = world.push(PROJECT)
    sync = world.isync(git={"ref": "release"})
    resolved = sync.condition("RefResolved", status="False", reason="RevisionNotFound")
    assert "release" in resolved["message"]
    assert sync.becomes("RevisionNotFound")["status"] == "False"
    assert sync.status["refResolutionStatus"] == "Error"
    world.repository.git("branch", "release", commit)
    sync.at(commit)
    sync.condition("RefResolved", status="True")


def test_syncs_of_one_repository_share_its_checks_and_its_fetch(world: PlantWorld) -> None:
    commit = world.push(PROJECT)
    syncs = [world.isync(f"plant-{number}", polling={"interval": "10m"}) for number in range(4)]
    for sync in syncs:
        sync.at(commit)
    assert world.server.fetches(world.name) == 1


def test_a_token_opens_a_repository(world: PlantWorld) -> None:
    world.server.require_basic(world.name, "x-access-token", "the token of git")
    world.secret("git", token="the token of git")
    commit = world.push(PROJECT)
    sync = world.isync(git={"auth": {"token": {"secretRef": {"name": "git", "key": "token"}}}})
    sync.at(commit)


@pytest.mark.parametrize("missing", ["git", "gw-key", "hook", "bucket"])
def test_a_secret_that_is_missing_is_named_and_looked_for(world: PlantWorld, missing: str) -> None:
    world.push(PROJECT)
    spec = {
        "git": {"git": {"auth": {"token": {"secretRef": {"name": "git", "key": "token"}}}}},
        "gw-key": {"gateway": {"apiKeySecretRef": {"name": "gw-key", "key": "token"}}},
        "hook": {"webhook": {"secretRef": {"name": "hook", "key": "token"}}},
        "bucket": {"snapshots": {"storage": {"s3": {"accessKeySecretRef": {"name": "bucket", "key": "token"}}}}},
    }[missing]
    sync = world.isync(**spec)
    ready = sync.condition("Ready", status="False", reason="ReferenceNotFound")
    assert f"Secret {missing}" in ready["message"]
    if missing != "git":  # a Secret that Git does not need hides nothing of the repository
        sync.condition("RefResolved", status="True")
    world.secret(missing, token="some value")
    sync.condition("Ready", reason="NoGatewaysDiscovered")


def test_fields_that_have_no_effect_are_named(world: PlantWorld) -> None:
    world.push(PROJECT)
    sync = world.isync(storage={"size": "2Gi"}, ignition={"redundancyRole": "master"})
    unsupported = sync.condition("Unsupported", status="True")
    assert "storage" in unsupported["message"]
    assert "ignition.redundancyRole" in unsupported["message"]


def test_a_suspended_sync_reads_nothing(world: PlantWorld) -> None:
    commit = world.push(PROJECT)
    sync = world.isync()
    sync.at(commit)
    sync.change(suspend=True)
    assert sync.becomes("Suspended")["status"] == "Unknown"
    newer = world.push({"projects/Plant/more.json": "{}"})
    sync.now()
    assert sync.status["lastSyncCommit"] == commit
    sync.change(suspend=None, paused=True, storage={})
    assert "spec.paused" in sync.condition("Ready", status="Unknown", reason="Suspended")["message"]
    assert "storage" in sync.condition("Unsupported", status="True")["message"]
    sync.change(paused=None, storage=None)
    sync.at(newer)


class TestRequests:
    def test_a_requested_ref_beats_the_spec_until_it_is_removed(self, world: PlantWorld) -> None:
        first = world.push(PROJECT)
        world.repository.tag("v1", first)
        second = world.push({"projects/Plant/more.json": "{}"})
        sync = world.isync()
        sync.at(second)
        sync.request("v1")
        status = sync.at(first)
        assert status["lastSyncRef"] == "v1"
        assert status["requestedRef"] == {
            "ref": "v1",
            "at": "2026-01-01T00:00:00Z",
            "by": "a person",
            "insteadOf": "main",
        }
        sync.request(None)
        assert "requestedRef" not in sync.at(second)

    def test_a_request_ends_when_the_spec_changes(self, world: PlantWorld) -> None:
        first = world.push(PROJECT)
        world.repository.tag("v1", first)
        second = world.push({"projects/Plant/more.json": "{}"})
        world.repository.git("branch", "stable", second)
        sync = world.isync()
        sync.request("v1")
        sync.at(first)
        sync.change(git={**sync.read()["spec"]["git"], "ref": "stable"})
        sync.at(second)
        until(lambda: sync.requested, lambda found: not found)

    def test_a_request_ends_when_the_spec_names_the_same_ref(self, world: PlantWorld) -> None:
        first = world.push(PROJECT)
        world.repository.tag("v1", first)
        world.push({"projects/Plant/more.json": "{}"})
        sync = world.isync()
        sync.request("v1")
        sync.at(first)
        sync.change(git={**sync.read()["spec"]["git"], "ref": "v1"})
        until(lambda: sync.requested, lambda found: not found)
        assert sync.at(first)["lastSyncRef"] == "v1"

    def test_a_requested_ref_that_is_not_there_keeps_the_commit(self, world: PlantWorld) -> None:
        commit = world.push(PROJECT)
        sync = world.isync()
        sync.at(commit)
        sync.request("nowhere")
        resolved = sync.condition("RefResolved", status="False", reason="RevisionNotFound")
        assert "nowhere" in resolved["message"]
        assert sync.status["rollout"]["commit"] == commit
