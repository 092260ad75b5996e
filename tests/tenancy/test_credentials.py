"""A tenant writes a credential that takes long to read: nobody else waits for it."""

from pathlib import Path

from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.tenants import Tenant

from syncline.testing.operator import OperatorProcess

# Just below what a Secret may hold; YAML in pure Python reads a few ten thousand entries a second.
LONG = "- a\n" * 250_000


def test_a_credential_of_a_key_service_that_is_long_keeps_no_probe_waiting(alone: Manifests, quiet: Path) -> None:
    mallory = Tenant(alone, alone.namespace("mallory"))
    mallory.create("v1", "ServiceAccount", "serviceaccounts", "robot")
    account = Account(alone, "robot", home=mallory.namespace)
    for resource in ("configmaps", "secrets"):
        account.may(mallory.namespace, resource, *ALL)
    mallory.create("v1", "ConfigMap", "configmaps", "files", data={"app.yaml": "{}"})
    mallory.create("v1", "Secret", "secrets", "keys", stringData={"azure-kv": LONG})
    with OperatorProcess(quiet) as operator:
        sync = mallory.sync(
            "ConfigSync",
            "slow",
            serviceAccountName=account.name,
            source={"configMapRef": {"name": "files"}},
            decryption={"provider": "SOPS", "secretRef": {"name": "keys"}},
        )
        answers: set[int] = set()

        def probe() -> object:
            answers.add(operator.get("health", "/healthz")[0])  # 0: none within five seconds
            return sync.conditions.get("Ready")

        until(probe, bool)
        assert answers == {200}
