"""Status goes up: what a cluster says of a copy is said of the object that it was made from.

The upstream is a plain cluster here; what Deployments need, which controllers of a plain cluster look after, is in
test_status_of_deployments.py.
"""

from typing import Any

import pytest
from tests.configmapsync.world import Json, until
from tests.manifestsync.world import Object
from tests.workspacesync.world import Workspaces, WorkspaceSync, report, resource

from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy

BALANCED = {"type": "LoadBalancer"}


def addresses(*found: str) -> dict[str, Any]:
    return {"ingress": [{"ip": address, "ipMode": "VIP"} for address in found]}


def shown(service: Object) -> list[str]:
    """Return the addresses of a Service."""
    return [entry["ip"] for entry in (service.at("status", "loadBalancer", "ingress") or [])]


def condition(kind: str, status: str, **more: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": "Told",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **more,
    }


def conditions_of(thing: Object) -> dict[str, dict[str, str]]:
    return {one["type"]: one for one in thing.at("status", "conditions") or []}


class Widgets:
    """A Widget upstream, and its copies."""

    def __init__(self, world: Workspaces, *clusters: str, **spec: Any) -> None:
        self.world = world
        for cluster in (world.upstream, *(world.clusters[name] for name in clusters)):
            world.define_widgets(cluster)
        self.namespace = world.above("shop")
        self.source = world.widget(self.namespace, size=1)
        self.sync: WorkspaceSync = world.wsync("sync", world.widgets(), to=clusters, **{"statusSync": True, **spec})
        self.sync.is_ready()
        self.copies = {name: world.down("Widget", self.namespace, at=name) for name in clusters}

    def tell(self, cluster: str = "east", **status: Any) -> None:
        """Say this in a cluster, about the spec as it is there."""
        copy = self.copies[cluster]
        report(copy, **{"observedGeneration": copy.read()["metadata"]["generation"], **status})

    def shows(self, **status: Any) -> None:
        """Wait until the upstream says this."""
        until(
            lambda: self.source.read().get("status", {}),
            lambda seen: all(seen.get(key) == value for key, value in status.items()),
        )

    @property
    def generation(self) -> int:
        return int(self.source.read()["metadata"]["generation"])


def test_the_addresses_of_a_service_go_up_and_follow(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.service(namespace, **BALANCED)
    sync = world.wsync("sync", "services", statusSync=True)
    sync.is_ready()
    copy = world.down("Service", namespace)
    report(copy, loadBalancer=addresses("192.0.2.7"))
    until(lambda: shown(source), lambda seen: seen == ["192.0.2.7"])
    report(copy, loadBalancer=addresses("192.0.2.8"))
    until(lambda: shown(source), lambda seen: seen == ["192.0.2.8"])
    report(copy, loadBalancer={})
    until(lambda: shown(source), lambda seen: seen == [])
    world.comes_to_rest(sync)


def test_the_addresses_of_several_clusters_are_united_and_sorted(wide: Workspaces) -> None:
    namespace = wide.above("shop")
    source = wide.service(namespace, **BALANCED)
    wide.wsync("sync", "services", to=["east", "west"], statusSync=True).is_ready()
    report(wide.down("Service", namespace), loadBalancer=addresses("192.0.2.9", "192.0.2.5"))
    report(wide.down("Service", namespace, at="west"), loadBalancer=addresses("192.0.2.5", "192.0.2.7"))
    until(lambda: shown(source), lambda seen: seen == ["192.0.2.5", "192.0.2.7", "192.0.2.9"])


def test_the_status_in_a_plain_cluster_is_left_to_its_own_controllers_unless_asked_for(world: Workspaces) -> None:
    widgets = Widgets(world, "east", statusSync=None)
    mark = world.mark_at(world.upstream)
    widgets.tell(phase="Running")
    widgets.sync.now()
    assert widgets.source.at("status") is None
    widgets.sync.change(statusSync=True)
    widgets.shows(phase="Running")
    written = world.written_at(world.upstream, mark)
    assert {entry.subresource for entry in written} == {"status"}


def test_the_status_of_any_kind_goes_up_and_the_spec_is_not_touched(world: Workspaces) -> None:
    widgets = Widgets(world, "east")
    mark = world.mark_at(world.upstream)
    spec, generation = widgets.source.spec, widgets.generation
    widgets.tell(phase="Running", deep={"list": [1, 2], "text": "x"}, conditions=[condition("Ready", "True")])
    widgets.shows(phase="Running", deep={"list": [1, 2], "text": "x"})
    assert conditions_of(widgets.source)["Ready"]["status"] == "True"
    assert (widgets.source.spec, widgets.generation) == (spec, generation)
    assert {entry.subresource for entry in world.written_at(world.upstream, mark)} == {"status"}


def test_status_that_goes_up_writes_nothing_down_and_nothing_when_it_is_equal(world: Workspaces) -> None:
    widgets = Widgets(world, "east")
    widgets.sync.now()
    below, above = world.mark_at(world.clusters["east"]), world.mark_at(world.upstream)
    for phase in ("Starting", "Running"):
        widgets.tell(phase=phase)
        widgets.shows(phase=phase)
    widgets.sync.now()
    assert [str(entry) for entry in world.written_at(world.clusters["east"], below)] == []
    assert len(world.written_at(world.upstream, above)) <= 2
    world.comes_to_rest(widgets.sync)


def test_the_generation_that_was_observed_is_the_upstreams_and_only_if_it_was_ours(world: Workspaces) -> None:
    widgets = Widgets(world, "east")
    copy = widgets.copies["east"]
    for size in (7, 8):  # the generations of the two sides differ from here on
        copy.put("spec", "size", value=size)
        copy.shows("spec", "size", value=1)
    widgets.tell(phase="One")
    widgets.shows(phase="One", observedGeneration=widgets.generation)
    before = copy.read()["metadata"]["generation"]
    assert before != widgets.generation
    widgets.source.put("spec", "size", value=2)
    copy.shows("spec", "size", value=2)
    widgets.tell(phase="Two", observedGeneration=before)
    widgets.shows(phase="Two")
    assert widgets.source.at("status", "observedGeneration") == widgets.generation - 1
    widgets.tell(phase="Two")
    widgets.shows(phase="Two", observedGeneration=widgets.generation)


def test_a_copy_that_was_edited_does_not_speak_of_the_generation_upstream(world: Workspaces) -> None:
    widgets = Widgets(world, "east", conflictStrategy="DownstreamWins")
    widgets.tell(phase="One")
    widgets.shows(phase="One", observedGeneration=1)
    with world.asleep(widgets.sync):
        widgets.source.put("spec", "size", value=2)
    widgets.copies["east"].shows("spec", "size", value=2)
    assert widgets.source.at("status", "observedGeneration") == 1
    widgets.tell(phase="Two")
    widgets.shows(phase="Two", observedGeneration=2)


def test_over_several_clusters_a_condition_is_true_if_all_say_so_and_a_failure_if_any_does(wide: Workspaces) -> None:
    widgets = Widgets(wide, "east", "west")
    good, bad = condition("Ready", "True"), condition("Ready", "False", message="one pod crashes")
    widgets.tell("east", conditions=[good, condition("Stalled", "False")])
    widgets.tell("west", conditions=[bad, condition("Stalled", "True")])
    until(lambda: conditions_of(widgets.source).get("Ready", {}).get("status"), lambda seen: seen == "False")
    until(lambda: conditions_of(widgets.source).get("Stalled", {}).get("status"), lambda seen: seen == "True")
    assert "west" in conditions_of(widgets.source)["Ready"]["message"]
    widgets.tell("west", conditions=[good, condition("Stalled", "False")])
    until(lambda: conditions_of(widgets.source)["Ready"]["status"], lambda seen: seen == "True")
    until(lambda: conditions_of(widgets.source)["Stalled"]["status"], lambda seen: seen == "False")


def test_over_several_clusters_other_fields_are_shown_only_where_all_agree(wide: Workspaces) -> None:
    widgets = Widgets(wide, "east", "west")
    widgets.tell("east", phase="Running", version="v1")
    widgets.tell("west", phase="Running", version="v2")
    widgets.shows(phase="Running", observedGeneration=widgets.generation)
    assert "version" not in widgets.source.read()["status"]
    widgets.tell("east", version="v2")
    widgets.shows(version="v2")


def test_the_generation_advances_when_all_clusters_have_observed_it(wide: Workspaces) -> None:
    widgets = Widgets(wide, "east", "west")
    for cluster in ("east", "west"):
        widgets.tell(cluster, phase="One")
    widgets.shows(phase="One", observedGeneration=1)
    widgets.source.put("spec", "size", value=2)
    for copy in widgets.copies.values():
        copy.shows("spec", "size", value=2)
    widgets.tell("east", seen="first")
    widgets.sync.now()
    assert widgets.source.at("status", "observedGeneration") == 1
    widgets.tell("west", seen="first")
    widgets.shows(seen="first", observedGeneration=2)


def test_a_cluster_out_of_reach_makes_conditions_unknown_and_holds_the_generation(
    wide: Workspaces, west_proxy: FaultProxy
) -> None:
    wide.credential("west", wide.clusters["west"], server=west_proxy.server)
    widgets = Widgets(wide, "east", "west")
    for cluster in ("east", "west"):
        widgets.tell(cluster, conditions=[condition("Ready", "True")])
    until(lambda: conditions_of(widgets.source).get("Ready", {}).get("status"), lambda seen: seen == "True")
    outage = west_proxy.inject(Fault(lost=True), when=lambda _: True)
    west_proxy.cut_watches()
    until(lambda: conditions_of(widgets.source)["Ready"]["status"], lambda seen: seen == "Unknown")
    said = conditions_of(widgets.source)["Ready"]["message"]
    assert "west" in said
    assert "last seen" in said
    widgets.source.put("spec", "size", value=2)
    widgets.copies["east"].shows("spec", "size", value=2)
    widgets.tell("east", conditions=[condition("Ready", "True")])
    widgets.sync.now()
    assert widgets.source.at("status", "observedGeneration") == 1
    outage.lift()
    widgets.sync.now()  # the cluster is asked at once
    widgets.copies["west"].shows("spec", "size", value=2)
    widgets.tell("west", conditions=[condition("Ready", "True")])
    until(lambda: conditions_of(widgets.source)["Ready"]["status"], lambda seen: seen == "True")
    widgets.shows(observedGeneration=2)


def test_a_status_that_somebody_else_writes_upstream_is_put_right(world: Workspaces) -> None:
    widgets = Widgets(world, "east")
    widgets.tell(phase="Running")
    widgets.shows(phase="Running")
    report(widgets.source, phase="Forged")
    widgets.shows(phase="Running")


def test_a_copy_without_a_status_leaves_the_upstream_alone(world: Workspaces) -> None:
    widgets = Widgets(world, "east")
    mark = world.mark_at(world.upstream)
    widgets.sync.now()
    assert [str(entry) for entry in world.written_at(world.upstream, mark)] == []


def test_a_re_created_object_gets_the_status_of_its_own_copy(world: Workspaces) -> None:
    widgets = Widgets(world, "east")
    widgets.tell(phase="Old")
    widgets.shows(phase="Old")
    widgets.source.delete()
    widgets.copies["east"].gone()
    world.widget(widgets.namespace, size=5)
    widgets.copies["east"].shows("spec", "size", value=5)
    widgets.tell(phase="New")
    widgets.shows(phase="New", observedGeneration=1)


def test_endpoints_stay_where_they_are_unless_a_sync_asks_for_them(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.service(namespace)
    sync = world.wsync("sync", "services", statusSync=True)
    sync.is_ready()
    subsets = [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "http", "port": 8080}]}]
    labels = world.down("Service", namespace).read()["metadata"]["labels"]
    metadata = {"name": "app", "labels": labels}
    world.down("Endpoints", namespace).create({"metadata": metadata, "subsets": subsets})
    sync.now()
    assert world.up("Endpoints", namespace).look() is None


def _slice(name: str, address: str) -> Json:
    """Return an EndpointSlice of the Service `app`, as the controllers of a cluster make them."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "app"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "nodeName": "node-1"}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def test_endpoints_go_up_where_a_sync_asks_for_them_and_never_down(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.service(namespace)
    sync = world.wsync("sync", "services", endpoints=True)
    sync.is_ready()
    world.up("EndpointSlice", namespace, "theirs").create(_slice("theirs", "192.0.2.1"))
    subsets = [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]
    world.down("Endpoints", namespace).create({"metadata": {"name": "app"}, "subsets": subsets})
    origin = world.down("EndpointSlice", namespace, "app-1")
    origin.create(_slice("app-1", "192.0.2.7"))
    world.up("Endpoints", namespace).shows("subsets", value=subsets)
    brought = world.up("EndpointSlice", namespace, "app-1")
    brought.shows("endpoints", 0, "addresses", 0, value="192.0.2.7")
    assert brought.marked
    assert "nodeName" not in brought.at("endpoints", 0), "a node below means nothing above"
    origin.put("endpoints", 0, "addresses", value=["192.0.2.8"])
    brought.shows("endpoints", 0, "addresses", 0, value="192.0.2.8")
    world.comes_to_rest(sync)
    assert world.down("EndpointSlice", namespace, "theirs").look() is None
    origin.delete()
    brought.gone()
    sync.change(endpoints=None)
    world.up("Endpoints", namespace).gone()
    assert world.up("EndpointSlice", namespace, "theirs").look() is not None


@pytest.mark.parametrize("strategy", ["Skip", "MergeChanges"])
def test_status_goes_up_whatever_the_strategy(world: Workspaces, strategy: str) -> None:
    """kcp #2147: a switch of modes moved status elsewhere, and it stopped."""
    widgets = Widgets(world, "east", conflictStrategy=strategy)
    widgets.tell(phase="Running")
    widgets.shows(phase="Running")
    direction = resource("widgets", group=world.group, direction="Bidirectional")
    widgets.sync.change(resources=[direction])
    widgets.sync.is_ready()
    widgets.tell(phase="Again")
    widgets.shows(phase="Again")
