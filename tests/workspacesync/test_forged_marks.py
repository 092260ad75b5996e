"""The owner of an upstream can write our marks on objects: that hides the objects at most, and is told as it is."""

import json
from typing import Any

import pytest
from tests.manifestsync.world import Object
from tests.workspacesync.world import Workspaces

from syncline.core.ownership import MARKER, OWNER_LABEL

OTHER_HUB = "5b0f2f6c-0000-4000-8000-000000000000"


def _uid(world: Workspaces) -> str:
    """Return what identifies the upstream."""
    return str(world.upstream.sandbox.request("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])


def _forge(world: Workspaces, source: Object, **marker: str) -> None:
    """Write marks on an upstream object, as its owner."""
    place = f"{_uid(world)}/ConfigMap/{source.namespace}/{source.name}"
    made: dict[str, Any] = {"sync": "ConfigMapSync/nowhere/nobody", "at": place, "digest": "d", **marker}
    text = json.dumps(made, separators=(",", ":"))
    metadata = {"labels": {OWNER_LABEL: "somebody"}, "annotations": {MARKER: text}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": source.name}}
    source.sandbox.request("PATCH", f"{source.path}?fieldManager=tenant&force=true", body)


@pytest.mark.parametrize(
    "marker",
    [
        pytest.param({}, id="unsigned"),
        pytest.param({"proof": "deadbeef.00000000000000000000000000000000"}, id="with a key that never was"),
        pytest.param({"hub": "ours"}, id="unsigned, of this hub"),
    ],
)
def test_made_up_marks_make_no_copy_of_an_upstream_object(world: Workspaces, marker: dict[str, str]) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    sync = world.wsync()
    sync.is_ready()
    hub = str(world.sandbox.request("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])
    _forge(world, source, **{key: hub if value == "ours" else value for key, value in marker.items()})
    source.put("data", "colour", value="blue")
    world.down("ConfigMap", namespace).holds_data(colour="blue")
    sync.is_ready()
    assert sync.status.get("copiesSkipped", 0) == 0


def test_marks_that_cannot_be_verified_hide_an_object_and_are_told_and_its_copy_stays(world: Workspaces) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    world.data(namespace, "other")
    sync = world.wsync()
    sync.is_ready()
    before = world.copies_at()
    _forge(world, source, hub=OTHER_HUB, proof="deadbeef.00000000000000000000000000000000")
    sync.tells_of("1 upstream objects have marks", "cannot be verified", OWNER_LABEL)
    source.put("data", "colour", value="blue")
    sync.now()
    ready = sync.is_ready()
    assert "cannot be verified" in ready["message"]
    assert sync.status.get("copiesSkipped", 0) == 0, "no sync is known to have written it"
    assert world.copies_at() == before
    assert world.down("ConfigMap", namespace).at("data", "colour") == "red"
    world.comes_to_rest(sync)
    source.label(**{OWNER_LABEL: None})
    world.down("ConfigMap", namespace).holds_data(colour="blue")


def test_whether_a_sync_exists_is_not_told_to_whoever_names_it_in_marks(world: Workspaces) -> None:
    """What becomes of an object with forged marks is the same, whichever sync they name."""
    namespace = world.above("shop")
    sync = world.wsync("sync")
    sync.is_ready()
    for number, name in enumerate(("sync", "absent")):
        source = world.data(namespace, f"app-{number}")
        _forge(world, source, sync=f"WorkspaceSync/{world.home}/{name}", hub=OTHER_HUB, proof="deadbeef.00")
    sync.tells_of("2 upstream objects have marks")
    for number, name in enumerate(("sync", "absent")):
        source = world.data(namespace, f"plain-{number}")
        _forge(world, source, sync=f"WorkspaceSync/{world.home}/{name}")
        world.down("ConfigMap", namespace, f"plain-{number}").appears()
