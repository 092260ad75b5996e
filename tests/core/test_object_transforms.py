"""Transforms of objects on their way down."""

import time
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.core.namespace_mapping import Workspace
from syncline.core.object_paths import leaves
from syncline.core.object_shapes import shape_of_kind
from syncline.core.object_transforms import (
    ObjectTransformError,
    TransformedObject,
    TransformStep,
    transform_variables,
    transformed,
)

Json = dict[str, Any]
SHAPE = shape_of_kind("Deployment.apps")
VARIABLES = transform_variables(
    cluster="east",
    namespace="team-shop",
    labels={"region": "eu", "topology.kubernetes.io/zone": "eu-1"},
    source=("shop", "web"),
    workspace=Workspace("root:team", "team", "2x7k"),
)
MARKS = {"syncline.dev/owner": "o"}
POD = "/spec/template/spec"
PATH = "spec/template/spec"


def web() -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {**MARKS, "note": "x"}},
        "spec": {
            "replicas": 2,
            "template": {
                "spec": {
                    "nodeSelector": {"disk": "ssd"},
                    "containers": [
                        {"name": "web", "image": "a:1", "args": ["-v"]},
                        {"name": "log", "image": "b:1"},
                    ],
                }
            },
        },
    }


def run(**step: Any) -> TransformedObject:
    return transformed(web(), [TransformStep(index=0, **step)], VARIABLES, SHAPE)


def test_removing_takes_away_what_is_there() -> None:
    found = run(remove=[f"{POD}/nodeSelector", "/spec/paused", "/spec/none/below", f"{POD}/containers/9"])
    pod = found.manifest["spec"]["template"]["spec"]
    assert [*pod] == ["containers"]
    assert len(pod["containers"]) == 2
    assert found.written == {f"{PATH}/nodeSelector", "spec/paused", "spec/none/below", f"{PATH}/containers"}


@pytest.mark.parametrize(
    ("pointer", "value", "path"),
    [
        ("/spec/replicas", 3, "spec/replicas"),
        ("/metadata/labels/from", "kcp", "metadata/labels/from"),
        ("/spec/strategy/rollingUpdate/maxSurge", 1, "spec/strategy/rollingUpdate/maxSurge"),
        (f"{POD}/containers/1/image", "c:1", f"{PATH}/containers/[name=log]/image"),
        (f"{POD}/containers/0/args/0", "-q", f"{PATH}/containers/[name=web]/args"),
        (f"{POD}/containers/-", {"name": "new", "image": "n"}, f"{PATH}/containers/[name=new]"),
        (f"{POD}/tolerations/-", {"key": "a"}, f"{PATH}/tolerations"),
        (f"{POD}/hostNetwork", None, f"{PATH}/hostNetwork"),
    ],
)
def test_setting_makes_parents_and_tells_the_path(pointer: str, value: Any, path: str) -> None:
    found = run(set={pointer: value})
    assert path in found.written
    at: Any = found.manifest
    for part in pointer.split("/")[1:]:
        at = at[-1 if part == "-" else int(part)] if isinstance(at, list) else at[part]
    assert at == value


def test_setting_an_item_of_a_list_replaces_it() -> None:
    found = run(set={f"{POD}/containers/0": {"name": "other", "image": "o"}})
    assert [one["name"] for one in found.manifest["spec"]["template"]["spec"]["containers"]] == ["other", "log"]
    assert found.written == {f"{PATH}/containers/[name=web]", f"{PATH}/containers/[name=other]"}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ target.cluster }}", "east"),
        ("{{ target.namespace }}/{{ source.namespace }}/{{ source.name }}", "team-shop/shop/web"),
        ("{{ target.labels.region }} {{ target.labels['topology.kubernetes.io/zone'] }}", "eu eu-1"),
        ("{{ workspace.path }} {{ workspace.name }} {{ workspace.cluster }}", "root:team team 2x7k"),
        ("{{ namespace }}", "shop"),
    ],
)
def test_texts_are_templates(template: str, text: str) -> None:
    assert run(set={"/metadata/labels/a": template}).manifest["metadata"]["labels"] == {"a": text}
    operation = {"op": "add", "path": "/spec/x", "value": [{"a": template}]}
    assert run(patch=[operation]).manifest["spec"]["x"] == [{"a": text}]


def test_a_patch_has_all_operations() -> None:
    found = run(
        patch=[
            {"op": "test", "path": "/spec/replicas", "value": 2},
            {"op": "add", "path": "/metadata/labels/from", "value": "kcp"},
            {"op": "add", "path": f"{POD}/containers/0", "value": {"name": "first"}},
            {"op": "replace", "path": f"{POD}/containers/1/image", "value": "z"},
            {"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/was"},
            {"op": "move", "from": f"{POD}/nodeSelector", "path": f"{POD}/affinity/x"},
            {"op": "remove", "path": "/spec/absent"},
        ]
    )
    assert found.manifest["metadata"]["labels"] == {"from": "kcp", "was": "web"}
    assert found.manifest["spec"]["template"]["spec"]["affinity"] == {"x": {"disk": "ssd"}}
    assert found.written == {
        "metadata/labels/from",
        "metadata/labels/was",
        f"{PATH}/containers/[name=first]",
        f"{PATH}/containers/[name=web]/image",
        f"{PATH}/nodeSelector",
        f"{PATH}/affinity/x",
        "spec/absent",
    }


def test_steps_follow_each_other() -> None:
    steps = [
        TransformStep(index=3, remove=["/spec/replicas"], set={"/spec/replicas": 5}),
        TransformStep(index=7, patch=[{"op": "test", "path": "/spec/replicas", "value": 5}]),
    ]
    assert transformed(web(), steps, VARIABLES, SHAPE).manifest["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    "pointer",
    [
        "",
        "/apiVersion",
        "/kind",
        "/metadata",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/uid",
        "/metadata/finalizers",
        "/metadata/ownerReferences/-",
        "/metadata/labels/syncline.dev~1owner",
        "/metadata/annotations/syncline.dev~1anything",
        "/status",
        "/status/replicas",
    ],
)
def test_identity_status_and_marks_are_out_of_reach(pointer: str) -> None:
    steps: list[Json] = [
        {"remove": [pointer]},
        {"set": {pointer: "x"}},
        {"patch": [{"op": "add", "path": pointer, "value": "x"}]},
        {"patch": [{"op": "move", "from": pointer, "path": "/spec/x"}]},
        {"patch": [{"op": "copy", "from": "/spec", "path": pointer}]},
    ]
    for step in steps:
        with pytest.raises(ObjectTransformError, match=r"^transforms\[0\].*out of reach"):
            run(**step)


@pytest.mark.parametrize(
    "step",
    [
        {"remove": ["/metadata/annotations"]},
        {"set": {"/metadata/annotations": {"a": "b"}}},
        {"patch": [{"op": "move", "from": "/metadata/annotations", "path": "/spec/x"}]},
        {"patch": [{"op": "replace", "path": "/metadata/annotations", "value": {}}]},
    ],
)
def test_our_marks_stay_where_their_map_is_written(step: Json) -> None:
    assert run(**step).manifest["metadata"]["annotations"].items() >= MARKS.items()


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"set": {"/metadata/annotations": {"syncline.dev/owner": "me"}}}, "Syncline's own"),
        ({"patch": [{"op": "copy", "from": "/metadata/annotations", "path": "/metadata/labels"}]}, "Syncline's own"),
        ({"set": {"/metadata/labels/a": 1}}, "put it in quotes"),
        ({"set": {"/metadata/labels": "a"}}, "not a map"),
        ({"set": {"/spec/a": "{{ secret }}"}}, r"transforms\[0\].set: /spec/a: .* the variables are namespace"),
        ({"set": {"/spec/a": "{{ target.labels.none }}"}}, "target.labels.region"),
        ({"set": {"spec": 1}}, "begins with a slash"),
        ({"set": {"/spec/replicas/x": 1}}, "set /spec/replicas/x.*is a number"),
        ({"set": {f"{POD}/containers/7/image": "x"}}, "has no item 7"),
        ({"patch": [{"op": "replace", "path": "/spec/none", "value": 1}]}, r"operation 0 \(replace /spec/none\)"),
        ({"patch": [{"op": "test", "path": "/spec/replicas", "value": 7}]}, "the test fails"),
        ({"patch": [{"op": "copy", "from": "/spec/none", "path": "/spec/x"}]}, "there is no none"),
        ({"patch": [{"op": "set", "path": "/spec/x", "value": 1}]}, "write add"),
        ({"patch": [{"op": "jump", "path": "/spec/x"}]}, "op must be one of"),
        ({"patch": [{"op": "add", "path": "/spec/x"}]}, "needs a value"),
    ],
)
def test_what_cannot_be_done_is_told(step: Json, words: str) -> None:
    with pytest.raises(ObjectTransformError, match=words):
        run(**step)


def test_copies_of_copies_do_not_explode() -> None:
    copies = [{"op": "copy", "from": "/spec", "path": f"/spec/c{number}"} for number in range(40)]
    with pytest.raises(ObjectTransformError, match=r"too large|too deeply"):
        run(patch=copies)
    steps = [TransformStep(index=index, patch=[copies[index]]) for index in range(40)]
    with pytest.raises(ObjectTransformError, match=r"too large|too deeply"):
        transformed(web(), steps, VARIABLES, SHAPE)


def test_many_operations_on_a_large_object_take_no_longer_than_the_object_is_large() -> None:
    large = {**web(), "data": {f"k{number}": "" for number in range(30_000)}}
    copies = [
        TransformStep(
            index=index,
            set={f"/data/s{index}-{number}": "v" for number in range(50)},
            patch=[{"op": "copy", "from": "/data/k0", "path": f"/data/c{index}-{number}"} for number in range(30)],
        )
        for index in range(50)
    ]
    before = time.process_time()
    found = transformed(large, copies, VARIABLES, SHAPE).manifest
    assert time.process_time() - before < 5
    assert len(found["data"]) == 30_000 + 50 * 80


def test_many_operations_on_a_long_list_are_refused_before_they_take_long() -> None:
    large = web()
    large["spec"]["template"]["spec"]["containers"] = [{"name": f"c{number}"} for number in range(4_000)]
    patch = [{"op": "add", "path": f"{POD}/containers/{number}/image", "value": "a:1"} for number in range(50)]
    steps = [TransformStep(index=index, patch=patch) for index in range(50)]
    before = time.process_time()
    with pytest.raises(ObjectTransformError, match=r"transforms\[0\]\.patch: .* use fewer, or set the list"):
        transformed(large, steps, VARIABLES, SHAPE)
    assert time.process_time() - before < 5
    found = transformed(large, [TransformStep(index=0, set={f"{POD}/containers": []}, patch=())], VARIABLES, SHAPE)
    assert found.written == {f"{PATH}/containers"}


def test_a_message_holds_no_value() -> None:
    secret = {**web(), "data": {"password": "hunter2"}}
    step = TransformStep(index=0, patch=[{"op": "test", "path": "/data/password", "value": "letmein"}])
    with pytest.raises(ObjectTransformError) as error:
        transformed(secret, [step], VARIABLES, SHAPE)
    assert "hunter2" not in str(error.value)
    assert "letmein" not in str(error.value)


pointers = st.lists(
    st.sampled_from(
        [
            "spec",
            "template",
            "replicas",
            "containers",
            "metadata",
            "labels",
            "annotations",
            "0",
            "1",
            "-",
            "image",
            "name",
            "syncline.dev~1owner",
            "nodeSelector",
            "status",
            "kind",
            "",
        ]
    ),
    max_size=5,
).map(lambda parts: "".join(f"/{part}" for part in parts)) | st.sampled_from(
    [
        f"{POD}/containers/0/image",
        f"{POD}/containers/-",
        f"{POD}/nodeSelector/a",
        "/metadata/labels/a",
        "/spec/replicas",
    ]
)
json = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["x", "{{ namespace }}"]),
    lambda inside: (
        st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from(["name", "a", "syncline.dev/owner"]), inside)
    ),
    max_leaves=4,
)
operations = st.one_of(
    st.builds(
        lambda op, path, value: {"op": op, "path": path, "value": value},
        st.sampled_from(["add", "replace"]),
        pointers,
        json,
    ),
    st.builds(
        lambda op, path, origin: {"op": op, "path": path, "from": origin},
        st.sampled_from(["move", "copy"]),
        pointers,
        pointers,
    ),
    st.builds(lambda path: {"op": "remove", "path": path}, pointers),
)
steps = st.builds(
    TransformStep,
    index=st.integers(0, 3),
    remove=st.lists(pointers, max_size=2),
    set=st.dictionaries(pointers, json, max_size=2),
    patch=st.lists(operations, max_size=3),
)


@thorough
@given(st.lists(steps, max_size=2))
def test_whatever_they_do_identity_and_marks_stay_and_every_change_is_told(drawn: list[TransformStep]) -> None:
    before = web()
    try:
        found = transformed(before, drawn, VARIABLES, SHAPE)
    except ObjectTransformError as error:
        assert str(error).startswith("transforms[")  # noqa: PT017 - either is fine
        return
    finally:
        assert before == web()
    after = found.manifest
    for name in ("apiVersion", "kind", "status"):
        assert after.get(name) == before.get(name)
    for name in ("name", "namespace", "uid"):
        assert after["metadata"].get(name) == before["metadata"].get(name)
    for part in ("labels", "annotations"):
        ours = {
            key: value for key, value in (after["metadata"].get(part) or {}).items() if key.startswith("syncline.dev/")
        }
        assert ours == (MARKS if part == "annotations" else {})
    one, other = leaves(before, SHAPE), leaves(after, SHAPE)
    changed = {path for path in {*one, *other} if one.get(path, ...) != other.get(path, ...)}
    for path in changed:
        segments = path.split("/")
        above = {"/".join(segments[:end]) for end in range(1, len(segments) + 1)}
        below = {written for written in found.written if written.startswith(f"{path}/")}
        assert above & found.written or below, (path, found.written)


def test_nothing_to_do_changes_nothing() -> None:
    before = web()
    assert transformed(before, [], VARIABLES, SHAPE) == TransformedObject(
        manifest=deepcopy(before), written=frozenset()
    )
