"""A value is set in a JSON text in place: everything outside of it stays as it was."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.core.json_edit import JsonEditError, check_json, has_value, parse_path, set_value, value_at

names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=4)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(st.characters(codec="utf-8"), max_size=6)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
spaces = st.sampled_from(("", " ", "\n", "\t", "\r\n    "))


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """Write a value as JSON with any white space, any escapes, and members that are there twice."""

    def written(value: Any) -> str:
        if isinstance(value, dict):
            members = [(name, inner) for name, inner in value.items()]
            if members and draw(st.booleans()):
                members.insert(0, (members[0][0], draw(scalars)))
            inside = ",".join(
                f"{draw(spaces)}{text(name)}{draw(spaces)}:{draw(spaces)}{written(inner)}{draw(spaces)}"
                for name, inner in members
            )
            return f"{{{inside or draw(spaces)}}}"
        if isinstance(value, list):
            inside = ",".join(f"{draw(spaces)}{written(inner)}{draw(spaces)}" for inner in value)
            return f"[{inside or draw(spaces)}]"
        return text(value)

    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    return draw(st.sampled_from(("", "\ufeff"))) + draw(spaces) + written(value) + draw(spaces)


@st.composite
def paths(draw: st.DrawFn, value: Any) -> tuple[str, ...]:
    """Return a path that is there, or one that ends in a name that is not."""
    path: list[str] = []
    while True:
        if isinstance(value, dict):
            name = draw(st.one_of(st.sampled_from(sorted(value)), names)) if value else draw(names)
            path.append(name)
            if name not in value:
                return (*path, *draw(st.lists(names, max_size=2)))
            value = value[name]
        elif isinstance(value, list) and value:
            number = draw(st.integers(0, len(value) - 1))
            path.append(str(number))
            value = value[number]
        else:
            return tuple(path)
        if draw(st.booleans()):
            return tuple(path)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, Any, tuple[str, ...], Any]:
    value = draw(st.dictionaries(names, values, min_size=1, max_size=4))
    text = draw(texts(value))
    return text, value, draw(paths(value)), draw(values)


def reference(value: Any, path: tuple[str, ...], new: Any) -> Any:
    value = copy.deepcopy(value)
    inside = value
    for part in path[:-1]:
        inside = inside.setdefault(part, {}) if isinstance(inside, dict) else inside[int(part)]
    if isinstance(inside, list):
        inside[int(path[-1])] = new
    else:
        inside[path[-1]] = new
    return value


@given(edits())
@thorough
def test_the_edited_text_parses_to_the_edited_value_and_all_else_stays(edit: tuple[str, Any, Any, Any]) -> None:
    text, value, path, new = edit
    assert check_json(text) == value
    edited = set_value(text, path, new)
    assert check_json(edited) == reference(value, path, new)
    if edited == text:
        return
    encoded = json.dumps(new, ensure_ascii=False, separators=(",", ":"))
    starts = [at for at in range(len(text) + 1) if edited.startswith(text[:at])]
    # Some prefix and some suffix of the old text are around what is new, and together they are the whole of the old
    # text but for one value.
    assert any(
        edited[at:].startswith(encoded) and text.endswith(edited[at + len(encoded) :]) for at in starts
    ) or _inserted(text, edited)


def _inserted(text: str, edited: str) -> bool:
    return any(edited.startswith(text[:at]) and edited.endswith(text[at:]) for at in range(len(text) + 1))


@given(edits())
@thorough
def test_a_second_edit_with_the_same_value_changes_nothing(edit: tuple[str, Any, Any, Any]) -> None:
    text, _, path, new = edit
    once = set_value(text, path, new)
    assert set_value(once, path, new) == once
    assert has_value(once, path)
    assert value_at(once, path) == new


def test_key_order_white_space_and_number_formats_stay() -> None:
    text = '{\r\n\t"b": 1.50,\r\n\t"systemName" : "old",\r\n\t"a": [ 1e3 , "\\u00e9" ]\r\n}\r\n'
    assert set_value(text, ("systemName",), "new") == text.replace('"old"', '"new"')


def test_a_new_field_is_written_as_its_neighbours_are() -> None:
    text = '{\n  "a": 1,\n  "b": {}\n}\n'
    assert set_value(text, ("c",), True) == '{\n  "a": 1,\n  "b": {},\n  "c": true\n}\n'
    assert set_value(text, ("b", "d", "e"), None) == '{\n  "a": 1,\n  "b": {"d": {"e":null}}\n}\n'.replace(
        '{"e":null}', '{"e":null}'
    )


def test_of_two_fields_with_one_name_the_last_is_set_because_parsers_read_that_one() -> None:
    assert set_value('{"a":1,"a":2}', ("a",), 3) == '{"a":1,"a":3}'


def test_true_is_not_one() -> None:
    assert set_value('{"a":1}', ("a",), True) == '{"a":true}'


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a", ("a",)),
        ("a.b.0", ("a", "b", "0")),
        ("$.a.b", ("a", "b")),
        (".a", ("a",)),
        ("a[0].b", ("a", "0", "b")),
        ('$["a b"].c', ("a b", "c")),
        ("$['a.b']", ("a.b",)),
        (r"a\.b.c", ("a.b", "c")),
    ],
)
def test_a_path_is_dotted_or_bracketed(path: str, parts: tuple[str, ...]) -> None:
    assert parse_path(path) == parts


@pytest.mark.parametrize("path", ["", "$", ".", "a..b", "a.", "a[", "a[b]", "[]", "a\\", "x" * 513, "a[*]", "a]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(JsonEditError, match="is not a path"):
        parse_path(path)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("{", ("a",), "not JSON"),
        ("", ("a",), "not JSON"),
        ("{} {}", ("a",), "not JSON"),
        ('{"a": NaN}', ("a",), "not JSON"),
        ("[" * 100_000, ("a",), "too deeply"),
        ('{"a": 1}', ("a", "b"), "a is neither an object nor a list"),
        ("1", ("a",), "the whole text is neither"),
        ('{"a": [1]}', ("a", "1"), "a list of 1, which has no item 1"),
        ('{"a": [1]}', ("a", "x"), "no item x"),
        ('{"a": [1]}', ("a", "²"), "no item"),
        ('{"a": 1}', (), "the path is empty"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_the_reason(text: str, path: tuple[str, ...], message: str) -> None:
    with pytest.raises(JsonEditError, match=message):
        set_value(text, path, "value")


def test_a_message_quotes_no_value() -> None:
    with pytest.raises(JsonEditError) as raised:
        set_value('{"password": hunter2}', ("password",), "x")
    assert "hunter2" not in str(raised.value)
