"""Policy Keep: which places have had their object, as the status remembers it."""

from typing import Any

import pytest

from syncline.api.status import MAX_KEPT
from syncline.core.keep_marks import KeepRoom, keep_mark, kept_after, no_room_outcome
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Verb

PLACE = Target("team", "settings")


def outcome(state: Any = "Synced", reason: str = "Synced", **more: Any) -> Outcome:
    return Outcome(target=PLACE, state=state, reason=reason, **more)


@pytest.mark.parametrize(
    ("before", "outcomes", "orphaned", "partial_view", "after"),
    [
        pytest.param([], {"m": outcome()}, {}, False, ["m"], id="a place that got its object is marked"),
        pytest.param([], {"m": outcome("Failed", "Forbidden")}, {}, False, [], id="a failed write marks nothing"),
        pytest.param(
            ["m"], {"m": outcome("Failed", "Forbidden")}, {}, False, ["m"], id="a later failure keeps the mark"
        ),
        pytest.param(
            [], {"m": outcome("Skipped", "Kept")}, {}, False, ["m"], id="an object that was there before is a mark too"
        ),
        pytest.param([], {"m": outcome("Skipped", "Ignored")}, {}, False, [], id="a skipped place is not marked"),
        pytest.param(["m"], {}, {}, False, [], id="a place that is no target any more loses its mark"),
        pytest.param(["m"], {}, {}, True, ["m"], id="a place that was not looked at keeps its mark"),
        pytest.param(["m"], {"m": outcome(gone=True)}, {}, False, [], id="a pruned object leaves no mark"),
        pytest.param(
            ["m"],
            {"m": outcome("Pending", "SourceNotFound")},
            {"m": outcome(gone=True, written=Verb.DELETE)},
            False,
            [],
            id="an object that went with its source can come again",
        ),
        pytest.param(
            ["m"],
            {"m": outcome("Pending", "SourceNotFound")},
            {"m": outcome("Failed", "Forbidden", gone=True)},
            False,
            ["m"],
            id="an object that could not go with its source stays marked",
        ),
        pytest.param(["b"], {"a": outcome()}, {}, True, ["a", "b"], id="marks are sorted"),
    ],
)
def test_the_marks_after_a_reconcile(
    before: list[str],
    outcomes: dict[str, Outcome],
    orphaned: dict[str, Outcome],
    partial_view: bool,
    after: list[str],
) -> None:
    assert kept_after(frozenset(before), outcomes, orphaned, partial_view=partial_view) == after


@pytest.mark.parametrize(
    "other",
    [
        (PLACE._replace(cluster="edge"), "uid"),
        (PLACE._replace(kind="Secret"), "uid"),
        (PLACE._replace(name="other"), "uid"),
        (PLACE, "uid of the namespace that replaced it"),
    ],
)
def test_each_place_has_its_own_mark(other: tuple[Target, str]) -> None:
    assert keep_mark(PLACE, "uid") == keep_mark(PLACE, "uid")
    assert keep_mark(*other) != keep_mark(PLACE, "uid")


def test_a_status_has_room_for_so_many_marks() -> None:
    room = KeepRoom(str(number) for number in range(MAX_KEPT - 1))
    assert room.take("0")
    assert room.take("the last one")
    assert not room.take("one too many")
    assert room.take("the last one")
    assert "the last one" not in room.kept


def test_a_place_without_room_is_told_what_to_do() -> None:
    told = no_room_outcome(PLACE)
    assert (told.state, told.reason) == ("Failed", "InventoryFull")
    assert told.message.startswith("split the sync")
