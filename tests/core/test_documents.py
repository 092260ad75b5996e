"""YAML and JSON that users write, read as Kubernetes reads them."""

from typing import Any

import pytest

from syncline.core.documents import DocumentError, has_many_values, is_deep, read_document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("22:30", "22:30"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        ("<<", "<<"),
        (".inf", ".inf"),
        ("0644", 420),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-5", -5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("null", None),
        ("'1'", "1"),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
    ],
)
def test_plain_values_mean_what_they_mean_to_kubernetes(text: str, expected: Any) -> None:
    found = read_document(f"a: {text}")["a"]
    assert found == expected
    assert type(found) is type(expected)


def test_laughs_cost_nothing() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [*{old}, *{old}, *{old}]" for old, new in zip("abcdefghi", "bcdefghij", strict=True)]
    with pytest.raises(DocumentError, match="line 2: aliases"):
        read_document("\n".join(lines))


def test_what_is_nested_deeper_than_anybody_writes_is_deep() -> None:
    nested: Any = 1
    for _ in range(199):
        nested = [nested]
    assert not is_deep(nested)
    assert is_deep([[nested]])


def test_a_number_to_the_base_of_sixty_is_not_computed() -> None:
    assert read_document("a: 1:30:00") == {"a": "1:30:00"}
    assert read_document("a: !!int 12") == {"a": 12}
    for tag in ("int", "float"):
        with pytest.raises(DocumentError, match="line 1: this is no number"):
            read_document(f"a: !!{tag} 1" + ":59" * 100_000)


@pytest.mark.parametrize(
    ("value", "many"),
    [
        ("text", False),
        ({"a": [1, 2], "b": {"c": {}}}, False),
        (dict.fromkeys(map(str, range(11))), True),
        ([[[]] * 5, [[]] * 6], True),
        ([[[[[[[[[[[[]]]]]]]]]]]], True),
    ],
)
def test_many_values_are_noticed_however_they_are_nested(value: object, many: bool) -> None:
    assert has_many_values(value, 10) is many
