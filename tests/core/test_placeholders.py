"""Templates with variables and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.placeholders import TemplateError, fill, fill_texts

VARIABLES = {"namespace": "shop", "target.labels.topology.kubernetes.io/zone": "eu-1", "workspace.name": "team"}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("plain } text {", "plain } text {"),
        ("{{ workspace.name }}-{{namespace}}", "team-shop"),
        ("{{ target.labels.topology.kubernetes.io/zone }}", "eu-1"),
        ('{{ target.labels["topology.kubernetes.io/zone"] }}', "eu-1"),
        ("{{ target.labels['topology.kubernetes.io/zone'] }}", "eu-1"),
        ('{{ "{{" }} .Values.a {{ "}}" }}', "{{ .Values.a }}"),
        ("{{ '' }}a", "a"),
        ("{{ namespace }}}}", "shop}}"),
    ],
)
def test_variables_are_replaced_by_their_values(template: str, text: str) -> None:
    assert fill(template, VARIABLES) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ }}",
        "{{ other }}",
        "{{ namespace | upper }}",
        "{{ namespace.__class__ }}",
        "{{ 7 * 7 }}",
        "{{ range() }}",
        "{{ workspace['name }}",
    ],
)
def test_any_other_expression_is_refused_with_the_list_of_variables(template: str) -> None:
    with pytest.raises(TemplateError, match=r"the variables are namespace, target.*, workspace\.name"):
        fill(template, VARIABLES)


@pytest.mark.parametrize("template", ["{{", "a {{ namespace", "{{ namespace }", '{{ "a }}', '{{ "a" b }}'])
def test_what_is_open_is_refused(template: str) -> None:
    with pytest.raises(TemplateError, match="}}"):
        fill(template, VARIABLES)


def test_a_value_is_never_read_as_a_template() -> None:
    assert fill("{{ a }}", {"a": "{{ b }}", "b": "no"}) == "{{ b }}"


def test_all_texts_inside_a_value_are_filled() -> None:
    value = {"{{ namespace }}": ["{{ namespace }}", 1, None, {"a": "x{{ workspace.name }}"}]}
    assert fill_texts(value, VARIABLES) == {"{{ namespace }}": ["shop", 1, None, {"a": "xteam"}]}


@quick
@given(st.text(st.sampled_from("{}\"'[] na.")), st.text())
def test_a_template_is_filled_or_refused(template: str, value: str) -> None:
    try:
        text = fill(template, {"n": value, "a": value})
    except TemplateError:
        assert "{{" in template
    else:
        assert "{{" in template or text == template
