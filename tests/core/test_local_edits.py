"""Which local edits stay, by strategy; and when they are sent."""

import pytest

from syncline.core.local_edits import DELETED, PATIENCE, Debounce, HeldEdits, Strategy, hold_edits
from syncline.core.publish_plan import LiveFile, ManagedFile, WantedFile

OLD, NEW = WantedFile("blob-old", "", "", "old"), WantedFile("blob-new", "", "", "new")
ENTRY = ManagedFile("old", "blob-old", "", "", "")
EDITED = LiveFile("file", "edited")
STRATEGIES: tuple[Strategy, ...] = ("gitWins", "gatewayWins", "manual")


def held(
    wanted: WantedFile | None,
    managed: ManagedFile | None,
    live: LiveFile | None,
    strategy: Strategy,
    settled: str | None = None,
) -> HeldEdits:
    return hold_edits(
        ["a"],
        {"a": wanted} if wanted is not None else {},
        {"a": managed} if managed is not None else {},
        {"a": live} if live is not None else {},
        settled={"a": settled} if settled is not None else {},
        strategy=strategy,
    )


LEFT, NOT_LEFT = HeldEdits(frozenset("a")), HeldEdits()
CONFLICT, WAITING = HeldEdits(frozenset("a"), ("a",)), HeldEdits(frozenset("a"), (), ("a",))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("settled", [None, "edited", DELETED])
def test_an_edit_of_the_gateway_alone_stays(strategy: Strategy, settled: str | None) -> None:
    assert held(OLD, ENTRY, EDITED, strategy, settled) == LEFT
    assert held(OLD, ENTRY, None, strategy, settled) == LEFT


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_no_edit_is_published_as_ever(strategy: Strategy) -> None:
    assert held(NEW, ENTRY, LiveFile("file", "old"), strategy) == NOT_LEFT
    assert held(NEW, ENTRY, LiveFile("file", "new"), strategy) == NOT_LEFT
    assert held(NEW, None, None, strategy) == NOT_LEFT
    assert held(OLD, ENTRY, LiveFile("link"), strategy) == NOT_LEFT
    assert held(NEW, ENTRY, LiveFile("folder"), strategy) == NOT_LEFT
    assert held(None, ENTRY, None, strategy) == NOT_LEFT
    assert held(None, None, EDITED, strategy) == NOT_LEFT


@pytest.mark.parametrize(
    ("wanted", "managed", "live", "found"),
    [
        (NEW, ENTRY, EDITED, "edited"),
        (NEW, ENTRY, None, DELETED),
        (None, ENTRY, EDITED, "edited"),
        (NEW, None, EDITED, "edited"),
    ],
)
def test_both_sides_changed(
    wanted: WantedFile | None, managed: ManagedFile | None, live: LiveFile | None, found: str
) -> None:
    assert held(wanted, managed, live, "gitWins") == WAITING
    assert held(wanted, managed, live, "gitWins", "another") == WAITING
    assert held(wanted, managed, live, "gitWins", found) == NOT_LEFT
    assert held(wanted, managed, live, "gatewayWins", found) == LEFT
    assert held(wanted, managed, live, "manual", found) == CONFLICT


def test_edits_are_sent_together_when_all_rest() -> None:
    debounce = Debounce(5.0)
    assert debounce.wait(0.0) is None
    assert debounce.due({"a": "1"}, 0.0) == frozenset()
    assert debounce.wait(0.0) == 5.0
    assert debounce.due({"a": "1", "b": "1"}, 4.0) == frozenset()
    assert debounce.due({"a": "2", "b": "1"}, 6.0) == frozenset()
    assert debounce.due({"a": "2", "b": "1"}, 10.9) == frozenset()
    assert debounce.due({"a": "2", "b": "1"}, 11.0) == {"a", "b"}
    debounce.sent(["a", "b"])
    assert debounce.due({}, 12.0) == frozenset()
    assert debounce.wait(12.0) is None


def test_a_file_that_never_rests_does_not_hold_the_others() -> None:
    debounce = Debounce(2.0)
    found: list[frozenset[str]] = [debounce.due({"a": "1", "log": str(now)}, float(now)) for now in range(25)]
    assert found[: 2 * PATIENCE] == [frozenset()] * 2 * PATIENCE
    assert found[2 * PATIENCE] == {"a"}
