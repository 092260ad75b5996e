"""Templates of files: what values become in them."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.render.errors import BuildError
from syncline.render.manifests import read_documents
from syncline.render.templates import FileTemplates

texts = st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=40)


def values_of(strings: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    integers = st.integers(-(2**63), 2**63 - 1)
    return st.recursive(
        st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | strings,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
        max_leaves=12,
    )


# What JSON may have as it is, and YAML may not.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
printable = texts.map(lambda text: _UNPRINTABLE.sub("", text))


@given(text=texts | st.sampled_from(["%}", "{{ 7 * 7 }}", "-%}", "{% raw %}", "#}", "\\", '"', "\b\f\x00\u2028", "😀"]))
@settings(max_examples=50, deadline=None)
def test_a_text_stays_what_it_is(text: str) -> None:
    rendered = FileTemplates({"a": text}, {"source": {"b": text}}).render("x", b"{{ a }}|{{ values.a }}|{{ source.b }}")
    assert rendered.decode() == "|".join([text] * 3)


@given(value=values_of(texts))
@settings(max_examples=50, deadline=None)
def test_any_value_reaches_the_template_as_it_is(value: Any) -> None:
    rendered = FileTemplates({"a": value}, {}).render("x", b"{{ a|tojson }}")
    assert json.loads(rendered) == json.loads(json.dumps(value))


@given(value=st.dictionaries(printable, values_of(printable), max_size=4))
@settings(max_examples=50, deadline=None)
def test_json_is_read_alike_as_json_and_as_yaml(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    as_json = [document.value for document in read_documents(text)]
    as_yaml = [document.value for document in read_documents(f"# yaml\n{text}")]
    assert as_json == as_yaml == [value]


def test_names_that_are_taken_or_no_words_are_reached_through_values() -> None:
    known = {"range": 1, "a-b": 2, "loop": 3, "source": 4, "values": 5}
    text = b"{{ values.range }} {{ values['a-b'] }} {{ values.loop }} {{ values.source }} {{ source.name }}"
    assert FileTemplates(known, {"source": {"name": "git"}}).render("x", text) == b"1 2 3 4 git"


def test_values_that_are_nested_too_deeply_are_refused() -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]
    with pytest.raises(BuildError, match="the values are nested more than 50 deep"):
        FileTemplates({"a": value}, {})


def test_a_file_without_marks_is_the_same_object() -> None:
    content = b"plain: ${X} $(y) {a: {b: c} }\n"
    assert FileTemplates({}, {}).render("x", content) is content
