"""A tenant writes a credential that takes long to read: nobody else waits for it."""

import os
from pathlib import Path

from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.tenants import Tenant

from syncline.testing.operator import OperatorProcess

# Just below what a Secret may hold; YAML in pure Python reads a few ten thousand entries a second.
LONG = "- a\n" * 250_000
ALLOWED = 4.0


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_credential_of_a_key_service_that_is_long_takes_no_time_to_read(alone: Manifests, quiet: Path) -> None:
    mallory = Tenant(alone, alone.namespace("mallory"))
    mallory.create("v1", "ServiceAccount", "serviceaccounts", "robot")
    account = Account(alone, "robot", home=mallory.namespace)
    for resource in ("configmaps", "secrets"):
        account.may(mallory.namespace, resource, *ALL)
    mallory.create("v1", "ConfigMap", "configmaps", "files", data={"app.yaml": "{}"})
    mallory.create("v1", "Secret", "secrets", "keys", stringData={"azure-kv": LONG})
    with OperatorProcess(quiet) as operator:
        before = processor_seconds(operator.pid)
        sync = mallory.sync(
            "ConfigSync",
            "slow",
            serviceAccountName=account.name,
            source={"configMapRef": {"name": "files"}},
            decryption={"provider": "SOPS", "secretRef": {"name": "keys"}},
        )
        until(lambda: sync.conditions.get("Ready"), bool)
        # All of the operator waits meanwhile. It took 10 s and more, however busy the machine is with other work.
        assert processor_seconds(operator.pid) - before < ALLOWED
