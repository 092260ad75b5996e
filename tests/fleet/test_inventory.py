"""What a sync has written where is recorded before the first write, for as many clusters as a spec may name."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.configmapsync.world import Thing, until
from tests.fleet.scene import Scene, edge, turns
from tests.fleet.world import Remote

from syncline import deploy
from syncline.core.ownership import OWNER_LABEL
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ConfigMap": ("configmaps", {"data": {"a": "b"}}),
    "LimitRange": ("limitranges", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}),
    "ResourceQuota": ("resourcequotas", {"spec": {"hard": {"pods": "1000"}}}),
    "Secret": ("secrets", {"stringData": {"a": "b"}}),
    "Service": ("services", {"spec": {"ports": [{"port": 80}], "clusterIP": "None"}}),
}
CLUSTERS = [f"c{number:02}" for number in range(50)]


@pytest.fixture
def scene(sandbox: Sandbox, remote: Remote, operator: OperatorProcess) -> Iterator[Scene]:
    plurals = [plural for plural, _ in KINDS.values()]
    remote.allow("namespaces", *plurals)
    scene = Scene(sandbox, remote)
    role = Thing(sandbox, "/apis/rbac.authorization.k8s.io/v1/clusterroles", scene.prefix)
    role.create(
        {
            "metadata": {"name": scene.prefix, "labels": {deploy.names.AGGREGATE_LABEL: "true"}},
            "rules": [{"apiGroups": [""], "resources": plurals, "verbs": ["*"]}],
        }
    )
    yield scene
    scene.end()
    role.delete()
    assert operator.returncode is None, operator.log()[-2000:]


def copies(scene: Scene, namespace: str) -> int:
    """Count the objects in the other cluster that carry our label."""
    folder = f"/api/v1/namespaces/{namespace}"
    return sum(
        len(scene.remote.sandbox.request("GET", f"{folder}/{plural}?labelSelector={OWNER_LABEL}")["items"])
        for plural, _ in KINDS.values()
    )


def test_five_kinds_are_written_to_fifty_clusters(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    for kind, (plural, body) in KINDS.items():
        source = Thing(scene.hub, f"/api/v1/namespaces/{scene.home}/{plural}", "app")
        source.create({"apiVersion": "v1", "kind": kind, "metadata": {"name": "app"}, **body})
    # Fifty names for one cluster are as many entries of the inventory as fifty clusters.
    sync = scene.sync(
        *(edge(namespace, name=name) for name in CLUSTERS),
        sourceRef=None,
        sourceRefs=[{"apiVersion": "v1", "kind": kind, "name": "app"} for kind in KINDS],
        targetName="{{ source.name }}-{{ target.cluster }}",
    )
    turns(sync, "True", "Synced")
    status = sync.read()["status"]
    assert status["targets"]["summary"] == "250/250"
    assert status["written"] == [f"{','.join(CLUSTERS)}/{','.join(KINDS)}"]
    assert [entry["name"] for entry in status["clusters"]] == CLUSTERS
    assert copies(scene, namespace) == 250
    # What is recorded is found again: one name leaves the spec, then all of them.
    sync.edit(lambda body: body["spec"]["targets"]["remoteClusters"].pop())
    until(lambda: copies(scene, namespace), lambda number: number == 245)
    sync.delete()
    sync.gone()
    assert copies(scene, namespace) == 0
