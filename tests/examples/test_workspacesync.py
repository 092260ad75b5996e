"""Each file of examples/workspacesync does what its first lines say, on control planes and a workspace of kcp."""

import base64
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.examples.scene import EXAMPLES, SYNCS, Scene, load, path

from syncline.deploy import Manifest
from syncline.sandbox import Access, RequestError, Sandbox
from syncline.testing.fixtures import WorkspaceFactory
from syncline.testing.kcp import KcpExport, KcpWorkspace

Play = Callable[..., Scene]
Know = Callable[..., None]
ADDRESS = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}
READY = {"type": "Ready", "status": "True"}


class Place:
    """Objects of one cluster, as a user of that cluster reads and edits them."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def apply(self, manifest: Manifest, manager: str = "somebody", part: str = "") -> None:
        query = f"?fieldManager={manager}&force=true"
        self._access.request("PATCH", f"{path(manifest)}{part}{query}", manifest)

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Return an object; empty where there is none."""
        try:
            return self._access.request("GET", path(_head(kind, namespace, name)))
        except RequestError as error:
            if error.status != 404:
                raise
            return {}

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._access.request("DELETE", path(_head(kind, namespace, name)))

    def data(self, namespace: str, name: str) -> dict[str, str]:
        return self.get("ConfigMap", namespace, name).get("data", {})

    def edit(self, namespace: str, name: str, **data: str) -> None:
        """Set some keys of a ConfigMap."""
        self.apply({**_head("ConfigMap", namespace, name), "data": data})


def _head(kind: str, namespace: str, name: str) -> Manifest:
    versions = {"Deployment": "apps/v1"}
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": metadata}


@pytest.fixture
def know(sandbox: Sandbox) -> Know:
    """Put the kubeconfigs of clusters beside a sync, as its author would."""

    def put(home: str, **kubeconfigs: str) -> None:
        place = Place(sandbox)
        place.apply(_head("Namespace", "", home))
        for name, kubeconfig in kubeconfigs.items():
            place.apply({**_head("Secret", home, name), "stringData": {"value": kubeconfig}})

    return put


def admin(access: Access) -> str:
    return access.kubeconfig.read_text(encoding="utf-8")


def account(access: Access, name: str, file: str = "") -> str:
    """Make an account with the rights that a file of the examples gives it; return its kubeconfig."""
    for manifest in load(EXAMPLES / "workspacesync" / "there" / f"{file or name}.yaml"):
        Place(access).apply(manifest)
    token = access.service_account_token("syncline-hub", name, seconds=3600)
    return access.kubeconfig_for(token, f"example-{name}").read_text(encoding="utf-8")


def _has(place: Place, namespace: str, name: str, **data: str) -> bool:
    return place.data(namespace, name) == data


def is_synced(scene: Scene) -> Callable[[], bool]:
    return lambda: scene.ready() == ("True", "Synced")


def test_01_namespaces_of_this_cluster_are_copied_into_another(play: Play, know: Know, far: Sandbox) -> None:
    know("orchard-fleet", east=admin(far))
    scene, east = play("workspacesync/01-one-cluster.yaml"), Place(far)
    scene.eventually(is_synced(scene))
    assert east.data("orchard", "harvest") == {"season": "autumn"}
    assert east.get("Deployment", "orchard", "press")["spec"]["replicas"] == 2
    scene.edit("orchard", "harvest", {"season": "winter"})
    scene.eventually(lambda: east.data("orchard", "harvest") == {"season": "winter"})
    east.edit("orchard", "harvest", season="spring")
    scene.eventually(lambda: east.data("orchard", "harvest") == {"season": "winter"})
    scene.delete("orchard", "harvest")
    scene.eventually(lambda: not east.get("ConfigMap", "orchard", "harvest"))
    scene.delete_sync()
    scene.eventually(lambda: not east.get("Namespace", "", "orchard"))


class InWorkspace(Scene):
    """An example whose workspace has the name that the test gave it."""

    def __init__(self, workspace: KcpWorkspace, *scene: Any) -> None:
        self.workspace = workspace
        super().__init__(*scene)

    def adapted(self, manifests: list[Manifest]) -> list[Manifest]:
        """Name the workspace of the test."""
        (sync,) = (manifest for manifest in manifests if manifest["kind"] in SYNCS)
        sync["spec"]["upstream"]["workspace"] = self.workspace.path
        return manifests


def test_02_a_workspace_is_copied_and_gets_the_status_of_its_copies(
    play: Play, know: Know, far: Sandbox, workspace: KcpWorkspace
) -> None:
    workspace.serve_workloads()
    above, east, below = Place(workspace), Place(far), "grain-mill"
    know("mill-fleet", kcp=account(workspace, "upstream", "workspace"), east=admin(far))
    above.apply(_head("Namespace", "", "mill"))
    stone = _deployment("mill", "stone")
    above.apply(stone)
    above.edit("mill", "grain", kind="oats")
    scene = play("workspacesync/02-kcp-workspace.yaml", partial(InWorkspace, workspace))
    scene.eventually(is_synced(scene))
    assert east.data(below, "grain") == {"kind": "oats"}
    scene.eventually(lambda: _runs(far, below))
    scene.eventually(lambda: above.get("Deployment", "mill", "stone").get("status", {}).get("readyReplicas") == 1)
    assert above.get("Deployment", "mill", "stone")["spec"] == stone["spec"]
    east.edit(below, "grain", kind="rye")
    above.edit("mill", "grain", colour="gold")
    for place, namespace in ((above, "mill"), (east, below)):
        scene.eventually(partial(_has, place, namespace, "grain", kind="rye", colour="gold"))


class OfExport(Scene):
    """An example whose APIExport is in the workspace that the test has made."""

    def __init__(self, export: KcpExport, *scene: Any) -> None:
        self.export = export
        super().__init__(*scene)

    def adapted(self, manifests: list[Manifest]) -> list[Manifest]:
        """Name the workspace of the test."""
        (sync,) = (manifest for manifest in manifests if manifest["kind"] in SYNCS)
        sync["spec"]["upstream"]["apiExport"] = {"workspace": self.export.workspace.path, "name": self.export.name}
        return manifests


def test_12_every_workspace_of_an_api_export_is_copied(
    play: Play, know: Know, far: Sandbox, api_export: KcpExport, workspace_factory: WorkspaceFactory
) -> None:
    know("quarry-fleet", kcp=account(api_export.workspace, "provider"), east=admin(far))
    workspaces = {kind: workspace_factory() for kind in ("slate", "granite")}
    for kind, workspace in workspaces.items():
        namespace = _head("Namespace", "", "quarry")
        Place(workspace).apply({**namespace, "metadata": {"name": "quarry", "labels": {"place": "quarry"}}})
        Place(workspace).edit("quarry", "stone", kind=kind)
    scene, east = play("workspacesync/12-api-export.yaml", partial(OfExport, api_export)), Place(far)
    for kind, workspace in workspaces.items():
        api_export.bind(workspace)
        scene.eventually(partial(_has, east, f"{workspace.cluster}-quarry", "stone", kind=kind))
    scene.eventually(is_synced(scene))
    left = workspaces["slate"]
    api_export.unbind(left)
    scene.eventually(lambda: scene.ready() == ("False", "WorkspaceUnbound"))
    assert east.data(f"{left.cluster}-quarry", "stone") == {"kind": "slate"}


def _runs(cluster: Sandbox, namespace: str) -> bool:
    """Say of the pods of a namespace that they run, since there is no kubelet; tell whether there are any."""
    pods = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    for pod in pods:
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod["metadata"]["name"]}}
        where = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status?fieldManager=kubelet&force=true"
        cluster.request("PATCH", where, {**head, "status": {"phase": "Running", "conditions": [READY]}})
    return bool(pods)


def _deployment(namespace: str, name: str) -> Manifest:
    labels = {"app": name}
    containers = [{"name": name, "image": f"registry.example.com/{name}:1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {**_head("Deployment", namespace, name), "spec": spec}


@pytest.fixture
def pier(far: Sandbox) -> Iterator[None]:
    """A namespace that somebody else has made."""
    Place(far).apply(_head("Namespace", "", "harbour-pier"))
    yield
    Place(far).delete("Namespace", "", "harbour-pier")


@pytest.mark.usefixtures("pier")
def test_03_namespaces_get_a_prefix_and_those_of_others_are_refused(play: Play, know: Know, far: Sandbox) -> None:
    know("harbour-fleet", east=admin(far))
    scene, east = play("workspacesync/03-namespaces.yaml"), Place(far)
    scene.eventually(lambda: scene.ready() == ("False", "NamespaceNotOurs"))
    assert east.data("harbour-dock", "tide") == {"high": "6:40"}
    assert not east.get("ConfigMap", "harbour-pier", "tide")
    assert not east.get("Namespace", "", "harbour-office")
    states = {one["upstream"]: one["state"] for one in scene.status()["namespaces"]}
    assert states == {"dock": "Synced", "pier": "Refused"}


def test_04_transforms_change_the_copies_alone(play: Play, know: Know, far: Sandbox, sandbox: Sandbox) -> None:
    know("tower-fleet", east=admin(far))
    scene, east, above = play("workspacesync/04-transforms.yaml"), Place(far), Place(sandbox)
    scene.eventually(is_synced(scene))
    copy = east.get("Deployment", "tower", "bell")
    assert "nodeSelector" not in copy["spec"]["template"]["spec"]
    assert copy["metadata"]["labels"]["from"] == "hub"
    assert east.data("tower", "bell") == {"note": "a", "cluster": "east", "region": "eu"}
    assert above.get("Deployment", "tower", "bell")["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "fast"}
    assert above.data("tower", "bell") == {"note": "a"}


def test_05_the_status_of_a_copy_is_written_upstream(play: Play, know: Know, far: Sandbox, sandbox: Sandbox) -> None:
    know("bridge-fleet", east=admin(far))
    scene, east, above = play("workspacesync/05-status-upward.yaml"), Place(far), Place(sandbox)
    scene.eventually(is_synced(scene))
    east.apply({**_head("Service", "bridge", "toll"), "status": ADDRESS}, part="/status")
    scene.eventually(lambda: "192.0.2.7" in str(above.get("Service", "bridge", "toll")["status"]))
    assert scene.condition("StatusSynced")["status"] == "True"


def test_06_edits_of_both_sides_are_merged_and_a_conflict_is_settled_by_a_person(
    play: Play, know: Know, far: Sandbox, sandbox: Sandbox
) -> None:
    know("duet-fleet", east=admin(far))
    scene, east, above = play("workspacesync/06-both-ways.yaml"), Place(far), Place(sandbox)
    scene.eventually(is_synced(scene))
    east.edit("duet", "score", tempo="fast")
    above.edit("duet", "score", key="d")
    for place in (above, east):
        scene.eventually(partial(_has, place, "duet", "score", key="d", tempo="fast"))
    _suspend(scene, suspend=True)
    scene.eventually(lambda: scene.ready()[1] == "Suspended")
    east.edit("duet", "score", key="e", tempo="fast")
    above.edit("duet", "score", key="f")
    _suspend(scene, suspend=False)
    scene.eventually(lambda: scene.condition("Conflicted").get("status") == "True")
    (conflict,) = scene.status()["conflicts"]
    assert (conflict["namespace"], conflict["name"], conflict["paths"]) == ("duet", "score", ["/data/key"])
    assert (above.data("duet", "score")["key"], east.data("duet", "score")["key"]) == ("f", "e")
    resolve = _head("ConfigMap", "duet", "score")
    resolve["metadata"]["annotations"] = {"syncline.dev/resolve": "Downstream"}
    above.apply(resolve, manager="annotate")
    scene.eventually(lambda: above.data("duet", "score") == {"key": "e", "tempo": "fast"})
    scene.eventually(is_synced(scene))
    annotations = above.get("ConfigMap", "duet", "score")["metadata"].get("annotations", {})
    assert "syncline.dev/resolve" not in annotations


def _suspend(scene: Scene, *, suspend: bool) -> None:
    (sync,) = (manifest for manifest in scene.manifests if manifest["kind"] in SYNCS)
    scene.apply({**sync, "spec": {**sync["spec"], "suspend": suspend}})


def test_07_each_resource_has_its_own_rule_for_edits_of_the_copies(play: Play, know: Know, far: Sandbox) -> None:
    know("kiln-fleet", east=admin(far))
    scene, east = play("workspacesync/07-strategies.yaml"), Place(far)
    scene.eventually(is_synced(scene))
    east.apply({**_head("Secret", "kiln", "glaze"), "stringData": {"recipe": "own"}})
    east.edit("kiln", "oven", heat="low")
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 9090}]
    east.apply({**_head("Service", "kiln", "oven"), "spec": {"ports": ports}})
    scene.eventually(lambda: east.get("Service", "kiln", "oven")["spec"]["ports"][0]["targetPort"] == 8080)
    scene.eventually(lambda: scene.ready() == ("False", "Edited"))
    assert east.data("kiln", "oven") == {"heat": "low"}
    assert east.get("Secret", "kiln", "glaze")["data"] == {"recipe": base64.b64encode(b"own").decode()}


def test_08_each_namespace_is_placed_on_one_cluster(play: Play, know: Know, far: Sandbox, sandbox: Sandbox) -> None:
    know("parcel-fleet", east=admin(far), west=admin(sandbox))
    scene, places = play("workspacesync/08-placement.yaml"), {"east": Place(far), "west": Place(sandbox)}
    scene.eventually(lambda: is_synced(scene)() and scene.counts() == "2/2")
    placed = {one["namespace"]: one["targets"] for one in scene.status()["placement"]}
    assert placed.keys() == {"letters", "boxes"}
    for namespace, targets in placed.items():
        holders = [name for name, place in places.items() if place.data(f"parcel-{namespace}", "route")]
        assert holders == targets
        assert len(holders) == 1


def test_09_replicas_are_divided_by_weight(play: Play, know: Know, far: Sandbox, sandbox: Sandbox) -> None:
    know("ferry-fleet", east=admin(far), west=admin(sandbox))
    scene = play("workspacesync/09-divide-replicas.yaml")
    scene.eventually(is_synced(scene))
    replicas = [Place(at).get("Deployment", "sea-ferry", "boat")["spec"]["replicas"] for at in (far, sandbox)]
    assert replicas == [5, 2]


def test_10_a_deleted_copy_takes_its_source_along(play: Play, know: Know, far: Sandbox) -> None:
    know("archive-fleet", east=admin(far))
    scene, east = play("workspacesync/10-deletions.yaml"), Place(far)
    scene.eventually(is_synced(scene))
    scene.ask()  # a copy that Syncline has not seen in order is created again
    scene.eventually(lambda: scene.status().get("lastHandledRequest") == "now")
    east.delete("ConfigMap", "archive", "draft")
    scene.eventually(lambda: scene.config_map("archive", "draft") is None)
    scene.eventually(is_synced(scene))
    assert not east.get("ConfigMap", "archive", "draft")
    assert scene.data("archive", "book") == {"page": "two"}


def test_11_both_ends_are_other_clusters_and_the_credentials_have_only_the_rights_of_the_guide(
    play: Play, know: Know, far: Sandbox, sandbox: Sandbox
) -> None:
    north = Place(far)
    know("canal-fleet", north=account(far, "upstream"), east=account(sandbox, "downstream"))
    canal = _head("Namespace", "", "canal")
    canal["metadata"]["labels"] = {"place": "canal"}
    north.apply(canal)
    north.edit("canal", "lock", level="3")
    scene = play("workspacesync/11-from-a-sync-target.yaml")
    scene.eventually(is_synced(scene))
    assert scene.data("from-canal", "lock") == {"level": "3"}
    scene.delete_sync()
    scene.eventually(lambda: not Place(sandbox).get("Namespace", "", "from-canal"))
    north.delete("Namespace", "", "canal")
