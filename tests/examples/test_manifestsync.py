"""Each file of examples/manifestsync is taken by a real API server and does what its first lines say."""

import base64
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.examples.scene import EXAMPLES, SYNCS, Scene, load, path
from tests.fleet.world import Remote

from syncline.deploy import Manifest
from syncline.sandbox import Sandbox

Play = Callable[..., Scene]
Prepare = Callable[..., None]


@pytest.fixture
def prepare(sandbox: Sandbox) -> Iterator[Prepare]:
    """Put kubeconfigs beside a sync, as its author would; the other cluster is the same one, by another name."""
    made: list[str] = []
    remote = Remote(sandbox)
    remote.allow("namespaces", "secrets", "configmaps")

    def namespace(name: str) -> None:
        sandbox.request("PATCH", f"/api/v1/namespaces/{name}?fieldManager=kubectl&force=true", _namespace(name))
        made.append(name)

    def put(home: str, target: str, *names: str) -> None:
        for name in (home, target):
            namespace(name)
        for name in names:
            body = {"metadata": {"name": name}, "data": dict(remote.secret().data or {})}
            sandbox.request("POST", f"/api/v1/namespaces/{home}/secrets", body)

    yield put
    for name in made:
        sandbox.request("DELETE", f"/api/v1/namespaces/{name}")


class Elsewhere(Scene):
    """An example whose other cluster is a second control plane, prepared as the example's first lines say."""

    def __init__(self, there: Sandbox, *scene: Any) -> None:
        self.there = there
        super().__init__(*scene)

    def adapted(self, manifests: list[Manifest]) -> list[Manifest]:
        """Name the second control plane, and put its token beside the sync."""
        for manifest in load(EXAMPLES / "manifestsync" / "there" / "13-by-token.yaml"):
            self.there.request("PATCH", f"{path(manifest)}?fieldManager=kubectl&force=true", manifest)
        token = self.there.service_account_token("syncline-hub", "customs", seconds=3600)
        credential = {"token": token, "ca.crt": self.there.ca}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pilot", "namespace": "customs"}}
        (sync,) = (manifest for manifest in manifests if manifest["kind"] in SYNCS)
        sync["spec"]["targets"]["remoteClusters"][0]["connection"]["server"] = self.there.server
        return [manifests[0], {**secret, "stringData": credential}, *manifests[1:]]


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def is_synced(scene: Scene) -> Callable[[], bool]:
    return lambda: scene.ready() == ("True", "Synced")


def test_01_every_namespace_with_the_label_gets_the_secret(play: Play) -> None:
    scene = play("manifestsync/01-secret-by-label.yaml")
    scene.eventually(is_synced(scene))
    for namespace in ("hub", "dock-a", "dock-b"):
        assert scene.secret(namespace, "pull-secret") == {"username": "puller", "password": "change-me"}
    assert scene.secret("shed", "pull-secret") is None
    assert scene.counts() == "2/2"


def test_02_several_objects_are_handed_out_together(play: Play) -> None:
    scene = play("manifestsync/02-bundle.yaml")
    scene.eventually(is_synced(scene))
    for namespace in ("orchard-east", "orchard-west"):
        assert scene.data(namespace, "harvest") == {"season": "autumn"}
        assert scene.secret(namespace, "harvest-login") == {"password": "change-me"}
    assert scene.counts() == "4/4"


def test_03_what_has_the_label_is_copied(play: Play) -> None:
    scene = play("manifestsync/03-selected-set.yaml")
    scene.eventually(is_synced(scene))
    copies = [scene.data("studio-live", name) for name in ("lights", "sound", "draft")]
    assert copies == [{"scene": "1"}, {"scene": "1"}, None]


def test_04_each_target_gets_a_patch_of_its_own(play: Play) -> None:
    scene = play("manifestsync/04-merge-patch.yaml")
    scene.eventually(is_synced(scene))
    for namespace in ("rail-north", "rail-south"):
        copy = scene.config_map(namespace, "timetable") or {}
        assert copy["data"] == {"station": namespace, "interval": "20m"}
        assert copy["metadata"]["labels"]["station"] == namespace


def test_05_an_added_kind_is_changed_by_a_json_patch(play: Play) -> None:
    scene = play("manifestsync/05-json-patch.yaml")
    scene.eventually(is_synced(scene))
    (policy,) = (manifest for manifest in scene.manifests if manifest["kind"] == "NetworkPolicy")
    copy = scene.look({**policy, "metadata": {**policy["metadata"], "namespace": "harbour-quay"}}) or {}
    assert copy["spec"]["ingress"][0]["ports"][0]["port"] == 8443


def test_06_a_patch_has_a_place_of_its_own(play: Play) -> None:
    scene = play("manifestsync/06-patch-from-a-configmap.yaml")
    scene.eventually(is_synced(scene))
    assert scene.data("brewery-cellar", "recipe") == {"hops": "late", "yeast": "ale"}
    scene.edit("brewery", "changes", {"patch.yaml": "data: {yeast: lager}"})
    scene.eventually(lambda: scene.data("brewery-cellar", "recipe") == {"hops": "early", "yeast": "lager"})


def test_07_a_target_gets_what_it_needs_of_a_secret(play: Play) -> None:
    scene = play("manifestsync/07-keys-of-a-secret.yaml")
    scene.eventually(is_synced(scene))
    expected = {"DATABASE_URL": "postgres://db.example.com/cinema-box", "user": "tickets"}
    assert scene.secret("cinema-box", "database") == expected


def test_08_an_edit_waits_for_the_interval_or_for_a_word(play: Play) -> None:
    scene = play("manifestsync/08-interval.yaml")
    scene.eventually(is_synced(scene))
    scene.edit("bureau", "rates", {"eur": "1.01"})
    assert scene.data("bureau-desk", "rates") == {"eur": "1.00"}
    scene.ask()
    scene.eventually(lambda: scene.data("bureau-desk", "rates") == {"eur": "1.01"})


def test_09_copies_have_names_of_their_own(play: Play) -> None:
    scene = play("manifestsync/09-other-names.yaml")
    scene.eventually(is_synced(scene))
    for namespace in ("cafe-garden", "cafe-hall"):
        assert scene.data(namespace, f"menu-for-{namespace}") == {"soup": "leek"}
    assert scene.data("cafe-garden", "menu") is None


def test_10_a_secret_is_copied_into_another_cluster(play: Play, prepare: Prepare) -> None:
    prepare("coast", "coast-north", "lighthouse")
    scene = play("manifestsync/10-remote-cluster.yaml")
    scene.eventually(is_synced(scene))
    assert scene.secret("coast-north", "beacon") == {"code": "change-me"}
    assert [target["clusterName"] for target in scene.targets()] == ["lighthouse"]


def test_11_clusters_are_chosen_by_label(play: Play, prepare: Prepare) -> None:
    prepare("fleet", "fleet-office", "oslo", "lima")
    scene = play("manifestsync/11-clusters-by-label.yaml")
    scene.eventually(lambda: is_synced(scene)() and scene.counts() == "1/1")
    assert scene.data("fleet-office", "route") == {"via": "sea"}
    assert [target["clusterName"] for target in scene.targets()] == ["oslo"]


def test_12_a_sync_acts_with_the_rights_of_its_account(play: Play) -> None:
    scene = play("manifestsync/12-as-a-service-account.yaml")
    scene.eventually(is_synced(scene))
    assert scene.secret("bay-north", "key") == {"code": "change-me"}
    assert scene.secret("bay-south", "key") is None
    assert [target["namespace"] for target in scene.targets()] == ["bay-north"]


def test_13_a_token_reaches_what_its_account_may_in_another_cluster(play: Play, far: Sandbox) -> None:
    scene = play("manifestsync/13-by-token.yaml", partial(Elsewhere, far))
    scene.eventually(is_synced(scene))
    copy = far.request("GET", "/api/v1/namespaces/customs-pier/secrets/berth")
    assert copy["data"] == {"code": base64.b64encode(b"change-me").decode()}
    assert [target["clusterName"] for target in scene.targets()] == ["pilot"]
    scene.delete_sync()
    left = far.request("GET", "/api/v1/namespaces/customs-pier/secrets")["items"]
    assert "berth" not in [secret["metadata"]["name"] for secret in left]
