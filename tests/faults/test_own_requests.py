"""What one sync learns by its own requests reaches every other sync, even while the watch tells nothing."""

from collections.abc import Callable

import pytest
from tests.faults.gates import WatchGate
from tests.faults.scene import NAME, Scene, calm_operator, wait_until

from syncline.api.common import API_VERSION, REQUESTED_AT
from syncline.core.ownership import OWNER_LABEL
from syncline.testing.faults import Asked, Fault
from syncline.testing.proxy import FaultProxy


def value_of(scene: Scene, namespace: str) -> str | None:
    copy = scene.copies().get((namespace, NAME))
    return copy["data"]["value"] if copy is not None else None


def test_a_write_to_the_source_reaches_the_other_syncs_of_that_source(scene: Scene, proxy: FaultProxy) -> None:
    two, one, three = (scene.namespace(short) for short in ("two", "one", "three"))
    scene.source("1")
    scene.sync("both", destinationNamespace=two, direction="Bidirectional", conflictPolicy="Merge")
    scene.sync("down", destinationNamespace=one)
    scene.sync("also", destinationNamespace=three, direction="Bidirectional", conflictPolicy="Merge")
    watch = WatchGate(proxy, "configmaps", f"!{OWNER_LABEL}")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        for namespace in (two, one, three):
            wait_until(lambda at=namespace: value_of(scene, at) == "1", f"a copy in {namespace}")
        watch.close()
        for number in range(2, 7):
            edited = scene.copies()[two, NAME]
            edited["data"]["value"] = str(number)
            scene.sandbox.request("PUT", f"/api/v1/namespaces/{two}/configmaps/{NAME}?fieldManager=tests", edited)
            for namespace in (one, three):
                wait_until(
                    lambda at=namespace, want=str(number): value_of(scene, at) == want,
                    f"edit {number} to reach {namespace} while the watch is silent",
                    30,
                )
        watch.open()


def test_a_read_of_the_source_by_one_sync_reaches_the_others(scene: Scene, proxy: FaultProxy) -> None:
    names = ["first", "second", "third"]
    spaces = {name: scene.namespace(name) for name in names}
    scene.source("1")
    for name in names:
        scene.sync(name, destinationNamespace=spaces[name])
    watch = WatchGate(proxy, "configmaps", f"!{OWNER_LABEL}")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        wait_until(lambda: scene.all_hold(spaces.values(), "1"), "all copies")
        watch.close()
        scene.source("2")
        request_now(scene, "first")
        wait_until(lambda: scene.all_hold(spaces.values(), "2"), "all copies to follow", 30, instead=scene.copies)
        watch.open()


@pytest.mark.parametrize("what", ["spec", "deletion"])
def test_an_edit_of_a_sync_during_its_own_status_write_is_acted_on(scene: Scene, proxy: FaultProxy, what: str) -> None:
    first, second = scene.namespace("first"), scene.namespace("second")
    scene.source("1")
    scene.sync(destinationNamespaces=[first])
    watch = WatchGate(proxy, "configmapsyncs")
    change: dict[str, Callable[[], None]] = {
        "spec": lambda: scene.sync(destinationNamespaces=[first, second]),
        "deletion": scene.delete_sync,
    }
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for([first], "1")
        watch.close()
        edit = proxy.inject(Fault(before=change[what]), when=is_status_write, times=1)
        scene.source("2")
        if what == "spec":
            wait_until(lambda: scene.all_hold([first, second], "2"), "the edit", 30, instead=scene.copies)
        else:
            wait_until(lambda: scene.get_sync() is None, "the sync to be gone", 30, instead=scene.get_sync)
            assert not scene.copies()
        assert edit.hits
        watch.open()


def is_status_write(asked: Asked) -> bool:
    return asked.resource == "configmapsyncs" and asked.subresource == "status" and asked.changes


def request_now(scene: Scene, name: str) -> None:
    body = {
        "apiVersion": API_VERSION,
        "kind": "ConfigMapSync",
        "metadata": {"name": name, "annotations": {REQUESTED_AT: "now"}},
    }
    path = f"/apis/{API_VERSION}/namespaces/{scene.home}/configmapsyncs/{name}"
    scene.sandbox.request("PATCH", f"{path}?fieldManager=nudge&force=true", body)
