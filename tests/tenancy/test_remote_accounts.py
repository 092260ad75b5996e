"""What leads to other clusters is read as the account too. The other cluster here is the same one, by another name."""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import Thing, until
from tests.fleet.world import Remote
from tests.manifestsync.world import Json, Manifests, ManifestSync
from tests.tenancy.accounts import Account

from syncline.api.common import API_VERSION
from syncline.sandbox import RequestError, Sandbox

BY_NAME = {"type": "SyncTarget", "syncTargetRef": {"name": "edge"}}
BY_LABEL = {"type": "SyncTarget", "selector": {"matchLabels": {"region": "eu"}}}


@pytest.fixture
def remote(sandbox: Sandbox) -> Remote:
    remote = Remote(sandbox)
    remote.allow("namespaces", "secrets")
    return remote


@pytest.fixture
def edge(world: Manifests, remote: Remote) -> str:
    """A namespace that the credential reaches."""
    wire = remote.secret()
    world.make("Secret", name="edge", data=dict(wire.data or {}))
    return world.namespace("there")


@pytest.fixture
def sync_target(world: Manifests, edge: str) -> Iterator[Thing]:  # noqa: ARG001 - it makes the credential
    thing = Thing(world.sandbox, f"/apis/{API_VERSION}/namespaces/{world.home}/synctargets", "edge")
    thing.create(
        {
            "apiVersion": API_VERSION,
            "kind": "SyncTarget",
            "metadata": {"name": "edge", "labels": {"region": "eu"}},
            "spec": {"connection": {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}},
        }
    )
    yield thing
    thing.delete()


def reaching(world: Manifests, account: Account, connection: Json, namespace: str) -> ManifestSync:
    account.may(world.home, "secrets", "get")  # the source; what leads elsewhere is given or not by each test
    source = world.secret()
    named = {"clusterName": "edge"} if "selector" not in connection else {}
    place = {**named, "connection": connection, "namespaces": [namespace]}
    return world.msync("sync", source, targets={"remoteClusters": [place]}, serviceAccountName=account.name)


def test_a_kubeconfig_that_the_account_may_not_read_leads_nowhere(
    world: Manifests, account: Account, edge: str
) -> None:
    elsewhere = world.namespace("source")
    account.may(elsewhere, "secrets", "get")
    source = world.secret(namespace=elsewhere)
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}
    place = {"clusterName": "edge", "connection": connection, "namespaces": [edge]}
    sync = world.msync("sync", source, targets={"remoteClusters": [place]}, serviceAccountName=account.name)
    ready = sync.becomes("CredentialUnreadable", failed=1)
    assert f"cluster edge: cannot get secrets 'edge' in namespace '{world.home}': 403 Forbidden" in ready["message"]
    assert world.find("Secret", edge).look() is None
    account.may(world.home, "secrets", "get")
    world.find("Secret", edge).holds(password="red")
    sync.becomes("Synced", synced=1)
    account.may(world.home, "secrets")
    source.keep(password="blue")
    sync.becomes("CredentialUnreadable")
    sync.now()
    assert world.find("Secret", edge).values == {"password": "red"}


@pytest.mark.usefixtures("sync_target")
@pytest.mark.parametrize(("connection", "verb"), [(BY_NAME, "get"), (BY_LABEL, "list")], ids=["name", "labels"])
def test_a_sync_target_that_the_account_may_not_see_leads_nowhere(
    world: Manifests, account: Account, edge: str, connection: Json, verb: str
) -> None:
    sync = reaching(world, account, connection, edge)
    ready = sync.becomes("CredentialUnreadable")
    assert f"cannot {verb} synctargets" in ready["message"]
    assert account.user in ready["message"]
    assert world.find("Secret", edge).look() is None
    account.may(world.home, "synctargets", "get", "list")
    world.find("Secret", edge).holds(password="red")


@pytest.mark.usefixtures("sync_target")
def test_to_use_a_sync_target_is_not_to_read_its_credential(world: Manifests, account: Account, edge: str) -> None:
    elsewhere = world.namespace("source")
    account.may(elsewhere, "secrets", "get")
    account.may(world.home, "synctargets", "get")
    source = world.secret(namespace=elsewhere)
    place = {"connection": BY_NAME, "namespaces": [edge]}
    sync = world.msync("sync", source, targets={"remoteClusters": [place]}, serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    assert world.find("Secret", edge).values == {"password": "red"}


@pytest.mark.usefixtures("sync_target")
def test_the_sync_with_the_better_claim_in_another_cluster_is_not_named_to_who_may_not_read_it(
    world: Manifests, account: Account, edge: str
) -> None:
    fill_quota(world, edge)
    account.may(world.home, "secrets", "get")
    account.may(world.home, "synctargets", "get")
    targets = {"remoteClusters": [{"clusterName": "edge", "connection": BY_NAME, "namespaces": [edge]}]}
    # Syncs of one second are ordered by name: this one is always the older.
    older = world.msync("a-older", world.secret("one"), targets=targets, targetName="shared")
    older.becomes("Forbidden", failed=1)
    younger = world.msync(
        "b-younger", world.secret("two"), targets=targets, targetName="shared", serviceAccountName=account.name
    )
    ready = younger.becomes("ClaimedByOther", conflicted=1)
    assert "another sync wants the same object" in ready["message"]
    assert "a-older" not in str(younger.status)


def fill_quota(world: Manifests, namespace: str) -> None:
    """Have the API server refuse every Secret of a namespace."""
    quota = Thing(world.sandbox, f"/api/v1/namespaces/{namespace}/resourcequotas", "none")
    hard = {"hard": {"secrets": "0"}}
    body = quota.create({"metadata": {"name": "none"}, "spec": hard})
    world.sandbox.request("PUT", f"{quota.path}/status", {**body, "status": {**hard, "used": {"secrets": "0"}}})
    until(lambda: _is_full(world, namespace), bool)


def _is_full(world: Manifests, namespace: str) -> bool:
    try:
        world.make("Secret", namespace, "probe").delete()
    except RequestError as error:
        return "exceeded quota" in str(error)
    return False
