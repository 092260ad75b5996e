"""A sync with an interval writes late on purpose; its status is right without waiting for that."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.acting import account_of_tests, acting
from tests.configmapsync.world import Thing
from tests.faults.gates import RequestGate
from tests.faults.scene import NAME, Scene, calm_operator, wait_until
from tests.faults.test_foreign_status import ready

from syncline.api.common import API_VERSION, REQUESTED_AT
from syncline.testing.faults import Asked, Fault, Rule
from syncline.testing.proxy import FaultProxy

Json = dict[str, Any]


class Hourly(Thing):
    """A ManifestSync that copies the source of a scene once an hour."""

    def __init__(self, scene: Scene, *namespaces: str) -> None:
        super().__init__(scene.sandbox, f"/apis/{API_VERSION}/namespaces/{scene.home}/manifestsyncs", NAME)
        spec = {
            "sourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": NAME},
            "targets": {"inCluster": {"namespaces": namespaces}},
            "syncPolicy": {"mode": "Interval", "interval": "1h"},
        }
        body = {"apiVersion": API_VERSION, "kind": "ManifestSync", "metadata": {"name": NAME}}
        self.create({**body, "spec": acting(account_of_tests(), spec)})

    @property
    def status(self) -> Json:
        return dict((self.look() or {}).get("status") or {})

    @property
    def reason(self) -> str:
        conditions = self.status.get("conditions", [])
        return next((one["reason"] for one in conditions if one["type"] == "Ready"), "")

    def becomes(self, reason: str) -> None:
        wait_until(lambda: self.reason == reason, f"the sync to be {reason}", 60, instead=lambda: self.status)


@pytest.fixture
def hourly(scene: Scene) -> Iterator[Callable[..., Hourly]]:
    made: list[Hourly] = []

    def make(*namespaces: str) -> Hourly:
        made.append(Hourly(scene, *namespaces))
        return made[-1]

    scene.source("1")
    yield make
    for sync in made:
        sync.release()


def test_a_status_that_could_not_be_written_is_written_soon(
    scene: Scene, proxy: FaultProxy, hourly: Callable[..., Hourly]
) -> None:
    target = scene.namespace("target")
    walls: list[Rule] = []

    def refuse() -> None:
        walls.append(proxy.inject(Fault(status=500), when=is_status_write))

    proxy.inject(Fault(after=refuse), when=creates_copy, times=1)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        sync = hourly(target)
        wait_until(lambda: walls and walls[0].hits, "a status that is refused")
        walls[0].lift()
        sync.becomes("Synced")


def test_a_status_that_somebody_else_wrote_is_put_right_soon(scene: Scene, hourly: Callable[..., Hourly]) -> None:
    with calm_operator(scene.kubeconfig):
        sync = hourly(scene.namespace("target"))
        sync.becomes("Synced")
        scene.wait_until_quiet()
        body = sync.read()
        body["status"]["conditions"] = [ready("False", "MadeUp")]
        scene.sandbox.request("PUT", f"{sync.path}/status", body)
        sync.becomes("Synced")


def test_a_write_that_ends_late_is_told_when_it_ends(
    scene: Scene, proxy: FaultProxy, hourly: Callable[..., Hourly]
) -> None:
    quick, slow = scene.namespace("quick"), scene.namespace("slow")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        gate = RequestGate(proxy, lambda asked: creates_copy(asked) and asked.namespace == slow)
        sync = hourly(quick, slow)
        wait_until(lambda: gate.is_reached and (quick, NAME) in scene.copies(), "one copy, and one in flight")
        sync.annotate({REQUESTED_AT: "now"})
        wait_until(lambda: sync.status.get("lastHandledRequest") == "now", "a reconcile", instead=lambda: sync.status)
        assert sync.reason == "InProgress"
        gate.release()
        sync.becomes("Synced")


def is_status_write(asked: Asked) -> bool:
    return asked.resource == "manifestsyncs" and asked.subresource == "status" and asked.changes


def creates_copy(asked: Asked) -> bool:
    return asked.resource == "configmaps" and asked.verb == "create"
