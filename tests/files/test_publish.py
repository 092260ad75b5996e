"""Files are published one by one: what is equal is not touched, what somebody else wrote is kept once."""

import os
from pathlib import Path

import pytest
from tests.files.scene import Gateway, is_executable

from syncline.agent.folder_sync import CheckError
from syncline.core.gateway_plan import PlannedMapping, PlannedSnapshots
from syncline.files.publish import kept_path
from syncline.files.snapshots import snapshots

PROJECT = {
    "projects/a/project.json": "{}",
    "projects/a/views/main/resource.json": '{"files": ["view.json"]}',
    "projects/a/views/main/view.json": '{"v": 1}',
}


def test_a_tree_is_published(gateway: Gateway) -> None:
    work = gateway.publish(PROJECT)
    assert gateway.files() == PROJECT
    assert (work.plan.diff.added, work.plan.diff.modified, work.plan.diff.deleted) == (3, 0, 0)


def test_a_file_with_the_same_content_is_not_touched(gateway: Gateway) -> None:
    gateway.publish(PROJECT)
    before = {path: (gateway.data / path).stat().st_mtime_ns for path in PROJECT}
    inodes = {path: (gateway.data / path).stat().st_ino for path in PROJECT}
    changed = {**PROJECT, "projects/a/views/main/view.json": '{"v": 2}'}
    work = gateway.publish(changed)
    assert work.plan.writes == ("projects/a/views/main/view.json",)
    assert gateway.fetched[3:] == [gateway.sync.manifest.files["projects/a/views/main/view.json"].blob]
    same = [path for path in PROJECT if path != "projects/a/views/main/view.json"]
    assert {path: (gateway.data / path).stat().st_mtime_ns for path in same} == {path: before[path] for path in same}
    assert {path: (gateway.data / path).stat().st_ino for path in same} == {path: inodes[path] for path in same}


def test_the_same_plan_again_fetches_and_writes_nothing(gateway: Gateway) -> None:
    plan = gateway.repository.plan(PROJECT)
    gateway.carry_out(plan)
    manifest = gateway.data / ".syncline/manifest.json"
    before = manifest.stat().st_mtime_ns
    gateway.restart()
    gateway.fetched.clear()
    work = gateway.carry_out(plan)
    assert not work.plan.changes
    assert gateway.fetched == []
    assert manifest.stat().st_mtime_ns == before


def test_payloads_come_before_the_resource_file_that_lists_them(gateway: Gateway) -> None:
    work = gateway.stage(gateway.repository.plan({"r/resource.json": '{"files": ["z"]}', "r/z": "1", "r/b": "2"}))
    assert work.plan.writes == ("r/b", "r/z", "r/resource.json")
    gateway.sync.publish(work)
    gone = gateway.stage(gateway.repository.plan({"other": ""}))
    assert gone.plan.deletes == ("r/resource.json", "r/b", "r/z")


def test_an_equal_file_that_was_there_is_taken_into_the_manifest(gateway: Gateway) -> None:
    (gateway.data / "a").write_text("same")
    before = (gateway.data / "a").stat()
    work = gateway.publish({"a": "same"})
    assert work.plan.taken == ("a",)
    assert gateway.fetched == []
    assert (gateway.data / "a").stat().st_mtime_ns == before.st_mtime_ns
    gateway.publish({"b": ""})
    assert gateway.files() == {"b": ""}


def test_a_different_file_that_was_there_is_replaced_and_kept_once(gateway: Gateway) -> None:
    (gateway.data / "folder").mkdir()
    (gateway.data / "folder/a").write_text("of the gateway")
    gateway.publish({"folder/a": "of Git"})
    assert gateway.files() == {"folder/a": "of Git"}
    kept = gateway.data / kept_path("folder/a")
    assert kept.read_text() == "of the gateway"
    gateway.publish({})
    (gateway.data / "folder").mkdir(exist_ok=True)
    (gateway.data / "folder/a").write_text("another one")
    gateway.publish({"folder/a": "of Git again"})
    assert kept.read_text() == "of the gateway"


def test_files_that_are_not_in_the_manifest_are_never_deleted(gateway: Gateway) -> None:
    gateway.publish(PROJECT)
    (gateway.data / "projects/a/views/main/thumbnail.png").write_text("of the gateway")
    gateway.publish({"projects/b/project.json": "{}"})
    assert gateway.files() == {
        "projects/b/project.json": "{}",
        "projects/a/views/main/thumbnail.png": "of the gateway",
    }


def test_folders_that_become_empty_go_but_those_of_a_mapping_stay(gateway: Gateway) -> None:
    mappings = (PlannedMapping("p", "projects"), PlannedMapping("c", "config/resources/external"))
    gateway.publish({**PROJECT, "config/resources/external/x/y/z": ""}, mappings=mappings)
    gateway.publish({"projects/b/project.json": "{}"}, mappings=mappings)
    assert not (gateway.data / "projects/a").exists()
    assert not (gateway.data / "config/resources/external/x").exists()
    assert (gateway.data / "config/resources/external").is_dir()


def test_executable_files_are_executable_and_only_those(gateway: Gateway) -> None:
    gateway.publish({"run.sh": "1", "data": "2"}, executable=frozenset({"run.sh"}))
    assert is_executable(gateway.data / "run.sh")
    assert not is_executable(gateway.data / "data")
    before = (gateway.data / "run.sh").stat().st_mtime_ns
    work = gateway.publish({"run.sh": "1", "data": "2"})
    assert work.plan.modes == ("run.sh",)
    assert not is_executable(gateway.data / "run.sh")
    assert (gateway.data / "run.sh").stat().st_mtime_ns == before


def test_a_file_becomes_a_folder_and_a_folder_a_file(gateway: Gateway) -> None:
    gateway.publish({"a": "file", "b/c": "below", "b/d/e": "deep"})
    gateway.publish({"a/x": "below", "b": "file"})
    assert gateway.files() == {"a/x": "below", "b": "file"}
    gateway.publish({"a": "file", "b/c": "below"})
    assert gateway.files() == {"a": "file", "b/c": "below"}


def test_a_folder_with_files_of_the_gateway_is_not_replaced_by_a_file(gateway: Gateway) -> None:
    (gateway.data / "b").mkdir()
    (gateway.data / "b/own").write_text("mine")
    with pytest.raises(CheckError, match="b is a folder in the data folder") as raised:
        gateway.publish({"a": "1", "b": "file"})
    assert raised.value.reason == "PathBlocked"
    assert gateway.files() == {"b/own": "mine"}


def test_a_file_of_the_gateway_in_the_way_of_a_folder_is_named_and_nothing_is_published(gateway: Gateway) -> None:
    (gateway.data / "a").write_text("mine")
    with pytest.raises(CheckError, match="a is in the way of a/b and is not a folder"):
        gateway.publish({"a/b": "1", "c": "2"})
    assert gateway.files() == {"a": "mine"}


def test_pipes_and_devices_are_named_and_never_opened(gateway: Gateway) -> None:
    os.mkfifo(gateway.data / "a")
    with pytest.raises(CheckError, match="a is a device, socket or pipe"):
        gateway.publish({"a": "1"})


def test_one_blob_for_many_files_is_fetched_once(gateway: Gateway) -> None:
    gateway.publish({f"copy/{number}": "same content" for number in range(5)})
    assert len(gateway.fetched) == 1
    assert gateway.files() == {f"copy/{number}": "same content" for number in range(5)}


def test_nothing_stays_staged_after_a_publish(gateway: Gateway) -> None:
    gateway.publish(PROJECT)
    assert sorted(path.name for path in (gateway.data / ".syncline").iterdir()) == ["lock", "manifest.json"]


def test_a_snapshot_has_what_a_publish_replaces_and_only_the_newest_are_kept(gateway: Gateway) -> None:
    keep = {"snapshots": PlannedSnapshots(2)}
    gateway.publish({"a": "1", "b": "1"}, **keep)
    gateway.publish({"a": "2", "b": "1", "c": "new"}, **keep)
    newest = snapshots(gateway.sync.folder)[-1]
    place = gateway.data / ".syncline/snapshots" / newest
    assert (place / "files/a").read_text() == "1"
    assert not (place / "files/b").exists()
    assert '"added":["c"]' in (place / "snapshot.json").read_text()
    for number in range(5):
        gateway.publish({"a": str(number + 3), "b": "1", "c": "new"}, **keep)
    kept = snapshots(gateway.sync.folder)
    assert len(kept) == 2
    assert (gateway.data / ".syncline/snapshots" / kept[-1] / "files/a").read_text() == "6"


def test_a_snapshot_does_not_change_when_the_gateway_writes_to_its_files(gateway: Gateway) -> None:
    gateway.publish({"a": "1"})
    gateway.publish({"a": "2"}, snapshots=PlannedSnapshots(1))
    with (gateway.data / "a").open("r+") as file:
        file.write("in place")
    (snapshot,) = snapshots(gateway.sync.folder)
    assert (gateway.data / ".syncline/snapshots" / snapshot / "files/a").read_text() == "1"


def test_long_names_are_published_and_kept(gateway: Gateway) -> None:
    name = "x" * 255
    (gateway.data / name).write_text("mine")
    gateway.publish({name: "of Git"})
    assert (gateway.data / kept_path(name)).read_text() == "mine"


def test_the_data_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "volume")
    gateway = Gateway(tmp_path / "data")
    gateway.publish({"a": "1"})
    gateway.sync.close()
    assert (tmp_path / "volume/a").read_text() == "1"
