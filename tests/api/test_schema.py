from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import pytest
from msgspec import Meta, Struct

from syncline.api.common import Timestamp
from syncline.api.crd import crd
from syncline.api.kinds import ALL_KINDS
from syncline.api.rules import ValidationRule, text
from syncline.api.schema import SchemaError, structural

Word = Annotated[str, Meta(max_length=9)]


def field_schema(field: Any, default: Any = None) -> dict[str, Any]:
    struct = type("S", (Struct,), {"__annotations__": {"f": Annotated[field, Meta(description="F.")]}, "f": default})
    schema: dict[str, Any] = structural(struct, authored=True)["properties"]["f"]
    return schema


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.kind)
def test_a_crd_has_no_references_and_no_alternatives(kind: Any) -> None:
    for node in nodes(crd(kind)):
        assert not node.keys() & {"$ref", "$defs", "anyOf", "oneOf", "allOf", "nullable", "title"}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (Word, {"type": "string", "maxLength": 9}),
        (Word | None, {"type": "string", "maxLength": 9}),
        (bool, {"type": "boolean"}),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (int, {"type": "integer", "format": "int64"}),
        (Annotated[int, Meta(ge=1, le=3)], {"type": "integer", "format": "int64", "minimum": 1, "maximum": 3}),
        (Literal["A", "B"], {"type": "string", "enum": ["A", "B"]}),
        (Timestamp | None, {"type": "string", "format": "date-time"}),
        (
            Annotated[list[Word], Meta(min_length=1, max_length=5)],
            {"type": "array", "minItems": 1, "maxItems": 5, "items": {"type": "string", "maxLength": 9}},
        ),
        (
            Annotated[dict[Word, Word], Meta(max_length=5)],
            {
                "type": "object",
                "maxProperties": 5,
                "additionalProperties": {"type": "string", "maxLength": 9},
                "x-kubernetes-validations": [
                    {"rule": "self.all(key, size(key) <= 9)", "message": "keys have at most 9 characters"}
                ],
            },
        ),
        (
            Annotated[dict[str, Any], Meta(max_length=5)],
            {"type": "object", "maxProperties": 5, "x-kubernetes-preserve-unknown-fields": True},
        ),
    ],
    ids=str,
)
def test_a_type_becomes_a_schema(field: Any, expected: dict[str, Any]) -> None:
    assert field_schema(field) == {"description": "F.", **expected}


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (str, "S.f: has no limit"),
        (Annotated[list[str], Meta(max_length=5)], r"S.f\[\]: has no limit"),
        (list[Word], "S.f: has no limit"),
        (dict[Word, Word], "S.f: has no limit"),
        (dict[str, Any], "S.f: has no limit"),
        (Annotated[dict[str, Word], Meta(max_length=5)], "S.f: keys of a map need a max_length"),
        (Word | int, "S.f: a union"),
        (Literal[1, 2], "S.f: write the values of a Literal as strings"),
        (float, "S.f: FloatType is not allowed"),
    ],
    ids=str,
)
def test_a_type_that_a_crd_should_not_carry_stops_the_generation(field: Any, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        field_schema(field)


def test_a_field_that_nobody_described_stops_the_generation() -> None:
    class Mute(Struct):
        f: Word

    with pytest.raises(SchemaError, match=r"Mute\.f: has no description"):
        structural(Mute, authored=True)


def test_fields_without_a_default_are_required() -> None:
    class Pair(Struct):
        a: Annotated[Word, Meta(description="A.")]
        b: Annotated[Word, Meta(description="B.")] = "x"

    assert structural(Pair, authored=True)["required"] == ["a"]


def test_the_server_fills_in_the_defaults_of_a_spec_but_never_of_a_status() -> None:
    class Pair(Struct):
        a: Annotated[bool, Meta(description="A.")] = False
        b: Annotated[Word | None, Meta(description="B.")] = None

    assert structural(Pair, authored=True)["properties"]["a"]["default"] is False
    assert "default" not in structural(Pair, authored=True)["properties"]["b"]
    assert "default" not in structural(Pair, authored=False)["properties"]["a"]


def test_a_pattern_is_a_rule_with_words_of_its_own() -> None:
    schema = field_schema(Annotated[str, text("^[a-z]+$", "write lowercase letters", max_length=9)] | None)
    assert "pattern" not in schema
    assert schema["x-kubernetes-validations"] == [
        {"rule": "self.matches(r'^[a-z]+$')", "message": "write lowercase letters"}
    ]


def test_the_rules_of_a_struct_go_with_it_wherever_it_is_used() -> None:
    class Inner(Struct):
        RULES: ClassVar[tuple[ValidationRule, ...]] = (ValidationRule("self.a != ''", "write something", ".a"),)
        a: Annotated[Word, Meta(description="A.")]

    schema = field_schema(Annotated[list[Inner], Meta(max_length=3)])
    assert schema["items"]["x-kubernetes-validations"] == [
        {"rule": "self.a != ''", "message": "write something", "fieldPath": ".a"}
    ]


def test_rules_are_for_what_people_write() -> None:
    class Inner(Struct):
        RULES: ClassVar[tuple[ValidationRule, ...]] = (ValidationRule("self.a != ''", "write something", ".a"),)
        a: Annotated[str, text("^[a-z]+$", "write lowercase letters", max_length=9), Meta(description="A.")]

    status = structural(Inner, authored=False)
    assert [node for node in nodes(status) if node.keys() & {"x-kubernetes-validations", "pattern"}] == []
