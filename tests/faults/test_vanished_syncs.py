"""No copy outlives its sync: not one whose finalizer came too late, nor one that was still being written."""

import time
from datetime import datetime
from itertools import pairwise

from tests.faults.gates import RequestGate
from tests.faults.scene import NAME, Scene, calm_operator, wait_until

from syncline.api.common import API_VERSION
from syncline.testing.faults import Asked, Fault
from syncline.testing.proxy import FaultProxy

FIRST_DELAY = 0.2
"""Seconds until the first retry of a queue, at most."""


def delete_at_once(scene: Scene) -> None:
    """Remove a sync although it has a finalizer, as a deletion does that began before the finalizer was added."""
    sync = scene.get_sync()
    assert sync is not None
    sync["metadata"]["finalizers"] = []
    path = f"/apis/{API_VERSION}/namespaces/{scene.home}/configmapsyncs/{NAME}"
    scene.sandbox.request("PUT", path, sync)
    scene.delete_sync()


def test_nothing_is_written_for_a_sync_that_went_while_its_finalizer_was_added(scene: Scene, proxy: FaultProxy) -> None:
    scene.namespaces(5)
    scene.source("1")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        vanish = proxy.inject(Fault(after=lambda: delete_at_once(scene)), when=is_finalizer_write, times=1)
        before = scene.audit.mark()
        scene.sync()
        wait_until(lambda: vanish.hits and scene.get_sync() is None, "the sync to be gone")
        wait_until(lambda: "the sync was deleted meanwhile" in operator.log(), "the operator to notice")
        written = [str(entry) for entry in scene.writes(before) if entry.resource == "configmaps"]
        assert not written
        assert not scene.copies()


def test_what_was_written_for_a_sync_whose_finalizer_came_too_late_is_removed(scene: Scene, proxy: FaultProxy) -> None:
    scene.namespaces(5)
    scene.source("1")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        vanish = proxy.inject(Fault(after=lambda: delete_at_once(scene)), when=creates_copy, times=1)
        scene.sync()
        wait_until(lambda: vanish.hits and scene.get_sync() is None, "the sync to be gone")
        wait_until(lambda: not scene.copies(), "its copies to be gone", instead=scene.copies)
        scene.wait_until_quiet()
        assert not scene.copies()


def test_a_deletion_waits_for_a_create_that_is_still_in_flight(scene: Scene, proxy: FaultProxy) -> None:
    quick, slow = scene.namespace("quick"), scene.namespace("slow")
    scene.source("1")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        gate = RequestGate(proxy, lambda asked: creates_copy(asked) and asked.namespace == slow)
        scene.sync()
        wait_until(lambda: gate.is_reached and (quick, NAME) in scene.copies(), "one copy, and one in flight")
        scene.delete_sync()
        wait_until(lambda: scene.ready().get("reason") == "CleanupFailed", "the deletion to wait", instead=scene.ready)
        assert "in flight" in scene.ready()["message"]
        gate.release()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
        assert not scene.copies()
        scene.wait_until_quiet()
        assert not scene.copies()


def test_a_copy_that_appears_after_its_sync_has_gone_is_removed(scene: Scene, proxy: FaultProxy) -> None:
    """A crash can leave a create in flight that the next operator knows nothing of."""
    target = scene.namespace("target")
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for([target], "1")
        copy = scene.copies()[target, NAME]
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None and not scene.copies(), "the end of the sync")
        late = {key: copy["metadata"][key] for key in ("name", "labels", "annotations")}
        scene.sandbox.request("POST", f"/api/v1/namespaces/{target}/configmaps", {**copy, "metadata": late})
        wait_until(lambda: not scene.copies(), "the late copy to go", instead=scene.copies)


def test_a_late_copy_that_cannot_be_removed_is_tried_ever_more_rarely(scene: Scene, proxy: FaultProxy) -> None:
    target = scene.namespace("target")
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for([target], "1")
        copy = scene.copies()[target, NAME]
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None and not scene.copies(), "the end of the sync")
        wall = proxy.inject(Fault(status=403), when=removes_copy)
        late = {key: copy["metadata"][key] for key in ("name", "labels", "annotations")}
        scene.sandbox.request("POST", f"/api/v1/namespaces/{target}/configmaps", {**copy, "metadata": late})

        def tries() -> list[datetime]:
            told = "copies of a sync that is gone cannot be removed yet"
            return [datetime.fromisoformat(line["timestamp"]) for line in operator.events() if line["event"] == told]

        wait_until(lambda: len(tries()) >= 6, "six tries")
        gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(tries())]
        # The fifth delay is 16 times the first, less at most a quarter; a busy machine only makes it longer.
        assert gaps[4] > 12 * FIRST_DELAY, gaps
        wall.lift()
        wait_until(lambda: not scene.copies(), "the late copy to go", instead=scene.copies)


def test_a_copy_that_its_sync_was_told_to_leave_stays_after_the_sync_has_gone(scene: Scene) -> None:
    target = scene.namespace("target")
    scene.source("1")
    scene.sync(**scene.selector, deletionPolicy="Orphan")
    with calm_operator(scene.kubeconfig):
        scene.wait_for([target], "1")
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the end of the sync")
        scene.config_map(target, NAME, value="edited")
        time.sleep(1.0)  # for as long as it takes to see that nothing happens
        assert (target, NAME) in scene.copies()


def is_finalizer_write(asked: Asked) -> bool:
    return asked.resource == "configmapsyncs" and asked.verb == "patch" and not asked.subresource


def removes_copy(asked: Asked) -> bool:
    return asked.resource == "configmaps" and asked.verb == "delete"


def creates_copy(asked: Asked) -> bool:
    return asked.resource == "configmaps" and asked.verb == "create"
