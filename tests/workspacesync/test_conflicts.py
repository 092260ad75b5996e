"""Both sides change: what each strategy makes of it, what is told, and that it comes to rest."""

import datetime as dt
from threading import Event
from typing import Any

import pytest
from tests.configmapsync.world import until
from tests.workspacesync.pairs import RED, Pair
from tests.workspacesync.world import RESOLVE, UPSTREAM, Workspaces, WorkspaceSync, resource

from syncline.sandbox import RequestError
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy

STRATEGIES = ("UpstreamWins", "DownstreamWins", "LastWriteWins", "MergeChanges", "Skip")


# Down: the upstream is never written.


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_down_what_only_the_upstream_changed_goes_down(world: Workspaces, strategy: str) -> None:
    pair = Pair(world, strategy)
    pair.edit(above={"colour": "blue"})
    pair.hold({**RED, "colour": "blue"}, {**RED, "colour": "blue"})
    pair.sync.is_ready()


@pytest.mark.parametrize(
    ("strategy", "stays"),
    [
        ("UpstreamWins", False),
        ("DownstreamWins", True),
        ("LastWriteWins", True),
        ("MergeChanges", True),
        ("Skip", True),
    ],
)
def test_down_what_was_only_edited_below_is_repaired_or_left(world: Workspaces, strategy: str, stays: bool) -> None:
    pair = Pair(world, strategy)
    mark = world.mark_at(world.upstream)
    pair.edit(below={"colour": "green"})
    pair.hold(RED, {**RED, "colour": "green"} if stays else RED)
    assert [str(entry) for entry in world.written_at(world.upstream, mark)] == []


def test_down_skip_leaves_an_edit_and_reports_it(world: Workspaces) -> None:
    pair = Pair(world, "Skip")
    pair.edit(above={"size": "large"}, below={"colour": "green"})
    pair.sync.tells_of("colour")
    pair.hold({**RED, "size": "large"}, {**RED, "colour": "green"})
    pair.copy.put("data", "colour", value="red")
    pair.copy.holds_data(colour="red", size="large")
    pair.sync.is_ready()


def test_down_merge_takes_what_the_upstream_changed_and_leaves_what_was_edited_below(world: Workspaces) -> None:
    pair = Pair(world, "MergeChanges")
    pair.edit(above={"size": "large"}, below={"colour": "green", "extra": "1"})
    pair.hold({**RED, "size": "large"}, {"colour": "green", "size": "large", "extra": "1"})


@pytest.mark.parametrize(
    ("on_conflict", "below"),
    [("UpstreamWins", "blue"), ("DownstreamWins", "green"), ("Report", "green")],
)
def test_down_merge_of_one_path_changed_on_both_sides_is_told(world: Workspaces, on_conflict: str, below: str) -> None:
    pair = Pair(world, "MergeChanges", onConflict=on_conflict)
    pair.edit(above={"colour": "blue", "size": "large"}, below={"colour": "green"})
    pair.hold({"colour": "blue", "size": "large"}, {"colour": below, "size": "large"})
    if on_conflict != "Report":
        tells_the_path(pair.sync)
        return
    pair.sync.is_conflicted("colour", "annotate either object")
    pair.copy.annotate({RESOLVE: "Upstream"})
    pair.copy.holds_data(colour="blue", size="large")
    until(lambda: pair.copy.annotations, lambda seen: RESOLVE not in seen)
    pair.sync.is_ready()


def tells_the_path(sync: WorkspaceSync) -> None:
    """Wait for an event that names the path."""
    until(sync.events, lambda events: any("colour" in str(event.get("note")) for event in events))


def test_exact_also_removes_what_the_upstream_never_set(world: Workspaces) -> None:
    pair = Pair(world, "UpstreamWins")
    pair.edit(below={"extra": "1", "colour": "green"})
    pair.hold(RED, {**RED, "extra": "1"})
    pair.sync.change(exact=True)
    pair.hold(RED, RED)


def test_a_field_of_another_manager_stays_unless_the_copy_is_to_be_exact(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.deployment(namespace, replicas=0)
    sync = world.wsync("sync", "deployments")
    sync.is_ready()
    copy = world.down("Deployment", namespace)
    copy.put("spec", "template", "spec", "nodeSelector", value={"disk": "fast"})
    copy.put("spec", "revisionHistoryLimit", value=3)
    world.up("Deployment", namespace).put("spec", "minReadySeconds", value=5)
    copy.shows("spec", "minReadySeconds", value=5)
    assert copy.at("spec", "template", "spec", "nodeSelector") == {"disk": "fast"}
    sync.change(exact=True)
    copy.shows("spec", "template", "spec", "nodeSelector", value=None)
    world.comes_to_rest(sync)


# Bidirectional: the tables of the strategies.

COLUMNS = {
    "only above": ({"size": "large"}, {}),
    "only below": ({}, {"colour": "green"}),
    "disjoint": ({"size": "large"}, {"colour": "green"}),
    "the same path": ({"colour": "blue"}, {"colour": "green"}),
}
LARGE, GREEN, BLUE = ({**RED, "size": "large"}, {**RED, "colour": "green"}, {**RED, "colour": "blue"})
BOTH = {"colour": "green", "size": "large"}
TABLE: dict[tuple[str, str], tuple[dict[str, str], dict[str, str]]] = {
    ("UpstreamWins", "only above"): (LARGE, LARGE),
    ("UpstreamWins", "only below"): (RED, RED),
    ("UpstreamWins", "disjoint"): (LARGE, LARGE),
    ("UpstreamWins", "the same path"): (BLUE, BLUE),
    ("DownstreamWins", "only above"): (RED, RED),
    ("DownstreamWins", "only below"): (GREEN, GREEN),
    ("DownstreamWins", "disjoint"): (GREEN, GREEN),
    ("DownstreamWins", "the same path"): (GREEN, GREEN),
    ("LastWriteWins", "only above"): (LARGE, LARGE),
    ("LastWriteWins", "only below"): (GREEN, GREEN),
    ("MergeChanges", "only above"): (LARGE, LARGE),
    ("MergeChanges", "only below"): (GREEN, GREEN),
    ("MergeChanges", "disjoint"): (BOTH, BOTH),
    ("MergeChanges", "the same path"): (BLUE, BLUE),
    ("Skip", "only above"): (LARGE, LARGE),
    ("Skip", "only below"): (RED, GREEN),
    ("Skip", "disjoint"): (LARGE, GREEN),
    ("Skip", "the same path"): (BLUE, GREEN),
}


@pytest.mark.parametrize(("strategy", "column"), TABLE, ids=lambda part: part.replace(" ", "-"))
def test_both_ways_the_table_of_the_strategies(world: Workspaces, strategy: str, column: str) -> None:
    pair = Pair(world, strategy, "Bidirectional")
    above, below = COLUMNS[column]
    pair.edit(above, below)
    pair.hold(*TABLE[strategy, column])


def test_both_ways_merge_with_report_keeps_each_sides_value_until_a_person_decides(world: Workspaces) -> None:
    pair = Pair(world, "MergeChanges", "Bidirectional", onConflict="Report")
    pair.edit({"colour": "blue", "size": "large"}, {"colour": "green", "extra": "1"})
    whole = {"size": "large", "extra": "1"}
    pair.hold({"colour": "blue", **whole}, {"colour": "green", **whole})
    pair.sync.is_conflicted("colour", "annotate either object")
    assert pair.sync.conflicting_paths() == ["/data/colour"]
    assert "blue" not in str(pair.sync.status["conflicts"])
    tells_the_path(pair.sync)
    pair.source.annotate({RESOLVE: "Downstream"})
    pair.source.holds_data(colour="green", **whole)
    until(lambda: pair.source.annotations, lambda seen: RESOLVE not in seen)
    pair.sync.is_not_conflicted()
    pair.sync.is_ready()
    pair.hold({"colour": "green", **whole}, {"colour": "green", **whole})


def test_in_a_fixed_namespace_a_conflict_names_the_namespace_of_its_own_object(world: Workspaces) -> None:
    first, second = world.above("a"), world.above("b")
    source = world.data(first, colour="red")
    world.data(second, "other")
    place = f"{world.name}-one"
    sync = world.wsync(
        "sync",
        resource("configmaps", direction="Bidirectional"),
        conflictStrategy="MergeChanges",
        onConflict="Report",
        namespaces=world.followed(mapping={"fixed": place}),
    )
    sync.is_ready()
    with world.asleep(sync):
        source.put("data", "colour", value="blue")
        world.down("ConfigMap", place).put("data", "colour", value="green")
    sync.is_conflicted("colour")
    assert [(one["namespace"], one["name"]) for one in sync.status["conflicts"]] == [(first, "app")]


def test_a_conflict_ends_when_both_sides_come_to_the_same_value(world: Workspaces) -> None:
    pair = Pair(world, "MergeChanges", "Bidirectional", onConflict="Report")
    pair.edit({"colour": "blue"}, {"colour": "green"})
    pair.sync.is_conflicted("colour")
    pair.copy.put("data", "colour", value="blue")
    pair.sync.is_not_conflicted()
    pair.sync.is_ready()


def test_the_same_change_on_both_sides_is_no_conflict(world: Workspaces) -> None:
    pair = Pair(world, "MergeChanges", "Bidirectional", onConflict="Report")
    pair.edit({"colour": "blue"}, {"colour": "blue"})
    pair.hold(BLUE, BLUE)
    pair.sync.is_ready()


def test_last_write_wins_takes_the_later_edit_as_a_whole(world: Workspaces) -> None:
    pair = Pair(world, "LastWriteWins", "Bidirectional")
    with world.asleep(pair.sync):
        pair.copy.put("data", "colour", value="green")
        first = _stamp(pair.copy)
        pair.source.put("data", "size", value="large")
        _edit_until_later(pair, first + dt.timedelta(seconds=30))
    pair.hold(pair.source.at("data"), pair.source.at("data"))
    assert pair.copy.at("data", "colour") == "red"


def _stamp(thing: Any) -> dt.datetime:
    entries = [entry for entry in thing.read()["metadata"]["managedFields"] if entry["manager"] == "somebody"]
    return max(dt.datetime.fromisoformat(entry["time"]) for entry in entries)


def _edit_until_later(pair: Pair, moment: dt.datetime) -> None:
    """Write the upstream with the stamp of a later moment, as an edit half a minute later would have it."""

    def later(body: dict[str, Any]) -> None:
        for entry in body["metadata"]["managedFields"]:
            if entry["manager"] == "somebody":
                entry["time"] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"

    pair.source.edit(later, manager="clock")


def test_an_edit_below_survives_while_fields_of_a_transform_do_not_go_up(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace, colour="red")
    sync = world.wsync(
        "sync",
        resource("configmaps", direction="Bidirectional"),
        conflictStrategy="MergeChanges",
        transforms=[{"resource": "configmaps", "set": {"/data/cluster": "{{ target.cluster }}"}}],
    )
    copy = world.down("ConfigMap", namespace)
    copy.holds_data(colour="red", cluster="east")
    sync.is_ready()
    copy.put("data", "colour", value="green")
    source.holds_data(colour="green")
    copy.put("data", "cluster", value="mine")
    copy.holds_data(colour="green", cluster="east")
    world.comes_to_rest(sync)
    assert source.at("data") == {"colour": "green"}


def test_a_deployment_that_the_server_fills_in_below_comes_to_rest_both_ways(world: Workspaces) -> None:
    namespace = world.above("shop")
    container = {"name": "app", "image": "example.com/app:1", "resources": {"limits": {"cpu": "1000m"}}}
    pod = {"metadata": {"labels": {"app": "app"}, "annotations": {}}, "spec": {"containers": [container]}}
    source = world.deployment(namespace, replicas=0, template=pod)
    sync = world.wsync(
        "sync", resource("deployments", direction="Bidirectional"), conflictStrategy="MergeChanges", onConflict="Report"
    )
    sync.is_ready()
    world.comes_to_rest(sync)
    copy = world.down("Deployment", namespace)
    with world.asleep(sync):
        copy.put("spec", "minReadySeconds", value=7)
        source.put("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")
    source.shows("spec", "minReadySeconds", value=7)
    copy.shows("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")
    sync.is_ready()
    world.comes_to_rest(sync)


def test_items_of_a_list_are_merged_by_the_keys_of_their_schema(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.deployment(namespace, replicas=0)
    sync = world.wsync(
        "sync", resource("deployments", direction="Bidirectional"), conflictStrategy="MergeChanges", onConflict="Report"
    )
    sync.is_ready()
    copy = world.down("Deployment", namespace)
    where = ("spec", "template", "spec", "containers", 0, "env")
    with world.asleep(sync):
        copy.put(*where, 0, "value", value="slow")
        source.put(*where, 1, "value", value="blue")
    for thing in (source, copy):
        until(
            lambda: {one["name"]: one["value"] for one in thing.at(*where)},  # noqa: B023 - called at once
            lambda seen: seen == {"MODE": "slow", "COLOUR": "blue"},
        )
    sync.is_ready()


def test_secrets_flow_both_ways_and_no_value_is_recorded(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.up("Secret", namespace)
    source.create({"metadata": {"name": "app"}, "stringData": {"password": "first-of-the-values"}})
    sync = world.wsync("sync", resource("secrets", direction="Bidirectional"), conflictStrategy="MergeChanges")
    copy = world.down("Secret", namespace)
    copy.appears()
    sync.is_ready()
    copy.keep(password="second-of-the-values")
    source.holds(password="second-of-the-values")
    sync.is_ready()
    for thing in (source, copy):
        assert "of-the-values" not in str(thing.read()["metadata"])


def test_a_copy_whose_base_is_lost_is_not_overwritten_by_a_merge(world: Workspaces) -> None:
    pair = Pair(world, "MergeChanges", "Bidirectional", onConflict="Report")
    with world.asleep(pair.sync):
        base = [key for key in pair.copy.annotations if key.startswith("syncline.dev/")]
        pair.copy.annotate(dict.fromkeys(base))
        pair.copy.put("data", "colour", value="green")
    pair.sync.has_trouble(pair.namespace)
    pair.sync.now()
    assert pair.copy.at("data", "colour") == "green"
    assert pair.source.at("data", "colour") == "red"


def test_an_object_too_large_for_its_base_is_refused_and_named(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace, "large", **{f"key-{number:05}": "x" for number in range(9000)})
    world.data(namespace)
    sync = world.wsync("sync", resource("configmaps", direction="Bidirectional"), conflictStrategy="MergeChanges")
    world.down("ConfigMap", namespace).appears()
    sync.fails("large")


# Directions and writers.


def test_two_clusters_without_a_writer_cannot_write_upward(wide: Workspaces) -> None:
    both = resource("configmaps", direction="Bidirectional")
    with pytest.raises(RequestError) as refused:
        wide.wsync("sync", both, to=["east", "west"])
    assert refused.value.status == 422
    assert "writer" in str(refused.value)


def test_only_the_writer_writes_upward(wide: Workspaces) -> None:
    namespace = wide.above("shop")
    source = wide.data(namespace)
    sync = wide.wsync(
        "sync",
        resource("configmaps", direction="Bidirectional"),
        downstream={"syncTargets": ["east", "west"], "writer": "east"},
        conflictStrategy="MergeChanges",
    )
    sync.is_ready()
    east, west = wide.down("ConfigMap", namespace), wide.down("ConfigMap", namespace, at="west")
    east.put("data", "colour", value="green")
    source.holds_data(colour="green")
    west.holds_data(colour="green")
    assert sync.tells("SourceMoved")["type"] == "Normal", "it ends by itself"
    west.put("data", "size", value="1")
    sync.now()
    assert source.at("data") == {"colour": "green"}


def test_a_sync_is_not_ready_before_all_clusters_have_what_one_of_them_wrote_upward(
    wide: Workspaces, upstream_proxy: FaultProxy, west_proxy: FaultProxy
) -> None:
    """The watch of the upstream says nothing: the sync knows its own write."""
    wide.credential(UPSTREAM, wide.upstream, server=upstream_proxy.server)
    wide.credential("west", wide.clusters["west"], server=west_proxy.server)
    namespace = wide.above("shop")
    source = wide.data(namespace)
    sync = wide.wsync(
        "sync",
        resource("configmaps", direction="Bidirectional"),
        downstream={"syncTargets": ["east", "west"], "writer": "east"},
        conflictStrategy="MergeChanges",
    )
    sync.is_ready()
    follows, passed_on = Event(), Event()

    def hold() -> None:
        follows.set()
        passed_on.wait(60)

    upstream_proxy.inject(
        Fault(silent=True), when=lambda asked: (asked.verb, asked.resource) == ("watch", "configmaps")
    )
    west_proxy.inject(Fault(before=hold), when=lambda asked: asked.changes and asked.resource == "configmaps", times=1)
    wide.down("ConfigMap", namespace).put("data", "colour", value="green")
    assert follows.wait(60)
    assert source.at("data") == {"colour": "green"}
    assert sync.conditions["Ready"]["status"] == "False"
    passed_on.set()
    wide.down("ConfigMap", namespace, at="west").holds_data(colour="green")
    sync.is_ready()


def test_a_strategy_of_one_resource_goes_before_that_of_the_sync(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    world.up("Secret", namespace).create({"metadata": {"name": "app"}, "stringData": {"a": "1"}})
    sync = world.wsync("sync", resource("configmaps", conflictStrategy="DownstreamWins"), "secrets")
    sync.is_ready()
    world.down("Secret", namespace).keep(a="2")
    world.down("Secret", namespace).holds(a="1")
    world.down("ConfigMap", namespace).put("data", "colour", value="green")
    sync.now()
    assert world.down("ConfigMap", namespace).at("data", "colour") == "green"


@pytest.mark.parametrize("spelling", ["upstream-wins", "last-write-wins", "merge-changes"])
def test_the_spellings_of_the_first_plan_mean_the_same(world: Workspaces, spelling: str) -> None:
    pair = Pair(world, spelling, "Bidirectional")
    pair.edit({"size": "large"})
    pair.hold(LARGE, LARGE)


def test_a_strategy_that_does_not_exist_is_refused_with_the_list(world: Workspaces) -> None:
    with pytest.raises(RequestError) as refused:
        world.wsync(conflictStrategy="CoinToss")
    assert refused.value.status == 422
    assert all(strategy in str(refused.value) for strategy in STRATEGIES)


@pytest.mark.parametrize(("direction", "upstream"), [("Down", RED), ("Bidirectional", {**RED, "colour": "green"})])
def test_the_first_edit_of_an_overwritten_object_is_no_conflict(
    world: Workspaces, direction: str, upstream: dict[str, str]
) -> None:
    namespace = world.above("shop")
    world.data(namespace, "other")
    sync = world.wsync(
        "sync",
        resource("configmaps", direction=direction),
        conflictStrategy="MergeChanges",
        resourceManagementPolicy="Overwrite",
    )
    world.down("ConfigMap", namespace, "other").appears()
    world.comes_to_rest(sync)
    copy = world.down("ConfigMap", namespace)
    copy.create({"metadata": {"name": "app"}, "data": {"colour": "theirs", "other": "theirs"}})
    source = world.data(namespace, **RED)
    copy.holds_data(**RED)
    until(lambda: copy.read()["metadata"]["annotations"], lambda seen: "syncline.dev/base" in seen)
    sync.is_ready()
    copy.put("data", "colour", value="green")
    source.holds_data(**upstream)
    sync.now()
    sync.is_ready()
    assert copy.at("data") == {**RED, "colour": "green"}
