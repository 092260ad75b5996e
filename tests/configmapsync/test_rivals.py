"""Two syncs and one object, clones of copies, and copies of copies."""

import json

import pytest
from tests.configmapsync.world import ConfigMap, World, until

from syncline.core.ownership import MARKER, OWNER_LABEL


def clone(copy: ConfigMap, namespace: str, world: World) -> ConfigMap:
    """Carry a copy elsewhere with all its labels and annotations, as `kubectl get | kubectl apply -n` does."""
    body = copy.read()
    metadata = {part: body["metadata"][part] for part in ("labels", "annotations")}
    return world.put(namespace, copy.name, metadata=metadata, **body["data"])


@pytest.mark.parametrize("policy", ["Sync", "Keep", "Adopt", "Overwrite"])
def test_no_policy_takes_an_object_from_a_living_sync(world: World, policy: str) -> None:
    world.source()
    world.source("other", colour="blue")
    target = world.namespace("a")
    copy = world.config_map(target, "shared")
    first = world.sync("first", destinationNamespace=target, destinationName="shared")
    first.becomes("Synced")
    second = world.sync(
        "second",
        configMapName="other",
        destinationNamespace=target,
        destinationName="shared",
        resourceManagementPolicy=policy,
    )
    ready = second.becomes("OwnedByOther", conflicted=1)
    assert (
        f"the object belongs to ConfigMapSync/{world.home}/first, which keeps it until it lets go" in ready["message"]
    )
    first.now()
    assert copy.data == {"colour": "red"}
    assert first.becomes("Synced")


def test_the_older_sync_wins_an_absent_object_and_the_younger_takes_over_when_it_is_deleted(world: World) -> None:
    world.source()
    world.source("other", colour="blue")
    target = f"{world.name}-later"
    shared = {"destinationNamespace": target, "destinationName": "shared"}
    # Their age is told in whole seconds, and within one by name.
    older = world.sync("a-older", **shared)
    younger = world.sync("b-younger", configMapName="other", **shared)
    for sync in (older, younger):
        sync.becomes("NamespaceNotFound")
    world.namespace("later")
    copy = world.config_map(target, "shared")
    copy.becomes(colour="red")
    older.becomes("Synced")
    ready = until(lambda: younger.conditions["Ready"], lambda seen: seen["reason"] != "NamespaceNotFound")
    assert f"ConfigMapSync/{world.home}/a-older" in ready["message"]
    assert younger.counts == {"desired": 1, "conflicted": 1}
    older.delete()
    copy.becomes(colour="blue")
    younger.becomes("Synced")


def test_the_younger_sync_takes_over_when_the_older_goes_elsewhere(world: World) -> None:
    world.source()
    world.source("other", colour="blue")
    here, there = world.namespaces("here", "there")
    older = world.sync("a-older", destinationNamespace=here, destinationName="shared")
    older.becomes("Synced")
    younger = world.sync("b-younger", configMapName="other", destinationNamespace=here, destinationName="shared")
    younger.becomes("OwnedByOther")
    older.change(destinationNamespace=there)
    world.config_map(here, "shared").becomes(colour="blue")
    world.config_map(there, "shared").becomes(colour="red")
    younger.becomes("Synced")


def test_the_younger_sync_takes_over_what_the_older_orphaned_if_it_may_adopt(world: World) -> None:
    world.source()
    world.source("other", colour="blue")
    target = world.namespace("a")
    shared = {"destinationNamespace": target, "destinationName": "shared"}
    older = world.sync("a-older", deletionPolicy="Orphan", **shared)
    older.becomes("Synced")
    adopting = world.sync("b-younger", configMapName="other", resourceManagementPolicy="Adopt", **shared)
    adopting.becomes("OwnedByOther")
    older.delete()
    world.config_map(target, "shared").becomes(colour="blue")
    adopting.becomes("Synced")


def test_a_suspended_sync_claims_no_absent_object(world: World) -> None:
    world.source()
    world.source("other", colour="blue")
    target = f"{world.name}-later"
    shared = {"destinationNamespace": target, "destinationName": "shared"}
    older = world.sync("a-older", **shared)
    older.becomes("NamespaceNotFound")
    younger = world.sync("b-younger", configMapName="other", **shared)
    older.change(suspend=True)
    older.becomes("Suspended")
    world.namespace("later")
    world.config_map(target, "shared").becomes(colour="blue")
    younger.becomes("Synced")


def test_the_copy_of_a_suspended_sync_is_deleted_and_the_sync_that_waits_takes_its_place(world: World) -> None:
    world.source()
    world.source("other", colour="blue")
    target = world.namespace("a")
    shared = {"destinationNamespace": target, "destinationName": "shared"}
    first = world.sync("first", **shared)
    first.becomes("Synced")
    second = world.sync("second", configMapName="other", **shared)
    second.becomes("OwnedByOther")
    first.change(suspend=True)
    first.becomes("Suspended")
    second.now()
    second.becomes("OwnedByOther")
    world.config_map(target, "shared").delete()
    world.config_map(target, "shared").becomes(colour="blue")
    second.becomes("Synced")


def test_an_older_sync_without_a_source_goes_elsewhere_and_the_younger_one_gets_the_target(world: World) -> None:
    world.source("other", colour="blue")
    here, there = world.namespaces("here", "there")
    older = world.sync("a-older", configMapName="missing", destinationNamespace=here, destinationName="shared")
    older.becomes("SourceNotFound")
    younger = world.sync("b-younger", configMapName="other", destinationNamespace=here, destinationName="shared")
    younger.becomes("ClaimedByOther")
    older.change(destinationNamespace=there)
    world.config_map(here, "shared").becomes(colour="blue")
    younger.becomes("Synced")


def test_a_namespace_leaves_the_selector_of_an_older_sync_and_the_younger_one_gets_the_target(world: World) -> None:
    world.source("other", colour="blue")
    target = world.namespace("a", team=world.name)
    selector = {"matchLabels": {"team": world.name}}
    older = world.sync(
        "a-older", configMapName="missing", destinationNamespaceSelector=selector, destinationName="shared"
    )
    older.becomes("SourceNotFound")
    younger = world.sync("b-younger", configMapName="other", destinationNamespace=target, destinationName="shared")
    younger.becomes("ClaimedByOther")
    world.namespace_object(target).label(team=None)
    world.config_map(target, "shared").becomes(colour="blue")
    younger.becomes("Synced")


def test_a_clone_of_a_copy_is_left_alone_also_when_the_sync_ends(world: World) -> None:
    source = world.source()
    target, elsewhere = world.namespaces("a", "elsewhere")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    cloned = clone(copy, elsewhere, world)
    assert cloned.marked
    before = cloned.read()
    source.set(colour="blue")
    copy.becomes(colour="blue")
    sync.now()
    assert cloned.read() == before
    sync.delete()
    copy.gone()
    sync.gone()
    assert cloned.read() == before


def test_a_clone_in_the_way_is_foreign(world: World) -> None:
    world.source()
    target, taken = world.namespaces("a", "taken")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    cloned = clone(world.config_map(target), taken, world)
    cloned.set(colour="green")
    sync.change(destinationNamespaces=[taken])
    sync.becomes("NotOurs", synced=1, conflicted=1)
    assert cloned.data == {"colour": "green"}
    cloned.delete()
    cloned.becomes(colour="red")
    sync.becomes("Synced", synced=2)


@pytest.mark.parametrize("mark", ["label", "annotation"])
def test_a_copy_whose_mark_somebody_took_off_is_foreign_and_not_deleted(world: World, mark: str) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    body = copy.read()["metadata"]
    if mark == "label":
        copy.edit(lambda body: body["metadata"]["labels"].pop(OWNER_LABEL))
    else:
        copy.annotate({MARKER: None})
    sync.becomes("NotOurs", conflicted=1)
    if mark == "label":
        copy.edit(lambda seen: seen["metadata"].update(labels=body["labels"]))
    else:
        copy.annotate({MARKER: body["annotations"][MARKER]})
    sync.becomes("Synced")
    copy.edit(lambda body: body["metadata"]["labels"].pop(OWNER_LABEL))
    sync.becomes("NotOurs")
    sync.delete()
    sync.gone()
    assert copy.data == {"colour": "red"}


def test_a_copy_is_no_source_and_the_message_names_the_original(world: World) -> None:
    world.source()
    first, second = world.namespaces("a", "b")
    made = world.sync("made", destinationNamespace=first)
    made.becomes("Synced")
    chained = world.sync("chained", sourceNamespace=first, destinationNamespace=second)
    ready = chained.becomes("SourceIsCopy")
    assert ready["message"] == (
        f"the source {first}/app is itself a copy, made by ConfigMapSync/{world.home}/made; name the original instead"
    )
    assert "Stalled" in chained.conditions
    assert world.config_map(second).look() is None


def test_an_orphaned_copy_may_be_a_source(world: World) -> None:
    world.source()
    first, second = world.namespaces("a", "b")
    made = world.sync("made", destinationNamespace=first, deletionPolicy="Orphan")
    made.becomes("Synced")
    chained = world.sync("chained", sourceNamespace=first, destinationNamespace=second, destinationName="other")
    chained.becomes("SourceIsCopy")
    made.delete()
    world.config_map(second, "other").becomes(colour="red")
    chained.becomes("Synced")


def test_a_clone_of_a_copy_may_be_a_source(world: World) -> None:
    world.source()
    first, second, third = world.namespaces("a", "b", "c")
    world.sync("made", destinationNamespace=first).becomes("Synced")
    cloned = clone(world.config_map(first), second, world)
    world.sync("cloned", sourceNamespace=second, destinationNamespace=third).becomes("Synced")
    cloned.set(colour="blue")
    world.config_map(third).becomes(colour="blue")


@pytest.mark.parametrize("sync", ["", "ConfigMapSync", "ConfigMapSync/", "ConfigMapSync/x", "ConfigMapSync//", "a/b/c"])
def test_marks_that_somebody_made_up_are_in_the_way_only_while_they_are_there(world: World, sync: str) -> None:
    world.source()
    target = world.namespace("a")
    marks = {"labels": {OWNER_LABEL: "x"}, "annotations": {MARKER: json.dumps({"sync": sync, "at": "x"})}}
    forged = world.put(target, metadata=marks, colour="green")
    made = world.sync(destinationNamespace=target)
    made.becomes("NotOurs", conflicted=1)
    forged.delete()
    forged.becomes(colour="red")
    made.becomes("Synced", synced=1)
