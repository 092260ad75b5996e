"""Edits of copies that the operator has not heard of yet when it writes or deletes them: none is lost or overlooked."""

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from tests.faults.gates import WatchGate
from tests.faults.scene import NAME, Json, Scene, calm_operator, wait_until

from syncline.api.common import API_VERSION, REQUESTED_AT
from syncline.core.ownership import OWNER_LABEL
from syncline.kube import CONFIGMAPS
from syncline.testing.proxy import FaultProxy


class Late:
    """A sync with one copy, whose watch can be made to tell nothing."""

    def __init__(self, scene: Scene, proxy: FaultProxy, **spec: object) -> None:
        self.scene = scene
        self.proxy = proxy
        self.there = scene.namespace("there")
        self.watch = WatchGate(proxy, "configmaps", OWNER_LABEL)
        scene.config_map(scene.home, NAME, {"team": "red"}, value="1")
        scene.sync(destinationNamespace=self.there, **spec)

    def read(self, namespace: str) -> Json:
        found: Json = self.scene.sandbox.request("GET", CONFIGMAPS.path(namespace, NAME))
        return found

    @property
    def copy(self) -> tuple[Any, str]:
        """The content and the label of the copy."""
        body = self.read(self.there)
        return body["data"], body["metadata"]["labels"]["team"]

    def edit(self, namespace: str, change: Callable[[Json], object]) -> None:
        body = self.read(namespace)
        change(body)
        self.scene.sandbox.request("PUT", f"{CONFIGMAPS.path(namespace, NAME)}?fieldManager=tests", body)

    def now(self) -> None:
        """Ask for a pass and wait for its end."""
        request = secrets.token_hex(4)
        path = f"/apis/{API_VERSION}/namespaces/{self.scene.home}/configmapsyncs/{NAME}"
        body = {
            "apiVersion": API_VERSION,
            "kind": "ConfigMapSync",
            "metadata": {"annotations": {REQUESTED_AT: request}},
        }
        self.scene.sandbox.request("PATCH", f"{path}?fieldManager=nudge&force=true", body)
        wait_until(lambda: self.scene.status().get("lastHandledRequest") == request, "the request to be handled")

    def deletes(self) -> int:
        """How often the operator has tried to delete the copy."""
        return self.proxy.count(
            lambda asked: (asked.verb, asked.resource, asked.namespace) == ("delete", "configmaps", self.there)
        )


@pytest.fixture
def late(scene: Scene, proxy: FaultProxy) -> Callable[..., Late]:
    return lambda **spec: Late(scene, proxy, **spec)


def test_an_edit_beats_the_deletion_of_the_other_side_however_late_it_is_heard_of(
    scene: Scene, proxy: FaultProxy, late: Callable[..., Late]
) -> None:
    pair = late(direction="Bidirectional", conflictPolicy="Merge")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for([pair.there], "1")
        pair.watch.close()
        pair.edit(pair.there, lambda body: body["data"].update(value="edited"))
        scene.delete_config_map(scene.home)
        wait_until(pair.deletes, "the operator to try to delete what it believes to be unedited")
        pair.now()
        assert pair.copy == ({"value": "edited"}, "red")
        pair.watch.open()
        pair.now()
        assert pair.copy == ({"value": "edited"}, "red")
        assert scene.ready()["reason"] == "SourceNotFound"


def test_an_unedited_copy_goes_with_the_other_side_however_late_a_label_on_it_is_heard_of(
    scene: Scene, proxy: FaultProxy, late: Callable[..., Late]
) -> None:
    pair = late(direction="Bidirectional", conflictPolicy="Merge")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for([pair.there], "1")
        pair.watch.close()
        pair.edit(pair.there, lambda body: body["metadata"]["labels"].update(theirs="yes"))
        scene.delete_config_map(scene.home)
        wait_until(lambda: not scene.copies(), "the copy to go")
        pair.watch.open()


CHANGES: dict[str, tuple[Callable[[Json], object], Callable[[Json], object], tuple[Any, str]]] = {
    "the content, while we write a label": (
        lambda copy: copy["data"].update(value="drifted"),
        lambda source: source["metadata"]["labels"].update(team="blue"),
        ({"value": "1"}, "blue"),
    ),
    "a label, while we write the content": (
        lambda copy: copy["metadata"]["labels"].update(team="drifted"),
        lambda source: source["data"].update(value="2"),
        ({"value": "2"}, "red"),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_edit_that_our_own_write_overtakes_is_repaired(
    scene: Scene, proxy: FaultProxy, late: Callable[..., Late], what: str
) -> None:
    drift, change, expected = CHANGES[what]
    sync = late()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for([sync.there], "1")
        sync.watch.close()
        sync.edit(sync.there, drift)
        sync.edit(scene.home, change)
        wait_until(lambda: sync.copy == expected, "the repair, while the watch is silent", instead=lambda: sync.copy)
        sync.watch.open()
        wait_until(lambda: scene.is_settled(1), "the sync to be ready", instead=scene.ready)
