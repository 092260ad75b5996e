"""A SyncTarget lists the resources that syncs write to its cluster, and whether the cluster takes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acting import empower
from tests.configmapsync.world import Thing, until
from tests.fleet.scene import Scene, becomes, turns
from tests.fleet.world import Remote

from syncline.api.common import REQUESTED_AT
from syncline.sandbox import Sandbox
from syncline.testing.audit import OPERATOR, AuditLog
from syncline.testing.operator import OperatorProcess

BY_NAME = {"type": "SyncTarget", "syncTargetRef": {"name": "edge-1"}}


@pytest.fixture
def scene(sandbox: Sandbox, remote: Remote, operator: OperatorProcess) -> Iterator[Scene]:
    remote.allow("namespaces", "secrets")
    scene = Scene(sandbox, remote)
    yield scene
    scene.end()
    assert operator.returncode is None, operator.log()[-2000:]


def resources(target: Thing) -> list[tuple[str, str]]:
    """Return the resources of a SyncTarget, and how they are taken."""
    return [(entry["name"], entry["state"]) for entry in entries(target)]


def entries(target: Thing) -> list[dict[str, Any]]:
    return list(target.read().get("status", {}).get("syncedResources", []))


def lists(target: Thing, *wanted: tuple[str, str]) -> None:
    until(lambda: resources(target), lambda seen: seen == list(wanted))


def config_map(scene: Scene) -> dict[str, Any]:
    """Make a source that is no Secret."""
    scene.hub.request(
        "POST", f"/api/v1/namespaces/{scene.home}/configmaps", {"metadata": {"name": "plain"}, "data": {"a": "1"}}
    )
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "plain"}


def test_what_is_written_is_accepted_and_what_may_not_be_is_told_with_the_right_that_it_lacks(scene: Scene) -> None:
    namespace = scene.there("a")
    scene.credential()
    scene.source(password="one")
    target = scene.target("edge-1")
    there = {"connection": BY_NAME, "namespaces": [namespace]}
    first = scene.sync(there)
    lists(target, ("secrets", "Accepted"))
    second = scene.sync(there, name="second", sourceRef=config_map(scene))
    lists(target, ("configmaps", "Incompatible"), ("secrets", "Accepted"))
    assert entries(target)[0]["message"] == "grant get, list and watch on it there: the credential lacks the right"
    scene.remote.allow("namespaces", "secrets", read=["configmaps"])
    until(lambda: entries(target)[0].get("message", ""), lambda said: said.startswith("grant create on it there"))
    scene.remote.allow("namespaces", "secrets", "configmaps")
    lists(target, ("configmaps", "Accepted"), ("secrets", "Accepted"))
    turns(second, "True", "Synced")
    second.delete()
    lists(target, ("secrets", "Accepted"))
    first.delete()
    lists(target)


def test_a_kind_that_the_cluster_does_not_serve_is_incompatible_until_it_does(scene: Scene) -> None:
    group = f"{scene.prefix}.example.com"
    source = scene.custom(group)
    scene.credential()
    target = scene.target("edge-1")
    scene.remote.allow("namespaces", "widgets", groups=("", group))
    sync = scene.sync({"connection": BY_NAME, "namespaces": [scene.there("a")]}, sourceRef=source)
    turns(sync, "False", "KindNotServed")
    lists(target, (f"widgets.{group}", "Incompatible"))
    assert "install its CustomResourceDefinition" in entries(target)[0]["message"]
    scene.define(scene.remote.sandbox, group)
    sync.annotate({REQUESTED_AT: "now"})
    lists(target, (f"widgets.{group}", "Accepted"))


@pytest.mark.parametrize("account", ["", "tests"])
def test_whoever_reads_the_sync_target_learns_of_no_sync_of_others(scene: Scene, account: str) -> None:
    acting = {"serviceAccountName": account} if account else {}
    if account:
        empower(scene.hub, scene.home, account)
    fleet = scene.namespace(scene.hub, "fleet")
    scene.credential(namespace=fleet)
    scene.source(password="one")
    target = scene.target("edge-1", namespace=fleet, allowed=[scene.home])
    connection = {**BY_NAME, "syncTargetNamespace": fleet}
    there = scene.there("vault")
    sync = scene.sync(
        {"connection": connection, "namespaces": [there]}, name="hush", sourceRef=config_map(scene), **acting
    )
    turns(sync, "Unknown", "KindNotWatched")
    lists(target, ("configmaps", "Incompatible"))
    said = json.dumps(target.read()["status"])
    assert not [word for word in (scene.home, there, "hush", "plain") if word in said]
    target.edit(lambda body: body["spec"].update(allowedNamespaces=[]))
    lists(target)


def test_a_quiet_fleet_writes_nothing_also_when_the_operator_starts_anew(
    arena: Sandbox, arena_kubeconfig: Path, remote: Remote
) -> None:
    remote.allow("namespaces", "secrets")
    scene = Scene(arena, remote)
    scene.credential()
    scene.source(password="one")
    target = scene.target("edge-1")
    there = {"connection": BY_NAME, "namespaces": [namespace := scene.there("a")]}
    audit = AuditLog(arena)
    with OperatorProcess(arena_kubeconfig, "--allow-loopback"):
        asleep = scene.sync(there, name="asleep", targetName="other")
        becomes(scene.copy(namespace, "other"), "one")
        asleep.edit(lambda body: body["spec"].update(suspend=True))
        scene.sync(there)
        scene.sync(there, name="second", sourceRef=config_map(scene))
        lists(target, ("configmaps", "Incompatible"), ("secrets", "Accepted"))
        turns(asleep, "Unknown", "Suspended")
    mark = audit.mark()
    with OperatorProcess(arena_kubeconfig, "--allow-loopback"):
        # All syncs are reconciled at the start; one that is there later comes after them.
        late = scene.sync(there, name="late", targetName="late")
        turns(late, "True", "Synced")
        late.annotate({REQUESTED_AT: "again"})
        until(lambda: late.read()["status"].get("lastHandledRequest"), lambda seen: seen == "again")
        written = audit.entries(OPERATOR, since=mark, until=audit.mark())
        assert [str(entry) for entry in written if entry.resource == "synctargets" and entry.verb == "patch"] == []
        scene.end()
