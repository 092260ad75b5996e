"""Both ways: the source changes while an edit of the copy is being written to it."""

import pytest
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


@pytest.mark.parametrize("is_answered", [True, False], ids=["edited-before-the-record", "edited-and-answer-lost"])
def test_an_edit_of_the_copy_follows_an_earlier_one_that_is_in_the_source_already(
    scene: Scene, proxy: FaultProxy, *, is_answered: bool
) -> None:
    """The value in the source is the operator's own write, so it is no change of somebody else."""
    there = scene.namespace("there")
    scene.config_map(scene.home, NAME, value="1")
    scene.sync(destinationNamespace=there, direction="Bidirectional", conflictPolicy="Merge")

    def edit(value: str) -> None:
        path = f"/api/v1/namespaces/{there}/configmaps/{NAME}"
        copy = scene.sandbox.request("GET", path)
        copy["data"]["mine"] = value
        scene.sandbox.request("PUT", f"{path}?fieldManager=tests", copy)

    # The base is recorded by a write to the copy; the answer that is lost is that of a write to the source.
    written, second = there if is_answered else scene.home, lambda: edit("second")
    fault = Fault(before=second) if is_answered else Fault(after=second, cut=True)

    def is_write(asked: Asked) -> bool:
        return asked.changes and asked.resource == "configmaps" and asked.namespace == written

    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        wait_until(lambda: scene.copies().get((there, NAME)), "a copy")
        wait_until(lambda: scene.ready().get("status") == "True", "the sync to be ready", instead=scene.ready)
        met = proxy.inject(fault, when=is_write, times=1)
        edit("first")
        source = f"/api/v1/namespaces/{scene.home}/configmaps/{NAME}"
        wait_until(
            lambda: scene.sandbox.request("GET", source)["data"].get("mine") == "second",
            "the second edit in the source",
            instead=scene.ready,
        )
        wait_until(lambda: scene.ready().get("status") == "True", "the sync to be ready", instead=scene.ready)
        assert met.hits
        assert scene.copies()[there, NAME]["data"]["mine"] == "second"
        assert not [event for event in operator.events() if event.get("reason") in ("EditedOnBothSides", "Overruled")]
