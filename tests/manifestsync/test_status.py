"""What a ManifestSync says about itself."""

from tests.manifestsync.world import Manifests


def test_the_status_names_every_target_with_what_happened_there(world: Manifests) -> None:
    secret, deployment, config = world.secret(), world.deployment(), world.make("ConfigMap", data={"a": "b"})
    free, taken = world.namespaces("free", "taken")
    world.deployment(namespace=taken)
    missing = f"{world.name}-missing"
    sync = world.msync("sync", secret, deployment, config, into=[free, taken, missing])
    sync.becomes("TargetsNotSynced", desired=9, synced=5, conflicted=1, pending=3)
    status = sync.status
    entries = {(entry["kind"], entry["namespace"]): entry for entry in status["targetStatuses"]}
    assert len(entries) == 9
    assert {entry["type"] for entry in entries.values()} == {"InCluster"}
    assert {entry["name"] for entry in entries.values()} == {"app"}
    assert entries["Secret", free]["status"] == entries["ConfigMap", free]["status"] == "Synced"
    assert "message" not in entries["Secret", free]
    assert entries["Deployment.apps", free]["lastSyncTime"].endswith("Z")
    assert entries["Deployment.apps", taken]["status"] == "Conflict"
    assert entries["Deployment.apps", taken]["reason"] == "NotOurs"
    assert "lastSyncTime" not in entries["Deployment.apps", taken]
    assert entries["Secret", missing]["status"] == "Pending"
    # Those that need a look come first.
    assert status["targetStatuses"][0]["status"] == "Conflict"
    assert status["targets"]["summary"] == "5/9"
    degraded = sync.conditions["Degraded"]
    assert (degraded["status"], degraded["reason"]) == ("True", "TargetsNotSynced")
    assert "lastSuccessfulSyncTime" not in status
    assert status["observedGeneration"] == sync.read()["metadata"]["generation"]


def test_targets_that_are_passed_over_have_the_names_that_their_copies_would_have(world: Manifests) -> None:
    source = world.secret()
    missing = f"{world.name}-missing"
    sync = world.msync("sync", source, into=[missing], targetName="{{ source.name }}-of-{{ target.namespace }}")
    sync.becomes("NamespaceNotFound", desired=1, pending=1)
    assert [entry["name"] for entry in sync.status["targetStatuses"]] == [f"app-of-{missing}"]


def test_a_sync_at_peace_says_when_it_last_succeeded_and_which_source_that_was(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    seen, status = source.read()["metadata"], sync.status
    assert status["sourceObservedState"]["uid"] == seen["uid"]
    assert status["sourceObservedState"]["generation"] >= 1
    assert status["lastSuccessfulSyncTime"].endswith("Z")
    assert sync.conditions["Degraded"]["status"] == "False"
    assert "Reconciling" not in sync.conditions
    assert status["history"][0]["changes"] == "1 created"
    sync.now()
    assert sync.target(target)["lastSyncTime"] == status["targetStatuses"][0]["lastSyncTime"]
    source.put("spec", "replicas", value=5)
    sync.did("1 updated")
    assert sync.status["sourceObservedState"]["generation"] > status["sourceObservedState"]["generation"]


def test_degraded_passes_with_its_cause(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    theirs = world.secret(namespace=target)
    sync = world.msync("sync", source, into=[target])
    sync.becomes("NotOurs")
    assert sync.conditions["Degraded"]["status"] == "True"
    theirs.delete()
    sync.becomes("Synced")
    assert sync.conditions["Degraded"]["status"] == "False"
    assert sync.status["lastSuccessfulSyncTime"]


def test_a_missing_source_is_degraded_and_its_targets_wait(world: Manifests) -> None:
    target = world.namespace("a")
    sync = world.msync("sync", world.find("Secret", world.home), into=[target])
    ready = sync.becomes("SourceNotFound", pending=1)
    assert ready["message"] == f"the source Secret {world.home}/app does not exist"
    assert sync.conditions["Degraded"]["status"] == "True"
    assert sync.target(target)["message"] == "waits for the source"
    world.secret()
    sync.becomes("Synced", synced=1)


def test_changes_are_one_event_each_however_many_targets(world: Manifests) -> None:
    source = world.secret()
    targets = world.namespaces("a", "b", "c", "d", "e")
    sync = world.msync("sync", source, into=targets)
    sync.becomes("Synced", synced=5)
    event = sync.tells("Synced")
    assert "5 created" in event["note"]
    assert "and 2 more" in event["note"]
    assert len([one for one in sync.events() if one["reason"] == "Synced"]) == 1
    assert event["regarding"]["kind"] == "ManifestSync"


def test_a_quiet_sync_writes_no_status(world: Manifests) -> None:
    source = world.service()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    sync.now()
    version = sync.read()["metadata"]["resourceVersion"]
    world.find("Service", target).annotate({"their/note": "x"})
    other = world.msync("other", world.secret(), into=[target])
    other.becomes("Synced")
    assert sync.read()["metadata"]["resourceVersion"] == version
