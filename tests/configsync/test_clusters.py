"""What Git says, in other clusters."""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import Thing, until
from tests.configsync.world import GitWorld, config_map
from tests.fleet.world import Remote, proxied

from syncline.api.common import API_VERSION
from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy


@pytest.fixture
def remote(far: Sandbox) -> Remote:
    """An account of its own in the second control plane."""
    return Remote(far)


@pytest.fixture
def proxy(far: Sandbox) -> Iterator[FaultProxy]:
    """A proxy before the second control plane."""
    with proxied(far) as running:
        yield running


def place_edge(world: GitWorld, remote: Remote, server: str = "") -> str:
    """Declare the other cluster as a SyncTarget, and return a namespace in it."""
    wire = remote.secret(server=server)
    world.make("Secret", name="edge", data=dict(wire.data or {}))
    folder = f"/apis/{API_VERSION}/namespaces/{world.home}/synctargets"
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}
    target = {"apiVersion": API_VERSION, "kind": "SyncTarget", "metadata": {"name": "edge"}}
    Thing(world.sandbox, folder, "edge").create({**target, "spec": {"connection": connection}})
    name = f"{world.name}-there"
    remote.sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


EDGE = {"clusterName": "edge", "connection": {"type": "SyncTarget", "syncTargetRef": {"name": "edge"}}}


def _copy(remote: Remote, namespace: str) -> Thing:
    return Thing(remote.sandbox, f"/api/v1/namespaces/{namespace}/configmaps", "app")


def test_what_git_says_is_applied_to_another_cluster_and_kept_so(world: GitWorld, remote: Remote) -> None:
    namespace = place_edge(world, remote)
    commit = world.push({"app.yaml": config_map(namespace=namespace, colour="red")})
    sync = world.csync(remoteClusters=[EDGE])
    sync.at(commit)
    copy = _copy(remote, namespace)
    assert copy.read()["data"] == {"colour": "red"}
    assert sync.status["targetStatuses"][0]["clusterName"] == "edge"
    copy.edit(lambda body: body.update(data={"colour": "green"}))
    until(copy.look, lambda seen: seen is not None and seen["data"] == {"colour": "red"})
    world.namespace("there")
    sync.change(remoteClusters=None)
    copy.gone()
    sync.at(commit)
    assert world.find("ConfigMap", namespace).marked


def test_a_cluster_out_of_reach_is_unknown_and_written_once_it_is_back(
    world: GitWorld, remote: Remote, proxy: FaultProxy
) -> None:
    namespace = place_edge(world, remote, proxy.server)
    first = world.push({"app.yaml": config_map(namespace=namespace, colour="red")})
    sync = world.csync(remoteClusters=[EDGE])
    sync.at(first)
    outage = proxy.inject(Fault(cut=True), when=lambda _: True)
    proxy.cut_watches()
    second = world.push({"app.yaml": config_map(namespace=namespace, colour="blue")})
    sync.now()
    until(lambda: sync.conditions["Ready"]["status"], lambda status: status == "Unknown")
    outage.lift()
    sync.at(second)
    assert _copy(remote, namespace).read()["data"] == {"colour": "blue"}
