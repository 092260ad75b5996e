"""A status that somebody else wrote is not overwritten by an operator that is late, and a wrong one is put right."""

from typing import Any

from tests.faults.gates import RequestGate
from tests.faults.scene import NAME, Scene, calm_operator, wait_until
from tests.faults.test_own_requests import is_status_write

from syncline.api.common import API_VERSION
from syncline.testing.audit import OPERATOR
from syncline.testing.proxy import FaultProxy


def write_status(scene: Scene, **changes: Any) -> None:
    """Write the status of the sync as somebody else."""
    sync = scene.get_sync()
    assert sync is not None
    sync["status"] = {**sync.get("status", {}), **changes}
    path = f"/apis/{API_VERSION}/namespaces/{scene.home}/configmapsyncs/{NAME}/status"
    scene.sandbox.request("PUT", path, sync)


def ready(status: str, reason: str) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "said by somebody else",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_a_status_that_was_composed_before_another_one_was_written_is_refused(scene: Scene, proxy: FaultProxy) -> None:
    target = scene.namespace("target")
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for([target], "1")
        late = RequestGate(proxy, is_status_write)
        before = scene.audit.mark()
        scene.source("2")
        wait_until(lambda: late.is_reached, "a status on its way")
        write_status(scene, conditions=[ready("False", "NotOurs")])
        late.release()
        scene.wait_for([target], "2")
        answers = [
            entry.code
            for entry in scene.audit.entries(OPERATOR, since=before, until=scene.audit.mark())
            if entry.subresource == "status" and entry.namespace == scene.home
        ]
        assert answers[0] == 409


def test_a_status_that_somebody_else_wrote_is_put_right_without_a_nudge(scene: Scene) -> None:
    target = scene.namespace("target")
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig):
        scene.wait_for([target], "1")
        scene.wait_until_quiet()  # so that no reconcile of the start puts it right by chance
        right = scene.status()
        write_status(scene, conditions=[ready("False", "MadeUp")], sourceRevision="0", observedGeneration=0)
        wait_until(lambda: scene.ready().get("reason") == "Synced", "the truth", instead=scene.status)
        assert scene.status()["sourceRevision"] == right["sourceRevision"]
        assert scene.status()["observedGeneration"] == right["observedGeneration"]


def test_a_finalizer_that_somebody_took_away_is_put_back(scene: Scene) -> None:
    target = scene.namespace("target")
    scene.source("1")
    scene.sync()
    with calm_operator(scene.kubeconfig):
        scene.wait_for([target], "1")
        sync = scene.get_sync()
        assert sync is not None
        sync["metadata"]["finalizers"] = []
        scene.sandbox.request("PUT", f"/apis/{API_VERSION}/namespaces/{scene.home}/configmapsyncs/{NAME}", sync)
        wait_until(lambda: (scene.get_sync() or {})["metadata"].get("finalizers"), "the finalizer")
