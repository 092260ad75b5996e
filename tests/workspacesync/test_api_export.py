"""One sync of every workspace that is bound to an APIExport: apart, at once, and nothing is lost when one leaves."""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import Json, edit_at, until
from tests.fleet.world import Remote
from tests.manifestsync.world import Object, deployment_spec, service_spec
from tests.workspacesync.world import SERVED, UPSTREAM, KcpUpstream, Workspaces, WorkspaceSync, report

from syncline.api.common import CONFIRM_DELETION
from syncline.sandbox import Sandbox
from syncline.testing.fixtures import WorkspaceFactory
from syncline.testing.kcp import KcpExport, KcpWorkspace
from syncline.testing.operator import OperatorProcess

SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"


class Exported(Workspaces):
    """An APIExport, the workspaces that are bound to it, and one cluster below them."""

    def __init__(self, hub: Sandbox, export: KcpExport, east: Remote) -> None:
        super().__init__(hub, KcpUpstream(export.workspace), east=east)
        self.export = export

    def follow(self, *resources: str, **spec: object) -> WorkspaceSync:
        """Create a sync of all bound workspaces."""
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": UPSTREAM}}
        named = {"workspace": self.export.workspace.path, "name": self.export.name}
        upstream = {"connection": connection, "apiExport": named}
        return self.wsync("all", *resources, **{"upstream": upstream, **spec})

    def fill(self, workspace: KcpWorkspace, **values: str) -> str:
        """Make a namespace and a ConfigMap in a workspace; return the name of the namespace, the same in each."""
        name = f"{self.name}-shop"
        workspace.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"world": self.name}}})
        config = {"metadata": {"name": "app"}, "data": values}
        workspace.request("POST", f"/api/v1/namespaces/{name}/configmaps", config)
        return name

    def copy(self, workspace: KcpWorkspace, namespace: str, kind: str = "ConfigMap") -> Object:
        """Return the copy of an object of a workspace, there or not."""
        return self.down(kind, f"{workspace.cluster}-{namespace}")

    def source(self, workspace: KcpWorkspace, namespace: str, kind: str = "ConfigMap") -> Object:
        """Return an object of a workspace, there or not."""
        return Object(workspace, kind, namespace, "app", SERVED[kind])


@pytest.fixture
def exported(sandbox: Sandbox, operator: OperatorProcess, api_export: KcpExport, east: Remote) -> Iterator[Exported]:
    """An APIExport that nobody is bound to."""
    world = Exported(sandbox, api_export, east)
    yield world
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


def bound(world: Exported, factory: WorkspaceFactory, colour: str) -> tuple[KcpWorkspace, str]:
    """Make a workspace with a ConfigMap and bind it."""
    workspace = factory()
    world.export.bind(workspace)
    return workspace, world.fill(workspace, colour=colour)


def bindings(workspace: KcpWorkspace) -> list[str]:
    """Return the names of the APIBindings of a workspace; one that is being deleted is still there."""
    found = workspace.request("GET", "/apis/apis.kcp.io/v1alpha2/apibindings")["items"]
    return [str(one["metadata"]["name"]) for one in found]


def add_address(export: KcpExport, url: str) -> None:
    """Add an address to those of an APIExport; once more if kcp was faster."""

    def change(told: Json) -> None:
        told["status"]["endpoints"].append({"url": url})

    edit_at(export.workspace, f"{SLICES}/{export.name}", change, "/status")


def held(sync: WorkspaceSync, namespace: str) -> dict[str, str]:
    """Return the copies of a downstream namespace that the sync lists as not in order, with the reason of each."""
    listed = sync.status.get("targetStatuses", [])
    return {one["name"]: one["reason"] for one in listed if one.get("namespace") == namespace and one.get("reason")}


def named(status: Json) -> set[tuple[str, str]]:
    """Return the upstream namespaces that a status lists, with their logical clusters."""
    return {(one["cluster"], one["upstream"]) for one in status["namespaces"]}


def test_workspaces_with_the_same_names_come_down_apart(
    exported: Exported, workspace_factory: WorkspaceFactory
) -> None:
    """The logical cluster is a part of the name of each namespace, and status names it."""
    one, namespace = bound(exported, workspace_factory, "red")
    other, _ = bound(exported, workspace_factory, "blue")
    sync = exported.follow()
    exported.copy(one, namespace).shows("data", "colour", value="red")
    exported.copy(other, namespace).shows("data", "colour", value="blue")
    sync.is_ready()
    status = until(sync.read, lambda body: body["status"]["upstream"].get("workspaces") == 2)["status"]
    assert named(status) == {(one.cluster, namespace), (other.cluster, namespace)}
    exported.comes_to_rest(sync)

    exported.source(one, namespace).put("data", "colour", value="green")
    exported.copy(one, namespace).shows("data", "colour", value="green")
    assert exported.copy(other, namespace).read()["data"] == {"colour": "blue"}


def test_a_workspace_that_is_bound_later_is_taken_at_once(
    exported: Exported, workspace_factory: WorkspaceFactory
) -> None:
    """Also the first one, before which the APIExport has no address."""
    sync = exported.follow()
    sync.is_ready()
    first, namespace = bound(exported, workspace_factory, "red")
    exported.copy(first, namespace).shows("data", "colour", value="red")
    second, _ = bound(exported, workspace_factory, "blue")
    exported.copy(second, namespace).shows("data", "colour", value="blue")
    sync.is_ready()


def test_status_goes_up_to_the_workspace_that_has_the_object(
    exported: Exported, workspace_factory: WorkspaceFactory
) -> None:
    """Two Deployments of one name report by themselves."""
    workspaces = [bound(exported, workspace_factory, "red") for _ in range(2)]
    for workspace, namespace in workspaces:
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"}}
        exported.source(workspace, namespace, "Deployment").create({**head, "spec": deployment_spec()})
    exported.follow("deployments", transforms=[{"resource": "deployments.apps", "set": {"/spec/paused": True}}])
    for count, (workspace, namespace) in enumerate(workspaces, start=1):
        copy = exported.copy(workspace, namespace, "Deployment")
        copy.appears()
        report(copy, collisionCount=count)
    for count, (workspace, namespace) in enumerate(workspaces, start=1):
        exported.source(workspace, namespace, "Deployment").shows("status", "collisionCount", value=count)


def test_services_of_a_bound_workspace_come_down(exported: Exported, workspace_factory: WorkspaceFactory) -> None:
    """They are of the core group, though an APIExport has them."""
    workspace, namespace = bound(exported, workspace_factory, "red")
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "app"}}
    exported.source(workspace, namespace, "Service").create({**head, "spec": service_spec()})
    exported.follow("services").is_ready()
    exported.copy(workspace, namespace, "Service").appears()


def test_what_is_deleted_in_a_workspace_goes_downstream(
    exported: Exported, workspace_factory: WorkspaceFactory
) -> None:
    """The binding stands and the claim is accepted: then absence is evidence."""
    one, namespace = bound(exported, workspace_factory, "red")
    other, _ = bound(exported, workspace_factory, "blue")
    exported.follow()
    copies = [exported.copy(workspace, namespace) for workspace in (one, other)]
    for copy in copies:
        copy.appears()
    exported.source(one, namespace).delete()
    copies[0].gone()
    assert copies[1].look() is not None


@pytest.mark.parametrize("how", ["unbound", "deleted", "rejected"])
def test_nothing_is_deleted_when_a_workspace_takes_itself_away(
    exported: Exported, workspace_factory: WorkspaceFactory, how: str
) -> None:
    """Its objects may well exist: the copies stay and are told, and other workspaces go on."""
    leaving, namespace = bound(exported, workspace_factory, "red")
    staying, _ = bound(exported, workspace_factory, "blue")
    sync = exported.follow()
    copies = {workspace: exported.copy(workspace, namespace) for workspace in (leaving, staying)}
    for copy in copies.values():
        copy.appears()
    uid = copies[leaving].uid
    if how == "unbound":
        exported.export.unbind(leaving)
    elif how == "deleted":
        leaving.delete()
    else:
        exported.export.reject(leaving, "configmaps")
    sync.has_trouble("ClaimNotAccepted" if how == "rejected" else leaving.cluster)

    exported.source(staying, namespace).put("data", "colour", value="green")
    copies[staying].shows("data", "colour", value="green")
    exported.source(staying, namespace).delete()
    copies[staying].gone()
    assert copies[leaving].uid == uid
    assert sync.resource_state("configmaps") in ("Unknown", "Failed")


def test_a_person_can_have_the_copies_of_an_unbound_workspace_removed(
    exported: Exported, workspace_factory: WorkspaceFactory
) -> None:
    """The status says how."""
    leaving, namespace = bound(exported, workspace_factory, "red")
    sync = exported.follow()
    copy = exported.copy(leaving, namespace)
    copy.appears()
    exported.export.unbind(leaving)
    message = sync.has_trouble(CONFIRM_DELETION)["message"]
    sync.annotate({CONFIRM_DELETION: message.rpartition(f"{CONFIRM_DELETION}=")[2].split()[0].rstrip(".")})
    copy.gone()


def test_a_workspace_that_is_bound_again_goes_on_and_loses_nothing(
    exported: Exported, workspace_factory: WorkspaceFactory
) -> None:
    """Its objects may have gone with the former binding: what is absent is no evidence before a person confirms."""
    workspace, namespace = bound(exported, workspace_factory, "red")
    sync = exported.follow()
    source, copy = exported.source(workspace, namespace), exported.copy(workspace, namespace)
    copy.appears()
    uid = copy.uid
    exported.export.unbind(workspace)
    sync.has_trouble(workspace.cluster)
    until(lambda: bindings(workspace), lambda names: exported.export.name not in names)
    exported.export.bind(workspace)
    message = sync.has_trouble("was bound again")["message"]
    source.put("data", "colour", value="green")
    copy.shows("data", "colour", value="green")
    source.delete()
    below = f"{workspace.cluster}-{namespace}"
    until(lambda: held(sync, below), lambda seen: seen == {"app": "Unproven"})
    sync.now()
    assert held(sync, below) == {"app": "Unproven"}
    assert copy.uid == uid
    sync.annotate({CONFIRM_DELETION: message.rpartition(f"{CONFIRM_DELETION}=")[2].split()[0].rstrip(".")})
    copy.gone()
    sync.is_ready()


def test_an_address_of_another_host_gets_no_credential(exported: Exported, workspace_factory: WorkspaceFactory) -> None:
    """Whoever may write the addresses of the APIExport must not learn the token."""
    bound(exported, workspace_factory, "red")
    address = exported.export.url.replace("127.0.0.1", "localhost")
    assert address.startswith("https://localhost")
    add_address(exported.export, address)
    exported.follow().has_trouble("EndpointNotAllowed", "localhost")


def test_an_address_of_another_export_is_not_followed(exported: Exported, workspace_factory: WorkspaceFactory) -> None:
    """Whoever may write the addresses of one APIExport must not have another one read with the same credential."""
    own, namespace = bound(exported, workspace_factory, "red")
    victim, stolen = KcpExport(workspace_factory()), workspace_factory()
    victim.bind(stolen)
    exported.fill(stolen, colour="blue")
    add_address(exported.export, victim.url)
    exported.follow().has_trouble("EndpointNotAllowed", "another workspace")
    exported.copy(own, namespace).appears()
    assert f"{stolen.cluster}-{namespace}" not in exported.namespaces_at()


def look_for_binding(export: KcpExport, workspace: KcpWorkspace) -> bool:
    """Whether the binding of a workspace is there, also while kcp deletes it."""
    found = workspace.request("GET", "/apis/apis.kcp.io/v1alpha2/apibindings")["items"]
    return any(one["metadata"]["name"] == export.name for one in found)


def test_an_export_that_does_not_exist_is_told(exported: Exported) -> None:
    """With the place where it was looked for."""
    named = {"workspace": exported.export.workspace.path, "name": "nothing"}
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": UPSTREAM}}
    sync = exported.wsync("all", upstream={"connection": connection, "apiExport": named})
    sync.fails("ApiExportNotFound", "nothing")
