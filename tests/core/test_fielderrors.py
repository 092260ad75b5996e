"""What is wrong with a field is said with its path and what to do, and without its value."""

from typing import Any

import pytest

from syncline.core.fielderrors import NAME_LIMIT, describe, field_path, unknown_field
from syncline.core.manifest_errors import field_errors
from syncline.core.schemas import PATTERN

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        (["spec", "ports", 0, "name"], "spec.ports[0].name"),
        (["metadata", "labels", "app.kubernetes.io/name"], "metadata.labels[app.kubernetes.io/name]"),
        ([0, "a-b"], "[0].a-b"),
        (["a\nb"], "[a?b]"),
        ([], ""),
    ],
)
def test_a_path_is_written_as_people_write_it(steps: list[str | int], path: str) -> None:
    assert field_path(steps) == path


@pytest.mark.parametrize(
    ("keyword", "detail", "value", "schema", "told"),
    [
        (
            "additionalProperties",
            {"unexpected": ["imagee", "zzz"]},
            {},
            {"properties": {"image": {}, "name": {}}},
            [
                "spec.imagee: unknown field: did you mean image?",
                "spec.zzz: unknown field: correct its name or its indentation, or remove it",
            ],
        ),
        ("required", {"property": "selector"}, {}, {}, ["spec.selector: is required: add it"]),
        (
            "type",
            {"types": ["string"]},
            80,
            {},
            ["spec: must be a string, but is a whole number: put it in quotes"],
        ),
        (
            "type",
            {"types": ["integer", "null"]},
            SECRET,
            {},
            ["spec: must be a whole number, but is a string: write it without quotes"],
        ),
        ("type", {"types": ["object"]}, [SECRET], {}, ["spec: must be a map, but is a list"]),
        ("enum", {"options": ["A", "B", "", None]}, SECRET, {}, ["spec: must be one of A, B"]),
        (PATTERN, {}, SECRET, {PATTERN: "^a$"}, ["spec: must match ^a$"]),
        ("minimum", {"limit": 1}, 0, {}, ["spec: must be at least 1"]),
        ("multipleOf", {"multiple_of": 2}, 3, {}, ["spec: must be a multiple of 2"]),
        ("oneOf", {}, {"a": SECRET}, {}, ["spec: does not have a form that its schema allows (oneOf)"]),
    ],
)
def test_an_error_names_the_field_the_cause_and_the_remedy(
    keyword: str, detail: dict[str, Any], value: Any, schema: dict[str, Any], told: list[str]
) -> None:
    errors = [str(error) for error in describe(keyword, detail, ["spec"], value, schema)]
    assert errors == told
    assert SECRET not in str(errors)


def test_names_that_others_chose_are_cut_and_kept_in_one_line() -> None:
    told = [*describe("additionalProperties", {"unexpected": ["a\r\n" + "b" * 5000]}, [], {}, {})]
    assert len(str(told[0])) < 3 * NAME_LIMIT
    assert str(told[0]).isprintable()


def test_a_field_is_likely_meant_in_other_capitals() -> None:
    assert unknown_field("apiversion", ["apiVersion", "kind"]) == "unknown field: did you mean apiVersion?"


def test_metadata_and_data_are_checked_without_any_cluster() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "lables": {}, "creationTimestamp": None},
        "stringDate": {"password": SECRET},
        "status": {},
    }
    told = [str(error) for error in field_errors(manifest)]
    assert told == [
        "metadata.lables: unknown field: did you mean labels?",
        "stringDate: unknown field: did you mean stringData?",
    ]


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (
            {"kind": "Service", "metadata": {"labels": {"app": "a b"}}},
            "metadata.labels.app: is not the value of a label",
        ),
        ({"kind": "Service", "metadata": {"labels": {"a b": "x"}}}, "metadata.labels[a b]: is not the key of a label"),
        ({"kind": "Service", "metadata": {"labels": {"A.b/c": "x"}}}, "metadata.labels[A.b/c]: is not the key of"),
        (
            {"kind": "Service", "metadata": {"annotations": {"a//b": ""}}},
            "metadata.annotations[a//b]: is not the key of",
        ),
        ({"kind": "ConfigMap", "metadata": {}, "data": {"a b": "x"}}, "data[a b]: is not a key: write letters"),
        ({"kind": "Secret", "metadata": {}, "stringData": {"..": "x"}}, "stringData[..]: is not a key: write letters"),
        ({"kind": "ConfigMap", "metadata": {}, "immutable": "yes"}, "immutable: must be true or false, without quotes"),
        ({"kind": "Secret", "metadata": {}, "type": ["Opaque"]}, "type: must be a string, but is a list"),
    ],
)
def test_what_every_api_server_refuses_is_named(manifest: dict[str, Any], told: str) -> None:
    (error,) = field_errors({"apiVersion": "v1", **manifest})
    assert str(error).startswith(told)


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Service", "metadata": {"labels": {"app.kubernetes.io/part-of": "a_b.C", "empty": ""}}},
        {
            "kind": "Service",
            "metadata": {"labels": {"none": None}, "annotations": {"Example.com/A": "any text at all"}},
        },
        {"kind": "ConfigMap", "metadata": {}, "data": {".hidden": "x", "_A-1.txt": ""}, "immutable": False},
        {"kind": "Secret", "metadata": {}, "type": "example.com/any kind", "data": None, "immutable": None},
    ],
)
def test_what_an_api_server_takes_is_not_refused(manifest: dict[str, Any]) -> None:
    assert field_errors({"apiVersion": "v1", **manifest}) == []


def test_fields_of_other_kinds_are_for_the_schemas_of_a_cluster() -> None:
    assert field_errors({"apiVersion": "a.example.com/v1", "kind": "Secret", "metadata": {"name": "a"}, "x": 1}) == []
