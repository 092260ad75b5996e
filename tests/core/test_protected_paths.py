"""What a gateway keeps for itself is never written, and a path never leaves the folder."""

from typing import get_args

import pytest

from syncline.api.ignitionsync import ProtectedPath
from syncline.core.protected_paths import PROTECTED, is_protected, path_problem


@pytest.mark.parametrize(
    "path",
    [
        ".syncline/manifest.json",
        ".SYNCLINE/lock",
        "projects/.resources/ab/cd",
        "projects/a/.resources",
        ".uuid",
        "config/resources/core/.uuid",
        "config/local/ignition/uuid.txt",
        "config/resources/local/keystore",
        "config/ignition/keys/root.json",
        "config/ignition/tags/valueStore.idb",
        "db/config.idb",
        "DB/config.idb",
        "var/ignition/journal",
        "commissioning.json",
        ".ignition-seed-complete",
    ],
)
def test_what_the_gateway_keeps_for_itself_is_protected(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path",
    ["projects/db/project.json", "config/resources/core/x.json", "variables.json", "config/localized/a", "dbs/a"],
)
def test_what_only_resembles_it_is_not(path: str) -> None:
    assert not is_protected(path)


def test_a_spec_can_name_what_may_be_written_after_all() -> None:
    assert not is_protected("var/ignition/a", ["var"])
    assert is_protected("db/a", ["var"])
    assert not is_protected("config/resources/core/.uuid", [".uuid"])
    assert is_protected("var/.uuid", ["var"])


def test_the_api_names_the_same_paths() -> None:
    assert get_args(ProtectedPath) == PROTECTED


@pytest.mark.parametrize("path", [".syncline/lock", "projects/.resources/a"])
@pytest.mark.parametrize("allowed", [".syncline", ".resources", "projects/.resources", "/"])
def test_the_agents_own_folder_and_the_cache_stay_protected_whatever_a_spec_says(path: str, allowed: str) -> None:
    assert is_protected(path, [allowed])


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "..",
        "a/../b",
        "a//b",
        "./a",
        "a/",
        "a\\b",
        "a\nb",
        "a\x00",
        "x" * 256,
        "x/" * 600 + "x",
        "\ud800",
    ],
)
def test_a_path_that_leaves_the_folder_or_fits_no_file_system_is_refused(path: str) -> None:
    assert path_problem(path)


@pytest.mark.parametrize("path", ["a", "projects/My Project/ü.json", "a/...", "a b/c", ".hidden", "x" * 255])
def test_other_names_are_left_to_their_authors(path: str) -> None:
    assert path_problem(path) == ""
