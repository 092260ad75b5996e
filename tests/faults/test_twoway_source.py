"""Both ways: the source changes while an edit of the copy is being written to it."""

from tests.faults.scene import NAME, Scene, calm_operator, wait_until

from syncline.testing.faults import Asked, Fault
from syncline.testing.proxy import FaultProxy


def test_a_patch_that_no_longer_fits_the_source_is_no_refusal(scene: Scene, proxy: FaultProxy) -> None:
    there = scene.namespace("there")
    scene.config_map(scene.home, NAME, value="1", extra="1")
    scene.sync(destinationNamespace=there, direction="Bidirectional", conflictPolicy="Merge")

    def is_write_of_the_source(asked: Asked) -> bool:
        return asked.changes and asked.resource == "configmaps" and asked.namespace == scene.home

    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        wait_until(lambda: scene.copies().get((there, NAME)), "a copy")
        # The operator removes a key that is gone by then, which the server calls invalid.
        moved = proxy.inject(
            Fault(before=lambda: scene.config_map(scene.home, NAME, value="2")), when=is_write_of_the_source, times=1
        )
        copy = scene.copies()[there, NAME]
        del copy["data"]["extra"]
        scene.sandbox.request("PUT", f"/api/v1/namespaces/{there}/configmaps/{NAME}?fieldManager=tests", copy)
        wait_until(lambda: scene.all_hold([there], "2"), "both edits in the copy", instead=scene.copies)
        wait_until(lambda: scene.ready().get("status") == "True", "the sync to be ready", instead=scene.ready)
        assert moved.hits
        assert not [event for event in operator.events() if event.get("reason") == "SourceRefused"]
