"""resourceManagementPolicy: what becomes of an object that is there already, and of copies that others touch."""

import pytest
from tests.configmapsync.world import ConfigMap, Json, World

from syncline.core.ownership import OWNER_LABEL

TAKE_OVER = (
    "an object of this name exists and is not ours; delete it, or set resourceManagementPolicy to Adopt or Overwrite "
    "to take it over"
)


def foreign(world: World, namespace: str) -> ConfigMap:
    """Create an object of the copies' name, with everything that one can carry."""
    owner = world.put(namespace, "owner")
    return world.put(
        namespace,
        metadata={
            "labels": {"theirs": "yes"},
            "annotations": {"their": "note"},
            "finalizers": ["example.com/theirs"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}],
        },
        theirs="1",
        colour="green",
    )


def unpin(body: Json) -> None:
    body["metadata"]["finalizers"] = []


def test_sync_leaves_a_foreign_object_and_says_how_to_take_it_over(world: World) -> None:
    world.source()
    taken, free = world.namespaces("taken", "free")
    theirs = world.put(taken, theirs="1")
    before = theirs.read()
    sync = world.sync(destinationNamespaces=[taken, free])
    ready = sync.becomes("NotOurs", desired=2, synced=1, conflicted=1)
    assert ready["status"] == "False"
    assert ready["message"] == f"1 of 2 targets not in agreement: {taken}/app: {TAKE_OVER}"
    assert sync.conditions["Conflicted"]["reason"] == "NotOurs"
    assert sync.target(taken)["message"] == TAKE_OVER
    assert world.config_map(free).data == {"colour": "red"}
    sync.now()
    assert theirs.read() == before
    sync.delete()
    sync.gone()
    assert theirs.read() == before


def test_sync_heals_at_once_when_the_foreign_object_goes(world: World) -> None:
    world.source()
    target = world.namespace("a")
    theirs = world.put(target, theirs="1")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("NotOurs")
    theirs.delete()
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")
    assert "Conflicted" not in sync.conditions


def test_a_foreign_object_that_is_edited_stays_a_conflict_and_one_that_comes_back_too(world: World) -> None:
    world.source()
    target = world.namespace("a")
    theirs = world.put(target, theirs="1")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("NotOurs")
    theirs.set(theirs="2")
    sync.now()
    assert theirs.data == {"theirs": "2"}
    theirs.delete()
    theirs.becomes(colour="red")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    theirs.delete()
    world.put(target, theirs="3")
    sync.change(suspend=False)
    sync.becomes("NotOurs")
    assert theirs.data == {"theirs": "3"}


def test_sync_takes_over_once_the_policy_says_so(world: World) -> None:
    world.source()
    target = world.namespace("a")
    theirs = world.put(target, theirs="1")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("NotOurs")
    sync.change(resourceManagementPolicy="Adopt")
    theirs.becomes(colour="red")
    sync.becomes("Synced")


def test_adopt_takes_over_keeps_what_is_beside_the_content_and_releases_at_the_end(world: World) -> None:
    world.put(world.home, metadata={"labels": {"team": "a"}}, colour="red")
    target = world.namespace("a")
    copy = foreign(world, target)
    uid = copy.uid
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Adopt")
    sync.becomes("Synced")
    sync.did("1 adopted")
    assert copy.data == {"colour": "red"}
    assert copy.labels == {"theirs": "yes", "team": "a"}
    assert copy.annotations == {"their": "note"}
    assert copy.read()["metadata"]["finalizers"] == ["example.com/theirs"]
    assert len(copy.read()["metadata"]["ownerReferences"]) == 1

    copy.set(colour="pink")
    copy.becomes(colour="red")
    sync.delete()
    sync.gone()
    assert copy.uid == uid
    assert copy.data == {"colour": "red"}
    assert not copy.marked
    assert OWNER_LABEL not in copy.read()["metadata"]["labels"]
    copy.edit(unpin)


def test_overwrite_makes_it_exactly_the_source_but_for_what_others_hold_it_by(world: World) -> None:
    world.put(world.home, metadata={"labels": {"team": "a"}}, colour="red")
    target = world.namespace("a")
    copy = foreign(world, target)
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Overwrite")
    sync.becomes("Synced")
    assert copy.data == {"colour": "red"}
    assert copy.labels == {"team": "a"}
    assert copy.annotations == {}
    assert copy.read()["metadata"]["finalizers"] == ["example.com/theirs"]
    assert len(copy.read()["metadata"]["ownerReferences"]) == 1

    copy.edit(lambda body: body["metadata"]["labels"].update(extra="x"))
    copy.wears(team="a")
    copy.set(colour="pink", extra="x")
    copy.becomes(colour="red")
    sync.delete()
    sync.gone()
    assert copy.data == {"colour": "red"}
    assert not copy.marked
    copy.edit(unpin)


@pytest.mark.parametrize("policy", ["Adopt", "Overwrite"])
def test_what_adopt_and_overwrite_created_themselves_is_deleted_at_the_end(world: World, policy: str) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy=policy)
    sync.becomes("Synced")
    sync.delete()
    world.config_map(target).gone()


@pytest.mark.parametrize("policy", ["Adopt", "Overwrite"])
def test_adopted_objects_are_released_when_they_are_pruned(world: World, policy: str) -> None:
    world.source()
    kept, left = world.namespaces("kept", "left")
    adopted = world.put(left, theirs="1")
    sync = world.sync(destinationNamespaces=[kept, left], resourceManagementPolicy=policy)
    sync.becomes("Synced", synced=2)
    sync.change(destinationNamespaces=[kept])
    sync.did("1 released")
    assert adopted.data == {"colour": "red"}
    assert not adopted.marked


def test_adopt_refuses_an_immutable_object_that_differs_and_overwrite_replaces_it(world: World) -> None:
    world.source()
    target = world.namespace("a")
    theirs = world.put(target, body={"immutable": True}, theirs="1")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Adopt")
    ready = sync.becomes("Immutable", failed=1)
    assert "delete it, or set resourceManagementPolicy: Overwrite" in ready["message"]
    assert theirs.data == {"theirs": "1"}
    sync.change(resourceManagementPolicy="Overwrite")
    theirs.becomes(colour="red")
    sync.becomes("Synced")


def test_keep_creates_once_and_leaves_edited_and_foreign_objects(world: World) -> None:
    source = world.source()
    new, taken = world.namespaces("new", "taken")
    theirs = world.put(taken, theirs="1")
    sync = world.sync(destinationNamespaces=[new, taken], resourceManagementPolicy="Keep")
    ready = sync.becomes("Synced", synced=1, skipped=1)
    assert ready["message"] == "1 target agrees with the source, 1 skipped"
    assert sync.target(taken)["reason"] == "NotOurs"
    copy = world.config_map(new)
    copy.set(mine="2")
    assert sync.says(new, "Kept")["status"] == "Skipped"
    source.set(colour="blue")
    sync.now()
    assert copy.data == {"colour": "red", "mine": "2"}
    assert theirs.data == {"theirs": "1"}
    assert sync.becomes("Synced", skipped=2)["status"] == "True"


def test_keep_does_not_create_a_deleted_copy_again(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Keep")
    sync.becomes("Synced", synced=1)
    copy = world.config_map(target)
    copy.delete()
    assert sync.says(target, "Kept")["message"] == (
        "it had its copy; Keep does not create a copy again that was deleted"
    )
    source.set(colour="blue")
    sync.now()
    assert copy.look() is None


def test_keep_remembers_a_deleted_copy_while_its_source_is_away(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Keep", sourceDeletionPolicy="Orphan")
    sync.becomes("Synced", synced=1)
    copy = world.config_map(target)
    copy.delete()
    sync.says(target, "Kept")
    source.delete()
    sync.becomes("SourceNotFound")
    world.source(colour="blue")
    sync.becomes("Synced", skipped=1)
    assert copy.look() is None


def test_keep_gives_a_namespace_that_was_made_anew_its_copy(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Keep")
    sync.becomes("Synced", synced=1)
    namespace = world.namespace_object(target)
    namespace.delete()
    namespace.gone()
    sync.becomes("NamespaceNotFound")
    world.namespace("a")
    world.config_map(target).becomes(colour="red")
