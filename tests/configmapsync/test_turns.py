"""What makes a sync act, and what makes it rest: its source, its spec, suspend, and sync now."""

from tests.configmapsync.world import World

from syncline.api.common import REQUESTED_AT


def test_a_missing_source_is_named_and_copied_once_it_is_created(world: World) -> None:
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    ready = sync.becomes("SourceNotFound", pending=1)
    assert (ready["status"], ready["message"]) == ("False", f"the source ConfigMap {world.home}/app does not exist")
    assert "Reconciling" not in sync.conditions
    world.source()
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")


def test_a_source_in_a_missing_namespace_is_copied_once_both_exist(world: World) -> None:
    target = world.namespace("a")
    sync = world.sync(sourceNamespace=f"{world.name}-later", destinationNamespace=target)
    sync.becomes("SourceNotFound")
    world.put(world.namespace("later"), colour="red")
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")


def test_another_source_in_the_spec_changes_the_copies_in_place(world: World) -> None:
    world.source()
    other = world.source("other", colour="blue")
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, destinationName="settings")
    sync.becomes("Synced")
    copy = world.config_map(target, "settings")
    uid = copy.uid
    sync.change(configMapName="other")
    copy.becomes(colour="blue")
    assert copy.uid == uid
    other.set(colour="green")
    copy.becomes(colour="green")


def test_a_suspended_sync_reads_and_writes_nothing_until_it_is_resumed(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    sync.change(suspend=True)
    ready = sync.becomes("Suspended")
    assert (ready["status"], ready["message"]) == ("Unknown", "spec.suspend is true: nothing is read or written")
    assert sync.tells("Suspended")["type"] == "Normal"
    mark = world.mark()
    source.set(colour="blue")
    copy.set(colour="pink")
    sync.now()
    about = [str(entry) for entry in world.requests(mark) if entry.resource == "configmaps"]
    assert about == []
    assert copy.data == {"colour": "pink"}
    sync.change(suspend=False)
    copy.becomes(colour="blue")
    sync.becomes("Synced")


def test_a_sync_that_starts_suspended_does_nothing(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, suspend=True)
    sync.becomes("Suspended")
    assert "finalizers" not in sync.read()["metadata"]
    assert world.config_map(target).look() is None
    sync.change(suspend=None)
    world.config_map(target).becomes(colour="red")


def test_sync_now_is_echoed_so_that_one_can_wait_for_it(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, metadata={"annotations": {REQUESTED_AT: "first"}})
    sync.becomes("Synced")
    assert sync.status["lastHandledRequest"] == "first"
    assert world.config_map(target).data == {"colour": "red"}
    before = sync.status
    sync.now()
    after = sync.status
    for name in ("lastHandledRequest", "proof"):
        assert after.pop(name) != before.pop(name)
    assert after == before


def test_sync_now_looks_afresh_at_what_was_in_the_way(world: World) -> None:
    world.source()
    target = world.namespace("a")
    theirs = world.put(target, theirs="1")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("NotOurs")
    mark = world.mark()
    sync.now()
    assert [str(entry) for entry in world.requests(mark) if entry.namespace == target and entry.verb == "get"]
    assert theirs.data == {"theirs": "1"}


def test_many_quick_edits_end_with_the_last_one(world: World) -> None:
    source = world.source()
    targets = world.namespaces("a", "b", "c")
    sync = world.sync(destinationNamespaces=targets)
    for number in range(30):
        source.set(number=str(number))
    for target in targets:
        world.config_map(target).becomes(colour="red", number="29")
    sync.becomes("Synced", synced=3)
    assert len(sync.status["history"]) <= 10
