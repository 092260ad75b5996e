"""Objects of the cluster that decide what a ConfigSync writes: whoever edits them gets no rights by that."""

import json

import pytest
from tests.configmapsync.world import Sync, Thing
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.tenants import Tenant

from syncline.api.common import API_VERSION


def config_map(name: str, namespace: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})


def csync(world: Manifests, **spec: object) -> Sync:
    """Create a ConfigSync at home as an administrator."""
    made = Sync(world.sandbox, world.home, "sync")
    Thing.__init__(made, world.sandbox, f"/apis/{API_VERSION}/namespaces/{world.home}/configsyncs", "sync")
    made.create({"apiVersion": API_VERSION, "kind": "ConfigSync", "metadata": {"name": "sync"}, "spec": spec})
    world.remember(made)
    return made


@pytest.mark.own_rights
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_who_edits_the_source_of_an_administrators_sync_does_not_write_with_the_operators_rights(
    world: Manifests, kind: str
) -> None:
    victim = world.namespace("victim")
    bob = Tenant(world, world.home, "bob")
    plural = f"{kind.lower()}s"
    files = {"it.yaml": config_map("owned-by-bob", victim)}
    bob.create("v1", kind, plural, "files", **({"data": files} if kind == "ConfigMap" else {"stringData": files}))
    ref = {"configMapRef" if kind == "ConfigMap" else "secretRef": {"name": "files"}}
    sync = csync(world, source=ref)
    ready = sync.becomes("AccountRequired")
    assert f"whoever may edit the {kind} {world.home}/files decides what is written" in ready["message"]
    assert sync.conditions["Stalled"]["status"] == "True"
    assert world.config_map(victim, "owned-by-bob").look() is None


@pytest.mark.own_rights
@pytest.mark.parametrize(
    "values",
    [
        {"template": {"enabled": True, "valuesFrom": [{"kind": "Secret", "name": "values"}]}},
        {"build": {"type": "Helm", "helm": {"valuesFrom": [{"kind": "Secret", "name": "values"}]}}},
    ],
    ids=["template", "helm"],
)
def test_who_edits_the_values_of_an_administrators_sync_does_not_write_with_the_operators_rights(
    world: Manifests, values: dict[str, object]
) -> None:
    sync = csync(world, source={"git": {"repo": "https://git.example.com/team/config.git"}}, **values)
    ready = sync.becomes("AccountRequired")
    assert f"whoever may edit the Secret {world.home}/values decides what is written" in ready["message"]


def test_with_an_account_the_source_writes_what_the_account_may_and_no_more(world: Manifests, account: Account) -> None:
    victim = world.namespace("victim")
    account.may(world.home, "configmaps", *ALL)
    files = {"there.yaml": config_map("there", victim), "here.yaml": config_map("here", world.home)}
    world.put(world.home, "files", **files)
    sync = csync(world, sources=[{"name": "a", "configMapRef": {"name": "files"}}], serviceAccountName=account.name)
    sync.becomes("Forbidden", synced=1, failed=1)
    world.config_map(world.home, "here").appears()
    assert world.config_map(victim, "there").look() is None
