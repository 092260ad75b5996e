"""Schemas of Kubernetes become strict ones: what a kind does not know is wrong, and what a server accepts is not."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from tests.sampling import quick

from syncline.core.schemas import NODE_LIMIT, PATTERN, SchemaTooLarge, defined_schema, published_schema

Json = dict[str, Any]

POD = "io.k8s.api.core.v1.PodSpec"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def accepts(schema: Json, value: Any) -> bool:
    return bool(Draft202012Validator(schema, offline=True).is_valid(value))


def defined(**properties: Any) -> Json:
    """Return the schema of a kind whose definition has these properties."""
    return defined_schema({"type": "object", "properties": properties})


def spec(value: Any, schema: Json) -> bool:
    """Whether a kind takes this for its spec."""
    return accepts(defined(spec=schema), {"spec": value})


OBJECT: Json = {"type": "object", "properties": {"size": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param(OBJECT, {"size": 1}, {"sise": 1}, id="unknown fields"),
        pytest.param({"type": "array", "items": OBJECT}, [{"size": 1}], [{"sise": 1}], id="unknown fields in a list"),
        pytest.param(
            {"type": "object", "additionalProperties": OBJECT}, {"a": {"size": 1}}, {"a": {"sise": 1}}, id="in a map"
        ),
        pytest.param(
            {**OBJECT, "x-kubernetes-preserve-unknown-fields": True}, {"any": 1}, {"size": "a"}, id="preserved fields"
        ),
        pytest.param(
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"inner": OBJECT},
            },
            {"any": 1, "inner": {"size": 1}},
            {"inner": {"sise": 1}},
            id="preserved fields, and known ones below",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": OBJECT}},
            {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": {}},
            {"speck": {}},
            id="an embedded object",
        ),
        pytest.param({"x-kubernetes-int-or-string": True}, "1", 1.5, id="int or string"),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            1,
            {},
            id="int or string, said twice",
        ),
        pytest.param({"type": "string", "nullable": True}, None, 1, id="nullable"),
        pytest.param({"type": "string", "enum": ["a"], "nullable": True}, None, "b", id="a nullable choice"),
        pytest.param({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, 1, id="an exclusive bound"),
        pytest.param({"type": "integer", "maximum": 3}, 3, 4, id="a bound"),
        pytest.param({"type": "string", "maxLength": 2}, "ab", "abc", id="a length"),
        pytest.param({"type": "array", "minItems": 1}, [1], [], id="a number of items"),
        pytest.param(
            {**OBJECT, "required": ["size"]},
            {"size": 1},
            {},
            id="required",
        ),
        pytest.param(
            {**OBJECT, "oneOf": [{"required": ["size"]}, {"properties": {"size": {"maximum": 3}}, "required": ["x"]}]},
            {"size": 9},
            {},
            id="a junctor, which makes nothing known",
        ),
        pytest.param({"type": "integer", "not": {"enum": [3]}}, 2, 3, id="not"),
        pytest.param({"type": "integer", "multipleOf": 2}, 4, 3, id="a multiple"),
    ],
)
def test_a_definition_says_what_is_right_and_what_is_wrong(schema: Json, good: Any, bad: Any) -> None:
    assert spec(good, schema)
    assert not spec(bad, schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"type": "object"}, {"a": 1}, id="an object that names no fields"),
        pytest.param(True, {"a": 1}, id="no schema at all"),
        pytest.param({"$ref": "https://example.com/schema"}, {"a": 1}, id="a reference to elsewhere"),
        pytest.param({"$ref": "#/components/schemas/A"}, {"a": 1}, id="a reference, which a definition cannot have"),
        pytest.param({"type": "text"}, 1, id="an unknown type"),
        pytest.param({"type": "string", "minLength": -1}, "", id="a limit that is none"),
        pytest.param({"type": "string", "format": "date"}, "tomorrow", id="a format"),
        pytest.param({"type": "object", "properties": {"a": {"default": 1}}, "required": ["a"]}, {}, id="defaulted"),
        pytest.param({"type": "object", "properties": {"a": {"nullable": True}}, "required": ["a"]}, {}, id="null"),
        pytest.param({"properties": {"a": {}}, "additionalProperties": True}, {"b": 1}, id="others are welcome"),
    ],
)
def test_what_a_server_may_accept_is_not_wrong(schema: Any, value: Any) -> None:
    assert spec(value, schema)


def test_a_definition_need_not_name_what_every_object_has() -> None:
    schema = defined_schema({**OBJECT, "required": ["metadata", "size"]})
    assert accepts(schema, {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "size": 1})
    assert accepts(schema, {"size": 1})
    assert not accepts(schema, {})


def test_a_pattern_is_left_to_an_engine_that_takes_linear_time() -> None:
    schema = defined(name={"type": "string", "pattern": "(a+)+$"})
    assert schema["properties"]["name"] == {"type": "string", PATTERN: "(a+)+$"}


def published(definitions: Json, name: str) -> Json:
    return published_schema(name, definitions.get)


def test_a_reference_with_a_default_is_followed() -> None:
    definitions = {
        POD: {
            "type": "object",
            "properties": {
                "inner": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Inner"}], "default": {}},
                "cpu": {"$ref": f"#/components/schemas/{QUANTITY}"},
            },
        },
        "io.k8s.Inner": {
            "type": "object",
            "properties": {"again": {"$ref": "#/components/schemas/io.k8s.Inner"}, "size": {"type": "integer"}},
        },
        # Older servers say so, and take numbers all the same.
        QUANTITY: {"type": "string"},
    }
    schema = published(definitions, POD)
    assert accepts(schema, {"inner": {"again": {"again": {"size": 1}}}, "cpu": 1})
    assert accepts(schema, {"cpu": "100m"})
    assert not accepts(schema, {"inner": {"again": {"again": {"sise": 1}}}})
    assert not accepts(schema, {"inner": {"again": {"size": "1"}}})


def test_numbers_and_quantities_of_kubernetes_have_the_limits_of_their_types() -> None:
    quantity = {"$ref": f"#/components/schemas/{QUANTITY}"}
    properties = {"replicas": {"type": "integer", "format": "int32"}, "cpu": quantity}
    schema = published({POD: {"type": "object", "properties": properties}}, POD)
    assert accepts(schema, {"replicas": 2**31 - 1})
    assert not accepts(schema, {"replicas": 2**31})
    assert schema["$defs"]["d0"]["properties"]["cpu"][PATTERN]
    pattern = re.compile(schema["$defs"]["d0"]["properties"]["cpu"][PATTERN])
    assert all(map(pattern.search, ("1", "100m", "-1.5Gi", "1e3", "1E-2", " 2 ", ".5")))
    assert not any(map(pattern.search, ("", "lots", "1 Gi", "10%")))
    # Of a definition, the server has the last word.
    assert accepts(defined(size={"type": "integer", "format": "int32"}), {"size": 2**31})


def test_kinds_of_kubernetes_take_the_empty_value_for_an_absent_one() -> None:
    properties = {
        "policy": {"type": "string", "enum": ["Always", "Never"]},
        "args": {"type": "array", "items": {"type": "string"}},
        "serviceName": {"type": "string"},
        "stdin": {"type": "boolean"},
        "name": {"type": "string"},
    }
    schema = published(
        {POD: {"type": "object", "properties": properties, "required": ["serviceName", "stdin", "name"]}}, POD
    )
    assert accepts(schema, {"name": "a", "policy": "", "args": ["a", None]})
    assert not accepts(schema, {"name": "a", "policy": "always"})
    assert not accepts(schema, {"policy": "Always"})


def test_inheritance_is_not_taken_for_a_set_of_unknown_fields() -> None:
    definitions = {
        "com.example.Kind": {
            "type": "object",
            "allOf": [{"$ref": "#/components/schemas/com.example.Base"}, {"properties": {"b": {"type": "string"}}}],
            "properties": {"c": {"type": "string"}},
        },
        "com.example.Base": {"type": "object", "properties": {"a": {"type": "string"}}},
    }
    schema = published(definitions, "com.example.Kind")
    assert accepts(schema, {"a": "1", "b": "2", "c": "3"})
    assert not accepts(schema, {"a": 1})


def test_references_in_a_circle_come_to_an_end() -> None:
    definitions = {name: {"$ref": f"#/components/schemas/{other}"} for name, other in (("a", "b"), ("b", "a"))}
    assert accepts(published(definitions, "a"), {"x": 1})


def test_a_schema_without_end_is_refused() -> None:
    wide = {"type": "object", "properties": {str(number): {"type": "string"} for number in range(NODE_LIMIT + 1)}}
    with pytest.raises(SchemaTooLarge):
        defined_schema(wide)


def test_a_schema_that_nests_without_end_allows_what_is_too_deep() -> None:
    deep: Json = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"a": deep}}
    assert accepts(defined_schema(deep), {"a": {"a": {}}})
    assert not accepts(defined_schema(deep), {"a": {"b": {}}})


WORDS = st.sampled_from(
    [
        *("type", "properties", "items", "additionalProperties", "required", "enum", "allOf", "anyOf", "oneOf", "not"),
        *("nullable", "minimum", "exclusiveMinimum", "maximum", "minLength", "maxItems", "multipleOf", "pattern"),
        *("$ref", "$id", "$schema", "$dynamicRef", "if", "then", "x-kubernetes-preserve-unknown-fields"),
        *("x-kubernetes-int-or-string", "x-kubernetes-embedded-resource", "format", "default", "unevaluatedProperties"),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**64),
    st.floats(allow_nan=False),
    st.sampled_from(
        ["object", "array", "string", "integer", "#/components/schemas/a", "#/$defs/x", "file:///etc", "["]
    ),
)
HOSTILE = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=5)),
    max_leaves=25,
)


@quick
@given(schema=HOSTILE, value=HOSTILE)
def test_whatever_somebody_calls_a_schema_can_be_compiled(schema: Any, value: Any) -> None:
    for strict in (defined_schema(schema), published({"a": schema}, "a")):
        assert Draft202012Validator(strict, offline=True).is_valid(value) in {True, False}


@quick
@given(schema=HOSTILE)
def test_no_reference_leads_out_of_the_schema(schema: Any) -> None:
    def references(inside: Any) -> list[str]:
        if isinstance(inside, dict):
            own = [inside["$ref"]] if isinstance(inside.get("$ref"), str) else []
            return own + [one for value in inside.values() for one in references(value)]
        return [one for value in inside for one in references(value)] if isinstance(inside, list) else []

    strict = published({"a": schema}, "a")
    # What a choice lists is a value, and no schema.
    assert all(one.startswith("#/$defs/d") or "enum" in str(schema) for one in references(strict))
