"""Links in the data folder lead nowhere: nothing outside is read, written or deleted."""

from contextlib import suppress
from pathlib import Path

import pytest
from tests.files.scene import Gateway

from syncline.agent.folder_sync import CheckError
from syncline.files.errors import FilesError
from syncline.files.folder import Folder
from syncline.files.publish import kept_path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_text("of the machine")
    return outside


def test_a_link_to_a_folder_is_not_followed_when_files_are_written(gateway: Gateway, outside: Path) -> None:
    (gateway.data / "projects").symlink_to(outside)
    with pytest.raises(CheckError, match="projects is in the way of projects/passwd and is not a folder"):
        gateway.publish({"projects/passwd": "of Git", "other": "1"})
    assert (outside / "passwd").read_text() == "of the machine"
    assert [path.name for path in outside.iterdir()] == ["passwd"]
    assert not (gateway.data / "other").exists()


def test_a_link_to_a_folder_is_not_followed_when_files_are_deleted(gateway: Gateway, outside: Path) -> None:
    gateway.publish({"projects/passwd": "of Git", "other": "1"})
    (gateway.data / "projects/passwd").unlink()
    (gateway.data / "projects").rmdir()
    (gateway.data / "projects").symlink_to(outside)
    gateway.publish({"other": "1"})
    assert (outside / "passwd").read_text() == "of the machine"


def test_a_link_in_the_place_of_a_file_is_replaced_and_its_target_stays(gateway: Gateway, outside: Path) -> None:
    (gateway.data / "a").symlink_to(outside / "passwd")
    gateway.publish({"a": "of Git"})
    assert not (gateway.data / "a").is_symlink()
    assert (gateway.data / "a").read_text() == "of Git"
    assert (outside / "passwd").read_text() == "of the machine"
    assert (gateway.data / kept_path("a")).readlink() == outside / "passwd"


def test_a_link_with_the_wanted_content_behind_it_is_no_file(gateway: Gateway, outside: Path) -> None:
    (gateway.data / "a").symlink_to(outside / "passwd")
    work = gateway.publish({"a": "of the machine"})
    assert work.plan.writes == ("a",)
    assert not (gateway.data / "a").is_symlink()


def test_a_managed_file_that_became_a_link_is_repaired_and_its_target_stays(gateway: Gateway, outside: Path) -> None:
    gateway.publish({"a": "of Git"})
    (gateway.data / "a").unlink()
    (gateway.data / "a").symlink_to(outside / "passwd")
    assert gateway.sync.drifted() == ("a",)
    gateway.publish({"a": "of Git"})
    assert gateway.files() == {"a": "of Git"}
    assert (outside / "passwd").read_text() == "of the machine"


@pytest.mark.parametrize("name", ["manifest.json", "publishing.json", "stage", "replaced", "snapshots", "lock"])
def test_links_in_the_agents_own_folder_lead_nowhere(tmp_path: Path, outside: Path, name: str) -> None:
    data = tmp_path / "data"
    (data / ".syncline").mkdir(parents=True)
    (data / ".syncline" / name).symlink_to(outside / ("passwd" if "." in name or name == "lock" else ""))
    with suppress(FilesError):
        gateway = Gateway(data)
        (data / "a").write_text("mine")
        with suppress(FilesError):
            gateway.publish({"a": "1"})
        gateway.sync.close()
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("passwd", "of the machine")]


def test_the_agents_own_folder_is_not_a_link(tmp_path: Path, outside: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / ".syncline").symlink_to(outside)
    with pytest.raises(FilesError, match=r"\.syncline is not a folder"):
        Gateway(data)
    assert [path.name for path in outside.iterdir()] == ["passwd"]


def test_a_tree_that_is_removed_may_have_links(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "data/.syncline/stage/deep").mkdir(parents=True)
    (tmp_path / "data/.syncline/stage/link").symlink_to(outside)
    (tmp_path / "data/.syncline/stage/deep/link").symlink_to(outside / "passwd")
    with Folder(tmp_path / "data") as folder:
        folder.remove_tree(".syncline/stage")
    assert not (tmp_path / "data/.syncline/stage").exists()
    assert (outside / "passwd").read_text() == "of the machine"


def test_many_folders_do_not_use_up_open_files(gateway: Gateway) -> None:
    files = {f"folder-{number}/a/b/file": str(number) for number in range(300)}
    gateway.publish(files)
    gateway.publish({path: f"{content} again" for path, content in files.items()})
    assert gateway.sync.drifted() == ()
    assert len(gateway.sync.folder._open) < 200
