"""The end of a sync and the end of a source: what becomes of the copies."""

import pytest
from tests.configmapsync.world import Json, World

from syncline.api.common import ABANDON, FINALIZER


def test_a_deleted_sync_takes_its_copies_along(world: World) -> None:
    world.source()
    targets = world.namespaces("a", "b")
    sync = world.sync(destinationNamespaces=targets)
    sync.becomes("Synced")
    assert sync.read()["metadata"]["finalizers"] == [FINALIZER]
    sync.delete()
    sync.gone()
    for target in targets:
        assert world.config_map(target).look() is None


def test_a_deleted_sync_with_orphan_leaves_them_and_one_of_its_name_owns_them_again(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, deletionPolicy="Orphan")
    sync.becomes("Synced")
    copy = world.config_map(target)
    uid = copy.uid
    sync.delete()
    sync.gone()
    source.set(colour="blue")
    assert copy.data == {"colour": "red"}
    again = world.sync(destinationNamespace=target)
    copy.becomes(colour="blue")
    assert copy.uid == uid
    again.becomes("Synced")
    again.delete()
    copy.gone()


def test_a_sync_whose_finalizer_was_stripped_leaves_copies_that_one_of_its_name_owns_again(world: World) -> None:
    source = world.source()
    target, other = world.namespaces("a", "b")
    sync = world.sync(destinationNamespaces=[target, other])
    sync.becomes("Synced")
    # Suspended, it does not put the finalizer back at once.
    sync.change(suspend=True)
    sync.becomes("Suspended")
    sync.edit(lambda body: body["metadata"].update(finalizers=[]))
    sync.delete()
    sync.gone()
    copy = world.config_map(target)
    assert copy.data == {"colour": "red"}
    source.set(colour="blue")
    again = world.sync(destinationNamespaces=[target, other])
    copy.becomes(colour="blue")
    again.becomes("Synced", synced=2)
    again.delete()
    copy.gone()
    world.config_map(other).gone()


def test_a_suspended_sync_that_is_deleted_leaves_its_copies_and_says_so(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    sync.delete()
    sync.gone()
    assert world.config_map(target).data == {"colour": "red"}
    event = sync.tells("CopiesLeft")
    assert event["type"] == "Warning"
    assert event["note"] == "the copies were left where they are: the sync was suspended"


def test_an_abandoned_sync_leaves_its_copies(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    sync.annotate({ABANDON: "true"})
    sync.delete()
    sync.gone()
    assert world.config_map(target).data == {"colour": "red"}
    assert sync.tells("CopiesLeft")["note"] == "the copies were left where they are: abandoned on request"


def test_a_copy_that_was_edited_goes_with_its_sync_too(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, conflictPolicy="Skip")
    sync.becomes("Synced")
    copy = world.config_map(target)
    copy.set(colour="pink")
    sync.becomes("Edited")
    sync.delete()
    copy.gone()


@pytest.mark.parametrize("annotation", ["syncline.dev/prune", "syncline.dev/reconcile"])
def test_an_annotated_copy_stays_when_its_sync_goes(world: World, annotation: str) -> None:
    world.source()
    stays, goes = world.namespaces("stays", "goes")
    sync = world.sync(destinationNamespaces=[stays, goes])
    sync.becomes("Synced")
    world.config_map(stays).annotate({annotation: "Disabled"})
    sync.delete()
    sync.gone()
    assert world.config_map(goes).look() is None
    assert world.config_map(stays).data == {"colour": "red"}


def test_a_copy_in_a_namespace_that_ignores_us_stays_when_its_sync_goes(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    world.namespace_object(target).label(**{"syncline.dev/ignore": "true"})
    sync.says(target, "NamespaceIgnored")
    sync.delete()
    sync.gone()
    assert world.config_map(target).data == {"colour": "red"}


def test_a_copy_that_a_finalizer_holds_does_not_hold_the_sync(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    copy.edit(lambda body: body["metadata"].update(finalizers=["example.com/hold"]))
    sync.delete()
    sync.gone()
    assert copy.read()["metadata"]["deletionTimestamp"]
    copy.edit(lambda body: body["metadata"].update(finalizers=[]))
    copy.gone()


def test_a_copy_that_a_finalizer_held_is_written_again_once_it_is_gone(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    copy.edit(lambda body: body["metadata"].update(finalizers=["example.com/hold"]))
    copy.delete()
    sync.becomes("Terminating", pending=1)

    def unpin(body: Json) -> None:
        body["metadata"]["finalizers"] = []

    uid = copy.uid
    copy.edit(unpin)
    sync.becomes("Synced")
    assert copy.uid != uid


def test_a_deleted_source_takes_its_copies_along_and_brings_them_back(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    source.delete()
    ready = sync.becomes("SourceNotFound")
    assert (ready["status"], ready["message"]) == ("False", f"the source ConfigMap {world.home}/app does not exist")
    world.config_map(target).gone()
    sync.did("1 deleted")
    assert sync.counts == {"desired": 1, "pending": 1}
    world.source(colour="blue")
    world.config_map(target).becomes(colour="blue")
    sync.becomes("Synced")


def test_a_deleted_source_with_orphan_leaves_the_copies(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, sourceDeletionPolicy="Orphan")
    sync.becomes("Synced")
    source.delete()
    ready = sync.becomes("SourceNotFound")
    assert ready["message"].endswith("its copies stay (sourceDeletionPolicy Orphan)")
    copy = world.config_map(target)
    assert copy.data == {"colour": "red"}
    uid = copy.uid
    world.source(colour="blue")
    copy.becomes(colour="blue")
    assert copy.uid == uid


def test_a_source_that_is_replaced_quickly_leaves_the_copies_in_place(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    uid = copy.uid
    source.delete()
    sync.becomes("SourceNotFound")
    # Other work in the moment between does not shorten it.
    sync.now()
    world.source(colour="blue")
    copy.becomes(colour="blue")
    assert copy.uid == uid


def test_a_deleted_source_releases_what_was_adopted(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    copy = world.put(target, theirs="1")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Adopt")
    sync.becomes("Synced")
    source.delete()
    sync.did("1 released")
    assert copy.data == {"colour": "red"}
    assert not copy.marked


def test_a_deleted_source_takes_kept_copies_along_and_brings_them_back(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Keep")
    sync.becomes("Synced")
    source.delete()
    sync.did("1 deleted")
    world.source(colour="blue")
    world.config_map(target).becomes(colour="blue")


def test_a_sync_that_is_deleted_and_created_at_once_keeps_or_remakes_its_copies(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    sync.delete()
    sync.gone()
    again = world.sync(destinationNamespace=target)
    again.becomes("Synced", synced=1)
    assert world.config_map(target).data == {"colour": "red"}
