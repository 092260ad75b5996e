"""Managed files that somebody changes are found; large deletions wait; missing sources prune nothing."""

import os

import pytest
from tests.files.scene import Gateway

from syncline.agent.folder_sync import CheckError
from syncline.core.gateway_plan import PlannedMapping
from syncline.files.publish import kept_path

FILES = {"projects/a/project.json": "{}", "projects/a/view.json": '{"v": 1}'}
MANY = {f"folder/{number}": str(number) for number in range(30)}


def test_a_changed_a_deleted_and_a_new_mode_are_drift_and_a_touched_file_is_not(gateway: Gateway) -> None:
    gateway.publish({**FILES, "c": "1", "d": "1"})
    assert gateway.sync.drifted() == ()
    (gateway.data / "projects/a/view.json").write_text("{}")
    (gateway.data / "c").unlink()
    (gateway.data / "d").touch()
    assert gateway.sync.drifted() == ("c", "projects/a/view.json")
    (gateway.data / "d").chmod(0o755)
    assert gateway.sync.drifted() == ("c", "d", "projects/a/view.json")


def test_an_edit_that_keeps_size_and_time_is_found(gateway: Gateway) -> None:
    gateway.publish({"a": "1"})
    found = (gateway.data / "a").stat()
    (gateway.data / "a").write_text("2")
    os.utime(gateway.data / "a", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert gateway.sync.drifted() == ("a",)


def test_drift_is_repaired_and_the_edit_kept(gateway: Gateway) -> None:
    gateway.publish(FILES)
    (gateway.data / "projects/a/view.json").write_text("edited")
    work = gateway.publish(FILES)
    assert work.plan.drifted == ("projects/a/view.json",)
    assert gateway.files() == FILES
    assert (gateway.data / kept_path("projects/a/view.json")).read_text() == "edited"


def test_drift_that_is_only_reported_stays_until_git_changes_the_file(gateway: Gateway) -> None:
    gateway.publish(FILES, drift="Report")
    (gateway.data / "projects/a/view.json").write_text("edited")
    gateway.fetched.clear()
    work = gateway.publish({**FILES, "new": "1"}, drift="Report")
    assert work.plan.drifted == ("projects/a/view.json",)
    assert (gateway.data / "projects/a/view.json").read_text() == "edited"
    assert len(gateway.fetched) == 1
    gateway.publish({**FILES, "projects/a/view.json": '{"v": 2}'}, drift="Report")
    assert (gateway.data / "projects/a/view.json").read_text() == '{"v": 2}'


def test_an_edited_file_that_git_deletes_is_kept_as_a_copy(gateway: Gateway) -> None:
    gateway.publish(FILES)
    (gateway.data / "projects/a/view.json").write_text("edited")
    gateway.publish({"projects/a/project.json": "{}"})
    assert "projects/a/view.json" not in gateway.files()
    assert (gateway.data / kept_path("projects/a/view.json")).read_text() == "edited"


def test_a_large_deletion_is_held_until_its_digest_is_confirmed(gateway: Gateway) -> None:
    gateway.publish(MANY)
    work = gateway.publish({"folder/1": "1", "new": "x"})
    assert work.plan.deletion is not None
    assert (work.plan.deletion.files, work.plan.deletion.of) == (29, 30)
    assert gateway.files() == {**MANY, "new": "x"}
    gateway.restart()
    gateway.publish({"folder/1": "1", "new": "x"}, confirmed_deletion="another")
    assert gateway.files() == {**MANY, "new": "x"}
    gateway.publish({"folder/1": "1", "new": "x"}, confirmed_deletion=work.plan.deletion.digest)
    assert gateway.files() == {"folder/1": "1", "new": "x"}


def test_a_confirmation_is_for_these_files_and_no_others(gateway: Gateway) -> None:
    gateway.publish(MANY)
    work = gateway.publish({"folder/1": "1"})
    assert work.plan.deletion is not None
    gateway.publish({}, confirmed_deletion=work.plan.deletion.digest)
    assert gateway.files() == MANY


@pytest.mark.parametrize(("before", "after", "held"), [(20, 10, False), (21, 10, True), (10, 0, False), (11, 0, True)])
def test_the_guard_holds_more_than_ten_and_more_than_half(
    gateway: Gateway, before: int, after: int, *, held: bool
) -> None:
    files = {f"folder/{number:02}": "" for number in range(before)}
    gateway.publish(files)
    work = gateway.publish(dict.fromkeys(sorted(files)[:after], ""))
    assert (work.plan.deletion is not None) is held
    assert len(gateway.files()) == (before if held else after)


def test_a_held_deletion_in_the_way_of_new_files_holds_those_too(gateway: Gateway) -> None:
    gateway.publish(MANY)
    work = gateway.publish({"folder": "a file now", "other": "1"})
    assert work.plan.waiting == ("folder",)
    assert gateway.files() == {**MANY, "other": "1"}
    assert work.plan.deletion is not None
    gateway.publish({"folder": "a file now", "other": "1"}, confirmed_deletion=work.plan.deletion.digest)
    assert gateway.files() == {"folder": "a file now", "other": "1"}


def test_a_mapping_whose_source_is_missing_prunes_nothing(gateway: Gateway) -> None:
    mappings = (PlannedMapping("p", "projects"), PlannedMapping("c", "config"))
    gateway.publish({"projects/a": "1", "config/x": "1", "config/y": "1"}, mappings=mappings)
    missing = (PlannedMapping("p", "projects"), PlannedMapping("c", "config", missing=True))
    work = gateway.publish({"projects/b": "2"}, mappings=missing)
    assert gateway.files() == {"projects/b": "2", "config/x": "1", "config/y": "1"}
    assert work.plan.retained == {"config/x", "config/y"}
    gateway.restart()
    gateway.publish({"projects/b": "2", "config/x": "1"}, mappings=mappings)
    assert gateway.files() == {"projects/b": "2", "config/x": "1"}


def test_files_of_a_mapping_that_was_removed_are_deleted(gateway: Gateway) -> None:
    mappings = (PlannedMapping("p", "projects"), PlannedMapping("c", "config"))
    gateway.publish({"projects/a": "1", "config/x": "1"}, mappings=mappings)
    gateway.publish({"projects/a": "1"}, mappings=mappings[:1])
    assert gateway.files() == {"projects/a": "1"}


def test_broken_json_publishes_nothing(gateway: Gateway) -> None:
    gateway.publish(FILES)
    with pytest.raises(CheckError, match=r"projects/a/view.json is not JSON") as raised:
        gateway.publish({**FILES, "projects/a/view.json": '{"v": 2', "new": "1"})
    assert raised.value.reason == "CheckFailed"
    assert gateway.files() == FILES


@pytest.mark.parametrize("content", ["", " ", "\x00", '{"a": "\udcff"}'.encode("utf-8", "surrogateescape")])
def test_a_json_file_that_is_empty_or_not_text_is_not_json(gateway: Gateway, content: str | bytes) -> None:
    with pytest.raises(CheckError, match=r"a\.json"):
        gateway.publish({"a.json": content})


def test_json_may_have_a_byte_order_mark_and_be_any_value(gateway: Gateway) -> None:
    gateway.publish({"a.json": "\ufeff{}", "b.json": "[1, 2]", "c.json": " null\n"})
    assert len(gateway.files()) == 3


def test_a_resource_that_lists_a_file_which_will_not_be_there_publishes_nothing(gateway: Gateway) -> None:
    resource = '{"files": ["view.json", "data.bin"]}'
    with pytest.raises(CheckError, match=r"r/resource.json lists data.bin, which is not there"):
        gateway.publish({"r/resource.json": resource, "r/view.json": "{}"})
    assert gateway.files() == {}
    (gateway.data / "r").mkdir()
    (gateway.data / "r/data.bin").write_text("of the gateway")
    gateway.publish({"r/resource.json": resource, "r/view.json": "{}"})
    assert len(gateway.files()) == 3


def test_a_commit_that_deletes_a_listed_file_publishes_nothing(gateway: Gateway) -> None:
    files = {"r/resource.json": '{"files": ["view.json"]}', "r/view.json": "{}"}
    gateway.publish(files)
    with pytest.raises(CheckError, match=r"lists view\.json"):
        gateway.publish({"r/resource.json": files["r/resource.json"]})
    assert gateway.files() == files


@pytest.mark.parametrize("listed", ['["../secret"]', '["", 7]', "[null]"])
def test_a_resource_cannot_list_what_is_outside_its_folder(gateway: Gateway, listed: str) -> None:
    (gateway.data / "secret").write_text("")
    with pytest.raises(CheckError, match="which is not there"):
        gateway.publish({"r/resource.json": f'{{"files": {listed}}}'})


def test_folders_without_a_resource_file_are_not_judged(gateway: Gateway) -> None:
    gateway.publish({"r/data.bin": "1", "s/resource.json": "[]", "t/resource.json": '{"files": "x"}'})
    assert len(gateway.files()) == 3
