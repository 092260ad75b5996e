"""Which files change from one plan of a gateway to another."""

from tests.files.scene import Repository

from syncline.core.gateway_diff import file_changes
from syncline.core.gateway_plan import FileRules, PlannedMapping


def test_files_are_added_modified_and_deleted() -> None:
    made = Repository()
    before = made.plan({"a": "1", "b": "1", "c": "1"})
    changes = file_changes(before, made.plan({"a": "1", "b": "2", "d": "1"}))
    assert (changes.added, changes.modified, changes.deleted) == (("d",), ("b",), ("c",))
    assert changes.any
    assert not file_changes(before, before).any


def test_a_gateway_whose_files_are_not_known_gets_all() -> None:
    assert file_changes(None, Repository().plan({"a": "1", "b": "2"})).added == ("a", "b")


def test_a_plan_that_does_not_publish_changes_nothing() -> None:
    made = Repository()
    assert not file_changes(made.plan({"a": "1"}), made.plan({}, action="Hold")).any


def test_another_mode_is_a_change() -> None:
    made = Repository()
    assert file_changes(made.plan({"a": "1"}), made.plan({"a": "1"}, executable=frozenset({"a"}))).modified == ("a",)


def test_nothing_is_deleted_while_the_source_of_a_mapping_is_missing() -> None:
    made = Repository()
    before = made.plan({"x/a": "1", "y/b": "1"}, mappings=(PlannedMapping("x", "x"), PlannedMapping("y", "y")))
    after = made.plan({}, mappings=(PlannedMapping("x", "x", missing=True), PlannedMapping("y", "y")))
    assert file_changes(before, after).deleted == ("y/b",)


def test_a_template_changes_with_its_values_and_not_with_every_commit() -> None:
    made, mappings = Repository(), (PlannedMapping("files", "", template=True),)

    def rules(site: str, commit: str) -> FileRules:
        return FileRules(values={"vars.site": site, "commit": commit, "ref": "main"})

    before = made.plan({"a": "{{ vars.site }}"}, mappings=mappings, rules=rules("7", "c1"))
    same = made.plan({"a": "{{ vars.site }}"}, mappings=mappings, rules=rules("7", "c2"))
    other = made.plan({"a": "{{ vars.site }}"}, mappings=mappings, rules=rules("8", "c1"))
    assert not file_changes(before, same).any
    assert file_changes(before, other).modified == ("a",)
