"""Keys of a tenant that would take hours to read: nobody else waits for that."""

import base64

import pytest
from tests.core.hostile_keys import large_dsa, large_rsa, many_rounds, pem
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import Account
from tests.tenancy.tenants import Tenant


@pytest.fixture
def mallory(world: Manifests) -> Tenant:
    return Tenant(world, world.namespace("mallory"))


@pytest.mark.parametrize(
    ("kind", "secret", "reason"),
    [
        ("SSH", {"identity": pem("PRIVATE KEY", large_dsa())}, "GitUnreachable"),
        ("SSH", {"identity": many_rounds(10**12), "password": b"p"}, "CredentialError"),
        ("GitHubApp", {"appID": b"1", "installationID": b"1", "privateKey": large_rsa()}, "CredentialError"),
    ],
    ids=["a public part to compute", "a passphrase with many rounds", "primes to test"],
)
def test_a_key_of_a_tenant_does_not_stop_the_operator(
    world: Manifests, mallory: Tenant, kind: str, secret: dict[str, bytes], reason: str
) -> None:
    repository = "ssh://git@127.0.0.1:1/a" if kind == "SSH" else "https://127.0.0.1:1/a"
    nobody = mallory.account()
    Account(world, nobody, home=mallory.namespace).may(mallory.namespace, "secrets", "get", "list")
    data = {name: base64.b64encode(value).decode() for name, value in ({"known_hosts": b"k"} | secret).items()}
    mallory.create("v1", "Secret", "secrets", "key", data=data)
    git = {"repo": repository, "revision": "main", "auth": {"type": kind, "secretRef": {"name": "key"}}}
    hostile = mallory.sync("ConfigSync", "hostile", serviceAccountName=nobody, source={"git": git})
    hostile.becomes(reason)
    target = world.namespace("victim")
    world.source("settings", colour="blue")
    world.sync("pull", configMapName="settings", destinationNamespaces=[target]).becomes("Synced", synced=1)
    world.config_map(target, "settings").becomes(colour="blue")
