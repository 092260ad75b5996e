"""Copies that are no longer wanted, and the brake on losing many of them at once."""

import re

from tests.configmapsync.world import Sync, World

from syncline.api.common import CONFIRM_DELETION

MANY = 12


def test_a_namespace_that_leaves_the_selector_loses_its_copy(world: World) -> None:
    world.source()
    stays, leaves = world.namespaces("stays", "leaves", team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", synced=2)
    world.namespace_object(leaves).label(team="other")
    world.config_map(leaves).gone()
    sync.did("1 deleted")
    sync.becomes("Synced", desired=1, synced=1)
    assert world.config_map(stays).data == {"colour": "red"}


def test_a_spec_that_names_fewer_namespaces_removes_the_copies_from_the_others(world: World) -> None:
    world.source()
    stays, leaves = world.namespaces("stays", "leaves")
    sync = world.sync(destinationNamespaces=[stays, leaves])
    sync.becomes("Synced", synced=2)
    sync.change(destinationNamespaces=[stays])
    world.config_map(leaves).gone()
    assert world.config_map(stays).data == {"colour": "red"}


def test_without_prune_copies_stay_and_are_pruned_once_it_is_turned_on(world: World) -> None:
    source = world.source()
    stays, leaves = world.namespaces("stays", "leaves", team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}}, prune=False)
    sync.becomes("Synced", synced=2)
    world.namespace_object(leaves).label(team="other")
    sync.becomes("Synced", desired=1)
    source.set(colour="blue")
    world.config_map(stays).becomes(colour="blue")
    sync.now()
    assert world.config_map(leaves).data == {"colour": "red"}
    sync.change(prune=True)
    world.config_map(leaves).gone()


def test_a_copy_with_prune_disabled_stays(world: World) -> None:
    world.source()
    stays, leaves = world.namespaces("stays", "leaves")
    sync = world.sync(destinationNamespaces=[stays, leaves])
    sync.becomes("Synced", synced=2)
    copy = world.config_map(leaves)
    copy.annotate({"syncline.dev/prune": "Disabled"})
    sync.change(destinationNamespaces=[stays])
    sync.becomes("Synced", desired=1)
    sync.now()
    assert copy.data == {"colour": "red"}
    copy.annotate({"syncline.dev/prune": None})
    copy.gone()


def shrink(world: World) -> tuple[Sync, list[str]]:
    """Return a sync whose many namespaces have left its selector while nobody looked."""
    world.source()
    targets = world.namespaces(*(f"n{number}" for number in range(MANY)), team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", synced=MANY)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    for target in targets:
        world.namespace_object(target).label(team="other")
    sync.change(suspend=False)
    return sync, targets


def test_losing_many_copies_at_once_waits_for_a_person(world: World) -> None:
    sync, targets = shrink(world)
    ready = sync.becomes("DeletionHeld")
    assert ready["status"] == "False"
    found = re.fullmatch(
        r"12 of 12 copies would be removed because their namespaces no longer match; nothing was removed\. "
        r"To confirm, annotate this sync with syncline\.dev/confirm-deletion=([0-9a-f]+)",
        ready["message"],
    )
    assert found
    assert sync.tells("DeletionHeld")["type"] == "Warning"
    sync.annotate({CONFIRM_DELETION: "something else"})
    sync.now()
    for target in targets:
        assert world.config_map(target).data == {"colour": "red"}
    sync.annotate({CONFIRM_DELETION: found[1]})
    sync.did("12 deleted")
    sync.becomes("Synced", desired=0)
    for target in targets:
        assert world.config_map(target).look() is None


def test_the_held_copies_are_released_when_their_namespaces_come_back(world: World) -> None:
    sync, targets = shrink(world)
    sync.becomes("DeletionHeld")
    world.namespace_object(targets[0]).label(team=world.name)
    sync.becomes("DeletionHeld", desired=1, synced=1)
    world.namespace_object(targets[1]).label(team=world.name)
    # 10 of 12 are no longer more than ten.
    sync.did("10 deleted")
    sync.becomes("Synced", desired=2, synced=2)


def test_an_edit_of_the_spec_asks_for_the_removal_itself(world: World) -> None:
    world.source()
    targets = world.namespaces(*(f"n{number}" for number in range(MANY)))
    sync = world.sync(destinationNamespaces=[f"{world.name}-n*"])
    sync.becomes("Synced", synced=MANY)
    sync.change(destinationNamespaces=[targets[0]])
    sync.did("11 deleted")
    sync.becomes("Synced", desired=1, synced=1)


def test_a_held_removal_goes_on_after_an_edit_of_the_destinations(world: World) -> None:
    sync, targets = shrink(world)
    sync.becomes("DeletionHeld")
    sync.change(destinationNamespaceSelector=None, destinationNamespace=targets[0])
    sync.did("11 deleted")
    assert world.config_map(targets[0]).data == {"colour": "red"}


def test_namespaces_that_leave_one_after_the_other_are_judged_together_and_all_copies_stay(world: World) -> None:
    world.source()
    targets = world.namespaces(*(f"n{number:02}" for number in range(2 * MANY)), team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", synced=2 * MANY)
    for target in targets:
        world.namespace_object(target).label(team="other")
    sync.becomes("DeletionHeld", desired=0)
    assert all(world.config_map(target).look() is not None for target in targets)
