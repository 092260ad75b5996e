"""An account learns nothing about namespaces and objects of others through a WorkspaceSync from this cluster."""

import json
from typing import Any

import pytest
from tests.configmapsync.world import Json, Sync, until
from tests.fleet.world import kubeconfig
from tests.tenancy.accounts import Account
from tests.tenancy.policies import NAME_LABEL
from tests.tenancy.tenants import Tenant
from tests.workspacesync.world import KIND, Workspaces, resource

from syncline.api.common import API_VERSION


@pytest.fixture
def mallory(world: Workspaces) -> Tenant:
    return Tenant(world, world.namespace("mallory"))


RESOURCES = [resource("configmaps"), resource("secrets")]


@pytest.fixture
def robot(world: Workspaces, mallory: Tenant) -> Account:
    """An account that may read the objects of mallory's namespace, and the credentials of her sync."""
    robot = Account(world, mallory.account("robot"), home=mallory.namespace)
    robot.may(mallory.namespace, "secrets", "get", "list", "watch")
    robot.may(mallory.namespace, "configmaps", "get", "list", "watch")
    robot.may(mallory.namespace, "synctargets", "get", "list")
    token = world.sandbox.service_account_token(mallory.namespace, mallory.name)
    text = kubeconfig(world.sandbox.server, world.sandbox.ca, {"token": token})
    mallory.create("v1", "Secret", "secrets", "self", stringData={"value": text})
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "self"}}
    mallory.create(API_VERSION, "SyncTarget", "synctargets", "self", spec={"connection": connection})
    return robot


def reach(mallory: Tenant, **namespaces: Any) -> Sync:
    """Have mallory follow namespaces of this cluster, as the account."""
    rules = {"mapping": {"fixed": mallory.namespace}, "existing": "Use", **namespaces}
    spec = {"downstream": {"syncTargets": ["self"]}, "namespaces": rules, "resources": RESOURCES}
    return mallory.sync(KIND, "reach", serviceAccountName="robot", **spec)


def told(world: Workspaces, mallory: Tenant, sync: Sync) -> str:
    """Return all that mallory reads of a sync."""
    events = world.sandbox.request("GET", f"/api/v1/namespaces/{mallory.namespace}/events")["items"]
    return json.dumps([sync.status, [event["message"] for event in events]])


def of_names(*names: str) -> Json:
    return {"matchExpressions": [{"key": NAME_LABEL, "operator": "In", "values": list(names)}]}


@pytest.mark.usefixtures("robot")
def test_a_selector_does_not_tell_the_names_of_namespaces_of_others(world: Workspaces, mallory: Tenant) -> None:
    world.data(world.above("hidden", audience=world.name))
    sync = reach(mallory, selector={"matchLabels": {"audience": world.name}})
    sync.becomes("UpstreamForbidden")
    assert "hidden" not in told(world, mallory, sync)
    world.namespace_object(mallory.namespace).label(audience=world.name)
    until(
        lambda: [one["upstream"] for one in sync.status.get("namespaces", [])], lambda seen: mallory.namespace in seen
    )
    sync.now()
    assert "hidden" not in told(world, mallory, sync)


@pytest.mark.usefixtures("robot")
def test_a_selector_does_not_tell_whether_a_namespace_exists(world: Workspaces, mallory: Tenant) -> None:
    victim = world.above("hidden")
    world.data(victim)
    sync = reach(mallory, selector=of_names(victim))
    messages = [sync.becomes("UpstreamForbidden")["message"]]
    for names in ([f"{victim}-not"], [victim, mallory.namespace], [f"{victim}-not", mallory.namespace]):
        sync.edit(lambda body: body["spec"]["namespaces"].update(selector=of_names(*names)))  # noqa: B023
        sync.now()
        messages.append(sync.message)
    assert messages[0] == messages[1]
    assert messages[2] == messages[3]


@pytest.mark.usefixtures("robot")
def test_a_selector_that_is_widened_does_not_tell_the_names_of_secrets(world: Workspaces, mallory: Tenant) -> None:
    victim = world.above("hidden", audience=world.name)
    world.keep(victim, "payroll-key", password="nine")
    world.namespace_object(mallory.namespace).label(audience=world.name)
    sync = reach(mallory, selector=of_names(mallory.namespace))
    until(lambda: sync.conditions.get("UpstreamReady", {}).get("status"), lambda seen: seen == "True")
    sync.edit(lambda body: body["spec"]["namespaces"].update(selector={"matchLabels": {"audience": world.name}}))
    sync.now()
    assert "payroll" not in told(world, mallory, sync)
    world.keep(victim, "payroll-new", password="ten")
    sync.now()
    assert "payroll" not in told(world, mallory, sync)
    assert "hidden" not in told(world, mallory, sync)
