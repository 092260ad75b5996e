"""Loops and rivals: the source is no target, a copy no source, and two syncs never write one object."""

import pytest
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests


def test_the_source_is_never_its_own_target(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    before = source.read()
    sync = world.msync("sync", source, into=[f"{world.name}-*"])
    sync.becomes("Synced", desired=1, synced=1)
    assert world.find("Secret", target).marked
    world.stays_quiet(sync)
    assert source.read() == before


def test_a_sync_beside_its_source_copies_under_another_name(world: Manifests) -> None:
    source = world.secret()
    sync = world.msync("sync", source, into=[world.home], targetName="other")
    sync.becomes("Synced", synced=1)
    world.find("Secret", world.home, "other").holds(password="red")
    world.stays_quiet(sync)


@pytest.mark.parametrize("kind", ["Secret", "Deployment"])
def test_a_copy_is_no_source_and_the_message_names_the_original(world: Manifests, kind: str) -> None:
    source = world.secret() if kind == "Secret" else world.deployment()
    first, second = world.namespaces("a", "b")
    world.msync("made", source, into=[first]).becomes("Synced")
    chained = world.msync("chained", world.find(kind, first), into=[second])
    ready = chained.becomes("SourceIsCopy")
    assert f"is itself a copy, made by ManifestSync/{world.home}/made; name the original instead" in ready["message"]
    assert "Stalled" in chained.conditions
    assert world.find(kind, second).look() is None


def test_two_syncs_that_copy_in_a_circle_are_refused(world: Manifests) -> None:
    left, right = world.namespaces("left", "right")
    source = world.secret(namespace=left)
    there = world.msync("there", source, into=[right])
    there.becomes("Synced", synced=1)
    # Even with the right to take over: what it would copy is what it would write.
    back = world.msync("back", world.find("Secret", right), into=[left], resourceManagementPolicy="Overwrite")
    back.becomes("SourceIsCopy")
    world.stays_quiet(there, back)
    assert not source.marked


@pytest.mark.parametrize("policy", ["Sync", "Adopt", "Overwrite"])
def test_no_policy_takes_an_object_from_a_living_sync(world: Manifests, policy: str) -> None:
    one, two = world.deployment("one"), world.deployment("two", replicas=7)
    target = world.namespace("a")
    first = world.msync("first", one, into=[target], targetName="shared")
    first.becomes("Synced", synced=1)
    second = world.msync("second", two, into=[target], targetName="shared", resourceManagementPolicy=policy)
    ready = second.becomes("OwnedByOther", conflicted=1)
    assert f"belongs to ManifestSync/{world.home}/first" in ready["message"]
    world.stays_quiet(first, second)
    copy = world.find("Deployment", target, "shared")
    assert copy.at("spec", "replicas") == 2
    first.delete()
    copy.shows("spec", "replicas", value=7)
    second.becomes("Synced")


def test_syncs_of_different_kinds_do_not_write_one_object_either(world: Manifests) -> None:
    source = world.make("ConfigMap", data={"colour": "red"})
    other = world.make("ConfigMap", name="other", data={"colour": "blue"})
    target = world.namespace("a")
    maps = world.sync("maps", destinationNamespace=target)
    maps.becomes("Synced", synced=1)
    manifests = world.msync("manifests", other, into=[target], targetName="app", resourceManagementPolicy="Overwrite")
    ready = manifests.becomes("OwnedByOther", conflicted=1)
    assert f"belongs to ConfigMapSync/{world.home}/maps" in ready["message"]
    copy = world.find("ConfigMap", target)
    assert copy.at("data") == source.at("data")
    maps.delete()
    copy.holds_data(colour="blue")
    manifests.becomes("Synced")
    back = world.sync("maps", destinationNamespace=target, resourceManagementPolicy="Adopt")
    back.becomes("OwnedByOther")


def test_the_older_of_two_syncs_of_different_kinds_wins_an_absent_object(world: Manifests) -> None:
    world.make("ConfigMap", data={"colour": "red"})
    other = world.make("ConfigMap", name="other", data={"colour": "blue"})
    target = f"{world.name}-later"
    older = world.sync("a-older", destinationNamespace=target)
    older.becomes("NamespaceNotFound")
    younger = world.msync("b-younger", other, into=[target], targetName="app")
    younger.becomes("NamespaceNotFound")
    # Their age is told in whole seconds, and within one by kind and name.
    world.namespace("later")
    world.find("ConfigMap", target).holds_data(colour="red")
    until(lambda: younger.counts, lambda seen: seen == {"desired": 1, "conflicted": 1})
    older.becomes("Synced")


def test_two_syncs_do_not_share_an_object_that_is_in_no_namespace(world: Manifests) -> None:
    one = world.make("PriorityClass", name=f"{world.name}-one", value=1)
    two = world.make("PriorityClass", name=f"{world.name}-two", value=2)
    name = f"{world.name}-shared"
    first = world.msync("first", one, targetName=name)
    first.becomes("Synced", synced=1)
    second = world.msync("second", two, targetName=name, resourceManagementPolicy="Overwrite")
    second.becomes("OwnedByOther", conflicted=1)
    assert world.find("PriorityClass", name=name).at("value") == 1
    first.delete()
    second.becomes("Synced")
    world.find("PriorityClass", name=name).shows("value", value=2)


def test_a_clone_of_a_copy_is_foreign_and_left_alone(world: Manifests) -> None:
    source = world.deployment()
    target, elsewhere = world.namespaces("a", "elsewhere")
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced")
    body = world.find("Deployment", target).read()
    metadata = {part: body["metadata"][part] for part in ("labels", "annotations")}
    cloned = world.make("Deployment", elsewhere, metadata=metadata, spec=body["spec"])
    uid = cloned.uid
    sync.into(target, elsewhere)
    sync.becomes("NotOurs", synced=1, conflicted=1)
    sync.delete()
    sync.gone()
    assert cloned.uid == uid


def test_a_suspended_sync_of_another_kind_gives_the_target_to_the_sync_that_waits(world: Manifests) -> None:
    target = world.namespace("a")
    # Their age is told in whole seconds, and within one by kind and name.
    older = world.sync("older", configMapName="missing", destinationNamespace=target, destinationName="shared")
    older.becomes("SourceNotFound")
    source = world.make("ConfigMap", name="source", data={"colour": "blue"})
    younger = world.msync("younger", source, into=[target], targetName="shared")
    younger.becomes("ClaimedByOther")
    older.change(suspend=True)
    world.config_map(target, "shared").becomes(colour="blue")
    younger.becomes("Synced")
