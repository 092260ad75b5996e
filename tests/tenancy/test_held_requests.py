"""The API server holds the requests of a tenant's accounts: nobody else waits with them.

A tenant brings that about by sending too many requests. The API server holds a request for 15 s, and a sync needs
several requests, one after the other. So a sync that ends before the first of the tenant's requests is answered has
not waited for any of them.
"""

import json

import pytest
from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.tenancy.jails import held, jailed
from tests.tenancy.tenants import Tenant

from syncline.testing.audit import AuditLog

CROWD = 100
SHARE = 32
"""How many writes of one namespace are sent at once."""


@pytest.fixture
def mallory(world: Manifests) -> Tenant:
    # Syncs of one second are ordered by name: those of this namespace are always older than those at home.
    return Tenant(world, world.namespace("a-mallory"))


def answered(world: Manifests, mark: int, tenant: Tenant) -> list[str]:
    """Return the writes of a tenant's account that were answered since then."""
    entries = AuditLog(world.sandbox).entries(since=mark, until=world.mark())
    return [str(entry) for entry in entries if entry.impersonated == tenant.user and entry.changes]


def test_a_hundred_writes_of_a_tenant_that_the_api_server_holds_delay_nobody_else(
    world: Manifests, mallory: Tenant
) -> None:
    manifests = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"copy-{number}"}} for number in range(CROWD)
    ]
    content = "\n---\n".join(map(json.dumps, manifests))
    mallory.create("v1", "ConfigMap", "configmaps", "content", data={"all.yaml": content})
    there = world.namespace("there")
    world.source()
    with jailed(world.sandbox, mallory):
        attack = mallory.sync(
            "ConfigSync", "a-crowd", serviceAccountName=mallory.name, source={"configMapRef": {"name": "content"}}
        )
        until(lambda: held(world.sandbox, mallory), lambda count: count >= SHARE)
        mark = world.mark()
        victim = world.sync("copies", destinationNamespaces=[there])
        victim.becomes("Synced", synced=1)
        assert answered(world, mark, mallory) == []
    attack.becomes("Synced", synced=CROWD)


def test_a_claim_of_an_account_whose_requests_are_held_delays_nobody_else(world: Manifests, mallory: Tenant) -> None:
    mallory.create("v1", "ConfigMap", "configmaps", "pull-config", data={"registry": "mallory"})
    there = world.namespace("there")
    world.source("pull-config", registry="platform")
    squatter = mallory.sync(
        "ConfigMapSync",
        "a-squatter",
        serviceAccountName=mallory.name,
        sourceNamespace=mallory.namespace,
        configMapName="pull-config",
        destinationNamespaces=[there],
    )
    squatter.becomes("Forbidden", failed=1)
    with jailed(world.sandbox, mallory):
        mark = world.mark()
        victim = world.sync("pull", configMapName="pull-config", destinationNamespace=there)
        victim.becomes("Synced", synced=1)
        assert answered(world, mark, mallory) == []
    world.config_map(there, "pull-config").becomes(registry="platform")
