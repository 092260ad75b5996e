"""The transforms of a WorkspaceSync: the API server and the operator refuse the same ones, and take the same ones."""

import msgspec
import pytest
from tests.api.trial import Bad, Spec, create
from tests.api.workspacesync_specs import (
    ANY_VALUE,
    CONTRACT,
    DEPLOYMENTS,
    operation,
    refusal,
    resources,
    spec,
    transform,
)

from syncline.api.kinds import WORKSPACE_SYNC
from syncline.api.object_transforms import PROTECTED, ObjectTransform
from syncline.controllers.sources.copies import transform_step
from syncline.core.object_shapes import shape_of_kind
from syncline.core.object_transforms import ObjectTransformError, transformed
from syncline.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("crds")

POINTER = "write a JSON pointer, such as /spec/template/spec/nodeSelector; in a key, write ~1 for / and ~0 for ~"
FROM = "move and copy need from, and the other operations take no from: write from, or remove it"
ABSENT = "a transform changes a resource that this sync does not have: add it to resources, or correct the transform"
NO_CHANGE = "a transform needs at least one of remove, set and patch: write one of them"
FIXED_PATHS = (
    "/apiVersion",
    "/kind",
    "/metadata",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/ownerReferences/0",
    "/metadata/finalizers",
    "/metadata/labels/syncline.dev~1owner",
    "/metadata/annotations/syncline.dev~1copy",
    "/status",
    "/status/replicas",
)

RULES: dict[str, Bad] = {
    "a transform of nothing": (transform(), "spec.transforms[0]", NO_CHANGE),
    "a transform of no path": (transform(remove=[], patch=[]), "spec.transforms[0]", NO_CHANGE),
    "a transform of another resource": (
        spec(transforms=[{"resource": "pods", "remove": ["/spec/a"]}]),
        "spec.transforms",
        ABSENT,
    ),
    "a transform without the group": (
        resources(DEPLOYMENTS, transforms=[{"resource": "deployments", "remove": ["/spec/a"]}]),
        "spec.transforms",
        ABSENT,
    ),
    "a transform of a kind": (
        spec(transforms=[{"resource": "Deployment", "remove": ["/spec/a"]}]),
        "spec.transforms[0].resource",
        "write a resource with its group, in lower case and plural, such as deployments.apps; without a group for the",
    ),
    "a transform for every target by no label": (
        transform(remove=["/spec/a"], targets={}),
        "spec.transforms[0].targets",
        "an empty selector selects every SyncTarget: write the labels of some SyncTargets, or remove targets",
    ),
    "a JSON path": (transform(remove=[".spec.replicas"]), "spec.transforms[0].remove[0]", POINTER),
    "a tilde": (transform(remove=["/spec/a~b"]), "spec.transforms[0].remove[0]", POINTER),
    "the whole object": (operation(op="replace", path="", value={}), "spec.transforms[0].patch[0].path", POINTER),
    **{
        f"remove {path}": (transform(remove=["/spec/a", path]), "spec.transforms[0].remove", PROTECTED)
        for path in FIXED_PATHS
    },
    **{
        f"patch {path}": (operation(op="add", path=path, value="a"), "spec.transforms[0].patch[0].path", PROTECTED)
        for path in FIXED_PATHS
    },
    "a name that is moved away": (
        operation(op="move", **{"from": "/metadata/name"}, path="/metadata/labels/name"),
        "spec.transforms[0].patch[0].from",
        f"{PROTECTED}, or write op: copy",
    ),
    "a copy of nothing": (operation(op="copy", path="/spec/a"), "spec.transforms[0].patch[0].from", FROM),
    "a value from elsewhere": (
        operation(op="add", path="/spec/a", **{"from": "/spec/b"}),
        "spec.transforms[0].patch[0].from",
        FROM,
    ),
}
SCHEMA: dict[str, Bad] = {
    "a set of nothing": (transform(set={}), "spec.transforms[0].set", "should have at least 1 properties"),
    "an unknown operation": (
        operation(op="merge", path="/spec/a"),
        "spec.transforms[0].patch[0].op",
        'supported values: "add"',
    ),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_transform_refusal_with_what_to_write_instead(sandbox: Sandbox, bad: Bad) -> None:
    given, where, words = bad
    told = refusal(sandbox, given)
    assert where in told
    assert words in told


def test_the_server_keeps_values_of_any_type(sandbox: Sandbox) -> None:
    values = [False, 0, 1.5, "text", ["a"], {"a": {"b": None}}]
    given = transform(
        set={f"/spec/{number}": value for number, value in enumerate(values)},
        patch=[{"op": "add", "path": f"/spec/{number}", "value": value} for number, value in enumerate(values)],
    )
    assert create(sandbox, WORKSPACE_SYNC, given)["spec"]["transforms"] == given["transforms"]


WEB: Spec = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"paused": True, "a~b": 1, "template": {"spec": {"tolerations": [{"key": "b"}]}}},
}


def change(*given: Spec) -> Spec:
    """Apply transforms as the operator does, and return the object."""
    transforms = msgspec.convert(given, list[ObjectTransform])
    steps = [transform_step(index, one) for index, one in enumerate(transforms)]
    return transformed(WEB, steps, {"target.cluster": "east"}, shape_of_kind("Deployment.apps")).manifest


@pytest.mark.parametrize("path", [*FIXED_PATHS, "", "spec", "/a~2", "/metadata/annotationsX"])
def test_the_operator_refuses_the_same_paths(path: str) -> None:
    with pytest.raises(ObjectTransformError, match=r"^transforms\[0\].set: "):
        change({"resource": "deployments.apps", "set": {path: "a"}})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"set": {"/data/a": "b", "/metadata/name": "c"}}, "/metadata/name is out of reach"),
        ({"set": {"data": "b"}}, "data is not a JSON pointer"),
        ({"patch": [{"op": "add", "path": "/data/a"}]}, "needs a value"),
        ({"patch": [{"op": "test", "path": "/data/a", "value": None}]}, "needs a value"),
    ],
)
def test_the_operator_refuses_what_the_rules_cannot_read(given: Spec, problem: str) -> None:
    with pytest.raises(ObjectTransformError, match=problem):
        change({"resource": "deployments.apps", **given})


def test_the_operator_applies_any_other_transform() -> None:
    assert change(*ANY_VALUE["transforms"], *CONTRACT["transforms"]) != WEB


@pytest.mark.parametrize(
    "path", ["/spec", "/data/a~1b", "/metadata/labels", "/metadata/labels/a", "/kinds", "/statuses/0", "/"]
)
def test_the_operator_takes_the_same_paths(sandbox: Sandbox, path: str) -> None:
    change({"resource": "deployments.apps", "remove": [path]})
    assert create(sandbox, WORKSPACE_SYNC, transform(remove=[path]))
