"""Who owns what, as we read it from managedFields."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.managed import Fields, entry
from tests.sampling import quick, thorough

from syncline.core.fields import (
    MAX_UNKEPT,
    extra_paths,
    is_ours,
    lost_paths,
    manager_of,
    owned_fields,
    recordable_fields,
    unkept,
)


@pytest.mark.parametrize(
    ("body", "fields", "expected"),
    [
        ({"a": 1}, {}, ("a",)),
        ({"a": 1}, {"f:a": {}}, ()),
        ({"a": None}, {}, ()),
        ({"a": {"b": None}}, {}, ("a.b",)),
        ({"a": {}}, {}, ("a",)),
        ({"a": {}}, {"f:a": {}}, ()),
        ({"a": []}, {"f:a": None}, ("a",)),
        ({"a": {"b": 0, "c": False, "d": ""}}, {}, ("a",)),
        ({"a": {"b": 0, "c": [], "d": 1}}, {"f:a": {"f:d": {}}}, ("a.b", "a.c")),
        ({"a": {"b": 0}}, {"f:a": {"f:b": None}}, ("a.b",)),
        ({"a": {"b": 1}}, {"f:a": {}}, ()),
        ({"a": {"b": 1}}, {"f:a": {".": {}}}, ("a.b",)),
        ({"a": {"b": 1}}, {"?": {}, "f:a": {}}, ("a.b",)),
        ({"selector": {"b": 1}}, {"?": {}, "f:selector": {}}, ()),
        ({"a": 1}, {"f:a": {".": {}}}, ()),
        ({"a": [1, 2]}, {"f:a": {}}, ()),
        ({"a": [1, 2]}, {"f:a": {"v:1": {}}}, ("a[2]",)),
        ({"a": ["<"]}, {"f:a": {'v:"\\u003c"': {}}}, ()),
        ({"a": [{"x": 1}, {"x": 2}]}, {"f:a": {"i:0": {}}}, ("a[1]",)),
        ({"a": [[1], [2]]}, {"f:a": {"i:0": {}, "i:1": None}}, ("a[1]",)),
        ({"a": [{"n": 1, "x": 1}]}, {"f:a": {'k:{"n":1}': {".": {}, "f:n": {}, "f:x": {}}}}, ()),
        ({"a": [{"n": 1, "x": 1}]}, {"f:a": {'k:{"n":1}': {".": {}, "f:n": {}}}}, ("a[n=1].x",)),
        ({"a": [{"n": 1}, {"n": 2}]}, {"f:a": {'k:{"n":1}': {"f:n": {}}}}, ("a[n=2]",)),
        ({"a": [{"m": 2}]}, {"f:a": {'k:{"n":1}': {"f:n": {}}}}, ("a[0]",)),
        ({"a": [{"n": 1}]}, {"f:a": {'k:{"n":1}': None}}, ("a[n=1]",)),
        ({"a": [{"p": 1}]}, {"f:a": {'k:{"p":1,"protocol":"UDP"}': {}}}, ("a[p=1]",)),
        ({"a": [{"p": 1}]}, {"f:a": {'k:{"p":1,"protocol":"TCP"}': {}}}, ()),
        ({"a": [{"p": 1}]}, {"f:a": {'k:{"d":5,"p":1}': {}}}, ()),
        (
            {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "labels": {"a.b/c": "1"}}},
            {},
            ("metadata.labels[a.b/c]",),
        ),
        (
            {"metadata": {"name": "n", "labels": {"a.b/c": "1", "d": "2"}}},
            {"f:metadata": {"f:labels": {"f:x": {}}}},
            ("metadata.labels[a.b/c]", "metadata.labels.d"),
        ),
    ],
)
def test_what_is_ours_is_read_without_a_schema(body: Any, fields: Any, expected: tuple[str, ...]) -> None:
    assert lost_paths(body, fields) == expected
    assert lost_paths(body, msgspec.json.encode(fields)) == expected


@pytest.mark.parametrize(
    ("managers", "expected"),
    [
        ([], {}),
        ([entry("other", {"f:a": {}})], {"f:a": None}),
        ([entry("syncline", {"f:a": {}})], {"?": {}, "f:a": {}}),
        ([entry("syncline", {"f:a": {}}, "Apply")], {"f:a": {}}),
        ([entry("syncline", {"f:a": {}}, "Apply"), entry("syncline", {"f:b": {}})], {"f:a": {}, "f:b": {}}),
        ([entry("syncline", {"f:a": {}}, subresource="status")], {}),
        ([entry("syncline", {"f:a": {}}, "Apply"), entry("o", {"f:s": {}}, subresource="status")], {"f:a": {}}),
        (
            [entry("syncline", {"f:a": {"f:x": {}}}, "Apply"), entry("other", {"f:a": {".": {}, "f:y": {"f:z": {}}}})],
            {"f:a": {"f:x": {}, "f:y": None}},
        ),
        (
            [entry("syncline", {"f:a": {}}, "Apply"), entry("other", {"f:a": {"f:y": {}}})],
            {"f:a": {"f:y": None}},
        ),
        (
            [entry("syncline", {"f:a": {}}, "Apply"), entry("syncline", {"f:a": {"f:y": {}}})],
            {"f:a": {".": {}, "f:y": {}}},
        ),
        ([entry("syncline", {"f:a": {}}, "Apply"), entry("other", {"f:a": {}})], {"f:a": {}}),
    ],
)
def test_what_is_kept_is_ours_and_what_others_took(managers: list[Fields], expected: Any) -> None:
    assert msgspec.json.decode(owned_fields(managers)) == expected


SENT = {
    "map": {"a": 1, "b": 2},
    "one": {"deep": {"c": 3}},
    "whole": {"name": "x"},
    "items": [{"name": "x"}],
    "values": ["v"],
    "list": [1],
    "empty": {},
}
ANSWERED: dict[str, Any] = {
    "f:map": {".": {}, "f:a": {}, "f:b": {}},
    "f:one": {".": {}, "f:deep": {".": {}, "f:c": {}}},
    "f:whole": {},
    "f:items": {".": {}, 'k:{"name":"x"}': {".": {}, "f:name": {}}},
    "f:values": {".": {}, 'v:"v"': {}},
    "f:list": {},
    "f:empty": {},
}


def custom(tree: dict[str, Any], operation: str = "Update") -> bytes:
    return owned_fields([entry("syncline", tree, operation)], "example.com")


@pytest.mark.parametrize(
    ("field", "path"),
    [("map", "map"), ("one", "one.deep.c"), ("items", "items"), ("values", "values")],
)
def test_a_map_or_list_of_a_custom_kind_that_was_emptied_is_lost(field: str, path: str) -> None:
    record = unkept(SENT, custom(ANSWERED))
    assert record == ("+items", "+values", "=", "=whole")
    assert lost_paths(SENT, custom(ANSWERED), record) == ()
    assert lost_paths(SENT, custom({**ANSWERED, f"f:{field}": {}}), record) == (path,)


def test_a_map_inside_an_item_of_a_custom_kind_that_was_emptied_is_lost() -> None:
    body = {"items": [{"name": "x", "map": {"a": 1}}]}
    answer = {"f:items": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:map": {".": {}, "f:a": {}}}}}
    emptied = {"f:items": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:map": {}}}}
    assert lost_paths(body, custom(emptied), unkept(body, custom(answer))) == ("items[name=x].map.a",)


def test_without_a_record_a_custom_kind_is_given_the_benefit_of_the_doubt() -> None:
    assert lost_paths({"a": {"b": 1}}, custom({"f:a": {}})) == ()


def test_after_an_apply_a_map_in_a_field_without_a_schema_may_be_emptied_and_stay_ours() -> None:
    record = unkept(SENT, custom(ANSWERED, "Apply"))
    assert record == unkept(SENT, custom(ANSWERED))
    assert lost_paths(SENT, custom(ANSWERED, "Apply"), record) == ()
    body = {"values": {"deep": {"list": [1]}}}
    applied = {"f:values": {"f:deep": {".": {}, "f:list": {}}}}
    known = unkept(body, custom(applied, "Apply"))
    assert lost_paths(body, custom(applied, "Apply"), known) == ()
    assert lost_paths(body, custom({"f:values": {"f:deep": {}}}, "Apply"), known) == ("values.deep.list",)


def test_after_an_apply_only_what_has_content_is_listed_of_a_built_in_kind() -> None:
    fields = owned_fields([entry("syncline", {"f:a": {"f:b": {}}}, "Apply")], "apps")
    assert unkept({"a": {"b": {"c": 1}}}, fields) == ()


def test_the_holder_of_a_field_may_hold_it_as_part_of_more_or_less() -> None:
    managers = [
        entry("late", {"f:z": {}}, time="3"),
        entry("above", {"f:a": {}}, time="1"),
        entry("below", {"f:b": {"f:c": {"f:d": {}}}}, time="1"),
        entry("item", {"f:l": {'k:{"n":"x"}': {"f:v": {}}, 'v:"s"': {}, "i:3": {}}}, time="2"),
        entry("key", {"f:m": {"f:a.b/c": {}}}, time="2"),
        entry("syncline", {"f:q": {}}, time="9"),
        entry("kubelet", {"f:q": {}}, time="9", subresource="status"),
    ]
    assert manager_of(managers, "a.x.y") == "above"
    assert manager_of(managers, "b.c") == "below"
    assert manager_of(managers, "b.cc") == "late"
    assert manager_of(managers, "l[n=x].v") == "item"
    assert manager_of(managers, 'l["s"]') == "item"
    assert manager_of(managers, "l[3]") == "item"
    assert manager_of(managers, "m[a.b/c]") == "key"
    assert manager_of(managers, "q") == "late"
    assert manager_of([], "q") == ""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab./", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abn./", max_size=3), inner, max_size=3),
    max_leaves=12,
)
bodies = st.dictionaries(st.text("abn./", min_size=1, max_size=3), json_values, max_size=4)


def field_set(value: Any) -> dict[str, Any]:
    """What the server would write down for a value of a kind without a schema: lists are whole."""
    return {f"f:{name}": field_set(item) for name, item in value.items()} if isinstance(value, dict) else {}


def paths_of(value: Any, way: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The ways to all fields of an object, but for null, which is nobody's."""
    if not isinstance(value, dict):
        return []
    inside = [(*way, name) for name, item in value.items() if item is not None]
    return inside + [path for name, item in value.items() for path in paths_of(item, (*way, name))]


def value_at(value: Any, way: tuple[str, ...]) -> Any:
    for name in way:
        value = value[name]
    return value


def dropped(tree: dict[str, Any], way: tuple[str, ...]) -> dict[str, Any]:
    """The tree without a field; a map that has nothing left in it stands as before."""
    name, *rest = way
    below = tree.get(f"f:{name}")
    if below is None:
        return tree
    if not rest:
        return {element: inside for element, inside in tree.items() if element != f"f:{name}"}
    return {**tree, f"f:{name}": {".": {}, **dropped(below, tuple(rest))}}


def is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    return all(map(is_empty, value)) if isinstance(value, list) else not value


@thorough
@given(bodies, st.data())
def test_exactly_what_is_missing_since_our_own_write_is_lost(body: dict[str, Any], data: st.DataObject) -> None:
    """The server may not have kept any of the empty values; whatever else is gone later is a loss, empty or not."""
    every = paths_of(body)
    hollow = [way for way in every if is_empty(value_at(body, way))]
    tree = field_set(body)
    for way in data.draw(st.lists(st.sampled_from(hollow), max_size=3)) if hollow else []:
        tree = dropped(tree, way)
    record = unkept(body, tree)
    assert lost_paths(body, tree, record) == ()
    assert set(record) <= recordable_fields(body)

    way = data.draw(st.sampled_from(every)) if every else ()
    later = dropped(tree, way) if way else tree
    assert bool(lost_paths(body, later, record)) == (later != tree)


@quick
@given(bodies, st.data())
def test_an_empty_value_that_somebody_has_taken_is_lost_unless_it_was_theirs_all_along(
    body: dict[str, Any], data: st.DataObject
) -> None:
    hollow = [way for way in paths_of(body) if len(way) == 1 and is_empty(value_at(body, way))]
    if not hollow:
        return
    (name,) = data.draw(st.sampled_from(hollow))
    absent = dropped(field_set(body), (name,))
    taken = {**absent, f"f:{name}": None}
    assert len(lost_paths(body, taken, unkept(body, absent))) == 1
    assert lost_paths(body, taken, unkept(body, taken)) == ()
    assert lost_paths(body, absent, unkept(body, taken)) == ()


def test_a_long_record_is_folded_and_still_tells_what_is_missing_since() -> None:
    body = {f"field-{number:04}": {} for number in range(MAX_UNKEPT // 8)}
    record = unkept(body, {})
    assert len(str(record)) < 40
    assert lost_paths(body, {}, record) == ()
    assert unkept(body, {"f:field-0000": {}}) != record
    assert lost_paths({**body, "more": False}, {}, record)


@pytest.mark.parametrize(("field", "emptied"), [("map-0000", "f:map-0000"), ("list", "f:list")])
def test_what_is_emptied_of_a_custom_kind_is_lost_though_its_record_is_folded(field: str, emptied: str) -> None:
    maps = {f"map-{number:04}": {"name": "x"} for number in range(MAX_UNKEPT // 8)}
    body = {**maps, "list": [{"name": "a"}], "plain": [1]}
    granular = {"f:map-0000": {".": {}, "f:name": {}}, "f:list": {'k:{"name":"a"}': {".": {}, "f:name": {}}}}
    ours = {**{f"f:{name}": {} for name in body}, **granular}

    def owned(tree: Any) -> bytes:
        return owned_fields([entry("syncline", tree)], "example.com")

    record = unkept(body, owned(ours))
    assert len(record) == 1
    assert lost_paths(body, owned(ours), record) == ()
    lost = lost_paths(body, owned({**ours, emptied: {}}), record)
    assert any(path.startswith(field) for path in lost)
    # A field that somebody else has is named before those that are only in doubt.
    taken = owned_fields(
        [entry("syncline", {**ours, emptied: {}, "f:plain": None}), entry("other", {"f:plain": {}})], "example.com"
    )
    assert lost_paths(body, taken, record)[0] == "plain"


def test_items_of_a_list_share_the_names_of_their_fields() -> None:
    body = {"list": [{"name": "a", "x": False}, {"name": "b", "x": False, "y": 0}]}
    ours = {"f:list": {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}} for name in "ab"}}
    assert unkept(body, ours) == ("list.x", "list.y")
    assert recordable_fields(body) == {"+list", "list.x", "list.y"}


def test_a_field_is_ours_while_the_server_says_so() -> None:
    fields = owned_fields([entry("syncline", {"f:metadata": {"f:annotations": {"f:a/b": {}}}})])
    assert is_ours(fields, "metadata", "annotations", "a/b")
    assert not is_ours(fields, "metadata", "annotations", "c")
    taken = [entry("syncline", {"f:spec": {}}), entry("o", {"f:metadata": {"f:annotations": {"f:a/b": {}}}})]
    assert not is_ours(owned_fields(taken), "metadata", "annotations", "a/b")


@quick
@given(bodies)
def test_whoever_owns_all_has_lost_nothing_and_whoever_owns_nothing_all(body: dict[str, Any]) -> None:
    assert lost_paths(body, field_set(body)) == ()
    tops = {name for name, value in body.items() if lost_paths({name: value}, {})}
    assert len(lost_paths(body, {})) == len(tops)


@quick
@given(bodies, json_values)
def test_any_tree_of_any_manager_can_be_read(body: dict[str, Any], other: Any) -> None:
    before = copy.deepcopy(body)
    fields = owned_fields([entry("syncline", field_set(body)), entry("other", field_set({"n": other}))])
    for path in lost_paths(body, fields):
        assert manager_of([entry("other", field_set({"n": other}))], path) == "other"
    assert body == before


def test_what_others_added_is_told_but_not_in_metadata_or_status() -> None:
    ours = Fields(
        "syncline", "Apply", fields=msgspec.Raw(b'{"f:spec":{"f:replicas":{},"f:list":{"k:{\\"name\\":\\"a\\"}":{}}}}')
    )
    theirs = Fields(
        "other",
        "Update",
        fields=msgspec.Raw(
            b'{"f:metadata":{"f:annotations":{"f:x":{}}},"f:status":{"f:ready":{}},"f:spec":{"f:paused":{},'
            b'"f:list":{"k:{\\"name\\":\\"b\\"}":{".":{},"f:value":{}}}}}'
        ),
    )
    assert extra_paths(owned_fields([ours, theirs])) == ("spec.list[name=b]", "spec.paused")
    assert extra_paths(owned_fields([ours])) == ()
