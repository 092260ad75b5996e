"""Patches that users write: what they do, and what a wrong one says."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.api.manifestsync import PatchStrategy
from syncline.core.patching import PatchError, json_patch, merge_patch, parse_patch, patched, replace_keys

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": {"x": 1}}, {"a": {"y": [None]}}, {"a": {"x": 1, "y": [None]}}),
    ],
)
def test_a_merge_patch_does_what_rfc_7386_says(target: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(target, patch) == expected


def op(operation: str, path: str, *value: Any, **more: Any) -> Json:
    return {"op": operation, "path": path, **({"value": value[0]} if value else {}), **more}


def from_(operation: str, origin: str, path: str) -> Json:
    return {"op": operation, "path": path, "from": origin}


@pytest.mark.parametrize(
    ("target", "operations", "expected"),
    [
        ({"foo": "bar"}, [op("add", "/baz", "qux")], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [op("add", "/foo/1", "qux")], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [op("remove", "/foo/1")], {"foo": ["bar", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [op("replace", "/baz", "boo")], {"baz": "boo", "foo": "bar"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [from_("move", "/foo/waldo", "/qux/thud")],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [from_("move", "/foo/1", "/foo/3")],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            [op("test", "/baz", "qux"), op("test", "/foo/1", 2)],
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        ({"foo": "bar"}, [op("add", "/child", {"grandchild": {}})], {"foo": "bar", "child": {"grandchild": {}}}),
        ({"foo": "bar"}, [op("add", "/baz", "qux", xyz=123)], {"foo": "bar", "baz": "qux"}),
        ({"/": 9, "~1": 10}, [op("test", "/~01", 10)], {"/": 9, "~1": 10}),
        ({"foo": ["bar"]}, [op("add", "/foo/-", ["abc", "def"])], {"foo": ["bar", ["abc", "def"]]}),
        ({"a": 1}, [op("add", "/a", 2)], {"a": 2}),
        ({"a": 1}, [op("add", "/", 2)], {"a": 1, "": 2}),
        ({"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}),
        ({"a": 1}, [op("test", "", {"a": 1})], {"a": 1}),
        ({"a": None}, [op("replace", "/a", None)], {"a": None}),
        ({"a": {"x/y~z": 1}}, [op("remove", "/a/x~1y~0z")], {"a": {}}),
        ({"a": [1, 2]}, [op("replace", "/a/0", 9)], {"a": [9, 2]}),
        ({"a": [1]}, [op("add", "/a/1", 2)], {"a": [1, 2]}),
        ({"a": {"b": 1}}, [from_("copy", "/a", "/c"), op("replace", "/a/b", 2)], {"a": {"b": 2}, "c": {"b": 1}}),
        ({"a": {"b": 1}}, [from_("copy", "/a", "/a/b")], {"a": {"b": {"b": 1}}}),
        ({"a": 1}, [from_("move", "/a", "/a")], {"a": 1}),
        ({"a": {"b": 1}}, [from_("move", "/a/b", "/a")], {"a": 1}),
        ({"ab": 1, "a": {}}, [from_("move", "/ab", "/a/b")], {"a": {"b": 1}}),
        ({"a": {"1": 1}}, [op("test", "/a/1", 1.0)], {"a": {"1": 1}}),
        ({"a": [{"b": True}]}, [op("test", "/a", [{"b": True}])], {"a": [{"b": True}]}),
        ({}, [], {}),
    ],
)
def test_a_json_patch_does_what_rfc_6902_says(target: Any, operations: list[Json], expected: Any) -> None:
    before = copy.deepcopy((target, operations))
    assert json_patch(target, operations) == expected
    assert (target, operations) == before


OBJECT = {"spec": {"replicas": 2, "list": ["a", "b"], "secret": "canary"}}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (op("remove", "/spec/size"), "there is no size in /spec; there are replicas, list, secret"),
        (op("replace", "/spec/size", 1), "operation 1 (replace /spec/size): there is no size in /spec"),
        (op("test", "/spec/secret", "other"), "the test fails: there is text, but of another value"),
        (op("test", "/spec/replicas", "2"), "the test fails: there is a number, but of another value"),
        (op("test", "/spec/replicas", True), "of another value"),
        (op("test", "/spec/list", ["a"]), "the test fails: there is a list"),
        (op("test", "/spec", {"replicas": 2}), "the test fails: there is a map"),
        (op("add", "/spec/list/3", 1), "/spec/list is a list of 2, which has no item 3 (the first is 0)"),
        (op("remove", "/spec/list/2"), "/spec/list is a list of 2, which has no item 2"),
        (op("remove", "/spec/list/-"), "write the number of an item (from 0) in place of -"),
        (op("add", "/spec/list/01", 1), "in place of 01"),
        (op("add", "/spec/list/-1", 1), "in place of -1"),
        (op("add", "/spec/list/a", 1), "in place of a"),
        (op("add", f"/spec/list/{'9' * 5000}", 1), "which has no item"),
        (op("add", "/spec/replicas/a", 1), "/spec/replicas is a number, which has no a"),
        (op("add", "/nothing/a", 1), "there is no nothing in the whole object; there are spec"),
        (op("remove", ""), "operation 1 (remove the whole object): the whole object cannot be removed"),
        (from_("move", "/spec", "/spec/a"), "/spec cannot be moved into itself"),
        (from_("move", "/a", "/a"), "there is no a"),
        (from_("copy", "/spec/a", "/spec/b"), "there is no a in /spec"),
        (op("merge", "/spec"), "operation 1: op must be one of add, remove, replace, move, copy, test"),
        ({"path": "/spec"}, "operation 1: op must be one of"),
        ({"op": "remove"}, "operation 1 (remove): needs a path, such as /spec/replicas"),
        (op("remove", "spec"), "operation 1 (remove): a path begins with a slash"),
        (op("remove", "/spec/~2"), "write ~0 for ~ and ~1 for /"),
        (op("remove", "/spec/~"), "write ~0 for ~ and ~1 for /"),
        (op("add", "/spec/a"), "operation 1 (add): needs a value; write value: null if you mean null"),
        (op("copy", "/spec/a"), "operation 1 (copy): needs from, the path to copy from"),
        ("replace", "operation 1: write a map with op and path; found text"),
        (None, "operation 1: write a map with op and path; found nothing"),
    ],
)
def test_a_wrong_operation_is_named_and_nothing_is_patched(operation: Any, message: str) -> None:
    before = copy.deepcopy(OBJECT)
    with pytest.raises(PatchError) as caught:
        json_patch(OBJECT, [op("replace", "/spec/replicas", 9), operation, op("remove", "/spec")])
    assert message in str(caught.value)
    assert "operation 1" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert len(str(caught.value)) < 6000
    assert before == OBJECT


def test_copies_of_copies_cannot_fill_the_memory() -> None:
    doubling = [from_("copy", "", "/a")] * 100
    with pytest.raises(PatchError, match="the copies make the object too large"):
        json_patch({"text": "x" * 1000}, doubling)
    assert json_patch({"text": "x" * 500_000}, [from_("copy", "/text", "/other")])["other"] == "x" * 500_000


def test_nothing_grows_deeper_than_anybody_can_read() -> None:
    deeper = [op("add", "/b", {}), from_("move", "/spec", "/b/a"), from_("move", "/b", "/spec")]
    with pytest.raises(PatchError, match="nested too deeply"):
        patched(MANIFEST, "JSONPatch", deeper * 500)
    patch: Any = {}
    for _ in range(5000):
        patch = {"spec": patch}
    with pytest.raises(PatchError, match="nested too deeply"):
        patched(MANIFEST, "Merge", patch)


MANIFEST: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "shop",
        "namespace": "team",
        "labels": {"team": "red", "syncline.dev/owner": "us"},
        "annotations": {"note": "1"},
    },
    "spec": {"type": "ClusterIP", "ports": [{"port": 80}]},
}


def changed(**fields: Any) -> Json:
    return {**copy.deepcopy(MANIFEST), **fields}


@pytest.mark.parametrize(
    ("strategy", "patch", "expected"),
    [
        ("Merge", {"spec": {"type": "NodePort"}}, changed(spec={"type": "NodePort", "ports": [{"port": 80}]})),
        ("Merge", {"kind": "Service", "metadata": {"name": "shop"}}, MANIFEST),
        ("Replace", {"spec": {"type": "NodePort"}}, changed(spec={"type": "NodePort"})),
        ("Replace", {"spec": None}, {key: value for key, value in MANIFEST.items() if key != "spec"}),
        ("Replace", {"data": {"a": "1"}}, changed(data={"a": "1"})),
        (
            "Replace",
            {"metadata": {"labels": {"team": "blue", "syncline.dev/owner": "us"}}},
            changed(
                metadata={"name": "shop", "namespace": "team", "labels": {"team": "blue", "syncline.dev/owner": "us"}}
            ),
        ),
        ("JSONPatch", [op("remove", "/spec/ports/0")], changed(spec={"type": "ClusterIP", "ports": []})),
    ],
)
def test_a_patch_changes_what_it_names(strategy: PatchStrategy, patch: Any, expected: Json) -> None:
    before = copy.deepcopy(MANIFEST)
    assert patched(MANIFEST, strategy, patch) == expected
    assert before == MANIFEST


@pytest.mark.parametrize(
    ("strategy", "patch", "message"),
    [
        ("Merge", {"kind": "Secret"}, "the patch changes kind; it must stay"),
        ("Replace", {"apiVersion": None}, "the patch changes apiVersion; it must stay"),
        ("Merge", {"metadata": {"name": "other"}}, "changes metadata.name; .*; write targetName"),
        ("JSONPatch", [op("replace", "/metadata/namespace", "kube-system")], "changes metadata.namespace"),
        ("JSONPatch", [op("remove", "/metadata/name")], "changes metadata.name"),
        ("Replace", {"metadata": {"name": "other"}}, "changes metadata.name"),
        ("Merge", {"metadata": None}, "the patch removes metadata"),
        ("Merge", {"metadata": {"finalizers": ["example.com/x"]}}, "changes metadata.finalizers; only labels"),
        ("Merge", {"metadata": {"ownerReferences": []}}, "changes metadata.ownerReferences"),
        ("Merge", {"metadata": {"labels": {"syncline.dev/owner": "me"}}}, "labels syncline.dev/owner; those of"),
        ("Merge", {"metadata": {"labels": None}}, "labels syncline.dev/owner; those of"),
        ("Merge", {"metadata": {"annotations": {"syncline.dev/copy": "x"}}}, "annotations syncline.dev/copy"),
        ("Merge", {"metadata": {"annotations": {"note": 1}}}, "annotations note is a number; .* in quotes"),
        ("Replace", {"metadata": {"labels": []}}, "makes metadata.labels a list; it must be a map"),
        ("Merge", {"status": {"phase": "Bound"}}, "the patch sets status"),
        ("JSONPatch", [op("replace", "", [])], "the patch leaves a list in place of the object"),
        ("JSONPatch", [op("replace", "", {})], "the patch changes apiVersion"),
        ("Replace", {"metadata": "x"}, "the patch removes metadata"),
    ],
)
def test_which_object_it_is_and_our_marks_on_it_stay(strategy: PatchStrategy, patch: Any, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        patched(MANIFEST, strategy, patch)


@pytest.mark.parametrize(
    ("text", "strategy", "expected"),
    [
        ("spec:\n  replicas: 2\n", "Merge", {"spec": {"replicas": 2}}),
        ('{"spec": {"replicas": 2}}', "Merge", {"spec": {"replicas": 2}}),
        ('{\t"spec":\t{}}', "Replace", {"spec": {}}),
        ("{}", "Merge", {}),
        ("- op: remove\n  path: /spec\n", "JSONPatch", [op("remove", "/spec")]),
        ("[]", "JSONPatch", []),
        ("# comment\nspec: null\n", "Merge", {"spec": None}),
        ("---\nspec: {}\n", "Merge", {"spec": {}}),
    ],
)
def test_a_patch_is_yaml_or_json(text: str, strategy: PatchStrategy, expected: Any) -> None:
    assert parse_patch(text, strategy) == expected


@pytest.mark.parametrize(
    ("text", "strategy", "message"),
    [
        ("", "Merge", r"a Merge patch is a map of fields, such as {spec: {replicas: 2}}; found nothing"),
        ("just text", "Replace", "a Replace patch is a map of fields, .*found text"),
        ("- op: remove", "Merge", "found a list; for a list of operations write patchStrategy JSONPatch"),
        ("spec: {}", "JSONPatch", "a JSONPatch is a list of operations, .*; for a map of fields write .* Merge"),
        ("5", "JSONPatch", "found a number$"),
        ("- op: remove", "JSONPatch", r"operation 0 \(remove\): needs a path"),
        ("a: [", "Merge", "line 2: neither YAML nor JSON"),
        ("a: 1\n  b: 2", "Merge", "line 2: neither YAML nor JSON"),
        ("a: &x [1]\nb: *x", "Merge", "line 2: aliases are not read; write it out, or put it in quotes"),
        ("password: *canary", "Merge", "line 1: aliases are not read"),
        ("a: 1\na: 2", "Merge", "line 2: the same key for the second time"),
        ("on: 1", "Merge", "line 1: a key must be text: put it in quotes"),
        ("1: 1", "Merge", "line 1: a key must be text"),
        ("? [a]\n: 1", "Merge", "line 1: a key must be text"),
        ("a: 1\n---\nb: 2", "Merge", "line 2: a second document begins"),
        ("a: !!python/object:os.system x", "Merge", "neither YAML nor JSON"),
        ("a: !!binary aGk=", "Merge", r"JSON cannot represent; remove its tag"),
        ("a: !!set {x}", "Merge", "JSON cannot represent"),
        ("a: !!timestamp 2024-01-01", "Merge", "JSON cannot represent"),
        ("a: !!float .inf", "Merge", "infinite"),
        (f"a: {2**64}", "Merge", "more than 64 bits"),
        ("[" * 300 + "]" * 300, "JSONPatch", "nested more than 200 deep"),
        ("[" * 30000, "JSONPatch", "nested more than 200 deep"),
        ("a: " + "[" * 300 + "]" * 300, "Merge", "nested more than 200 deep"),
        ("x" * (1024 * 1024 + 1), "Merge", "larger than 1 MiB"),
    ],
)
def test_a_text_that_is_no_patch_says_what_to_write(text: str, strategy: PatchStrategy, message: str) -> None:
    with pytest.raises(PatchError, match=message) as caught:
        parse_patch(text, strategy)
    assert "canary" not in str(caught.value)


scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "~", "/"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "/", "~", "0", ""]), inner),
    max_leaves=10,
)
pointers = st.lists(st.sampled_from(["a", "b", "~1", "~0", "0", "1", "-", "", "00", "x"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.lists(
    st.one_of(
        st.builds(op, st.sampled_from(["add", "replace", "test"]), pointers, values),
        st.builds(op, st.just("remove"), pointers),
        st.builds(from_, st.sampled_from(["move", "copy"]), pointers, pointers),
    ),
    max_size=4,
)


class Impossible(Exception):  # noqa: N818
    pass


def oracle(target: Any, steps: list[Json]) -> Any:
    """RFC 6902 once more, written as functions from value to value."""
    for step in steps:
        path = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        origin = [part.replace("~1", "/").replace("~0", "~") for part in step.get("from", "").split("/")[1:]]
        match step["op"]:
            case "add":
                target = put(target, path, step["value"], new=True)
            case "remove":
                target = cut(target, path)
            case "replace":
                look(target, path)
                target = put(target, path, step["value"], new=False)
            case "copy":
                target = put(target, path, look(target, origin), new=True)
            case "move":
                target = carry(target, origin, path)
            case "test":
                if json.dumps(look(target, path), sort_keys=True) != json.dumps(step["value"], sort_keys=True):
                    raise Impossible
    return target


def carry(target: Any, origin: list[str], path: list[str]) -> Any:
    value = look(target, origin)
    if path == origin:
        return target
    if path[: len(origin)] == origin:
        raise Impossible
    return put(cut(target, origin), path, value, new=True)


def place(items: list[Any], part: str, *, new: bool) -> int:
    if part == "-" and new:
        return len(items)
    if not part.isdecimal() or part != str(int(part)) or int(part) >= len(items) + new:
        raise Impossible
    return int(part)


def look(target: Any, path: list[str]) -> Any:
    if not path:
        return target
    if isinstance(target, dict) and path[0] in target:
        return look(target[path[0]], path[1:])
    if isinstance(target, list):
        return look(target[place(target, path[0], new=False)], path[1:])
    raise Impossible


def put(target: Any, path: list[str], value: Any, *, new: bool) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(target, dict) and (first in target or not rest):
        return {**target, first: put(target.get(first), rest, value, new=new)}
    if isinstance(target, list):
        at = place(target, first, new=new and not rest)
        return [
            *target[:at],
            put(target[at], rest, value, new=new) if rest else value,
            *target[at + (not new or bool(rest)) :],
        ]
    raise Impossible


def cut(target: Any, path: list[str]) -> Any:
    look(target, path)
    if not path:
        raise Impossible
    first, rest = path[0], path[1:]
    if isinstance(target, dict):
        return {**target, first: cut(target[first], rest)} if rest else {k: v for k, v in target.items() if k != first}
    at = int(first)
    return [*target[:at], *([cut(target[at], rest)] if rest else []), *target[at + 1 :]]


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@quick
@given(values, operations)
def test_any_operations_do_what_a_second_reading_of_the_rfc_does(target: Any, steps: list[Json]) -> None:
    before = copy.deepcopy((target, steps))
    try:
        expected = oracle(target, steps)
    except Impossible:
        with pytest.raises(PatchError):
            json_patch(target, steps)
    else:
        assert same(json_patch(target, steps), expected)
    assert (target, steps) == before


def difference(one: Any, other: Any, path: str = "") -> list[Json]:
    """Write the operations that lead from one value to another."""
    if isinstance(one, dict) and isinstance(other, dict):
        steps = []
        for name in [*one, *(name for name in other if name not in one)]:
            below = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in other:
                steps.append(op("remove", below))
            elif name not in one:
                steps.append(op("add", below, other[name]))
            else:
                steps += difference(one[name], other[name], below)
        return steps
    return [] if same(one, other) else [op("replace", path, other)]


@quick
@given(values, values)
def test_a_difference_as_a_patch_leads_from_one_to_the_other(one: Any, other: Any) -> None:
    assert same(json_patch(one, difference(one, other)), other)


def merge_difference(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    gone = dict.fromkeys(name for name in one if name not in other)
    return gone | {name: merge_difference(one.get(name), value) for name, value in other.items()}


without_null = st.recursive(
    st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)


@quick
@given(without_null, without_null)
def test_a_difference_as_a_merge_patch_leads_from_one_to_the_other(one: Any, other: Any) -> None:
    assert same(merge_patch(one, merge_difference(one, other)), other)


@quick
@given(values, values)
def test_a_merge_patch_twice_is_the_same_as_once(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert same(merge_patch(once, patch), once)
    assert (target, patch) == before


@quick
@given(st.sampled_from(["Merge", "JSONPatch", "Replace"]), st.text("{}[]:-,&*!'\"\n ab01/", max_size=30))
def test_any_text_is_a_patch_or_refused(strategy: PatchStrategy, text: str) -> None:
    try:
        result = patched(MANIFEST, strategy, parse_patch(text, strategy))
    except PatchError:
        return
    assert result["metadata"]["name"] == "shop"
    json.dumps(result)


@quick
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "kind", "status", "data"]), values))
def test_replaced_keys_are_those_of_the_patch(patch: Json) -> None:
    result = replace_keys(MANIFEST, patch)
    for key in patch.keys() - {"metadata"}:
        assert same(result.get(key), patch[key])
    for key in MANIFEST.keys() - patch.keys():
        assert result[key] == MANIFEST[key]
