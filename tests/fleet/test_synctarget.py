"""A SyncTarget says whether its cluster can be used, why not, and what to renew; and is quiet while nothing changes."""

import asyncio
import datetime as dt
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.conftest import Until
from tests.fleet.forms import CANARY, encode, kubeconfig
from tests.fleet.world import QUICK, UNHURRIED, Remote, proxied

from syncline.api.common import API_VERSION
from syncline.api.synctarget import SyncedResource
from syncline.controllers.kinds.synctarget import SyncTargetReconciler
from syncline.controllers.targets.synctargets import SyncTargetInformer
from syncline.engine.cluster import Cluster
from syncline.fleet import Fleet, MemberKey, SecretWire
from syncline.kube import Client, EventRecorder, Key, load_kubeconfig, run_workers
from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.operator import install
from syncline.testing.proxy import FaultProxy


class Hub:
    """A namespace of the hub with SyncTargets and their Secrets, and the controller that looks after them."""

    def __init__(self, sandbox: Sandbox, controller: SyncTargetReconciler, fleet: Fleet) -> None:
        self.namespace = f"fleet-hub-{secrets.token_hex(4)}"
        self.controller = controller
        self.fleet = fleet
        self._sandbox = sandbox
        self._targets = f"/apis/{API_VERSION}/namespaces/{self.namespace}/synctargets"
        self._secrets = f"/api/v1/namespaces/{self.namespace}/secrets"
        sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def put_secret(self, wire: SecretWire, name: str = "edge") -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": wire.data}
        self._sandbox.request("PATCH", f"{self._secrets}/{name}?fieldManager=tests&force=true", body)
        self.controller.secret_changed(Key(self.namespace, name))

    def put_target(self, name: str = "edge", **spec: Any) -> None:
        connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": name}}
        body = {
            "apiVersion": API_VERSION,
            "kind": "SyncTarget",
            "metadata": {"name": name},
            "spec": {"connection": connection, **spec},
        }
        self._sandbox.request("PATCH", f"{self._targets}/{name}?fieldManager=tests&force=true", body)

    def end(self) -> None:
        self._sandbox.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        for target in self._sandbox.request("GET", self._targets)["items"]:
            self._sandbox.request("DELETE", f"{self._targets}/{target['metadata']['name']}")

    def delete_target(self) -> None:
        self._sandbox.request("DELETE", f"{self._targets}/edge")

    @property
    def target(self) -> dict[str, Any]:
        return self._sandbox.request("GET", f"{self._targets}/edge")

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.target.get("status", {})
        return status

    def condition(self, kind: str = "Ready") -> dict[str, Any]:
        return next((each for each in self.status.get("conditions", ()) if each["type"] == kind), {})

    def is_ready(self, status: str, reason: str) -> bool:
        ready = self.condition()
        return (ready.get("status"), ready.get("reason")) == (status, reason)

    def events(self) -> list[dict[str, Any]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        items: list[dict[str, Any]] = self._sandbox.request("GET", path)["items"]
        return items


@pytest.fixture(scope="session")
def kubeconfig_of_operator(far: Sandbox) -> Path:
    """Syncline installed where no operator of other tests runs."""
    return install(far)


@pytest.fixture
def remote(sandbox: Sandbox) -> Remote:
    """The other control plane is the hub here."""
    return Remote(sandbox)


@pytest.fixture
def proxy(sandbox: Sandbox) -> Iterator[FaultProxy]:
    """A proxy before the remote."""
    with proxied(sandbox) as running:
        yield running


@pytest.fixture
async def hub(far: Sandbox, kubeconfig_of_operator: Path) -> AsyncIterator[Hub]:
    """The controller at work, with the rights of the operator."""
    async with (
        Client(load_kubeconfig(kubeconfig_of_operator)) as client,
        Fleet(allow_loopback=True, timeouts=QUICK) as fleet,
    ):
        targets = SyncTargetInformer(Cluster(client), lambda: None)
        events = EventRecorder(client, "syncline", "tests")
        controller = SyncTargetReconciler(client, fleet, targets, events=events)
        work = [asyncio.create_task(targets.reflector.run())]
        await targets.reflector.synced.wait()
        work.append(asyncio.create_task(run_workers(controller.queue, 4, controller.reconcile)))
        yield (here := Hub(far, controller, fleet))
        here.end()
        controller.queue.close()
        for task in work:
            task.cancel()
        await asyncio.wait(work)


async def test_a_sync_target_says_what_its_cluster_is_and_then_is_quiet(remote: Remote, hub: Hub, until: Until) -> None:
    hub.put_secret(remote.secret())
    hub.put_target()
    await until(lambda: hub.is_ready("True", "Reachable"))
    status = hub.status
    assert status["version"].startswith("v1.")
    assert status["observedGeneration"] == 1
    assert dt.datetime.fromisoformat(status["credentialExpiry"]) > dt.datetime.now(UTC)
    assert dt.datetime.fromisoformat(status["lastSeen"]) <= dt.datetime.now(UTC)
    before = hub.target["metadata"]["resourceVersion"]
    for _ in range(3):
        hub.controller.queue.add(Key(hub.namespace, "edge"))
        await asyncio.sleep(0.7)
    assert hub.target["metadata"]["resourceVersion"] == before
    assert [event["reason"] for event in hub.events()] == ["Reachable"]


async def test_a_missing_secret_is_named_and_taken_up_when_it_is_there(remote: Remote, hub: Hub, until: Until) -> None:
    hub.put_target()
    await until(lambda: hub.is_ready("False", "SecretNotFound"))
    assert hub.condition()["message"] == f"there is no Secret {hub.namespace}/edge: create it"
    assert hub.condition("Stalled")["status"] == "True"
    hub.put_secret(remote.secret())
    await until(lambda: hub.is_ready("True", "Reachable"))
    assert hub.condition("Stalled") == {}


async def test_a_refused_kubeconfig_is_explained_and_nothing_of_it_is_shown(
    remote: Remote, hub: Hub, until: Until
) -> None:
    wire = remote.secret()
    wire.data = {"value": encode(kubeconfig(user={"exec": {"command": CANARY}, "token": CANARY}))}
    hub.put_secret(wire)
    hub.put_target()
    await until(lambda: hub.is_ready("False", "InvalidCredentials"))
    assert "exec is not accepted" in hub.condition()["message"]
    assert hub.fleet.find(MemberKey(hub.namespace, "SyncTarget", "edge")) is None
    await until(lambda: bool(hub.events()))
    assert CANARY not in json.dumps([hub.target, hub.events()])


async def test_a_cluster_that_is_away_is_unknown_with_the_time_it_was_last_seen(
    remote: Remote, proxy: FaultProxy, hub: Hub, until: Until
) -> None:
    hub.put_secret(remote.secret(server=proxy.server))
    hub.put_target()
    await until(lambda: hub.is_ready("True", "Reachable"))
    outage = proxy.inject(Fault(lost=True), when=lambda _: True)
    await until(lambda: hub.is_ready("Unknown", "Unreachable"))
    ready, status = hub.condition(), hub.status
    assert f"(last seen {status['lastSeen']})" in ready["message"]
    before = hub.target["metadata"]["resourceVersion"]
    await asyncio.sleep(1)
    assert hub.target["metadata"]["resourceVersion"] == before
    outage.lift()
    await until(lambda: hub.is_ready("True", "Reachable"))
    assert {event["reason"] for event in hub.events()} == {"Reachable", "Unreachable"}


async def test_a_revoked_credential_is_false_and_a_new_one_is_found(remote: Remote, hub: Hub, until: Until) -> None:
    hub.put_secret(remote.secret(old := remote.issue("old")))
    hub.put_target()
    await until(lambda: hub.is_ready("True", "Reachable"))
    remote.revoke("old")
    await until(lambda: not remote.is_known(old))
    await until(lambda: hub.is_ready("False", "Unauthorized"))
    assert f"Secret {hub.namespace}/edge" in hub.condition()["message"]
    hub.put_secret(remote.secret())
    await until(lambda: hub.is_ready("True", "Reachable"))
    assert old not in json.dumps([hub.target, hub.events()])


async def test_a_credential_that_ends_soon_is_warned_about(remote: Remote, hub: Hub, until: Until) -> None:
    now = dt.datetime.now(UTC)
    begins, ends = now - dt.timedelta(days=300), now + dt.timedelta(days=3)
    hub.put_secret(remote.secret_with_certificate("edge", begins=begins, ends=ends))
    hub.put_target()
    await until(lambda: hub.is_ready("True", "Reachable"))
    assert "the client certificate in Secret" in hub.condition("CredentialExpiring")["message"]
    assert hub.status["credentialExpiry"] == f"{ends:%Y-%m-%dT%H:%M:%SZ}"
    await until(lambda: "CredentialExpiring" in {event["reason"] for event in hub.events()})
    hub.put_secret(remote.secret_with_certificate("edge", begins=now, ends=now + dt.timedelta(days=300)))
    await until(lambda: hub.condition("CredentialExpiring") == {})


async def test_a_deleted_sync_target_lets_its_cluster_go(remote: Remote, hub: Hub, until: Until) -> None:
    hub.put_secret(remote.secret())
    hub.put_target()
    await until(lambda: hub.is_ready("True", "Reachable"))
    member = hub.fleet.find(MemberKey(hub.namespace, "SyncTarget", "edge"))
    assert member is not None
    hub.delete_target()
    await until(lambda: member.closed)


async def test_the_resources_that_are_written_there_are_listed(remote: Remote, hub: Hub, until: Until) -> None:
    hub.put_secret(remote.secret())
    hub.put_target(unschedulable=True)
    await until(lambda: hub.is_ready("True", "Reachable"))
    assert "takes no new syncs" in hub.condition()["message"]
    accepted = SyncedResource(name="secrets", state="Accepted")
    refused = SyncedResource(name="widgets.example.com", state="Incompatible", message="it is not served there")
    hub.controller.set_resources(Key(hub.namespace, "edge"), [refused, accepted])
    await until(lambda: len(hub.status.get("syncedResources", ())) == 2)
    assert [entry["name"] for entry in hub.status["syncedResources"]] == ["widgets.example.com", "secrets"]


async def test_what_is_said_of_a_sync_target_after_it_has_gone_leaves_nothing(hub: Hub) -> None:
    key = Key(hub.namespace, "edge")
    accepted = SyncedResource(name="configmaps", state="Accepted")
    hub.controller.resources_complete()
    hub.controller.set_resources(key, [accepted])
    hub.controller._drop_state(key)
    hub.controller.set_resources(key, [])
    assert not hub.controller._resources
    # A sync may speak of it before it is seen: that is kept until the sync says otherwise.
    hub.controller.set_resources(key, [accepted])
    assert hub.controller._resources
    hub.controller.set_resources(key, [])
    assert not hub.controller._resources


async def test_dead_clusters_do_not_keep_the_living_from_being_looked_at(
    remote: Remote, hub: Hub, until: Until
) -> None:
    """Four workers, and more servers than that which accept and never speak."""
    held: list[asyncio.StreamWriter] = []
    over = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await over.wait()
        writer.transport.abort()

    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with silent:
        port = silent.sockets[0].getsockname()[1]
        hub.put_secret(remote.secret())
        for number in range(12):
            hub.put_secret(remote.secret(server=f"https://127.0.0.1:{port}"), f"dead-{number}")
            hub.put_target(f"dead-{number}")
        started = asyncio.get_running_loop().time()
        hub.put_target()
        await until(lambda: hub.is_ready("True", "Reachable"))
        assert asyncio.get_running_loop().time() - started < UNHURRIED
        over.set()
    assert held
