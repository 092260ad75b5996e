"""A person decides a conflict by an annotation on one of the two objects, once, and nobody else gets more by it."""

import json

import pytest
from tests.configmapsync.world import until
from tests.workspacesync.pairs import RED, Pair
from tests.workspacesync.world import RESOLVE, Workspaces, resource

from syncline.core.ownership import MARKER

BOTH = ("east", "west")


def in_conflict(world: Workspaces, direction: str = "Down") -> Pair:
    """Return a pair whose sides have changed one value each in their own way."""
    pair = Pair(world, "MergeChanges", direction, onConflict="Report")
    pair.edit({"colour": "blue"}, {"colour": "green"})
    pair.sync.is_conflicted("colour", "annotate either object")
    return pair


@pytest.mark.parametrize("side", ["source", "copy"])
@pytest.mark.parametrize(("answer", "colour"), [("Upstream", "blue"), ("Downstream", "green")])
def test_both_ways_an_annotation_on_either_object_decides_and_is_removed(
    world: Workspaces, side: str, answer: str, colour: str
) -> None:
    pair = in_conflict(world, "Bidirectional")
    getattr(pair, side).annotate({RESOLVE: answer})
    pair.hold({**RED, "colour": colour}, {**RED, "colour": colour})
    for thing in (pair.source, pair.copy):
        until(lambda: thing.annotations, lambda seen: RESOLVE not in seen)  # noqa: B023 - called at once
    pair.sync.is_not_conflicted()


@pytest.mark.parametrize("side", ["source", "copy"])
@pytest.mark.parametrize(("answer", "below"), [("Upstream", "blue"), ("Downstream", "green")])
def test_down_an_annotation_on_either_object_decides_and_the_upstream_is_never_written(
    world: Workspaces, side: str, answer: str, below: str
) -> None:
    pair = in_conflict(world)
    mark = world.mark_at(world.upstream)
    getattr(pair, side).annotate({RESOLVE: answer})
    pair.sync.is_not_conflicted()
    pair.sync.is_ready()
    pair.hold({**RED, "colour": "blue"}, {**RED, "colour": below})
    until(lambda: pair.copy.annotations, lambda seen: RESOLVE not in seen)
    assert [str(entry) for entry in world.written_at(world.upstream, mark)] == []
    assert (RESOLVE in pair.source.annotations) == (side == "source"), "it stays where it may not be removed"


def test_down_an_annotation_upstream_counts_once(world: Workspaces) -> None:
    pair = in_conflict(world)
    pair.source.annotate({RESOLVE: "Upstream"})
    pair.copy.holds_data(colour="blue", size="small")
    pair.sync.is_ready()
    pair.edit({"colour": "black"}, {"colour": "white"})
    pair.sync.is_conflicted("colour", "has counted before: remove it first")
    pair.hold({**RED, "colour": "black"}, {**RED, "colour": "white"})
    pair.source.annotate({RESOLVE: None})
    pair.sync.now()
    pair.copy.shows("data", "colour", value="white")
    pair.source.annotate({RESOLVE: "Upstream"})
    pair.copy.holds_data(colour="black", size="small")
    pair.sync.is_ready()


def test_an_annotation_without_a_conflict_does_not_decide_a_later_one(world: Workspaces) -> None:
    pair = Pair(world, "Skip")
    pair.source.annotate({RESOLVE: "Upstream"})
    pair.sync.now()
    pair.sync.is_ready()
    pair.edit(below={"colour": "green"})
    pair.sync.is_conflicted("colour", "has counted before")
    pair.hold(RED, {**RED, "colour": "green"})


@pytest.mark.parametrize(("answer", "colours"), [("Upstream", ("red", "red")), ("Downstream", ("green", "white"))])
def test_an_annotation_upstream_decides_in_every_cluster(
    wide: Workspaces, answer: str, colours: tuple[str, str]
) -> None:
    namespace = wide.above("shop")
    source = wide.data(namespace)
    sync = wide.wsync(to=BOTH, conflictStrategy="Skip")
    sync.is_ready()
    copies = [wide.down("ConfigMap", namespace, at=cluster) for cluster in BOTH]
    for copy, colour in zip(copies, ("green", "white"), strict=True):
        copy.put("data", "colour", value=colour)
    until(lambda: len(sync.status.get("conflicts", [])), lambda seen: seen == len(BOTH))
    source.annotate({RESOLVE: answer})
    sync.is_not_conflicted()
    sync.is_ready()
    assert tuple(copy.at("data", "colour") for copy in copies) == colours
    assert source.at("data", "colour") == "red"


def test_an_annotation_on_a_copy_decides_for_this_copy_alone(wide: Workspaces) -> None:
    namespace = wide.above("shop")
    source = wide.data(namespace)
    sync = wide.wsync(to=BOTH, conflictStrategy="Skip")
    sync.is_ready()
    east, west = (wide.down("ConfigMap", namespace, at=cluster) for cluster in BOTH)
    for copy in (east, west):
        copy.put("data", "colour", value="green")
    until(lambda: len(sync.status.get("conflicts", [])), lambda seen: seen == len(BOTH))
    west.annotate({RESOLVE: "Upstream"})
    west.holds_data(colour="red")
    sync.now()
    assert (source.at("data", "colour"), east.at("data", "colour")) == ("red", "green")


def test_an_annotation_on_a_copy_that_may_not_write_upward_writes_nothing_upstream(wide: Workspaces) -> None:
    """A person who may edit copies in one cluster gets no right to edit the upstream."""
    namespace = wide.above("shop")
    source = wide.data(namespace)
    both = resource("configmaps", direction="Bidirectional")
    sync = wide.wsync(
        "sync",
        both,
        downstream={"syncTargets": list(BOTH), "writer": "east"},
        conflictStrategy="MergeChanges",
        onConflict="Report",
    )
    sync.is_ready()
    east, west = (wide.down("ConfigMap", namespace, at=cluster) for cluster in BOTH)
    with wide.asleep(sync):
        source.put("data", "colour", value="blue")
        west.edit(
            lambda body: (
                body["data"].update(colour="white"),
                body["metadata"].setdefault("annotations", {}).update({RESOLVE: "Downstream"}),
            )
        )
    east.holds_data(colour="blue")
    sync.now()
    sync.is_ready()
    assert (source.at("data", "colour"), east.at("data", "colour")) == ("blue", "blue")
    assert RESOLVE not in west.annotations


def test_both_ways_a_removed_annotation_leaves_no_write_for_a_later_reconcile(wide: Workspaces) -> None:
    """The copies that do not write upward record that the annotation has counted, until it is removed."""
    namespace = wide.above("shop")
    source = wide.data(namespace)
    both = resource("configmaps", direction="Bidirectional")
    sync = wide.wsync("sync", both, downstream={"syncTargets": list(BOTH), "writer": "east"}, conflictStrategy="Skip")
    sync.is_ready()
    west = wide.down("ConfigMap", namespace, at="west")
    west.put("data", "colour", value="green")
    sync.is_conflicted("colour")
    source.annotate({RESOLVE: "Upstream"})
    west.holds_data(colour="red")
    until(lambda: source.annotations, lambda seen: RESOLVE not in seen)
    until(west.read, lambda seen: "resolved" not in json.loads(seen["metadata"]["annotations"][MARKER]))
    sync.is_ready()
    wide.comes_to_rest(sync)


def test_a_wrong_annotation_upstream_is_told_and_decides_nothing(world: Workspaces) -> None:
    pair = in_conflict(world)
    pair.source.annotate({RESOLVE: "downstream"})
    pair.sync.tells_of("of the upstream object must say Upstream or Downstream")
    pair.hold({**RED, "colour": "blue"}, {**RED, "colour": "green"})
    pair.source.annotate({RESOLVE: "Upstream"})
    pair.copy.holds_data(colour="blue", size="small")
    pair.sync.is_ready()
