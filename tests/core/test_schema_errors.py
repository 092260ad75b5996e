"""Which errors of an API server are the manifest's, and which fields they name."""

import pytest

from syncline.core.schema_errors import explain_schema_error, is_schema_error, undeclared_fields, wrong_field

APPLY = "failed to create typed patch object (home/app; apps/v1, Kind=StatefulSet): "
ONE = f'{APPLY}.spec.template.spec.containers[name="app"].imagee: field not declared in schema'
TWO = f"{APPLY}errors:\n  .spec.replicass: field not declared in schema\n  .spec.x: field not declared in schema"


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (ONE, ("spec.template.spec.containers[name=app].imagee",)),
        (TWO, ("spec.replicass", "spec.x")),
        (f"{APPLY}.spec.replicas: expected numeric (int or float), got string", ()),
    ],
)
def test_the_fields_that_a_kind_does_not_have_are_named(message: str, fields: tuple[str, ...]) -> None:
    assert is_schema_error(message)
    assert undeclared_fields(message) == fields
    assert all(field in explain_schema_error(message) for field in fields)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (ONE, "spec.template.spec.containers[name=app].imagee"),
        (TWO, "spec.replicass"),
        (f"{APPLY}.spec.replicas: expected numeric (int or float), got string", "spec.replicas"),
        (f"{APPLY}.spec.ports: duplicate entries for key [port=80]", "spec.ports"),
        ("etcdserver: request timed out", ""),
    ],
)
def test_the_first_field_that_is_wrong_is_found(message: str, field: str) -> None:
    assert wrong_field(message) == field


def test_more_than_a_few_are_counted() -> None:
    many = "\n".join(f"  .spec.field{number}: field not declared in schema" for number in range(5))
    assert explain_schema_error(many).startswith("spec.field0, spec.field1, spec.field2 and 2 more: unknown fields: ")


@pytest.mark.parametrize("message", ["etcdserver: request timed out", "", "context deadline exceeded"])
def test_a_failure_of_the_server_is_none_of_them(message: str) -> None:
    assert not is_schema_error(message)
    assert explain_schema_error(message) == ""
