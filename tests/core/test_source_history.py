"""Whether a server has the history in which a source was seen."""

import pytest

from syncline.core.source_history import (
    SourceVersion,
    VersionRange,
    intact,
    is_another,
    is_regressed,
    read_range,
    read_source_version,
    source_version,
    united,
    version_number,
)


def test_a_source_is_written_down_and_read_again() -> None:
    assert read_source_version(source_version("uid", "17")) == SourceVersion("uid", 17)


@pytest.mark.parametrize("version", ["", "abc", "9" * 1000, "-1", "0"])
def test_a_version_that_is_no_number_is_not_written_down(version: str) -> None:
    assert source_version("uid", version) == ""
    assert version_number(version) == 0
    assert read_source_version(f"uid@{version}") is None


@pytest.mark.parametrize(
    ("uid", "version", "went_back"),
    [("uid", "9", True), ("uid", "10", False), ("uid", "11", False), ("another", "9", False), ("uid", "abc", False)],
)
def test_only_an_earlier_version_of_the_same_object_shows_that_its_server_went_back(
    uid: str, version: str, went_back: bool
) -> None:
    assert is_regressed(SourceVersion("uid", 10), uid, version) is went_back
    assert not is_regressed(None, uid, version)


def test_only_objects_that_are_exactly_as_they_were_seen_are_witnesses() -> None:
    seen = [SourceVersion("same", 5), SourceVersion("newer", 6), SourceVersion("edited", 9), SourceVersion("gone", 10)]
    present = {"same": "5", "newer": "6", "edited": "12", "unknown": "20"}
    assert intact(seen, present, 5) == [SourceVersion("newer", 6), SourceVersion("same", 5)]
    assert intact(seen, present, 1) == [SourceVersion("newer", 6)]


@pytest.mark.parametrize(
    ("recorded", "now", "another"),
    [
        ("uid@5", "uid@5", False),
        ("uid@5", "uid@9", False),
        ("uid@9", "uid@5", True),
        ("uid@5", "other@9", True),
        ("", "uid@5", True),
        ("uid@5", "", False),
    ],
)
def test_a_mark_is_written_again_for_another_source_or_a_lost_state_and_not_for_a_later_one(
    recorded: str, now: str, another: bool
) -> None:
    assert is_another(recorded, now) is another


def test_a_range_holds_what_was_written_after_the_last_witness() -> None:
    doubtful = VersionRange(10, 20)
    assert [version in doubtful for version in (10, 11, 20, 21)] == [False, True, True, False]
    assert read_range(str(doubtful)) == doubtful
    assert read_range("") is None
    assert united(doubtful, None) == doubtful
    assert united(None, None) is None
    assert united(doubtful, VersionRange(15, 30)) == VersionRange(10, 30)
