"""Credentials of key services that a tenant writes: they lead nowhere else, and nobody waits for one that is long."""

import json
import os
import select
import socket
from pathlib import Path

from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.render.key_doubles import Doubles, encrypted_for
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.tenants import Tenant

from syncline.testing.operator import OperatorProcess

# Just below what a Secret may hold; YAML in pure Python reads a few ten thousand entries a second.
LONG = "- a\n" * 250_000
ALLOWED = 4.0
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\ndata:\n  password: hunter3\n"


def attacks(server: str, stolen: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Return credentials that name a server or a file, each with the service that it is for."""
    google = {"type": "external_account", "audience": "a", "token_url": f"{server}/steal"}
    header = {"Metadata-Flavor": "Google"}
    asked = {**google, "credential_source": {"url": f"{server}/computeMetadata/v1", "headers": header}}
    static = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
    return {
        "endpoint": ("kms", {"aws-kms": f"{static}endpoint_url = {server}/latest/meta-data\n"}),
        "command": ("kms", {"aws-kms": f"{static}credential_process = /bin/cat {stolen}\n"}),
        "url": ("gcp_kms", {"gcp-kms": json.dumps(asked)}),
        "file": ("gcp_kms", {"gcp-kms": json.dumps({**google, "credential_source": {"file": str(stolen)}})}),
        "vault": ("hc_vault", {"vault-token": "t", "vault-address": server.replace("http:", "https:")}),
    }


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def robot(world: Manifests, mallory: Tenant) -> str:
    """Make an account that may use the ConfigMaps and Secrets of the tenant's own namespace."""
    mallory.create("v1", "ServiceAccount", "serviceaccounts", "robot")
    account = Account(world, "robot", home=mallory.namespace)
    for resource in ("configmaps", "secrets"):
        account.may(mallory.namespace, resource, *ALL)
    return account.name


def test_a_credential_of_a_key_service_has_the_operator_call_no_server_and_read_no_file_that_it_names(
    alone: Manifests, quiet: Path, tmp_path: Path
) -> None:
    mallory = Tenant(alone, alone.namespace("mallory"))
    account, doubles = robot(alone, mallory), Doubles(tmp_path)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server, OperatorProcess(quiet):
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name, (service, keys) in attacks(address, quiet).items():
            named = {"vault_address": keys["vault-address"]} if service == "hc_vault" else {}
            files = {"app.yaml": encrypted_for(doubles, service, tmp_path, CONFIG, **named).decode()}
            mallory.create("v1", "ConfigMap", "configmaps", f"files-{name}", data=files)
            mallory.create("v1", "Secret", "secrets", f"keys-{name}", stringData=keys)
            sync = mallory.sync(
                "ConfigSync",
                name,
                serviceAccountName=account,
                source={"configMapRef": {"name": f"files-{name}"}},
                decryption={"provider": "SOPS", "secretRef": {"name": f"keys-{name}"}},
            )
            told = sync.becomes("BuildFailed")["message"]
            assert f"no key service decrypts it: {service}" in told
            assert alone.find("ConfigMap", mallory.namespace, "app").look() is None
        # Whoever connected would still wait: nobody has accepted.
        assert select.select([server], [], [], 0)[0] == []


def test_a_credential_of_a_key_service_that_is_long_takes_no_time_to_read(alone: Manifests, quiet: Path) -> None:
    mallory = Tenant(alone, alone.namespace("mallory"))
    account = robot(alone, mallory)
    mallory.create("v1", "ConfigMap", "configmaps", "files", data={"app.yaml": "{}"})
    mallory.create("v1", "Secret", "secrets", "keys", stringData={"azure-kv": LONG})
    with OperatorProcess(quiet) as operator:
        before = processor_seconds(operator.pid)
        sync = mallory.sync(
            "ConfigSync",
            "slow",
            serviceAccountName=account,
            source={"configMapRef": {"name": "files"}},
            decryption={"provider": "SOPS", "secretRef": {"name": "keys"}},
        )
        until(lambda: sync.conditions.get("Ready"), bool)
        # All of the operator waits meanwhile. It took 10 s and more, however busy the machine is with other work.
        assert processor_seconds(operator.pid) - before < ALLOWED
