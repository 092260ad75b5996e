"""The spec goes down: which objects, into which namespaces, and in which form."""

from threading import Event

import pytest
from tests.configmapsync.world import until
from tests.fleet.world import Remote
from tests.manifestsync.world import Object, service_spec
from tests.workspacesync.world import UPSTREAM, Workspaces, resource

from syncline.core.ownership import OWNER_LABEL
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.faults import Asked, Fault
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

# More than are read one by one.
MANY = 25


def test_deployments_services_config_maps_and_secrets_come_down_unless_a_sync_says_otherwise(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.deployment(namespace, replicas=0)
    world.service(namespace)
    world.data(namespace)
    world.keep(namespace, password="rather-secret-1")
    sync = world.wsync(resources=None)
    for kind in ("Deployment", "Service", "ConfigMap", "Secret"):
        world.down(kind, namespace).appears()
        assert world.down(kind, namespace).marked
    assert world.down("Secret", namespace).values == {"password": "rather-secret-1"}
    sync.is_ready()
    assert {one["clusterName"] for one in sync.status["targetStatuses"]} == {"east"}


def test_what_changes_upstream_changes_below(world: Workspaces) -> None:
    first = world.above("first")
    source = world.data(first)
    sync = world.wsync()
    copy = world.down("ConfigMap", first)
    copy.holds_data(colour="red")
    source.put("data", "colour", value="blue")
    copy.holds_data(colour="blue")
    world.data(first, "other", size="1")
    world.down("ConfigMap", first, "other").holds_data(size="1")
    second = world.above("second")
    world.data(second)
    world.down("ConfigMap", second).appears()
    source.delete()
    copy.gone()
    sync.is_ready()
    world.comes_to_rest(sync)


def test_an_edit_or_a_deletion_below_is_noticed_and_repaired(world: Workspaces) -> None:
    """kcp #2709: the syncer of TMC watched deletions below, and nothing else."""
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    copy = world.down("ConfigMap", namespace)
    copy.put("data", "colour", value="green")
    copy.holds_data(colour="red")
    copy.delete()
    copy.holds_data(colour="red")


def test_nothing_that_names_the_upstream_comes_down(world: Workspaces) -> None:
    namespace = world.above("shop")
    owner = world.data(namespace, "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    metadata = {
        "labels": {"app": "shop", "claimed.internal.apis.kcp.io/abc": "def"},
        "annotations": {"team": "blue", "kcp.io/cluster": "2kcs1p9z", "kcp.io/path": "root:team"},
        "ownerReferences": [reference],
        "finalizers": ["example.com/hold"],
    }
    source = world.data(namespace, metadata=metadata)
    world.wsync()
    copy = world.down("ConfigMap", namespace)
    copy.appears()
    assert copy.labels == {"app": "shop"}
    assert copy.annotations == {"team": "blue"}
    assert "ownerReferences" not in copy.read()["metadata"]
    assert "finalizers" not in copy.read()["metadata"]
    assert copy.uid != source.uid
    source.edit(lambda body: body["metadata"].update(finalizers=[]))


def test_no_finalizer_is_put_on_what_is_upstream(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    before = source.version
    sync = world.wsync()
    sync.is_ready()
    assert "finalizers" not in source.read()["metadata"]
    assert source.version == before


def test_addresses_and_ports_that_the_upstream_has_allocated_stay_there(world: Workspaces) -> None:
    namespace, taken = world.above("shop"), world.namespace_at(world.clusters["east"], f"{world.name}-taken")
    source = world.service(namespace)
    _occupy(world.down("Service", taken), source)
    headless = {"clusterIP": "None", "type": "ClusterIP"}
    world.service(namespace, "headless", **headless)
    sync = world.wsync("sync", "services")
    sync.is_ready()
    copy = world.down("Service", namespace)
    assert copy.at("spec", "ports", 0, "port") == 80
    assert copy.at("spec", "clusterIP") != source.at("spec", "clusterIP")
    assert world.down("Service", namespace, "headless").at("spec", "clusterIP") == "None"


def _occupy(thing: Object, source: Object) -> None:
    """Have somebody below use the address and the port that a Service has upstream, unless somebody does already."""
    ports = [{"port": 80, "nodePort": source.at("spec", "ports", 0, "nodePort")}]
    try:
        thing.create(
            {
                "metadata": {"name": "app"},
                "spec": {**service_spec(), "clusterIP": source.at("spec", "clusterIP"), "ports": ports},
            }
        )
    except RequestError as error:
        assert error.status == 422  # noqa: PT017 - it is taken, which is what this is about


def test_what_each_cluster_makes_for_itself_is_never_taken(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace, "kube-root-ca.crt", **{"ca.crt": "of the upstream"})
    world.data(namespace)
    world.up("Secret", namespace, "token").create(
        {
            "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}},
            "type": "kubernetes.io/service-account-token",
        }
    )
    world.up("Secret", namespace, "plain").create({"metadata": {"name": "plain"}})
    sync = world.wsync("sync", "configmaps", "secrets")
    sync.is_ready()
    assert set(world.copies_at()) == {(namespace, "app")}
    assert set(world.copies_at("secrets")) == {(namespace, "plain")}


@pytest.mark.parametrize(
    ("group", "plural"), [("", "events"), ("coordination.k8s.io", "leases"), ("", "endpoints"), ("", "namespaces")]
)
def test_a_sync_of_what_only_its_own_cluster_can_use_is_refused(world: Workspaces, group: str, plural: str) -> None:
    with pytest.raises(RequestError) as refused:
        world.wsync("sync", resource(plural, group=group))
    assert refused.value.status == 422


def test_what_another_sync_has_written_upstream_is_a_copy_and_is_passed_over(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.source(colour="red")
    world.sync("maps", destinationNamespace=namespace).becomes("Synced")
    world.data(namespace, "own")
    sync = world.wsync()
    sync.is_ready()
    world.down("ConfigMap", namespace, "own").appears()
    assert set(world.copies_at()) == {(namespace, "own")}
    assert sync.status["copiesSkipped"] == 1


# Transforms.


def test_transforms_remove_set_and_patch(world: Workspaces) -> None:
    namespace = world.above("shop")
    spec = world.deployment(namespace, replicas=0)
    spec.put("spec", "template", "spec", "nodeSelector", value={"disk": "fast"})
    world.data(namespace)
    sync = world.wsync(
        "sync",
        "deployments",
        "configmaps",
        transforms=[
            {"resource": "deployments.apps", "remove": ["/spec/template/spec/nodeSelector", "/spec/absent/too"]},
            {
                "resource": "deployments.apps",
                "patch": [{"op": "add", "path": "/metadata/labels/from", "value": "kcp"}],
                "set": {"/spec/template/metadata/annotations/deep": "made"},
            },
            {"resource": "configmaps", "set": {"/data/cluster": "{{ target.cluster }}"}},
        ],
    )
    sync.is_ready()
    copy = world.down("Deployment", namespace)
    assert copy.at("spec", "template", "spec", "nodeSelector") is None
    assert copy.labels["from"] == "kcp"
    assert copy.at("spec", "template", "metadata", "annotations", "deep") == "made"
    assert world.down("ConfigMap", namespace).at("data") == {"colour": "red", "cluster": "east"}
    world.comes_to_rest(sync)


def test_a_transform_does_not_take_our_marks(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace, metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}})
    sync = world.wsync(transforms=[{"resource": "configmaps", "remove": ["/metadata/labels", "/metadata/annotations"]}])
    sync.is_ready()
    copy = world.down("ConfigMap", namespace)
    assert copy.marked
    assert (copy.labels, copy.annotations) == ({}, {})


def test_a_transform_for_some_clusters_leaves_the_others_as_they_are(wide: Workspaces) -> None:
    namespace = wide.above("shop")
    wide.data(namespace)
    eu = {"matchLabels": {"region": "eu"}}
    sync = wide.wsync(
        to=["east", "west"],
        transforms=[{"resource": "configmaps", "set": {"/data/cluster": "{{ target.cluster }}"}, "targets": eu}],
    )
    sync.is_ready()
    assert wide.down("ConfigMap", namespace).at("data") == {"colour": "red", "cluster": "east"}
    assert wide.down("ConfigMap", namespace, at="west").at("data") == {"colour": "red"}


# Resources.


def test_a_selector_chooses_objects(world: Workspaces) -> None:
    namespace = world.above("shop")
    chosen = world.data(namespace, metadata={"labels": {"sync": "yes"}})
    other = world.data(namespace, "other")
    sync = world.wsync("sync", resource("configmaps", selector={"matchLabels": {"sync": "yes"}}))
    sync.is_ready()
    assert set(world.copies_at()) == {(namespace, "app")}
    other.label(sync="yes")
    world.down("ConfigMap", namespace, "other").appears()
    chosen.label(sync=None)
    world.down("ConfigMap", namespace).gone()


def test_a_kind_of_ones_own_goes_down_once_the_cluster_serves_it(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.define_widgets(world.upstream)
    world.widget(namespace, size=1)
    world.data(namespace)
    sync = world.wsync("sync", world.widgets(), "configmaps")
    world.down("ConfigMap", namespace).appears()
    name = f"widgets.{world.group}"
    refused = {name: "Incompatible", "configmaps": "Accepted"}
    until(lambda: world.resources_of("east"), lambda states: refused.items() <= states.items())
    sync.has_trouble("widgets")
    world.define_widgets(world.clusters["east"])
    until(world.down("Widget", namespace).look, lambda seen: seen is not None and seen["spec"] == {"size": 1})
    until(lambda: world.resources_of("east").get(name), lambda state: state == "Accepted")
    sync.is_ready()


def test_a_kind_that_the_credential_may_not_create_is_incompatible_until_it_may(
    sandbox: Sandbox, operator: OperatorProcess, above: Remote, arena: Sandbox
) -> None:
    account = Remote(arena)
    account.allow("namespaces", "secrets", read=["configmaps"])
    world = Workspaces(sandbox, above, east=account)
    namespace = world.above("shop")
    world.data(namespace)
    world.keep(namespace, word="s3cr3t-of-the-shop")
    sync = world.wsync("sync", "configmaps", "secrets")
    world.down("Secret", namespace).appears()
    until(lambda: world.resources_of("east"), lambda seen: seen.get("configmaps") == "Incompatible")
    assert world.resources_of("east")["secrets"] == "Accepted"
    sync.has_trouble("create")
    account.allow("namespaces", "secrets", "configmaps")
    world.down("ConfigMap", namespace).appears()
    until(lambda: world.resources_of("east"), lambda seen: seen.get("configmaps") == "Accepted")
    sync.is_ready()
    world.end()
    assert operator.returncode is None


def test_a_change_while_an_edited_spec_is_read_for_the_first_time_is_not_missed(
    world: Workspaces, upstream_proxy: FaultProxy
) -> None:
    """The upstream has answered, and the answer is on its way, when somebody writes."""
    world.credential(UPSTREAM, world.upstream, server=upstream_proxy.server)
    namespace = world.above("shop")
    world.keep(namespace, "first", word="s3cr3t-one")
    sync = world.wsync()
    sync.is_ready()
    answered, passed_on = Event(), Event()

    def hold() -> None:
        answered.set()
        passed_on.wait(60)

    slow = upstream_proxy.inject(
        Fault(after=hold), when=lambda asked: (asked.verb, asked.resource) == ("list", "secrets"), times=1
    )
    sync.change(resources=[resource("configmaps"), resource("secrets")])
    assert answered.wait(60)
    world.keep(namespace, "second", word="s3cr3t-two")
    passed_on.set()
    world.down("Secret", namespace, "second").appears()
    world.down("Secret", namespace, "first").appears()
    slow.lift()
    sync.is_ready()


def test_cluster_scoped_objects_go_down_where_a_sync_asks_for_them(world: Workspaces) -> None:
    source = world.up("PriorityClass", "", world.name)
    source.create({"metadata": {"name": world.name, "labels": {"world": world.name}}, "value": 7})
    asked = {
        "group": "scheduling.k8s.io",
        "version": "v1",
        "resource": "priorityclasses",
        "selector": {"matchLabels": {"world": world.name}},
    }
    sync = world.wsync("sync", asked)
    copy = world.down("PriorityClass", "", world.name)
    copy.appears()
    assert copy.marked
    assert copy.at("value") == 7
    sync.is_ready()
    source.delete()
    copy.gone()


def test_a_resource_that_fails_holds_up_no_other(world: Workspaces, upstream_proxy: FaultProxy) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    world.up("Secret", namespace).create({"metadata": {"name": "app"}})
    world.credential("upstream", world.upstream, server=upstream_proxy.server)
    broken = upstream_proxy.inject(Fault(status=500), when=lambda asked: asked.resource == "secrets")
    sync = world.wsync("sync", "secrets", "configmaps")
    world.down("ConfigMap", namespace).holds_data(colour="red")
    sync.has_trouble("secrets")
    world.up("ConfigMap", namespace).put("data", "colour", value="blue")
    world.down("ConfigMap", namespace).holds_data(colour="blue")
    broken.lift()
    world.down("Secret", namespace).appears()
    sync.is_ready()


def test_one_watch_of_a_resource_serves_all_syncs(world: Workspaces, upstream_proxy: FaultProxy) -> None:
    world.credential("upstream", world.upstream, server=upstream_proxy.server)
    namespace = world.above("shop")
    world.data(namespace)
    for number in range(3):
        mapping = {"prefix": f"{world.name}-{number}-"}
        world.wsync(f"sync-{number}", namespaces=world.followed(mapping=mapping)).is_ready()

    def watches() -> list[str]:
        found = [one for one in upstream_proxy.open_watches() if one.resource == "configmaps"]
        return sorted(one.query["labelSelector"] for one in found)

    until(watches, lambda seen: seen == [f"!{OWNER_LABEL}", OWNER_LABEL])
    bodies = [one for one in upstream_proxy.requests if one.verb == "get" and one.namespace == namespace]
    assert len(bodies) <= 3


def test_the_first_sync_lists_the_objects_of_the_upstream_once_whatever_happens_meanwhile(
    world: Workspaces, upstream_proxy: FaultProxy
) -> None:
    world.credential("upstream", world.upstream, server=upstream_proxy.server)
    namespace = world.above("shop")
    source = world.data(namespace)
    answered, passed_on = Event(), Event()

    def hold() -> None:
        answered.set()
        passed_on.wait(60)

    lists = upstream_proxy.inject(Fault(after=hold), when=_lists_config_maps)
    sync = world.wsync()
    assert answered.wait(60)
    source.put("data", "colour", value="blue")
    sync.label(news="now")
    passed_on.set()
    world.down("ConfigMap", namespace).holds_data(colour="blue")
    sync.is_ready()
    # Objects that other tests left there may be too large for one answer: then the same list asks for smaller pages.
    assert [one.query["limit"] for one in lists.hits].count("500") == 1


def test_syncs_with_different_selectors_read_only_what_they_select(
    world: Workspaces, upstream_proxy: FaultProxy
) -> None:
    """They share one watch, which reports the objects of both."""
    world.credential("upstream", world.upstream, server=upstream_proxy.server)
    namespace = world.above("shop")
    chosen = world.data(namespace, metadata={"labels": {"sync": "yes"}})
    others = [world.data(namespace, f"other-{number:02}") for number in range(MANY)]
    world.wsync("all").is_ready()
    few = world.wsync(
        "few",
        resource("configmaps", selector={"matchLabels": {"sync": "yes"}}),
        namespaces=world.followed(mapping={"prefix": f"{world.name}-few-"}),
    )
    few.is_ready()
    lists = upstream_proxy.inject(Fault(), when=lambda asked: _lists_config_maps(asked) and _selects(asked))
    gets = upstream_proxy.inject(Fault(), when=lambda asked: (asked.verb, asked.resource) == ("get", "configmaps"))
    few.now()
    assert (lists.hits, gets.hits) == ([], [])
    mapped = f"{world.name}-few-{namespace}"
    others[0].label(sync="yes")
    world.down("ConfigMap", mapped, others[0].name).appears()
    chosen.label(sync=None)
    world.down("ConfigMap", mapped).gone()
    few.is_ready()
    assert lists.hits == []


def _lists_config_maps(asked: Asked) -> bool:
    """Whether a request reads the ConfigMaps themselves: not one of them, not its version alone, not a next page."""
    is_list = (asked.verb, asked.resource) == ("list", "configmaps")
    is_watch = OWNER_LABEL in asked.query.get("labelSelector", "")  # it lists again, or checks a version
    return is_list and not is_watch and not asked.query.keys() & {"continue", "fieldSelector"}


def _selects(asked: Asked) -> bool:
    return asked.query.get("labelSelector", "") == "sync=yes"


# Both ends.


def test_this_cluster_is_the_upstream_of_a_sync_that_names_none(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    sync = world.wsync(upstream=None)
    world.down("ConfigMap", namespace).holds_data(colour="red")
    source.put("data", "colour", value="blue")
    world.down("ConfigMap", namespace).holds_data(colour="blue")
    sync.is_ready()


def test_a_sync_target_of_the_own_namespace_can_be_the_upstream(world: Workspaces) -> None:
    world.target("above", secret="upstream")
    namespace = world.above("shop")
    world.data(namespace)
    connection = {"type": "SyncTarget", "syncTargetRef": {"name": "above"}}
    sync = world.wsync(upstream={"connection": connection})
    world.down("ConfigMap", namespace).holds_data(colour="red")
    sync.is_ready()


def test_the_same_names_in_the_same_cluster_are_refused_and_other_names_are_not(world: Workspaces) -> None:
    world.target("self", secret="upstream")
    namespace = world.above("shop")
    source = world.data(namespace)
    before = source.version
    sync = world.wsync(to=["self"])
    sync.fails()
    assert source.version == before
    sync.change(namespaces=world.followed(mapping={"prefix": f"{world.name}-copy-"}))
    world.up("ConfigMap", f"{world.name}-copy-{namespace}").appears()
    sync.is_ready()
    assert source.version == before


@pytest.mark.parametrize("mapping", [{"template": "{{ namespace }}"}, {"fixed": ""}], ids=str)
def test_a_mapping_that_gives_the_same_name_in_the_same_cluster_is_refused(
    world: Workspaces, mapping: dict[str, str]
) -> None:
    world.target("self", secret="upstream")
    namespace = world.above("shop")
    source = world.data(namespace)
    before = source.version
    same = {kind: text or namespace for kind, text in mapping.items()}
    followed = world.followed(mapping=same, existing="Use")
    sync = world.wsync(to=["self"], namespaces=followed, resourceManagementPolicy="Adopt")
    sync.fails("SameCluster", "its own copy")
    assert source.version == before


def test_a_cluster_scoped_object_is_never_its_own_copy(world: Workspaces) -> None:
    world.target("self", secret="upstream")
    world.define_widgets(world.upstream, scope="Cluster")
    source = world.widget("", size=1)
    before = source.version
    mapped = world.followed(mapping={"prefix": f"{world.name}-copy-"})
    sync = world.wsync("sync", world.widgets(), to=["self"], namespaces=mapped, resourceManagementPolicy="Adopt")
    sync.fails("SameCluster", "its own copy")
    assert source.version == before


def test_labels_choose_the_clusters_below(wide: Workspaces) -> None:
    namespace = wide.above("shop")
    wide.data(namespace)
    sync = wide.wsync(downstream={"selector": {"matchLabels": {"region": "eu"}}})
    wide.down("ConfigMap", namespace).appears()
    sync.is_ready()
    assert wide.copies_at(cluster="west") == {}
    wide.find_target("west").label(region="eu")
    wide.down("ConfigMap", namespace, at="west").appears()
    wide.find_target("west").label(region="us")
    wide.down("ConfigMap", namespace, at="west").gone()
    assert wide.down("ConfigMap", namespace).look() is not None


def test_a_suspended_sync_reads_and_writes_nothing(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    with world.asleep(sync):
        source.put("data", "colour", value="blue")
        world.down("ConfigMap", namespace).put("data", "colour", value="green")
        sync.now()
        assert world.down("ConfigMap", namespace).at("data", "colour") == "green"
    world.down("ConfigMap", namespace).holds_data(colour="blue")


def test_what_is_below_and_not_ours_stays_as_it_is(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.namespace_at(world.clusters["east"], namespace)
    theirs = world.down("ConfigMap", namespace)
    theirs.create({"metadata": {"name": "app"}, "data": {"colour": "theirs"}})
    version = theirs.version
    world.data(namespace)
    world.data(namespace, "other")
    sync = world.wsync(namespaces=world.followed(existing="Use"))
    world.down("ConfigMap", namespace, "other").appears()
    sync.fails(f"{namespace}")
    assert theirs.version == version
    sync.delete()
    sync.gone()
    assert theirs.version == version


def test_the_history_tells_what_was_done(world: Workspaces) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    told = until(lambda: sync.status.get("history", []), bool)
    assert "created" in told[0]["changes"]
    sync.tells("Synced")


def test_a_sync_that_looks_for_nothing_is_ready(world: Workspaces) -> None:
    assert world.wsync().is_ready()["message"]
