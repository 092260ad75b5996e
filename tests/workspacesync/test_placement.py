"""Which clusters a namespace goes to, that it stays there, and how replicas are shared."""

from pathlib import Path
from typing import Any

from tests.configmapsync.world import edit_at, until
from tests.fleet.world import Remote, proxied
from tests.workspacesync.world import Workspaces, WorkspaceSync

from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

BOTH = ("east", "west")
ONE = {"strategy": "Spread", "count": 1}


def fill(world: Workspaces, *shorts: str) -> list[str]:
    """Make namespaces upstream with two ConfigMaps each."""
    made = [world.above(short) for short in shorts]
    for namespace in made:
        world.data(namespace)
        world.data(namespace, "other")
    return made


def where(world: Workspaces, namespace: str, name: str = "app") -> list[str]:
    """Return the clusters that have a copy."""
    return [cluster for cluster in BOTH if world.down("ConfigMap", namespace, name, at=cluster).look() is not None]


def is_where_it_says(world: Workspaces, sync: WorkspaceSync, *namespaces: str) -> dict[str, list[str]]:
    """Wait until copies are exactly where the status says, the objects of a namespace together; return where."""
    sync.is_ready()
    for namespace in namespaces:
        until(
            lambda: (sync.places().get(namespace), where(world, namespace), where(world, namespace, "other")),  # noqa: B023 - called at once
            lambda seen: seen[0] and seen[0] == seen[1] == seen[2],
        )
    return sync.places()


def placed_at(world: Workspaces, sync: WorkspaceSync, cluster: str) -> str:
    """Make namespaces until one is placed on this cluster alone, and return it: which ones are is left to chance."""
    for number in range(30):
        (namespace,) = fill(world, f"{cluster}-{number}")
        if until(lambda: sync.places().get(namespace), bool) == [cluster]:  # noqa: B023 - called at once
            return namespace
    raise AssertionError(f"30 namespaces, and none on {cluster}")


def test_by_default_all_clusters_have_all_namespaces(wide: Workspaces) -> None:
    (namespace,) = fill(wide, "a")
    sync = wide.wsync(to=BOTH)
    assert is_where_it_says(wide, sync, namespace) == {namespace: ["east", "west"]}


def test_a_namespace_goes_as_a_whole_to_as_many_clusters_as_asked_for(wide: Workspaces) -> None:
    sync = wide.wsync(to=BOTH, placement=ONE)
    namespaces = [placed_at(wide, sync, cluster) for cluster in BOTH]
    places = is_where_it_says(wide, sync, *namespaces)
    assert {len(clusters) for clusters in places.values()} == {1}
    assert all(one["reason"] or one.get("message") for one in sync.status["placement"])


def test_spread_by_a_label_takes_clusters_of_different_values(wide: Workspaces) -> None:
    (namespace,) = fill(wide, "a")
    sync = wide.wsync(to=BOTH, placement={"strategy": "Spread", "count": 2, "spreadBy": "zone"})
    assert is_where_it_says(wide, sync, namespace) == {namespace: ["east", "west"]}


def test_a_cluster_that_no_weight_matches_gets_nothing(wide: Workspaces) -> None:
    namespaces = fill(wide, "a", "b")
    weights = [{"matchLabels": {"zone": "b"}, "weight": 1}]
    sync = wide.wsync(to=BOTH, placement={"strategy": "Weighted", "weights": weights})
    assert set(map(str, is_where_it_says(wide, sync, *namespaces).values())) == {"['west']"}


def test_where_copies_are_they_stay(wide: Workspaces) -> None:
    namespaces = fill(wide, "a", "b")
    sync = wide.wsync(to=["east"], placement=ONE)
    before = is_where_it_says(wide, sync, *namespaces)
    assert set(map(str, before.values())) == {"['east']"}
    sync.change(downstream={"syncTargets": list(BOTH)})
    assert is_where_it_says(wide, sync, *namespaces) == before
    late = placed_at(wide, sync, "west")
    assert is_where_it_says(wide, sync, late, *namespaces) == {**sync.places(), **before}


def test_a_cluster_that_takes_no_new_work_keeps_what_it_has(wide: Workspaces) -> None:
    (old,) = fill(wide, "old")
    sync = wide.wsync(to=["east"], placement=ONE)
    is_where_it_says(wide, sync, old)
    wide.find_target("east").edit(lambda body: body["spec"].update(unschedulable=True))
    sync.change(downstream={"syncTargets": list(BOTH)})
    new = fill(wide, "new-1", "new-2")
    places = is_where_it_says(wide, sync, old, *new)
    assert places == {old: ["east"], **{namespace: ["west"] for namespace in new}}


def test_a_cluster_whose_watch_is_behind_gets_nothing_that_it_does_not_take_any_more(
    arena: Sandbox, arena_kubeconfig: Path, lone: Remote, west: Remote
) -> None:
    """The watch of SyncTargets is silent: what it has not told must not decide where a namespace stays for good."""
    with FaultProxy(arena) as proxy, OperatorProcess(proxy.kubeconfig(arena_kubeconfig), "--allow-loopback") as running:
        world = Workspaces(arena, lone, east=west)
        (old,) = fill(world, "old")
        sync = world.wsync(to=["east"], placement=ONE)
        until(sync.places, lambda seen: seen == {old: ["east"]})
        sync.is_ready()
        silence = proxy.inject(
            Fault(silent=True), when=lambda asked: asked.verb == "watch" and asked.resource == "synctargets"
        )
        world.find_target("east").edit(lambda body: body["spec"].update(unschedulable=True))
        (new,) = fill(world, "new")
        until(lambda: sync.placement(new).get("message", ""), lambda told: "east is unschedulable" in told)
        assert sync.places() == {old: ["east"], new: []}
        assert world.down("ConfigMap", new).look() is None
        # A sync that has never used the cluster does not begin to.
        other = world.wsync("other", to=["east"])
        other.fails("east is unschedulable")
        silence.lift()
        world.find_target("east").edit(lambda body: body["spec"].update(unschedulable=False))
        until(sync.places, lambda seen: seen == {old: ["east"], new: ["east"]})
        assert running.returncode is None
        world.end()


def test_a_cluster_that_does_not_serve_a_kind_is_not_chosen(wide: Workspaces) -> None:
    wide.define_widgets(wide.upstream)
    wide.define_widgets(wide.clusters["west"])
    namespaces = [wide.above(short) for short in ("a", "b")]
    for namespace in namespaces:
        wide.widget(namespace, size=1)
    sync = wide.wsync("sync", wide.widgets(), to=BOTH, placement=ONE)
    for namespace in namespaces:
        wide.down("Widget", namespace, at="west").appears()
    until(sync.places, lambda seen: seen == {namespace: ["west"] for namespace in namespaces})


def test_a_cluster_that_is_taken_away_is_emptied_after_its_work_has_moved(
    wide: Workspaces, west_proxy: FaultProxy
) -> None:
    wide.credential("west", wide.clusters["west"], server=west_proxy.server)
    (namespace,) = fill(wide, "a")
    sync = wide.wsync(to=["east"], placement=ONE)
    is_where_it_says(wide, sync, namespace)
    closed = west_proxy.inject(
        Fault(status=503), when=lambda asked: asked.changes and asked.resource in ("namespaces", "configmaps")
    )
    sync.change(downstream={"syncTargets": ["west"]})
    sync.has_trouble()
    sync.now()
    assert where(wide, namespace) == ["east"]
    closed.lift()
    until(lambda: where(wide, namespace), lambda seen: seen == ["west"])
    sync.is_ready()


def test_a_lost_cluster_moves_and_deletes_nothing_by_itself(wide: Workspaces, west_proxy: FaultProxy) -> None:
    wide.credential("west", wide.clusters["west"], server=west_proxy.server)
    sync = wide.wsync(to=BOTH, placement=ONE)
    lost = placed_at(wide, sync, "west")
    before = is_where_it_says(wide, sync, lost)
    uid = wide.down("ConfigMap", lost, at="west").uid
    outage = west_proxy.inject(Fault(lost=True), when=lambda _: True)
    west_proxy.cut_watches()
    sync.doubts("west")
    sync.now()
    assert sync.places() == before
    assert wide.down("ConfigMap", lost).look() is None
    outage.lift()
    assert is_where_it_says(wide, sync, lost) == before
    assert wide.down("ConfigMap", lost, at="west").uid == uid


def test_a_cluster_whose_credential_is_away_for_a_moment_moves_and_deletes_nothing(wide: Workspaces) -> None:
    """Such as a Secret that is being replaced."""
    sync = wide.wsync(to=BOTH, placement={**ONE, "evictAfter": "1h"})
    lost = placed_at(wide, sync, "west")
    before = is_where_it_says(wide, sync, lost)
    uid = wide.down("ConfigMap", lost, at="west").uid
    forget_credential(wide, "west")
    sync.fails("west")
    sync.now()
    assert sync.places() == before
    assert wide.down("ConfigMap", lost).look() is None
    wide.credential("west", wide.clusters["west"])
    assert is_where_it_says(wide, sync, lost) == before
    assert wide.down("ConfigMap", lost, at="west").uid == uid


def forget_credential(world: Workspaces, name: str) -> None:
    """Delete the Secret of a SyncTarget."""
    world.sandbox.request("DELETE", f"/api/v1/namespaces/{world.home}/secrets/{name}")


def test_a_new_operator_has_the_same_patience_with_a_lost_cluster(
    arena: Sandbox, arena_kubeconfig: Path, lone: Remote, above: Remote, west: Remote
) -> None:
    """It has never seen the cluster, which another operator has seen until a moment ago."""
    with proxied(west.sandbox) as link:
        world = Workspaces(arena, lone, east=above, west=west)
        world.credential("west", west, server=link.server)
        with OperatorProcess(arena_kubeconfig, "--allow-loopback"):
            sync = world.wsync(to=BOTH, placement={**ONE, "evictAfter": "1h"})
            lost = placed_at(world, sync, "west")
            before = is_where_it_says(world, sync, lost)
        outage = link.inject(Fault(lost=True), when=lambda _: True)
        with OperatorProcess(arena_kubeconfig, "--allow-loopback") as running:
            sync.doubts("west cannot be reached")
            sync.now()
            assert sync.places() == before
            assert world.down("ConfigMap", lost).look() is None
            outage.lift()
            assert is_where_it_says(world, sync, lost) == before
            assert running.returncode is None
            world.end()


def test_a_lost_cluster_is_left_after_the_time_that_a_sync_gives_it(wide: Workspaces, west_proxy: FaultProxy) -> None:
    wide.credential("west", wide.clusters["west"], server=west_proxy.server)
    sync = wide.wsync(to=BOTH, placement={**ONE, "evictAfter": "1s"})
    lost = placed_at(wide, sync, "west")
    is_where_it_says(wide, sync, lost)
    outage = west_proxy.inject(Fault(lost=True), when=lambda _: True)
    west_proxy.cut_watches()
    wide.down("ConfigMap", lost).appears()
    until(lambda: sync.places().get(lost), lambda seen: seen == ["east"])
    assert wide.down("ConfigMap", lost, at="west").look() is not None
    outage.lift()
    wide.down("ConfigMap", lost, at="west").gone()
    assert is_where_it_says(wide, sync, lost)[lost] == ["east"]


def test_no_cluster_to_go_to_is_told(wide: Workspaces) -> None:
    (namespace,) = fill(wide, "a")
    for name in BOTH:
        wide.find_target(name).edit(lambda body: body["spec"].update(unschedulable=True))
    sync = wide.wsync(to=BOTH, placement=ONE)
    sync.has_trouble(namespace)
    wide.find_target("west").edit(lambda body: body["spec"].update(unschedulable=False))
    wide.down("ConfigMap", namespace, at="west").appears()
    wide.find_target("east").edit(lambda body: body["spec"].update(unschedulable=False))
    sync.is_ready()
    assert sync.places() == {namespace: ["west"]}


# Replicas.


class Divided:
    """A Deployment upstream whose replicas are divided among two clusters."""

    def __init__(self, world: Workspaces, count: int, **placement: Any) -> None:
        self.world = world
        self.namespace = world.above("shop")
        self.source = world.deployment(self.namespace, replicas=count)
        self.sync = world.wsync(
            "sync", "deployments", to=BOTH, placement={"strategy": "All", "replicas": "Divide", **placement}
        )
        self.copies = {name: world.down("Deployment", self.namespace, at=name) for name in BOTH}

    def shares(self) -> list[int]:
        return [int(copy.at("spec", "replicas") or 0) if copy.look() else -1 for copy in self.copies.values()]

    def become(self, *shares: int) -> None:
        until(self.shares, lambda seen: seen == list(shares))
        self.sync.is_ready()


def test_by_default_each_cluster_has_all_replicas(wide: Workspaces) -> None:
    divided = Divided(wide, 3, replicas="Duplicate")
    divided.become(3, 3)


def test_replicas_are_divided_evenly_and_the_remainder_stays_where_it_is(wide: Workspaces) -> None:
    divided = Divided(wide, 4)
    divided.become(2, 2)
    divided.source.put("spec", "replicas", value=5)
    until(divided.shares, lambda seen: sum(seen) == 5)
    shares = divided.shares()
    assert sorted(shares) == [2, 3]
    divided.source.put("spec", "replicas", value=7)
    until(divided.shares, lambda seen: sum(seen) == 7)
    assert (divided.shares()[0] > divided.shares()[1]) == (shares[0] > shares[1])
    wide.comes_to_rest(divided.sync)


def test_replicas_are_divided_by_weight(wide: Workspaces) -> None:
    weights = [{"matchLabels": {"zone": "a"}, "weight": 3}, {"matchLabels": {"zone": "b"}, "weight": 1}]
    divided = Divided(wide, 8, strategy="Weighted", weights=weights)
    divided.become(6, 2)


def test_a_cluster_whose_credential_is_away_keeps_its_share(wide: Workspaces) -> None:
    divided = Divided(wide, 4)
    divided.become(2, 2)
    forget_credential(wide, "west")
    divided.sync.fails("west")
    divided.sync.now()
    assert divided.shares() == [2, 2]


def test_replicas_that_an_autoscaler_has_set_stay_and_the_sum_is_not_claimed(wide: Workspaces) -> None:
    divided = Divided(wide, 4)
    divided.become(2, 2)
    east = divided.copies["east"]
    edit_at(
        wide.clusters["east"].sandbox,
        f"{east.path}/scale",
        lambda scale: scale["spec"].update(replicas=9),
        "?fieldManager=autoscaler",
    )
    divided.sync.now()
    divided.source.put("spec", "minReadySeconds", value=3)
    east.shows("spec", "minReadySeconds", value=3)
    assert east.at("spec", "replicas") == 9
    divided.sync.now()
    assert divided.shares() == [9, 2]


def test_a_cluster_that_leaves_gives_its_share_back_and_takes_one_when_it_returns(wide: Workspaces) -> None:
    divided = Divided(wide, 4)
    divided.become(2, 2)
    divided.sync.change(downstream={"syncTargets": ["east"]})
    until(lambda: divided.copies["east"].at("spec", "replicas"), lambda seen: seen == 4)
    divided.copies["west"].gone()
    divided.sync.change(downstream={"syncTargets": list(BOTH)})
    divided.become(2, 2)
