"""What a schema says of lists, sets and quantities, and which quantities are equal."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.object_paths import leaves
from syncline.core.object_shapes import shape_from_schema, shape_of_kind
from syncline.core.quantities import parse_quantity

DEFINITIONS: dict[str, Any] = {
    "example.Tree": {
        "properties": {
            "children": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"allOf": [{"$ref": "#/components/schemas/example.Tree"}], "default": {}},
            },
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"$ref": "#/components/schemas/example.Port"},
            },
            "size": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "away": {"$ref": "https://example.com/schema.json"},
        }
    },
    "example.Port": {"properties": {"port": {"type": "integer"}, "protocol": {"default": "TCP"}}},
}
ROOT = {"properties": {"spec": {"$ref": "#/components/schemas/example.Tree"}}}


def test_references_are_followed_also_to_themselves() -> None:
    shape = shape_from_schema(ROOT, DEFINITIONS.get)
    tree = {"spec": {"children": [{"name": "a", "children": [{"name": "b", "ports": [{"port": 1, "x": 2}]}]}]}}
    assert leaves(tree, shape) == {"spec/children/[name=a]/children/[name=b]/ports/[port=1,protocol=TCP]/x": 2}


def test_a_quantity_is_known_by_its_name() -> None:
    assert shape_from_schema(ROOT, DEFINITIONS.get).field("spec").field("size").form == "Quantity"


def test_metadata_has_the_same_shape_in_every_kind() -> None:
    schema = {"properties": {"metadata": {"type": "object", "x-kubernetes-map-type": "atomic"}}}
    found = leaves({"metadata": {"labels": {"a": "b"}}}, shape_from_schema(schema))
    assert found == {"metadata/labels/a": "b"}


@pytest.mark.parametrize("name", ["ReplicaSet.apps", "Pod", "CronJob.batch", "Ingress.networking.k8s.io"])
def test_kinds_of_kubernetes_have_maps_that_are_one_value(name: str) -> None:
    assert leaves({"spec": {"selector": {"matchLabels": {"a": "b"}}}}, shape_of_kind(name)) == {
        "spec/selector": {"matchLabels": {"a": "b"}}
    }


def test_a_kind_of_another_group_is_none_of_kubernetes() -> None:
    odd = {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    assert leaves(odd, shape_of_kind("Service.example.com")) == {"spec/ports": [{"port": 80}], "spec/selector/a": "b"}


schemas = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inside: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inside) | inside,
            "items": inside,
            "additionalProperties": inside,
            "allOf": st.lists(inside, max_size=2),
            "$ref": st.sampled_from(["#/components/schemas/a", "#/components/schemas/b", "x"]) | inside,
            "x-kubernetes-list-type": st.sampled_from(["map", "set", "atomic"]) | inside,
            "x-kubernetes-list-map-keys": st.lists(st.sampled_from("ab") | inside, max_size=2) | inside,
            "x-kubernetes-map-type": st.sampled_from(["atomic", "granular"]) | inside,
            "default": inside,
            "pattern": inside,
            "x-kubernetes-int-or-string": inside,
        },
    ),
    max_leaves=12,
)
values = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["", "x"]),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from("ab"), inside),
    max_leaves=8,
)


@quick
@given(schemas, schemas, schemas, values)
def test_a_cluster_cannot_break_it_with_an_odd_schema(root: Any, one: Any, other: Any, value: Any) -> None:
    shape = shape_from_schema(root, {"a": one, "b": other}.get)
    found = leaves({"spec": value, "a": value}, shape)
    assert all(path.startswith(("spec", "a")) for path in found)


def test_a_deep_schema_is_read_as_far_as_it_matters() -> None:
    schema: Any = {}
    for _ in range(2000):
        schema = {"properties": {"a": schema}}
    assert shape_from_schema(schema).field("a").field("a").form == "Granular"


class TestQuantities:
    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("0", 0),
            ("-1", -1),
            ("+1.5", Fraction(3, 2)),
            (".5", Fraction(1, 2)),
            ("5.", 5),
            ("100m", Fraction(1, 10)),
            ("1u", Fraction(1, 10**6)),
            ("1n", Fraction(1, 10**9)),
            ("2k", 2000),
            ("2Ki", 2048),
            ("1.5Gi", 3 << 29),
            ("1E", 10**18),
            ("1e3", 1000),
            ("1E3", 1000),
            ("12e-1", Fraction(6, 5)),
            (" 1 ", 1),
            (7, 7),
            (0.5, Fraction(1, 2)),
        ],
    )
    def test_a_quantity_is_a_number(self, text: Any, number: Any) -> None:
        assert parse_quantity(text) == number

    @pytest.mark.parametrize(
        "text", ["", ".", "m", "1 Gi", "1gi", "1Kib", "e3", "1e999", "x", None, True, [], "1_0", "٣"]
    )
    def test_what_is_no_quantity(self, text: Any) -> None:
        assert parse_quantity(text) is None
