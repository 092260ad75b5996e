"""Clusters without kube-system, such as workspaces of kcp: known by one UID as members, and as the operator's own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import Thing
from tests.faults.scene import NAME, Scene, wait_until
from tests.fleet.conftest import Until
from tests.fleet.world import Remote, Vault, join

from syncline.core.ownership import MARKER
from syncline.fleet import Fleet
from syncline.kube.identity import LOGICAL_CLUSTERS
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.faults import Asked, Fault
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy


def kube_system(asked: Asked) -> bool:
    return (asked.resource, asked.name) == ("namespaces", "kube-system")


def logical_cluster(asked: Asked) -> bool:
    return asked.resource == LOGICAL_CLUSTERS.plural


def hide(proxy: FaultProxy, *, workspace: bool) -> None:
    """Let a control plane look like one without kube-system; as a workspace, it has a LogicalCluster instead."""
    proxy.inject(Fault(status=404), when=kube_system)
    if not workspace:
        proxy.inject(Fault(status=404), when=logical_cluster)


def uid_of_default(sandbox: Sandbox) -> str:
    return str(sandbox.request("GET", "/api/v1/namespaces/default")["metadata"]["uid"])


@pytest.fixture
def workspace(far: Sandbox) -> Iterator[str]:
    """A LogicalCluster in the second control plane, as kcp has one in each workspace; its UID."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = Thing(far, crds, f"{LOGICAL_CLUSTERS.plural}.{LOGICAL_CLUSTERS.group}")
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd.create(
        {
            "metadata": {
                "name": crd.name,
                "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"},
            },
            "spec": {
                "group": LOGICAL_CLUSTERS.group,
                "scope": "Cluster",
                "names": {"plural": LOGICAL_CLUSTERS.plural, "kind": LOGICAL_CLUSTERS.kind},
                "versions": [{"name": LOGICAL_CLUSTERS.version, "served": True, "storage": True, "schema": schema}],
            },
        }
    )
    one = Thing(far, LOGICAL_CLUSTERS.path(), "cluster")
    body = {"apiVersion": LOGICAL_CLUSTERS.api_version, "kind": LOGICAL_CLUSTERS.kind, "metadata": {"name": "cluster"}}
    wait_until(lambda: _created(one, body), "the kind to be served")
    yield str(one.read()["metadata"]["uid"])
    crd.delete()
    crd.gone()


def _created(thing: Thing, body: dict[str, object]) -> bool:
    try:
        thing.create(body)
    except RequestError:
        return False
    return True


async def test_a_member_without_kube_system_is_known_by_its_namespace_default(
    remote: Remote, proxy: FaultProxy, fleet: Fleet
) -> None:
    hide(proxy, workspace=False)
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    assert member.uid == uid_of_default(remote.sandbox)


async def test_a_member_is_used_again_after_kube_system_was_absent_for_a_moment(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    """Something before the API server may answer 404: the namespace default is another object, not another cluster."""
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    uid = member.uid
    absent = proxy.inject(Fault(status=404), when=lambda asked: kube_system(asked) or logical_cluster(asked))
    await until(lambda: member.health.reason == "NotTheSame")
    absent.lift()
    await until(lambda: member.up)
    assert member.uid == uid


async def test_a_workspace_is_known_by_its_logical_cluster(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, workspace: str
) -> None:
    hide(proxy, workspace=True)
    remote.allow("namespaces", LOGICAL_CLUSTERS.plural, groups=("", LOGICAL_CLUSTERS.group))
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    assert member.uid == workspace


async def test_a_workspace_whose_logical_cluster_may_not_be_read_is_not_used(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, workspace: str
) -> None:
    assert workspace
    hide(proxy, workspace=True)
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert not await member.wait_probed()
    assert member.health.reason == "Forbidden"
    assert member.health.message.endswith("grant get on logicalclusters")


def test_an_operator_without_kube_system_knows_its_own_cluster_and_copies_after_a_restart(
    arena: Sandbox, arena_kubeconfig: Path
) -> None:
    scene = Scene(arena, arena_kubeconfig)
    target = scene.namespace("a")
    scene.source("1")
    with FaultProxy(arena) as proxy:
        hide(proxy, workspace=False)
        kubeconfig = proxy.kubeconfig(arena_kubeconfig)
        with OperatorProcess(kubeconfig):
            scene.sync()
            wait_until(scene.is_settled, "the copy to be made", instead=scene.status)
        copy = arena.request("GET", f"/api/v1/namespaces/{target}/configmaps/{NAME}")
        marker = json.loads(copy["metadata"]["annotations"][MARKER])
        assert marker["at"].startswith(uid_of_default(arena))
        with OperatorProcess(kubeconfig):
            scene.source("2")
            wait_until(scene.is_settled, "the edit to have arrived", instead=scene.status)
            scene.delete_sync(NAME)
            wait_until(lambda: scene.get_sync(NAME) is None, "the sync to be gone")
    assert scene.all_places() == {(scene.home, NAME)}
    scene.end()
