"""An operator that was away, and one with other flags."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.manifestsync.conftest import grant
from tests.manifestsync.world import Manifests, Object

from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess

MANY = 10
IMAGE = ("spec", "template", "spec", "containers", 0, "image")


@pytest.fixture
def world(arena: Sandbox, arena_kubeconfig: Path) -> Iterator[Manifests]:  # noqa: ARG001 - it installs
    """Namespaces of this test's own, in a cluster where no operator runs but the one that the test starts."""
    grant(arena)
    world = Manifests(arena)
    yield world
    world.end_alone()


def test_an_operator_that_comes_back_writes_only_what_it_has_missed(world: Manifests, arena_kubeconfig: Path) -> None:
    sources = [world.secret(), world.deployment(), world.service()]
    drifted, gone = world.secret("drifted"), world.deployment("gone")
    targets = world.namespaces(*(f"n{number}" for number in range(MANY)))
    with OperatorProcess(arena_kubeconfig):
        bundle = world.msync("bundle", *sources, into=targets)
        bundle.becomes("Synced", synced=MANY * 3)
        # Applied once, so that both what a create and what an apply leaves is recognised again.
        sources[1].put(*IMAGE, value="example.com/app:2")
        bundle.did(f"{MANY} updated")
        overwriting = world.msync(
            "overwriting", sources[1], into=targets[:2], targetName="other", resourceManagementPolicy="Overwrite"
        )
        missing = world.msync("missing", drifted, gone, into=targets[:1])
        for sync in (overwriting, missing):
            sync.becomes("Synced", synced=2)
    copy = world.find("Secret", targets[0], "drifted")
    copy.keep(password="pink")
    gone.delete()
    mark = world.mark()
    with OperatorProcess(arena_kubeconfig):
        copy.holds(password="red")
        world.find("Deployment", targets[0], "gone").gone()
        for sync in (bundle, overwriting):
            sync.now()
    touched = {write.split()[2] for write in world.copying(mark)}
    assert touched == {f"{targets[0]}/drifted:", f"{targets[0]}/gone:"}


def test_an_operator_may_be_told_to_copy_a_protected_kind_and_to_take_shorter_intervals(
    world: Manifests, arena_kubeconfig: Path
) -> None:
    served = ("v1", "endpoints")
    source = Object(world.sandbox, "Endpoints", world.home, "app", served)
    source.create({"metadata": {"name": "app"}, "subsets": [{"addresses": [{"ip": "10.1.2.3"}]}]})
    target = world.namespace("a")
    every = {"mode": "Interval", "interval": "1s"}
    with (
        world.granted("", "endpoints"),
        OperatorProcess(arena_kubeconfig, "--allow-kinds=Endpoints", "--min-interval=1s"),
    ):
        sync = world.msync("sync", source, into=[target], syncPolicy=every)
        sync.becomes("Synced", synced=1)
        copy = Object(world.sandbox, "Endpoints", target, "app", served)
        assert copy.at("subsets", 0, "addresses", 0, "ip") == "10.1.2.3"
        source.put("subsets", 0, "addresses", 0, "ip", value="10.1.2.4")
        copy.shows("subsets", 0, "addresses", 0, "ip", value="10.1.2.4")
