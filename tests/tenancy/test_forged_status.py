"""Whoever may write the status of a sync has the operator call, read, write and delete nothing by it."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.configmapsync.world import Sync, until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import Account

from syncline.testing.operator import OperatorProcess

Json = dict[str, Any]
VERBS = ("get", "patch", "update")


class Carol:
    """Somebody who may write the status of syncs, and read no Secret."""

    def __init__(self, world: Manifests) -> None:
        self._world = world
        account = Account(world, "carol")
        for plural in ("manifestsyncs", "configmapsyncs"):
            account.may(world.home, f"{plural}/status", *VERBS)
            account.may(world.home, plural, "get")
        self._token = world.sandbox.service_account_token(world.home, account.name)

    def writes(self, sync: Sync, **changes: object) -> None:
        """Change fields of a status; None takes one away."""
        body = sync.read()
        status = {**body.get("status", {}), **changes}
        body["status"] = {key: value for key, value in status.items() if value is not None}
        self._world.sandbox.request("PUT", f"{sync.path}/status", body, token=self._token)


class Listener:
    """A port that nobody has any business with; whoever connects is noticed."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]

    def was_called(self) -> bool:
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A server of the attacker."""
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def reaching(alone: Manifests, quiet: Path) -> Iterator[Manifests]:
    """A world with an operator that would reach a server on this machine, if it were told to."""
    with OperatorProcess(quiet, "--allow-loopback") as operator:
        yield alone
        assert operator.returncode is None, operator.log()[-2000:]


def cluster_of(listener: Listener, world: Manifests) -> Json:
    """Return a cluster that is the attacker's, reached with a token that she may not read."""
    config = yaml.safe_load(Path(world.sandbox.kubeconfig).read_text(encoding="utf-8"))
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    connection = {
        "type": "ServiceAccountToken",
        "serviceAccountTokenRef": {"name": "prod-token"},
        "server": f"https://127.0.0.1:{listener.port}",
        "caData": authority,
    }
    return {"name": "prod", "connection": connection}


@pytest.mark.parametrize("ending", [False, True], ids=["of a living sync", "of a sync that is being deleted"])
def test_a_cluster_in_a_forged_status_is_not_called_and_its_credential_not_read(
    reaching: Manifests, listener: Listener, ending: bool
) -> None:
    world = reaching
    target = world.namespace("a")
    world.make("Secret", world.home, "prod-token", stringData={"token": "prod"})
    sync = world.msync("sync", world.secret(), into=[target])
    sync.becomes("Synced", synced=1)
    carol = Carol(world)
    since = world.mark()
    carol.writes(sync, clusters=[cluster_of(listener, world)], written=["Secret", "prod/Secret"])
    if ending:
        sync.delete()
        sync.gone()
        world.find("Secret", target).gone()
    else:
        until(lambda: sync.status.get("clusters"), lambda seen: not seen)
        sync.now()
    assert not listener.was_called()
    read = [entry for entry in world.requests(since) if entry.name == "prod-token"]
    assert not read


def test_a_copy_of_the_status_of_another_sync_is_not_obeyed(reaching: Manifests) -> None:
    world = reaching
    first, second = world.namespaces("a", "b")
    one = world.msync("one", world.secret("one"), into=[first])
    two = world.msync("two", world.secret("two"), into=[second], deletionPolicy="Delete")
    one.becomes("Synced", synced=1)
    two.becomes("Synced", synced=1)
    right, proof = two.status["targetStatuses"], two.status["proof"]
    Carol(world).writes(two, **one.status)
    until(lambda: two.status["proof"], lambda seen: seen == proof)
    assert two.status["targetStatuses"] == right


def test_a_status_that_somebody_emptied_loses_no_copy(reaching: Manifests) -> None:
    world = reaching
    target = world.namespace("a")
    source = world.secret()
    sync = world.msync("sync", source, into=[target])
    sync.becomes("Synced", synced=1)
    right = sync.status
    Carol(world).writes(sync, **dict.fromkeys(right))
    until(lambda: sync.status.get("written"), lambda seen: seen == right["written"])
    assert sync.status["scope"] == right["scope"]
    sync.delete()
    sync.gone()
    world.find("Secret", target).gone()


def test_a_status_that_was_forged_while_no_operator_ran_is_not_obeyed_and_loses_no_copy(
    alone: Manifests, quiet: Path, listener: Listener
) -> None:
    world = alone
    target = world.namespace("a")
    world.make("Secret", world.home, "prod-token", stringData={"token": "prod"})
    sync = world.msync("sync", world.secret(), into=[target])
    with OperatorProcess(quiet, "--allow-loopback"):
        sync.becomes("Synced", synced=1)
    Carol(world).writes(sync, clusters=[cluster_of(listener, world)], written=[], scope=None)
    since = world.mark()
    sync.delete()
    with OperatorProcess(quiet, "--allow-loopback"):
        sync.gone()
        world.find("Secret", target).gone()
    assert not listener.was_called()
    assert not [entry for entry in world.requests(since) if entry.name == "prod-token"]


def test_a_requested_removal_in_a_forged_status_does_not_release_the_deletion_guard(reaching: Manifests) -> None:
    world = reaching
    world.source()
    names = world.namespaces(*(f"n{number}" for number in range(12)), team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", synced=12)
    wider = json.loads(sync.status["scope"])
    wider["scope"]["clusters"][0]["namespaces"]["selector"]["matchLabels"] = {"team": "another"}
    Carol(world).writes(sync, scope=json.dumps(wider))
    for name in names:
        world.namespace_object(name).label(team=None)
    assert "of 12 copies would be removed" in sync.becomes("DeletionHeld")["message"]
