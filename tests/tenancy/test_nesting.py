"""A tenant writes a sync that the API server takes and no parser reads: the syncs of others do not notice."""

import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.configmapsync.world import until
from tests.configsync.world import ConfigSync, config_map
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.tenants import Tenant

from syncline.api.common import API_VERSION
from syncline.api.configsync import PLURAL
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess

LEVELS = 9000
DEEP = '{"a":' * LEVELS + "1" + "}" * LEVELS
# Nothing is asked of the operator: that the sync is there is enough.
BODY = (
    f'{{"apiVersion":"{API_VERSION}","kind":"ConfigSync","metadata":{{"name":"deep"}},"spec":{{"suspend":true,'
    f'"serviceAccountName":"nobody","source":{{"configMapRef":{{"name":"app"}}}},"template":{{"enabled":true,"values":{DEEP}}}}}}}'
)


@pytest.fixture
def mallory(alone: Manifests) -> Iterator[Tenant]:
    """Somebody with `edit` in a namespace, who has written a sync of thousands of levels."""
    mallory = Tenant(alone, alone.namespace("mallory"))
    mallory.account()
    yield mallory
    with suppress(HTTPError):  # it was never written
        send(alone.sandbox, "DELETE", f"{folder(mallory)}/deep", alone.sandbox.token)


def folder(tenant: Tenant) -> str:
    return f"/apis/{API_VERSION}/namespaces/{tenant.namespace}/{PLURAL}"


def send(sandbox: Sandbox, method: str, path: str, token: str, body: str = "") -> None:
    """Send text as it is, and do not read the answer: both are nested more deeply than Python reads."""
    ca = sandbox.ca if isinstance(sandbox.ca, str) else sandbox.ca.decode()
    request = urllib.request.Request(
        f"{sandbox.server}{path}",
        method=method,
        data=body.encode() or None,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=ca)):
        pass


def carols(world: Manifests, name: str) -> ConfigSync:
    """Create a sync in another namespace, as somebody who does nothing unusual."""
    carol = world.namespace(name)
    account = Account(world, f"{name}-robot", home=carol)
    world.sandbox.request("POST", f"/api/v1/namespaces/{carol}/serviceaccounts", {"metadata": {"name": account.name}})
    account.may(carol, "configmaps", *ALL)
    world.put(carol, "files", **{"app.yaml": str(config_map("made")).replace("'", '"')})
    sync = ConfigSync(world.sandbox, carol, "sync")
    world.remember(sync)
    spec = {"serviceAccountName": account.name, "source": {"configMapRef": {"name": "files"}}}
    sync.create({"apiVersion": API_VERSION, "kind": "ConfigSync", "metadata": {"name": "sync"}, "spec": spec})
    return sync


def test_a_sync_of_thousands_of_levels_stops_no_other_sync_and_not_after_a_restart_either(
    alone: Manifests, quiet: Path, mallory: Tenant
) -> None:
    token = alone.sandbox.service_account_token(mallory.namespace, mallory.name)
    with OperatorProcess(quiet) as operator:
        send(alone.sandbox, "POST", folder(mallory), token, BODY)
        carols(alone, "before").becomes("Synced", synced=1)
        assert operator.get("health", "/readyz") == (200, "ok\n")
    with OperatorProcess(quiet) as operator:  # which waits until it is ready
        carols(alone, "after").becomes("Synced", synced=1)
        until(operator.is_ready, bool)
