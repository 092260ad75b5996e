"""A publish that ends at any change of the disk leaves a folder that the next attempt makes right."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.files.faults import Disk, KilledError, full_from, killed_at
from tests.files.scene import Gateway, tree

from syncline.core.gateway_plan import GatewayPlan, PlannedSnapshots
from syncline.files.errors import FilesError

BEFORE = {
    "projects/a/project.json": "{}",
    "projects/a/v/resource.json": '{"files": ["view.json"]}',
    "projects/a/v/view.json": '{"v": 1}',
    "projects/old/project.json": "{}",
    "shape": "a file",
}
AFTER = {
    "projects/a/project.json": "{}",
    "projects/a/v/resource.json": '{"files": ["view.json", "more.json"]}',
    "projects/a/v/view.json": '{"v": 2}',
    "projects/a/v/more.json": "{}",
    "projects/new/project.json": '{"new": true}',
    "shape/now": "a folder",
    "taken": "equal",
}
OWN = {"projects/a/v/thumbnail.png": "of the gateway", "config/local/uuid": "1", "foreign": "mine"}
REPLACED = {"projects/new/project.json": "of the gateway"}


def prepared(data: Path) -> tuple[Gateway, GatewayPlan]:
    """Return a gateway with files of its own and of an earlier commit, and the plan of the next commit."""
    gateway = Gateway(data)
    gateway.publish(BEFORE)
    for path, content in {**OWN, **REPLACED, "taken": "equal"}.items():
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_text(content)
    return gateway, gateway.repository.plan(AFTER, snapshots=PlannedSnapshots(2))


def count_changes(data: Path) -> int:
    gateway, plan = prepared(data)
    disk = Disk()
    with disk.counted():
        gateway.carry_out(plan)
    gateway.sync.close()
    assert tree(data) == {**AFTER, **OWN}
    return disk.changes


@pytest.fixture(scope="module", autouse=True)
def fast_disk() -> Iterator[None]:
    """Do not wait for the disk: a process that ends takes nothing along that it has written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        yield


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> int:
    return count_changes(tmp_path_factory.mktemp("counted") / "data")


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / f"data-{number}" for number in range(10_000))


def test_a_publish_that_is_killed_at_any_change_is_finished_by_the_next_start(
    changes: int, folders: Iterator[Path]
) -> None:
    assert changes > 40
    for number in range(1, changes + 1):
        data = next(folders)
        gateway, plan = prepared(data)
        with Disk().counted(killed_at(number)), pytest.raises(KilledError):
            gateway.carry_out(plan)
        for path, content in OWN.items():
            assert (data / path).read_text() == content, f"killed at {number}"
        gateway.restart()
        gateway.carry_out(plan)
        assert gateway.files() == {**AFTER, **OWN}, f"killed at {number}"
        assert (data / ".syncline/replaced/projects/new/project.json.kept").read_text() == "of the gateway"
        gateway.sync.close()


def test_what_a_killed_publish_has_written_is_known_as_ours_when_the_next_commit_drops_it(
    changes: int, folders: Iterator[Path]
) -> None:
    for number in range(1, changes + 1):
        data = next(folders)
        gateway, plan = prepared(data)
        with Disk().counted(killed_at(number)), pytest.raises(KilledError):
            gateway.carry_out(plan)
        gateway.restart()
        gateway.carry_out(gateway.repository.plan({"only": "this"}))
        left = gateway.files()
        gone = {"taken", "projects/new/project.json"}
        assert {path: left[path] for path in left if path not in gone} == {"only": "this", **OWN}, f"killed at {number}"
        # What the gateway wrote goes only if it was replaced or taken before.
        assert left.get("projects/new/project.json", "of the gateway") == "of the gateway"
        assert left.get("taken", "equal") == "equal"
        gateway.sync.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_publish_that_runs_out_of_space_says_so_and_is_finished_when_there_is_space(
    changes: int, folders: Iterator[Path], code: int
) -> None:
    for number in range(1, changes + 1, 1 if code == errno.ENOSPC else 5):
        data = next(folders)
        gateway, plan = prepared(data)
        reason = "FolderReadOnly" if code == errno.EROFS else "DiskFull"
        failed = ""
        with Disk().counted(full_from(number, code)):
            try:
                gateway.carry_out(plan)
            except FilesError as error:
                failed = error.reason
        assert failed in ("", reason), f"full at {number}"
        assert {path: gateway.files()[path] for path in OWN} == OWN
        gateway.sync.reload()
        gateway.carry_out(plan)
        assert gateway.files() == {**AFTER, **OWN}, f"full at {number}"
        gateway.sync.close()


def test_nothing_is_published_while_the_stage_has_no_room(folders: Iterator[Path]) -> None:
    gateway, plan = prepared(next(folders))
    before = gateway.files()
    with Disk().counted(full_from(1)), pytest.raises(FilesError, match="the volume is full"):
        gateway.carry_out(plan)
    assert gateway.files() == before
    gateway.sync.close()
