"""The deletion guard counts every removal that the server carried out, also one that the operator never heard of."""

import threading

from tests.faults.gates import PATIENCE
from tests.faults.scene import LABEL, NAME, Scene, calm_operator, wait_until

from syncline.kube import CONFIGMAPS
from syncline.testing.faults import Asked, Fault
from syncline.testing.proxy import FaultProxy

# Of 16 copies at most 10 may go without a person's word: these and the next four are more.
FIRST, SECOND = 8, 4


def deletes(asked: Asked) -> bool:
    return asked.verb == "delete" and asked.resource == "configmaps"


def leave(scene: Scene, names: list[str]) -> None:
    for name in names:
        scene.namespace(name.removeprefix(f"{scene.prefix}-"), **{LABEL: "left"})


def assert_the_next_are_held(scene: Scene, targets: list[str]) -> None:
    leave(scene, targets[FIRST:][:SECOND])
    wait_until(lambda: scene.ready().get("reason") == "DeletionHeld", "the next ones to be held", instead=scene.ready)
    assert {(name, NAME) for name in targets[FIRST:]} <= set(scene.copies())


def test_removals_whose_answers_were_lost_count_for_the_guard(scene: Scene, proxy: FaultProxy) -> None:
    targets = scene.namespaces(16)
    scene.source("one")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.sync()
        scene.wait_for(targets, "one")
        rule = proxy.inject(Fault(cut=True), when=deletes, times=FIRST)
        leave(scene, targets[:FIRST])
        scene.wait_for(targets[FIRST:], "one")
        assert len(rule.hits) == FIRST
        assert_the_next_are_held(scene, targets)


def test_removals_whose_answers_are_late_count_for_the_guard(scene: Scene, proxy: FaultProxy) -> None:
    targets, released = scene.namespaces(16), threading.Event()
    scene.source("one")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.sync()
        scene.wait_for(targets, "one")
        proxy.inject(Fault(after=lambda: released.wait(2 * PATIENCE)), when=deletes, times=FIRST)
        leave(scene, targets[:FIRST])
        wait_until(lambda: scene.all_hold(targets[FIRST:], "one"), "the first to go", instead=scene.ready)
        try:
            assert_the_next_are_held(scene, targets)
        finally:
            released.set()


def test_removals_that_a_finalizer_holds_up_count_for_the_guard(scene: Scene, proxy: FaultProxy) -> None:
    targets = scene.namespaces(16)
    scene.source("one")
    paths = [CONFIGMAPS.path(name, NAME) for name in targets[:FIRST]]
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.sync()
        scene.wait_for(targets, "one")
        for path in paths:
            hold_up(scene, path, "tests.example.com/wait")
        leave(scene, targets[:FIRST])
        wait_until(
            lambda: all("deletionTimestamp" in scene.sandbox.request("GET", path)["metadata"] for path in paths),
            "the first to be deleted",
            instead=scene.ready,
        )
        try:
            assert_the_next_are_held(scene, targets)
        finally:
            for path in paths:
                hold_up(scene, path)


def hold_up(scene: Scene, path: str, *finalizers: str) -> None:
    """Let an object that is deleted stay for these finalizers."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "finalizers": list(finalizers)}}
    scene.sandbox.request("PATCH", f"{path}?fieldManager=tests-finalizer&force=true", body)
