"""The commands, for a sync that writes to another cluster."""

import json
from collections.abc import Iterator

import pytest
from tests.cli.conftest import Command
from tests.fleet.scene import Scene, becomes, edge, turns
from tests.fleet.world import Remote

from syncline.api.common import API_VERSION
from syncline.api.manifestsync import KIND
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess


@pytest.fixture
def scene(sandbox: Sandbox, far: Sandbox, operator: OperatorProcess) -> Iterator[Scene]:
    remote = Remote(far)
    remote.allow("namespaces", "configmaps", "secrets")
    scene = Scene(sandbox, remote)
    yield scene
    scene.end()
    assert operator.returncode is None, operator.log()[-2000:]


def manifest(scene: Scene, *namespaces: str) -> str:
    source = {"apiVersion": "v1", "kind": "Secret", "name": "token"}
    spec = {"sourceRef": source, "targets": {"remoteClusters": [edge(*namespaces)]}}
    metadata = {"name": "sync", "namespace": scene.home}
    return json.dumps({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": scene.acting(spec)})


def test_plan_and_diff_look_into_the_other_cluster(scene: Scene, syncline: Command) -> None:
    first, second = scene.there("a"), scene.there("b")
    scene.credential()
    scene.source(password="one")
    turns(scene.sync(edge(first)), "True", "Synced")
    becomes(scene.copy(first), "one")
    wanted = manifest(scene, second)
    told = syncline("plan", "--allow-loopback", "-f", "-", stdin=wanted)
    rows = {tuple(line.split()[:4]) for line in told.splitlines()[2:-1]}
    assert rows == {
        ("create", "edge", "Secret", f"{second}/token"),
        ("delete", "edge", "Secret", f"{first}/token"),
    }
    told = syncline("diff", "--allow-loopback", "-f", "-", stdin=wanted, code=1)
    assert f"# create edge: Secret {second}/token: the target has no such object" in told
    assert f"# delete edge: Secret {first}/token: no longer a destination of this sync" in told
    assert "-  password: <value>" in told
    assert "+  password: <value>" in told
    assert syncline("diff", "--allow-loopback", "msync/sync", "-n", scene.home) == ""


def test_get_names_the_cluster_of_each_target(scene: Scene, syncline: Command) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    turns(scene.sync(edge(namespace)), "True", "Synced")
    told = syncline("get", "msync/sync", "-n", scene.home)
    assert ["edge", "Secret", namespace, "token", "Synced"] in [line.split()[:5] for line in told.splitlines()]


def test_a_cluster_at_a_loopback_address_needs_the_flag(scene: Scene, syncline: Command) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    told = syncline("plan", "-f", "-", stdin=manifest(scene, namespace), code=1)
    assert "--allow-loopback" in told
