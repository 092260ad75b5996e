"""Copies that are no longer wanted, and the deletion guard against losing many of them at once."""

import re

from tests.configmapsync.world import Sync, World
from tests.own_status import write_own_status

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
        r"12 of 12 copies would be removed because their namespaces no longer match; none of these was removed\. "
        r"To confirm, annotate this sync with syncline\.dev/confirm-deletion=([0-9a-f]+)",
        ready["message"],
    )
    assert found
    assert sync.tells("DeletionHeld")["type"] == "Warning"
    sync.becomes("DeletionHeld", desired=0, unwanted=MANY)
    for target in targets:
        listed = sync.says(target, "DeletionHeld")
        assert (listed["name"], listed["status"]) == ("app", "Pending")
        assert f"{CONFIRM_DELETION}={found[1]}" in listed["message"]
    sync.annotate({CONFIRM_DELETION: "something else"})
    sync.now()
    for target in targets:
        assert world.config_map(target).data == {"colour": "red"}
    sync.annotate({CONFIRM_DELETION: found[1]})
    sync.did("12 deleted")
    sync.becomes("Synced", desired=0, unwanted=0)
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


def test_an_edit_of_the_destinations_is_no_confirmation_of_what_it_did_not_remove(world: World) -> None:
    sync, targets = shrink(world)
    sync.becomes("DeletionHeld")
    sync.change(destinationNamespaceSelector=None, destinationNamespace=targets[0])
    assert "11 of 12 copies" in sync.becomes("DeletionHeld", desired=1, synced=1)["message"]
    assert all(world.config_map(target).look() is not None for target in targets)


def lose_labels(world: World, sync: Sync, targets: list[str]) -> None:
    """Take the label off many namespaces while nobody looks."""
    sync.change(suspend=True)
    sync.becomes("Suspended")
    for target in targets:
        world.namespace_object(target).label(team=None)
    sync.change(suspend=False)


def test_an_edit_that_cannot_be_carried_out_does_not_let_later_removals_pass(world: World) -> None:
    world.source()
    extra, *targets = world.namespaces("extra", *(f"n{number:02}" for number in range(30)), team=world.name)
    world.namespace_object(extra).label(team=None)
    selector = {"matchLabels": {"team": world.name}}
    sync = world.sync(destinationNamespaces=[extra], destinationNamespaceSelector=selector)
    sync.becomes("Synced", synced=31)
    with world.refusing_deletes(extra):
        sync.change(destinationNamespaces=None)
        sync.says(extra, "Forbidden")
        lose_labels(world, sync, targets[:25])
        ready = sync.becomes("DeletionHeld", desired=5)
        assert "25 of 30 copies" in ready["message"]
        assert all(world.config_map(target).look() is not None for target in targets)
    # What the edit has removed needs no confirmation, also after all that.
    sync.now()
    world.config_map(extra).gone()
    sync.annotate({CONFIRM_DELETION: ready["message"].rpartition("=")[2]})
    sync.becomes("Synced", desired=5, synced=5)
    assert len(world.copies()) == 5


def test_what_the_former_destinations_also_matched_is_not_what_the_edit_removed(world: World) -> None:
    world.source()
    extra, *targets = world.namespaces("extra", *(f"n{number:02}" for number in range(MANY)), team=world.name)
    world.namespace_object(extra).label(team=None)
    sync = world.sync(destinationNamespaces=[f"{world.name}-n*", extra])
    sync.becomes("Synced", synced=MANY + 1)
    with world.refusing_deletes(extra):
        sync.change(destinationNamespaces=None, destinationNamespaceSelector={"matchLabels": {"team": world.name}})
        sync.says(extra, "Forbidden")
        lose_labels(world, sync, targets)
        assert "12 of 12 copies" in sync.becomes("DeletionHeld", desired=0)["message"]


def test_an_edit_and_labels_that_go_at_the_same_time_are_told_apart(world: World) -> None:
    world.source()
    edited = world.namespaces(*(f"e{number:02}" for number in range(MANY)))
    labelled = world.namespaces(*(f"n{number:02}" for number in range(MANY)), team=world.name)
    selector = {"matchLabels": {"team": world.name}}
    sync = world.sync(destinationNamespaces=edited, destinationNamespaceSelector=selector)
    sync.becomes("Synced", synced=2 * MANY)
    sync.change(suspend=True, destinationNamespaces=None)
    sync.becomes("Suspended")
    for target in labelled:
        world.namespace_object(target).label(team=None)
    sync.change(suspend=False)
    sync.did(f"{MANY} deleted")
    assert "12 of 12 copies" in sync.becomes("DeletionHeld", desired=0)["message"]
    assert all(world.config_map(target).look() is None for target in edited)
    assert all(world.config_map(target).look() is not None for target in labelled)


def test_a_status_of_an_earlier_version_asks_for_no_removals(world: World) -> None:
    world.source()
    targets = world.namespaces(*(f"n{number:02}" for number in range(MANY)))
    sync = world.sync(destinationNamespaces=targets)
    sync.becomes("Synced", synced=MANY)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    write_own_status(world.sandbox, sync.path, scope="0123456789abcdef")
    sync.change(suspend=False, destinationNamespaces=[f"{world.name}-other"])
    assert "12 of 12 copies" in sync.becomes("DeletionHeld", desired=1)["message"]


def test_namespaces_that_leave_one_after_the_other_are_judged_together_and_all_copies_stay(world: World) -> None:
    world.source()
    targets = world.namespaces(*(f"n{number:02}" for number in range(2 * MANY)), team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", synced=2 * MANY)
    for target in targets:
        world.namespace_object(target).label(team="other")
    sync.becomes("DeletionHeld", desired=0)
    assert all(world.config_map(target).look() is not None for target in targets)
