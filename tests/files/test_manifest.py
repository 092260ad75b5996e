"""The manifest survives restarts; one that is damaged or forged deletes nothing."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.files.scene import Gateway

from syncline.core.gateway_plan import FileRules, PlannedMapping
from syncline.files.errors import FilesError
from syncline.files.folder import Folder
from syncline.files.lock import FolderLock

FILES = {"projects/a/project.json": "{}", "b": "1"}


def manifest(gateway: Gateway) -> Path:
    return gateway.data / ".syncline/manifest.json"


def forge(gateway: Gateway, **files: str) -> None:
    """Write a manifest with these files that looks whole."""
    entry = {"hash": hashlib.sha256(b"mine").hexdigest(), "blob": "", "destination": "", "source": "", "commit": "1"}
    content = json.dumps({"files": dict.fromkeys(files, entry), "commit": "1"}, separators=(",", ":"))
    checksum = hashlib.sha256(content.encode()).hexdigest()
    manifest(gateway).write_text(f'{{"version":1,"checksum":"{checksum}","content":{content}}}')


def test_files_of_an_earlier_process_are_still_managed(gateway: Gateway) -> None:
    gateway.publish(FILES)
    gateway.restart()
    entry = gateway.sync.manifest.files["b"]
    assert (entry.hash, entry.destination) == (hashlib.sha256(b"1").hexdigest(), "")
    gateway.publish({"b": "1"})
    assert gateway.files() == {"b": "1"}


def test_an_entry_names_the_commit_that_has_changed_it_last(gateway: Gateway) -> None:
    gateway.publish(FILES, commit="1" * 40)
    gateway.publish({**FILES, "b": "2"}, commit="2" * 40)
    entries = gateway.sync.manifest.files
    assert (entries["b"].commit, entries["projects/a/project.json"].commit) == ("2" * 40, "1" * 40)
    assert gateway.sync.manifest.commit == "2" * 40


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b"[]", b'{"version": 9, "checksum": "", "content": {}}'])
def test_a_damaged_manifest_deletes_nothing_and_is_set_aside(gateway: Gateway, damage: bytes) -> None:
    gateway.publish(FILES)
    manifest(gateway).write_bytes(damage)
    gateway.restart()
    assert gateway.sync.manifest.damaged
    gateway.publish({"c": "3"})
    assert gateway.files() == {**FILES, "c": "3"}
    assert (gateway.data / ".syncline/manifest.damaged").read_bytes() == damage


def test_a_manifest_with_one_flipped_byte_is_damaged(gateway: Gateway) -> None:
    gateway.publish(FILES)
    content = manifest(gateway).read_text()
    manifest(gateway).write_text(content.replace('"b"', '"c"'))
    (gateway.data / "c").write_text("mine")
    gateway.restart()
    gateway.publish({"d": "4"})
    assert gateway.files() == {**FILES, "c": "mine", "d": "4"}


def test_after_a_damaged_manifest_equal_files_are_managed_again(gateway: Gateway) -> None:
    gateway.publish(FILES)
    manifest(gateway).write_bytes(b"{")
    gateway.restart()
    gateway.publish(FILES)
    gateway.publish({"b": "1"})
    assert gateway.files() == {"b": "1"}


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "db/config.idb", "projects/.resources/x", "a/../../b"])
def test_a_forged_manifest_cannot_name_what_is_never_written(gateway: Gateway, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").write_text("mine")
    (gateway.data / "db").mkdir()
    (gateway.data / "db/config.idb").write_text("mine")
    forge(gateway, **{path: ""})
    gateway.restart()
    gateway.publish({"a": "1"})
    assert (tmp_path / "outside").read_text() == "mine"
    assert gateway.files() == {"db/config.idb": "mine", "a": "1"}


def test_a_manifest_without_an_end_is_not_read_into_memory(gateway: Gateway) -> None:
    gateway.publish(FILES)
    with manifest(gateway).open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    gateway.restart()
    assert gateway.sync.manifest.files == {}
    assert gateway.sync.manifest.damaged


def test_two_agents_do_not_write_to_one_folder(gateway: Gateway) -> None:
    with pytest.raises(FilesError, match="another agent writes to") as raised:
        Gateway(gateway.data)
    assert raised.value.reason == "FolderInUse"


def test_a_folder_can_be_used_after_its_agent_has_ended(gateway: Gateway) -> None:
    gateway.restart()
    gateway.restart()
    with Folder(gateway.data) as folder, pytest.raises(FilesError):
        FolderLock(folder)


def test_a_data_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="nowhere cannot be opened") as raised:
        Folder(tmp_path / "nowhere")
    assert raised.value.reason == "FolderMissing"


def test_a_file_that_is_protected_again_stays_and_is_no_longer_managed(gateway: Gateway) -> None:
    gateway.publish({"var/x": "1", "a": "1"}, rules=FileRules(unprotected=("var",)))
    gateway.publish({"a": "2"})
    assert gateway.files() == {"var/x": "1", "a": "2"}
    assert list(gateway.sync.manifest.files) == ["a"]
    gateway.restart()
    assert not gateway.sync.manifest.damaged
    gateway.publish({"a": "2"}, rules=FileRules(unprotected=("var",)))
    assert gateway.files() == {"var/x": "1", "a": "2"}


def test_a_missing_source_of_files_that_are_protected_again_damages_no_manifest(gateway: Gateway) -> None:
    mappings = (PlannedMapping("files", ""), PlannedMapping("state", "var"))
    gateway.publish({"var/x": "1", "a": "1"}, mappings=mappings, rules=FileRules(unprotected=("var",)))
    missing = (mappings[0], PlannedMapping("state", "var", missing=True))
    gateway.publish({"a": "2"}, mappings=missing)
    gateway.restart()
    assert not gateway.sync.manifest.damaged
    assert list(gateway.sync.manifest.files) == ["a"]
    assert gateway.files() == {"var/x": "1", "a": "2"}
