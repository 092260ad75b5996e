"""What each transform does, and what a wrong one says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.api.content import Replace, Transform
from syncline.render.errors import TransformError
from syncline.render.transforms import apply, uses_target
from syncline.render.workers.protocol import TransformSource, TransformTarget

MIB = 1024 * 1024
SOURCE = TransformSource("team-a", "settings")
TARGET = TransformTarget("team-b", "settings-copy")


def set_(key: str, value: str) -> Transform:
    return Transform(key=key, set=value)


def replace(key: str, pattern: str, with_: str = "") -> Transform:
    return Transform(key=key, replace=Replace(pattern=pattern, with_=with_))


def template(key: str, text: str) -> Transform:
    return Transform(key=key, template=text)


def render(
    data: dict[str, str],
    *transforms: Transform,
    binary: dict[str, str] | None = None,
    target: TransformTarget | None = TARGET,
) -> dict[str, str]:
    return apply(transforms, data, binary or {}, SOURCE, target)


def refusal(data: dict[str, str], *transforms: Transform, binary: dict[str, str] | None = None) -> TransformError:
    with pytest.raises(TransformError) as caught:
        render(data, *transforms, binary=binary)
    return caught.value


@pytest.mark.parametrize(
    ("data", "transform", "expected"),
    [
        ({"a": "1"}, set_("a", "2"), {"a": "2"}),
        ({"a": "1"}, set_("b", "2"), {"a": "1", "b": "2"}),
        ({"a": "1"}, set_("b*", "2"), {"a": "1"}),
        ({"a.conf": "1", "b.conf": "1", "c": "1"}, set_("*.conf", "2"), {"a.conf": "2", "b.conf": "2", "c": "1"}),
        ({"a1": "1", "a10": "1"}, set_("a?", "2"), {"a1": "2", "a10": "1"}),
        ({"A": "1", "a": "1"}, set_("a", "2"), {"A": "1", "a": "2"}),
        ({"a": "1"}, set_("a", ""), {"a": ""}),
        ({"a": "{{ x }}"}, set_("a", "{{ value }}"), {"a": "{{ value }}"}),
        ({"a": "one two"}, replace("a", "o"), {"a": "ne tw"}),
        ({"a": "k=v\nl=w"}, replace("a", r"(?m)^(\w)=(\w)$", r"\2=\1"), {"a": "v=k\nw=l"}),
        ({"a": "host"}, replace("a", "host", r"[\0]"), {"a": "[host]"}),
        ({"a": "x"}, replace("a", "x", r"C:\\dir"), {"a": r"C:\dir"}),
        ({"a": "ac"}, replace("a", "a(b)?c", r"<\1>"), {"a": "<>"}),
        ({"a": "ä€😀"}, replace("a", "", "-"), {"a": "-ä-€-😀-"}),
        ({"a": "ä€😀"}, replace("a", "€", "euro"), {"a": "äeuro😀"}),
        ({"a": "1"}, replace("b", "1", "2"), {"a": "1"}),
        ({"a": "1"}, template("b", "x"), {"a": "1"}),
        ({"a": "v"}, template("a", "{{ key }}={{ value|upper }}"), {"a": "a=V"}),
        ({"a": ""}, template("a", "{{ source.namespace }}/{{ source.name }}"), {"a": "team-a/settings"}),
        ({"a": ""}, template("a", "{{ target.namespace }}/{{ target.name }}"), {"a": "team-b/settings-copy"}),
        ({"a": ""}, template("a", "{% set target = target.name %}{{ target }}"), {"a": "settings-copy"}),
        ({"a": "<&>"}, template("a", "{{ value }}"), {"a": "<&>"}),
        ({"a": "x\n"}, template("a", "[{{ value }}]\n"), {"a": "[x\n]\n"}),
        ({"a": "1,2"}, template("a", "{% for n in value.split(',') %}<{{ n }}>{% endfor %}"), {"a": "<1><2>"}),
        ({"a": "v"}, template("a", "{{ other|default('none') }}"), {"a": "none"}),
    ],
)
def test_a_transform_changes_the_keys_that_match(
    data: dict[str, str], transform: Transform, expected: dict[str, str]
) -> None:
    assert render(data, transform) == expected


def test_transforms_apply_in_order() -> None:
    assert render({"a": "1"}, template("a", "{{ value }}2"), replace("*", "2", "3"), set_("b", "4")) == {
        "a": "13",
        "b": "4",
    }


def test_the_given_data_is_left_as_it_is() -> None:
    data = {"a": "1"}
    render(data, set_("a", "2"))
    assert data == {"a": "1"}


@settings(deadline=None)
@given(value=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_value_is_never_itself_a_template(value: str) -> None:
    assert render({"a": value + "{{ value }}"}, template("a", "{{ value }}")) == {"a": value + "{{ value }}"}


@settings(deadline=None)
@given(value=st.text(st.characters(exclude_categories=["Cs"])))
def test_replacing_nothing_leaves_any_text_as_it_is(value: str) -> None:
    assert render({"a": value}, replace("a", "", "")) == {"a": value}


@pytest.mark.parametrize(
    ("transform", "cause", "line"),
    [
        (template("a", "x\n{{ value"), "unexpected end of input", 2),
        (template("a", "x\n\n{{ nothing }}"), "an undefined value", 3),
        (template("a", "{{ value|shout }}"), "filter shout is unknown", 1),
        (template("a", "{{ now() }}"), "now is unknown", 1),
        (template("a", "{{ value.shout() }}"), "no method named shout", 1),
        (template("a", "{{ debug() }}"), "debug is unknown", 1),
        (template("a", "{{ value + 1 }}"), "an operation that its operands do not allow", 1),
        (template("a", "{% include 'x' %}"), "include, import and extends are not available", 1),
        (template("a", "{% import 'x' as y %}"), "include, import and extends are not available", 1),
        (template("a", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"), "steps", 1),
        (replace("a", "("), "the pattern is not RE2: missing )", None),
        (replace("a", "(?=x)"), "the pattern is not RE2: invalid perl operator", None),
        (replace("a", r"(x)\1"), "the pattern is not RE2: invalid escape sequence", None),
        (replace("a", "(x)", r"\2"), r"the replacement names group \2; the pattern has 1", None),
        (replace("a", "x", r"\n"), r"write \\ for itself", None),
        (replace("a", "x", "\\"), r"write \\ for itself", None),
        (Transform(key="a"), "exactly one of set, replace and template", None),
        (Transform(key="a", set="", template=""), "exactly one of set, replace and template", None),
    ],
)
def test_a_wrong_transform_says_which_one_where_and_why(transform: Transform, cause: str, line: int | None) -> None:
    error = refusal({"a": "x"}, set_("first", "1"), transform)
    assert (error.index, error.key, error.line) == (1, "a", line)
    assert cause in error.cause
    assert str(error).startswith("transforms[1], key a")


@pytest.mark.parametrize(
    "text",
    [
        "{% include value %}",
        "{% extends value %}",
        "{% from value import x %}",
        "{{ [1]|map(value)|list }}",
        "{{ [1]|select(value)|list }}",
        "{{ value|int }}",
        "{{ value.split('.')[1]|int ** 999 }}",
        "{{ (value.split('.')[1]|int) // 0 }}",
        "{{ value[value] }}",
        "{{ value() }}",
        "{{ range(value) }}",
        "{{ '%d'|format(value) }}",
        "{{ value|dictsort(by=value) }}",
        "{{ {}[value].x }}",
    ],
)
def test_an_error_never_quotes_a_value(text: str) -> None:
    error = refusal({"a": "canary.31337"}, template("a", text))
    assert "canary" not in str(error)
    assert "31337" not in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "{{ value.__class__ }}",
        "{{ source.__class__ }}",
        "{{ source.keys }}",
        "{{ source.clear() }}",
        "{{ source.__init__.__globals__ }}",
        "{{ source|attr('__class__') }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ range.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ lipsum.__globals__['os'] }}",
        "{{ request.application }}",
        "{{ config.items() }}",
        "{{ get_flashed_messages.__globals__ }}",
        "{{ (1).__class__ }}",
        "{{ [].append.__self__ }}",
        "{{ namespace.__init__ }}",
    ],
)
def test_there_is_no_way_from_a_template_to_python(text: str) -> None:
    assert refusal({"a": "x"}, template("a", text)).line == 1


def test_a_transform_that_names_a_binary_key_is_refused() -> None:
    error = refusal({"a": "1"}, set_("logo.png", "x"), binary={"logo.png": "AAAA"})
    assert "binaryData" in error.cause


def test_a_glob_passes_over_binary_keys() -> None:
    assert render({"a": "1"}, set_("*", "2"), binary={"logo.png": "AAAA"}) == {"a": "2"}


@pytest.mark.parametrize(
    "transform",
    [
        template("a", "{{ value }}{{ value }}"),
        template("a", "{% for i in range(2000) %}{{ '0123456789' * 100 }}{% endfor %}"),
        replace("a", "x", "y" * 1000),
        replace("a", "", "y" * 1000),
    ],
)
def test_a_value_larger_than_a_config_map_may_be_is_refused(transform: Transform) -> None:
    error = refusal({"a": "x" * (MIB // 2 + 1)}, transform)
    assert "larger than 1 MiB" in error.cause


def test_a_value_of_just_1_mib_passes() -> None:
    assert len(render({"a": "x" * (MIB // 2)}, template("a", "{{ value }}{{ value }}"))["a"]) == MIB


def test_size_is_counted_in_bytes() -> None:
    assert "larger than 1 MiB" in refusal({"a": "ä" * (MIB // 4)}, template("a", "{{ value }}{{ value }}ä")).cause


def test_all_values_together_may_be_1_mib_binary_included() -> None:
    half = "x" * (MIB // 2)
    assert "larger than 1 MiB" in refusal({"a": half, "b": half}, set_("c", "x")).cause
    assert "larger than 1 MiB" in refusal({"a": half}, set_("c", "x"), binary={"b": "AAAA" * (MIB // 6 + 1)}).cause
    assert render({"a": half}, set_("c", "x"), binary={"b": "AAAA" * (MIB // 6 - 2)})["c"] == "x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ value }}", False),
        ("{{ source.name }}", False),
        ("targetPort: 80", False),
        ("{{ target.name }}", True),
        ("{% set target = target.name %}{{ target }}", True),
        ("{% macro m() %}{{ target.name }}{% endmacro %}{{ m() }}", True),
        ("{{ {'a': target}['a'].name }}", True),
    ],
)
def test_only_templates_that_name_the_target_depend_on_it(text: str, expected: bool) -> None:
    assert uses_target([set_("a", "target"), template("a", text)]) is expected


def test_what_does_not_depend_on_the_target_renders_without_one() -> None:
    assert render({"a": "1"}, template("a", "targetPort: {{ value }}"), target=None) == {"a": "targetPort: 1"}
