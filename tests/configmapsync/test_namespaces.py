"""Namespaces that come, go, change their labels, or want nothing of us."""

import pytest
from tests.configmapsync.world import World


def test_a_namespace_that_is_created_later_gets_its_copy(world: World) -> None:
    world.source()
    sync = world.sync(
        destinationNamespaces=[f"{world.name}-glob-*"],
        destinationNamespaceSelector={"matchLabels": {"team": world.name}},
    )
    assert sync.becomes("Synced", desired=0)["message"].startswith("there is nothing to write yet: no namespace")
    by_glob = world.namespace("glob-1")
    by_label = world.namespace("label", team=world.name)
    for target in (by_glob, by_label):
        world.config_map(target).becomes(colour="red")
    sync.becomes("Synced", desired=2, synced=2)


def test_a_named_namespace_that_does_not_exist_is_named_and_gets_its_copy_when_it_does(world: World) -> None:
    world.source()
    there, missing = world.namespace("there"), f"{world.name}-missing"
    sync = world.sync(destinationNamespaces=[there, missing])
    ready = sync.becomes("NamespaceNotFound", synced=1, pending=1)
    assert ready["status"] == "False"
    assert f"namespace '{missing}' does not exist; it gets its copy when it is created" in ready["message"]
    assert "Reconciling" not in sync.conditions
    assert world.config_map(there).data == {"colour": "red"}
    world.namespace("missing")
    world.config_map(missing).becomes(colour="red")
    sync.becomes("Synced", synced=2)


def test_a_namespace_that_gains_the_label_gets_its_copy(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", desired=0)
    world.namespace_object(target).label(team=world.name)
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced", desired=1)


def test_a_namespace_that_was_deleted_and_made_anew_gets_its_copy(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    namespace = world.namespace_object(target)
    namespace.delete()
    namespace.gone()
    sync.becomes("NamespaceNotFound")
    world.namespace("a")
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")


def test_a_terminating_namespace_is_skipped_and_does_not_hold_the_sync(world: World) -> None:
    source = world.source()
    alive, dying = world.namespaces("alive", "dying")
    blocker = world.put(dying, "blocker", metadata={"finalizers": ["example.com/hold"]})
    sync = world.sync(destinationNamespaces=[alive, dying])
    sync.becomes("Synced", synced=2)
    world.namespace_object(dying).delete()
    assert sync.says(dying, "NamespaceTerminating")["status"] == "Skipped"
    world.config_map(dying).gone()
    source.set(colour="blue")
    world.config_map(alive).becomes(colour="blue")
    ready = sync.becomes("Synced", synced=1, skipped=1)
    assert ready["status"] == "True"
    sync.now()
    assert world.config_map(dying).look() is None
    late = world.sync("late", destinationNamespace=dying, destinationName="late")
    late.becomes("Synced", skipped=1)
    late.delete()
    late.gone()
    blocker.edit(lambda body: body["metadata"].update(finalizers=[]))
    world.namespace_object(dying).gone()
    sync.becomes("NamespaceNotFound")


@pytest.mark.parametrize("by_name", [True, False], ids=["named", "selected"])
def test_a_namespace_that_ignores_us_gets_nothing_and_loses_nothing(world: World, by_name: bool) -> None:
    source = world.source()
    closed = world.namespace("closed", team=world.name, **{"syncline.dev/ignore": "true"})
    closing = world.namespace("closing", team=world.name)
    destinations = (
        {"destinationNamespaces": [closed, closing]}
        if by_name
        else {"destinationNamespaceSelector": {"matchLabels": {"team": world.name}}}
    )
    sync = world.sync(**destinations)
    ready = sync.becomes("Synced", synced=1, skipped=1)
    assert ready["status"] == "True"
    assert sync.target(closed)["message"] == f"namespace '{closed}' is labelled syncline.dev/ignore: true"
    assert world.config_map(closed).look() is None

    world.namespace_object(closing).label(**{"syncline.dev/ignore": "true"})
    sync.says(closing, "NamespaceIgnored")
    source.set(colour="blue")
    world.config_map(closing).set(mine="x")
    sync.now()
    assert world.config_map(closing).data == {"colour": "red", "mine": "x"}

    for name in (closed, closing):
        world.namespace_object(name).label(**{"syncline.dev/ignore": None})
        world.config_map(name).becomes(colour="blue")
    sync.becomes("Synced", synced=2)


def test_a_namespace_that_leaves_and_comes_back_gets_its_copy_back(world: World) -> None:
    world.source()
    target = world.namespace("a", team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", desired=1)
    namespace, copy = world.namespace_object(target), world.config_map(target)
    for _ in range(2):
        namespace.label(team="other")
        copy.gone()
        namespace.label(team=world.name)
        copy.becomes(colour="red")


def test_the_namespace_of_a_sync_may_go_at_once(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    home = world.namespace_object(world.home)
    home.delete()
    home.gone()
    world.config_map(target).gone()


def test_a_copy_that_is_no_longer_wanted_goes_when_its_namespace_ignores_us_no_more(world: World) -> None:
    world.source(color="green")
    stays, closed = world.namespaces("stays", "closed")
    sync = world.sync(destinationNamespaces=[stays, closed])
    sync.becomes("Synced", synced=2)
    world.namespace_object(closed).label(**{"syncline.dev/ignore": "true"})
    sync.becomes("Synced", skipped=1)
    sync.change(destinationNamespaces=[stays])
    sync.becomes("Synced", desired=1)
    assert world.config_map(closed).marked
    world.namespace_object(closed).label(**{"syncline.dev/ignore": None})
    world.config_map(closed).gone()
