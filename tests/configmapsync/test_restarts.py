"""An operator that was away, and one that is told what to act on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import World

from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess


@pytest.fixture
def world(arena: Sandbox, arena_kubeconfig: Path) -> Iterator[World]:  # noqa: ARG001 - it installs
    """Namespaces of this test's own, in a cluster where no operator runs but the one that the test starts."""
    world = World(arena)
    yield world
    world.end_alone()


def test_an_operator_that_was_away_finds_what_it_has_missed(world: World, arena_kubeconfig: Path) -> None:
    world.source()
    bases = ["changed", "replaced", "gone", "relabelled", "ended", "edited", "deleted", "quiet"]
    sources = {name: world.source(name) for name in bases}
    targets = {name: world.namespace(name, base=f"{world.name}-{name}") for name in bases}
    with OperatorProcess(arena_kubeconfig):
        syncs = {
            name: world.sync(
                name, configMapName=name, destinationNamespaceSelector={"matchLabels": {"base": targets[name]}}
            )
            for name in bases
        }
        for sync in syncs.values():
            sync.becomes("Synced", synced=1)
    copies = {name: world.config_map(targets[name], name) for name in bases}
    uids = {name: copy.uid for name, copy in copies.items()}

    sources["changed"].set(colour="blue")
    sources["replaced"].delete()
    world.source("replaced", colour="blue")
    sources["gone"].delete()
    world.namespace_object(targets["relabelled"]).label(base="none")
    syncs["ended"].delete()
    copies["edited"].set(colour="pink")
    copies["deleted"].delete()
    later = world.namespace("later", base=targets["changed"])
    mark = world.mark()
    with OperatorProcess(arena_kubeconfig):
        for name in ("gone", "relabelled", "ended"):
            copies[name].gone()
        syncs["ended"].gone()
        for name in ("changed", "replaced"):
            copies[name].becomes(colour="blue")
        for name in ("edited", "deleted"):
            copies[name].becomes(colour="red")
        world.config_map(later, "changed").becomes(colour="blue")
        assert {name for name in bases if copies[name].look() and copies[name].uid != uids[name]} == {"deleted"}
        syncs["quiet"].now()
        assert not [write for write in world.writes(mark) if targets["quiet"] in write]


def test_an_operator_may_be_told_which_namespaces_syncs_it_acts_on(world: World, arena_kubeconfig: Path) -> None:
    watched, unwatched = world, World(world.sandbox)
    target = watched.namespace("a")
    for each in (watched, unwatched):
        each.source()
    with OperatorProcess(arena_kubeconfig, "--watch-namespaces", watched.home):
        passed_over = unwatched.sync(destinationNamespace=target, destinationName="other")
        watched.sync(destinationNamespace=target).becomes("Synced")
    assert "status" not in passed_over.read()
    assert watched.config_map(target, "other").look() is None
    unwatched.end_alone()
