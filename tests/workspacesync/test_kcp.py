"""A real kcp as the upstream: workspaces by their paths, their identity, their metadata, and one tale of it all."""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import yaml
from tests.configmapsync.world import Json, Thing, edit_at, until
from tests.workspacesync.world import (
    RESOLVE,
    UPSTREAM,
    KcpUpstream,
    Workspaces,
    WorkspaceSync,
    report,
    resource,
    run_pods,
)

from syncline.sandbox import Access, RequestError, Sandbox
from syncline.testing.faults import Fault
from syncline.testing.fixtures import WorkspaceFactory
from syncline.testing.kcp import KcpWorkspace
from syncline.testing.proxy import FaultProxy

BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"


def of(world: Workspaces) -> KcpWorkspace:
    """Return the workspace of a world."""
    assert isinstance(world.upstream, KcpUpstream)
    return world.upstream.sandbox


def by_path(path: str) -> Json:
    """Name a workspace, by the credential beside the syncs."""
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": UPSTREAM}}
    return {"connection": connection, "workspace": path}


def use_root(world: Workspaces, kcp: Sandbox) -> None:
    """Use the credential of workspace root."""
    world.keep_credential(UPSTREAM, {"kubeconfig": base64.b64encode(kcp.kubeconfig.read_bytes()).decode()})


def test_a_deployment_made_in_a_workspace_lives_in_two_clusters(
    wide_kcp_world: Workspaces, west_proxy: FaultProxy
) -> None:
    """The tale of a new user: up and down, edited on both sides, settled, and a cluster that dies and returns."""
    world = wide_kcp_world
    world.credential("west", world.clusters["west"], server=west_proxy.server)
    namespace = world.above("shop")
    source = world.deployment(namespace, replicas=1)
    world.data(namespace, "settings")
    sync = world.wsync(
        "team",
        resource("deployments", direction="Bidirectional", conflictStrategy="MergeChanges"),
        "configmaps",
        downstream={"syncTargets": ["east", "west"], "writer": "east"},
        onConflict="Report",
    )
    copies = {name: world.down("Deployment", namespace, at=name) for name in ("east", "west")}
    for cluster, copy in copies.items():
        copy.appears()
        run_pods(world.clusters[cluster], namespace, 1)
    source.shows("status", "availableReplicas", value=1)
    sync.is_ready()

    with world.asleep(sync):
        source.put("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")
        copies["east"].put("spec", "revisionHistoryLimit", value=4)
    source.shows("spec", "revisionHistoryLimit", value=4)
    for copy in copies.values():
        copy.shows("spec", "template", "spec", "containers", 0, "image", value="example.com/app:2")
        copy.shows("spec", "revisionHistoryLimit", value=4)

    with world.asleep(sync):
        source.put("spec", "minReadySeconds", value=1)
        copies["east"].put("spec", "minReadySeconds", value=2)
    sync.is_conflicted("minReadySeconds")
    source.annotate({RESOLVE: "Downstream"})
    source.shows("spec", "minReadySeconds", value=2)
    copies["west"].shows("spec", "minReadySeconds", value=2)
    sync.is_not_conflicted()

    uid = copies["west"].uid
    outage = west_proxy.inject(Fault(lost=True), when=lambda _: True)
    west_proxy.cut_watches()
    sync.doubts("west")
    world.up("ConfigMap", namespace, "settings").put("data", "colour", value="blue")
    world.down("ConfigMap", namespace, "settings").holds_data(colour="blue")
    outage.lift()
    world.down("ConfigMap", namespace, "settings", at="west").holds_data(colour="blue")
    sync.is_ready()
    assert copies["west"].uid == uid


def test_metadata_of_kcp_stays_in_the_workspace(plain_kcp_world: Workspaces) -> None:
    namespace = plain_kcp_world.above("shop")
    source = plain_kcp_world.data(namespace, metadata={"labels": {"app": "shop"}})
    assert any("kcp.io" in key for key in source.annotations)
    plain_kcp_world.wsync().is_ready()
    copy = plain_kcp_world.down("ConfigMap", namespace)
    assert copy.labels == {"app": "shop"}
    assert copy.annotations == {}
    below = plain_kcp_world.down("Namespace", "", namespace).read()["metadata"]
    assert "kcp.io" not in str(below["annotations"]).replace("syncline.dev", "")


def test_a_workspace_is_named_by_its_path_below_the_one_of_the_credential(
    plain_kcp_world: Workspaces, kcp: Sandbox, workspace_factory: WorkspaceFactory
) -> None:
    world = plain_kcp_world
    child = workspace_factory(parent=of(world))
    use_root(world, kcp)
    namespace = world.above("shop")
    world.data(namespace)
    child.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": {"world": world.name}}})
    data = {"metadata": {"name": "below"}, "data": {"of": "child"}}
    child.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", data)
    mapping = {"template": "{{ workspace.name }}-{{ namespace }}"}
    for name, workspace in (("one", of(world)), ("two", child)):
        world.wsync(name, upstream=by_path(workspace.path), namespaces=world.followed(mapping=mapping)).is_ready()
    world.down("ConfigMap", f"{of(world).name}-{namespace}").holds_data(colour="red")
    world.down("ConfigMap", f"{child.name}-{namespace}", "below").holds_data(of="child")
    assert world.down("ConfigMap", f"{child.name}-{namespace}").look() is None


def test_a_workspace_beside_the_one_of_the_credential_is_refused(
    plain_kcp_world: Workspaces, workspace_factory: WorkspaceFactory
) -> None:
    other = workspace_factory()
    sync = plain_kcp_world.wsync(upstream=by_path(other.path))
    sync.fails(other.path)
    sync.change(upstream=by_path(of(plain_kcp_world).path))
    sync.is_ready()


def test_a_workspace_that_does_not_exist_is_named(plain_kcp_world: Workspaces, kcp: Sandbox) -> None:
    use_root(plain_kcp_world, kcp)
    sync = plain_kcp_world.wsync(upstream=by_path("root:nobody-made-this"))
    sync.has_trouble("root:nobody-made-this")


def test_a_workspace_that_is_not_ready_is_named_and_waited_for(plain_kcp_world: Workspaces, kcp: Sandbox) -> None:
    """An admin can read it before."""
    world = plain_kcp_world
    use_root(world, kcp)
    with initializing(kcp, f"slow-{world.name}") as workspace:
        sync = world.wsync(upstream=by_path(workspace.path), namespaces=None)
        sync.doubts(workspace.path, "Initializing")
        assert world.copies_at() == {}
        workspace.edit(lambda body: body["status"].update(initializers=[]), "status")
        sync.is_ready()


class _Initializing:
    """A workspace whose initializer never ends by itself."""

    def __init__(self, path: str, access: Access) -> None:
        self.path = path
        self._access = access

    def edit(self, change: Callable[[Json], object], part: str) -> None:
        """Edit its LogicalCluster; once more if kcp was faster."""
        edit_at(self._access, LOGICAL_CLUSTER, change, f"/{part}")


@contextmanager
def initializing(kcp: Sandbox, name: str) -> Iterator[_Initializing]:
    """Make a workspace below root that stays in the phase Initializing."""
    tenancy = "/apis/tenancy.kcp.io/v1alpha1"
    head = {"apiVersion": "tenancy.kcp.io/v1alpha1", "metadata": {"name": name}}
    kcp.request("POST", f"{tenancy}/workspacetypes", {**head, "kind": "WorkspaceType", "spec": {"initializer": True}})
    found = Thing(kcp, f"{tenancy}/workspaces", name)
    try:
        until(lambda: kcp.request("GET", f"{tenancy}/workspacetypes/{name}").get("status"), bool)
        found.create({**head, "kind": "Workspace", "spec": {"type": {"name": name, "path": "root"}}})
        until(lambda: found.read().get("status", {}).get("phase"), lambda phase: phase == "Initializing")
        server = f"{kcp.server.removesuffix('/root')}/root:{name}"
        yield _Initializing(f"root:{name}", Access(kcp.folder, server, kcp.ca, kcp.token))
    finally:
        found.delete()
        kcp.request("DELETE", f"{tenancy}/workspacetypes/{name}")


def test_a_workspace_that_is_deleted_deletes_nothing_below(
    plain_kcp_world: Workspaces, workspace_factory: WorkspaceFactory
) -> None:
    world, sync, copies = filled(plain_kcp_world)
    of(world).delete()
    until(of(world).is_gone, bool)
    sync.has_trouble()
    sync.now()
    assert world.copies_at() == copies
    again = workspace_factory(of(world).name)
    sync.now()
    sync.has_trouble()
    assert world.copies_at() == copies
    labels = {"world": world.name}
    again.request("POST", "/api/v1/namespaces", {"metadata": {"name": f"{world.name}-x", "labels": labels}})
    sync.now()
    assert world.copies_at() == copies
    waiting = [one for one in sync.status["targetStatuses"] if one.get("reason") == "UpstreamReplaced"]
    assert {one["name"] for one in waiting if "kind" not in one} == {"a", "b", "c"}
    assert sync.status["targets"]["unwanted"] >= len(waiting)


def filled(world: Workspaces) -> tuple[Workspaces, WorkspaceSync, dict[tuple[str, str], str]]:
    """Have some objects of a workspace below."""
    namespace = world.above("shop")
    for name in ("a", "b", "c"):
        world.data(namespace, name)
    sync = world.wsync()
    sync.is_ready()
    return world, sync, world.copies_at()


def test_rights_that_are_lost_in_a_workspace_delete_nothing_below(plain_kcp_world: Workspaces) -> None:
    world = plain_kcp_world
    reader = KcpReader(of(world))
    world.keep_credential(UPSTREAM, reader.credential())
    reader.allow(["get", "list", "watch"])
    world, sync, copies = filled(world)
    reader.allow([])
    sync.now()
    sync.has_trouble()
    assert world.copies_at() == copies
    reader.allow(["get", "list", "watch"])
    sync.now()
    sync.is_ready()
    assert world.copies_at() == copies


class KcpReader:
    """An account of a workspace with the rights that a test gives it."""

    def __init__(self, workspace: KcpWorkspace) -> None:
        self._workspace = workspace
        workspace.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})

    def credential(self) -> dict[str, str]:
        """Return the values of a Secret that leads to the workspace."""
        token = self._workspace.service_account_token("default", "reader")
        path = self._workspace.kubeconfig_for(token, f"reader-{self._workspace.name}")
        return {"kubeconfig": base64.b64encode(path.read_bytes()).decode()}

    def allow(self, verbs: list[str]) -> None:
        """Have exactly these rights over everything."""
        rbac = "rbac.authorization.k8s.io"
        access = {"nonResourceURLs": ["/"], "verbs": ["access"]}
        rules: list[Json] = [access, {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}] if verbs else [access]
        subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
        head = {"apiVersion": f"{rbac}/v1", "metadata": {"name": "reader"}}
        reference = {"apiGroup": rbac, "kind": "ClusterRole", "name": "reader"}
        bound = {"roleRef": reference, "subjects": [subject]}
        for kind, body in (("ClusterRole", {"rules": rules}), ("ClusterRoleBinding", bound)):
            path = f"/apis/{rbac}/v1/{kind.lower()}s/reader?fieldManager=tests&force=true"
            self._workspace.request("PATCH", path, {**head, "kind": kind, **body})


def test_statuses_go_up_without_being_asked_for(kcp_world: Workspaces) -> None:
    namespace = kcp_world.above("shop")
    source = kcp_world.deployment(namespace, replicas=1)
    kcp_world.wsync("sync", "deployments").is_ready()
    run_pods(kcp_world.clusters["east"], namespace, 1)
    source.shows("status", "readyReplicas", value=1)


def test_services_of_a_workspace_go_down_and_their_addresses_up(kcp_world: Workspaces) -> None:
    """kcp serves Services by a CRD of the core group, which its aggregated discovery leaves out."""
    namespace = kcp_world.above("shop")
    source = kcp_world.service(namespace, type="LoadBalancer")
    sync = kcp_world.wsync("sync", "services")
    sync.is_ready()
    assert sync.resource_state("services") == "Synced"
    report(kcp_world.down("Service", namespace), loadBalancer={"ingress": [{"ip": "192.0.2.7"}]})
    source.shows("status", "loadBalancer", "ingress", 0, "ip", value="192.0.2.7")


def test_templates_know_the_workspace(plain_kcp_world: Workspaces) -> None:
    world = plain_kcp_world
    namespace = world.above("shop")
    source = world.data(namespace)
    variables = "{{ workspace.cluster }} {{ workspace.name }} {{ workspace.path }} {{ namespace }}"
    sync = world.wsync(
        namespaces=world.followed(mapping={"template": "{{ workspace.cluster }}-{{ namespace }}"}),
        transforms=[{"resource": "configmaps", "set": {"/data/from": variables}}],
    )
    sync.is_ready()
    cluster, path = source.annotations["kcp.io/cluster"], of(world).path
    copy = world.down("ConfigMap", f"{cluster}-{namespace}")
    assert copy.at("data", "from") == f"{cluster} {path.rpartition(':')[2]} {path} {namespace}"


def test_the_upstream_is_named_in_the_status(plain_kcp_world: Workspaces) -> None:
    sync = plain_kcp_world.wsync(upstream=by_path(of(plain_kcp_world).path))
    sync.is_ready()
    told = str(sync.status["upstream"])
    assert of(plain_kcp_world).path in told or of(plain_kcp_world).cluster in told


@pytest.mark.parametrize("path", ["Root:team", "root::team", "root:team:", "../other", "*"])
def test_what_is_no_path_of_a_workspace_is_refused(world: Workspaces, path: str) -> None:
    with pytest.raises(RequestError) as refused:
        world.wsync(upstream=by_path(path))
    assert refused.value.status == 422


def test_a_kubeconfig_of_another_server_path_is_not_led_astray(world: Workspaces) -> None:
    """A path that is no workspace's is not replaced."""
    config = yaml.safe_load(base64.b64decode((world.upstream.secret().data or {})["value"]))
    config["clusters"][0]["cluster"]["server"] += "/services/apiexport/x"
    world.keep_credential(UPSTREAM, {"value": base64.b64encode(yaml.safe_dump(config).encode()).decode()})
    sync = world.wsync(upstream=by_path("root:team"))
    sync.fails("root:team")
