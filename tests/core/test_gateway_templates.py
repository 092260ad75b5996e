"""Templates of gateways, in both spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.gateway_templates import MAX_RENDERED, TemplateError, is_template, render

VALUES = {
    "gateway.name": "site",
    "gateway.pod": "site-gateway-1",
    "gateway.ordinal": "1",
    "gateway.servicePath": "services/site",
    "namespace": "plant",
    "sync.name": "proveit",
    "ref": "v2.0.0",
    "commit": "0123456789abcdef",
    "vars.site": "7",
    "vars.siteNumber": "8",
    "labels.app": "ignition",
    "labels.app.kubernetes.io/name": "gateway",
}
BOTH = [
    ("{{ gateway.name }}", "{{.GatewayName}}", "site"),
    ("{{ gateway.pod }}", "{{ .PodName }}", "site-gateway-1"),
    ("{{ gateway.ordinal }}", "{{.PodOrdinal}}", "1"),
    ("{{ gateway.servicePath }}/x", "{{.ServicePath}}/x", "services/site/x"),
    ("{{ namespace }}", "{{.Namespace}}", "plant"),
    ("{{ sync.name }}", "{{.CRName}}", "proveit"),
    ("{{ ref }}-{{ commit }}", "{{.Ref}}-{{.Commit}}", "v2.0.0-0123456789abcdef"),
    ("site{{ vars.site }}", "site{{.Vars.site}}", "site7"),
    ("{{ vars.siteNumber }}", "{{.SiteNumber}}", "8"),
    ("{{ labels.app }}", "{{.Labels.app}}", "ignition"),
    ('{{ labels["app.kubernetes.io/name"] }}', '{{ index .Labels "app.kubernetes.io/name" }}', "gateway"),
]


@pytest.mark.parametrize(("ours", "go", "text"), BOTH)
def test_both_spellings_mean_the_same(ours: str, go: str, text: str) -> None:
    assert (render(ours, VALUES), render(go, VALUES)) == (text, text)


@pytest.mark.parametrize(
    "template",
    [
        "{{ gateway.nam }}",
        "{{.GatewayNam}}",
        "{{ GatewayName }}",
        "{{.Vars.other}}",
        "{{ vars.other }}",
        "{{.Vars}}",
        "{{.Labels.other}}",
        '{{ index .Labels "other" }}',
        "{{.gateway.name}}",
    ],
)
def test_a_name_without_a_value_is_an_error_that_lists_the_names(template: str) -> None:
    with pytest.raises(TemplateError, match=r"is no variable here: the variables are commit, gateway\.name, .*vars"):
        render(template, VALUES)


@pytest.mark.parametrize(
    "template",
    [
        "{{ gateway.name | upper }}",
        '{{ printf "%s" .GatewayName }}',
        "{{ if .GatewayName }}a{{ end }}",
        "{{- .GatewayName -}}",
        "{{ range .Labels }}",
        '{{ env "HOME" }}',
        "{{/* comment */}}",
    ],
)
def test_there_are_no_functions(template: str) -> None:
    with pytest.raises(TemplateError, match="is no variable here"):
        render(template, VALUES)


def test_a_value_is_never_read_as_a_template() -> None:
    assert render("{{ vars.a }}", {"vars.a": "{{ vars.b }}", "vars.b": "no"}) == "{{ vars.b }}"


def test_braces_of_other_templates_can_be_written() -> None:
    assert render('{{ "{{" }} view.params {{ "}}" }}', VALUES) == "{{ view.params }}"


def test_the_result_has_a_limit_however_often_a_value_is_used() -> None:
    values = {"vars.a": "v" * 1024}
    with pytest.raises(TemplateError, match=f"more than {MAX_RENDERED} characters"):
        render("{{ vars.a }}" * (MAX_RENDERED // 1024 + 1), values)
    with pytest.raises(TemplateError, match=f"more than {MAX_RENDERED} characters"):
        render("a" * (MAX_RENDERED + 1), values)


@quick
@given(st.text(alphabet=st.sampled_from("ab{}. \n'\""), max_size=40))
def test_a_text_is_rendered_or_refused_and_never_anything_else(text: str) -> None:
    try:
        rendered = render(text, VALUES)
    except TemplateError:
        assert is_template(text)
    else:
        assert rendered == text or is_template(text)
