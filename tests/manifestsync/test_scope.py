"""Which namespaces get copies, and what becomes of copies where they are no longer wanted."""

import re

import pytest
from tests.configmapsync.world import Json, until
from tests.manifestsync.world import Manifests, ManifestSync
from tests.own_status import write_own_status

from syncline.api.common import CONFIRM_DELETION

MANY = 12


def test_names_globs_and_labels_together_say_which_namespaces(world: Manifests) -> None:
    source = world.deployment()
    named, globbed, chosen, neither = world.namespaces("named", "glob-1", "chosen", "neither")
    world.namespace_object(chosen).label(team=world.name)
    sync = world.msync(
        "sync",
        source,
        targets={
            "inCluster": {
                "namespaces": [named, f"{world.name}-glob-*"],
                "namespaceSelector": {"matchLabels": {"team": world.name}},
            }
        },
    )
    sync.becomes("Synced", synced=3)
    for target in (named, globbed, chosen):
        assert world.find("Deployment", target).marked
    assert world.find("Deployment", neither).look() is None
    later = world.namespace("glob-2")
    world.find("Deployment", later).appears()
    world.namespace_object(neither).label(team=world.name)
    world.find("Deployment", neither).appears()
    sync.becomes("Synced", synced=5)


def test_a_namespace_that_does_not_exist_gets_its_copy_when_it_is_created(world: Manifests) -> None:
    source = world.secret()
    target = f"{world.name}-later"
    sync = world.msync("sync", source, into=[target])
    sync.becomes("NamespaceNotFound")
    assert sync.target(target)["status"] == "Pending"
    world.namespace("later")
    world.find("Secret", target).holds(password="red")
    sync.becomes("Synced")


def test_ignored_and_terminating_namespaces_are_passed_over(world: Manifests) -> None:
    source = world.service()
    ignored, ending, target = world.namespaces("ignored", "ending", "a")
    world.namespace_object(ignored).label(**{"syncline.dev/ignore": "true"})
    # An object with a finalizer keeps its namespace for a while.
    pin = world.make("ConfigMap", ending, "pin", metadata={"finalizers": ["example.com/pin"]})
    world.namespace_object(ending).delete()
    mark = world.mark()
    sync = world.msync("sync", source, into=[ignored, ending, target])
    sync.becomes("Synced", synced=1, skipped=2)
    assert sync.target(ignored)["reason"] == "NamespaceIgnored"
    assert sync.target(ending)["reason"] == "NamespaceTerminating"
    assert [write for write in world.copying(mark) if ignored in write or ending in write] == []
    pin.edit(lambda body: body["metadata"].update(finalizers=[]))
    world.namespace_object(ignored).label(**{"syncline.dev/ignore": None})
    world.find("Service", ignored).appears()


@pytest.mark.parametrize("kind", ["Secret", "Deployment"])
def test_a_namespace_that_leaves_the_scope_loses_its_copies(world: Manifests, kind: str) -> None:
    source = world.secret() if kind == "Secret" else world.deployment()
    stays, leaves, unnamed = world.namespaces("stays", "leaves", "unnamed", team=world.name)
    sync = world.msync(
        "sync", source, targets={"inCluster": {"namespaceSelector": {"matchLabels": {"team": world.name}}}}
    )
    sync.becomes("Synced", synced=3)
    world.namespace_object(leaves).label(team="other")
    world.find(kind, leaves).gone()
    sync.did("1 deleted")
    sync.into(stays)
    world.find(kind, unnamed).gone()
    sync.becomes("Synced", desired=1, synced=1)
    assert world.find(kind, stays).marked


def test_without_prune_copies_stay(world: Manifests) -> None:
    source = world.deployment()
    stays, leaves = world.namespaces("stays", "leaves")
    sync = world.msync("sync", source, into=[stays, leaves], prune=False)
    sync.becomes("Synced", synced=2)
    sync.into(stays)
    sync.becomes("Synced", desired=1)
    sync.now()
    assert world.find("Deployment", leaves).marked
    sync.change(prune=True)
    world.find("Deployment", leaves).gone()


def test_a_copy_with_prune_disabled_stays(world: Manifests) -> None:
    source = world.service()
    stays, leaves = world.namespaces("stays", "leaves")
    sync = world.msync("sync", source, into=[stays, leaves])
    sync.becomes("Synced", synced=2)
    copy = world.find("Service", leaves)
    copy.annotate({"syncline.dev/prune": "Disabled"})
    sync.into(stays)
    sync.becomes("Synced", desired=1)
    sync.now()
    assert copy.marked
    copy.annotate({"syncline.dev/prune": None})
    copy.gone()


def test_another_name_for_the_copies_removes_those_of_the_former_one(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], targetName="one")
    world.find("Secret", target, "one").holds(password="red")
    sync.change(targetName="two")
    world.find("Secret", target, "two").holds(password="red")
    world.find("Secret", target, "one").gone()


def test_a_source_that_leaves_the_bundle_takes_its_copies_along(world: Manifests) -> None:
    one, two = world.secret("one"), world.secret("two")
    target = world.namespace("a")
    sync = world.msync("sync", one, two, into=[target])
    sync.becomes("Synced", synced=2)
    sync.change(sourceRefs=[one.ref])
    world.find("Secret", target, "two").gone()
    assert world.find("Secret", target, "one").marked


def held(sync: ManifestSync, number: int) -> str:
    """Wait until the removal of so many copies is held, and return what confirms it."""
    message = sync.becomes("DeletionHeld")["message"]
    found = re.match(rf"{number} of {number} copies would be removed.*confirm-deletion=([0-9a-f]+)$", message)
    assert found, message
    return found[1]


def test_losing_many_copies_at_once_waits_for_a_person(world: Manifests) -> None:
    one, two = world.secret("one"), world.service("two")
    targets = world.namespaces(*(f"n{number}" for number in range(MANY // 2)), team=world.name)
    sync = world.msync(
        "sync", one, two, targets={"inCluster": {"namespaceSelector": {"matchLabels": {"team": world.name}}}}
    )
    sync.becomes("Synced", synced=MANY)
    for target in targets:
        world.namespace_object(target).label(team="other")
    until(lambda: sync.status["targets"]["desired"], lambda seen: seen == 0)
    digest = held(sync, MANY)
    for target in targets:
        assert world.find("Secret", target, "one").marked
        assert world.find("Service", target, "two").marked
    sync.annotate({CONFIRM_DELETION: digest})
    sync.did(f"{MANY} deleted")
    for target in targets:
        assert world.find("Secret", target, "one").look() is None


def test_objects_that_lose_their_label_at_once_are_held_too(world: Manifests) -> None:
    sources = [
        world.make("Secret", name=f"s{number}", metadata={"labels": {"copy": "yes"}}, stringData={"a": "b"})
        for number in range(MANY)
    ]
    target = world.namespace("a")
    chosen = {"apiVersion": "v1", "kind": "Secret", "selector": {"matchLabels": {"copy": "yes"}}}
    sync = world.msync(sourceRefs=[chosen], targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("Synced", synced=MANY)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    for source in sources:
        source.label(copy="no")
    sync.change(suspend=False)
    held(sync, MANY)
    assert world.find("Secret", target, "s0").marked


def test_a_kind_that_can_no_longer_be_watched_does_not_let_removals_pass_after_an_edit(world: Manifests) -> None:
    source = world.secret()
    extra, *targets = world.namespaces("extra", *(f"n{number:02}" for number in range(MANY)), team=world.name)
    world.namespace_object(extra).label(team=None)
    selector = {"matchLabels": {"team": world.name}}
    sync = world.msync("sync", source, targets={"inCluster": {"namespaces": [extra], "namespaceSelector": selector}})
    sync.becomes("Synced", synced=MANY + 1)
    # As if copies of a kind had been written that the operator has no rights to any more.
    write_own_status(world.sandbox, sync.path, written=[*sync.status["written"], "LimitRange"])
    sync.change(targets={"inCluster": {"namespaceSelector": selector}})
    world.find("Secret", extra).gone()
    sync.change(suspend=True)
    sync.becomes("Suspended")
    for target in targets:
        world.namespace_object(target).label(team=None)
    sync.change(suspend=False)
    held(sync, MANY)


def test_other_sources_are_selected_and_the_copies_of_the_former_ones_go(world: Manifests) -> None:
    for number in range(MANY):
        colour = "red" if number else "blue"
        world.make("Secret", name=f"s{number:02}", metadata={"labels": {"colour": colour}}, stringData={"a": "b"})
    target = world.namespace("a")

    def chosen(colour: str) -> list[Json]:
        return [{"apiVersion": "v1", "kind": "Secret", "selector": {"matchLabels": {"colour": colour}}}]

    sync = world.msync(sourceRefs=chosen("red"), targets={"inCluster": {"namespaces": [target]}})
    sync.becomes("Synced", synced=MANY - 1)
    sync.change(sourceRefs=chosen("blue"))
    sync.becomes("Synced", desired=1, synced=1)
    assert world.find("Secret", target, "s01").look() is None
