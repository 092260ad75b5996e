"""The content that a gateway gets: templates, patches and normalization, and nothing else changes."""

import pytest

from syncline.core.gateway_content import ContentRules, FileContentError, render_content, rules_for
from syncline.core.gateway_plan import FieldValue, FileRules, GatewayPlan, JsonPatch, PlannedFile, PlannedMapping

VALUES = {"gateway.name": "blue", "vars.site": "7", "commit": "1" * 40, "labels.tier": "front"}


def plan_of(*mappings: PlannedMapping, rules: FileRules | None = None) -> GatewayPlan:
    return GatewayPlan(
        id="", sync="plant", gateway="blue", action="Publish", mappings=mappings, rules=rules or FileRules()
    )


def rendered(content: str, rules: ContentRules) -> str:
    return render_content("f.json", content.encode(), rules, VALUES)[0].decode()


def applies(patch_file: str, destination: str, path: str) -> bool:
    plan = plan_of(PlannedMapping("s", destination, patches=(JsonPatch({"a": "1"}, patch_file),)))
    return bool(rules_for(PlannedFile(path, "", 0, 0), plan).patches)


def test_a_template_is_rendered_in_both_notations() -> None:
    rules = ContentRules(template=True)
    assert rendered("{{ gateway.name }}-{{.Vars.site}} {{ labels.tier }}\r\n", rules) == "blue-7 front\r\n"


def test_a_name_without_a_value_is_an_error_that_names_the_file() -> None:
    with pytest.raises(FileContentError, match=r"f\.json: .*vars\.other"):
        rendered("{{ vars.other }}", ContentRules(template=True))


@pytest.mark.parametrize("content", [b"\x89PNG\0\r\n", b"{{ gateway.name }}\0"])
def test_a_binary_file_is_no_template(content: bytes) -> None:
    with pytest.raises(FileContentError, match="binary file"):
        render_content("a.png", content, ContentRules(template=True), VALUES)


def test_a_file_that_is_not_utf8_is_refused_with_its_name() -> None:
    with pytest.raises(FileContentError, match=r"a\.txt: it is not UTF-8"):
        render_content("a.txt", b"caf\xe9", ContentRules(template=True), VALUES)


@pytest.mark.parametrize(
    ("value", "written"),
    [("8043", "8043"), ("true", "true"), ("{{ gateway.name }}", '"blue"'), ('"8043"', '"8043"'), ("a: b", '"a: b"')],
)
def test_the_value_of_a_patch_is_rendered_then_read_as_json_else_taken_as_text(value: str, written: str) -> None:
    rules = ContentRules(patches=(JsonPatch({"a.b": value}),))
    assert (
        rendered('{\n  "a": { "b": null },\n  "z": 1.0 }', rules) == f'{{\n  "a": {{ "b": {written} }},\n  "z": 1.0 }}'
    )


def test_a_patch_of_a_file_that_is_not_json_is_an_error() -> None:
    with pytest.raises(FileContentError, match=r"f\.json: this is not JSON"):
        rendered("a: 1", ContentRules(patches=(JsonPatch({"a": "2"}),)))


def test_a_field_is_set_where_it_is_and_keeps_its_type() -> None:
    rules = ContentRules(fields=(FieldValue("$.site", "7"), FieldValue("deep.port", "80"), FieldValue("none", "x")))
    assert rendered('{"site": "1", "deep": {"port": 1}}', rules) == '{"site": "7", "deep": {"port": 80}}'


def test_the_system_name_is_set_where_a_gateway_reads_it() -> None:
    plan = plan_of(PlannedMapping("s", "config/resources/core"), rules=FileRules(system_name="blue"))
    properties = "config/resources/core/ignition/system-properties/config.json"
    assert rules_for(PlannedFile(properties, "", 0, 0), plan).system_name == "blue"
    assert not rules_for(PlannedFile("config/resources/core/x/config.json", "", 0, 0), plan).any
    assert rendered('{"systemName": "old"}', ContentRules(system_name="{{ it is }}")) == '{"systemName": "{{ it is }}"}'


def test_a_patch_without_a_file_is_for_the_mapped_file() -> None:
    assert applies("", "config/a.json", "config/a.json")
    assert not applies("", "config", "config/a.json")


@pytest.mark.parametrize(
    ("patch", "destination", "path", "expected"),
    [
        ("*.json", "config", "config/a.json", True),
        ("**/config.json", "config", "config/x/y/config.json", True),
        ("**/config.json", "config", "config/config.json", True),
        ("x/*.json", "config", "config/y/a.json", False),
        ("x/*.json", "config", "config/x/a.json", True),
        ("*.json", "", "a.json", True),
        ("*.txt", "config", "config/a.json", False),
    ],
)
def test_a_patch_with_a_glob_is_for_files_below_the_destination(
    patch: str, destination: str, path: str, *, expected: bool
) -> None:
    assert applies(patch, destination, path) is expected


def test_only_a_value_that_was_used_makes_a_file_another_one() -> None:
    rules = ContentRules(template=True)
    _, used = render_content("f", b"{{ gateway.name }}", rules, VALUES)
    recipe = rules.recipe(VALUES, used)
    assert rules.recipe({**VALUES, "commit": "2" * 40}, used) == recipe
    assert rules.recipe({**VALUES, "gateway.name": "red"}, used) != recipe
    assert ContentRules().recipe(VALUES, ()) == ""
