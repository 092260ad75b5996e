"""Somebody who undoes what we write, again and again."""

from tests.configmapsync.admission import altered
from tests.configmapsync.world import World, until

ROUNDS = 60
CHANGES = 12


def test_a_write_loop_is_detected_named_and_slowed_down(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    for number in range(ROUNDS):
        copy.set(manager="the-other-controller", colour=f"blue-{number}")
        until(sync.read, lambda _: copy.data == {"colour": "red"} or sync.conditions["Ready"]["reason"] == "WriteLoop")
        if sync.conditions["Ready"]["reason"] == "WriteLoop":
            break
    ready = sync.becomes("WriteLoop", conflicted=1)
    assert (
        "written 5 times in a short while and changed again each time, last by the-other-controller" in ready["message"]
    )
    mark = world.mark()
    copy.set(manager="the-other-controller", colour="green")
    sync.now()
    assert [write for write in world.writes(mark) if " configmaps " in write] == []
    source.set(colour="yellow")
    copy.becomes(colour="yellow")
    sync.becomes("Synced")


def test_a_source_that_changes_often_is_no_write_loop(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    for number in range(CHANGES):
        stamp = {"example.com/seen-at": f"{number}"}
        source.annotate(stamp)
        until(lambda: copy.annotations, lambda seen, stamp=stamp: seen == stamp)
    sync.becomes("Synced", synced=1)


def test_a_policy_that_changes_what_is_sent_is_no_write_loop(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    with altered(world.sandbox, target, 'Object{data: {"injected": "1"}}'):
        sync = world.sync(destinationNamespace=target)
        ready = sync.becomes("Mutated", conflicted=1)
        assert "exempt the object from that" in ready["message"]
        assert world.config_map(target).data == {"colour": "red", "injected": "1"}
        for _ in range(5):
            sync.now()
        sync.becomes("Mutated", conflicted=1)
        mark = world.mark()
        sync.now()
        assert [write for write in world.writes(mark) if " configmaps " in write] == []
    source.set(colour="yellow")
    world.config_map(target).becomes(colour="yellow")
    sync.becomes("Synced", synced=1)


def test_what_an_earlier_sync_of_this_name_left_behind_is_not_removed_by_the_next(world: World) -> None:
    world.source()
    stays, left = world.namespaces("stays", "left")
    earlier = world.sync(destinationNamespaces=[stays, left], deletionPolicy="Orphan")
    earlier.becomes("Synced", synced=2)
    earlier.delete()
    earlier.gone()
    later = world.sync(destinationNamespace=stays)
    later.becomes("Synced", synced=1)
    later.delete()
    later.gone()
    world.config_map(stays).gone()
    assert world.config_map(left).data == {"colour": "red"}
