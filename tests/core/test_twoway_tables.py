"""The two tables of two-way synchronisation, cell by cell: which values flow under each strategy, and which objects."""

import pytest

from syncline.core.pairs import GONE, DeletePropagation, Pair, Sighting, Step, deletion
from syncline.core.twoway import STRATEGIES, Base, Side, Strategy, agree

Leaves = dict[str, str]


def leaves(text: str) -> Leaves:
    """Read `a=1 b=2`."""
    return {f"data/{key}": value for key, _, value in (word.partition("=") for word in text.split())}


def told(text: str) -> dict[str, tuple[str, ...]]:
    """Read `conflicts: a b; overruled: c`."""
    parts = (part.partition(":") for part in text.split(";") if part)
    return {what.strip(): tuple(f"data/{key}" for key in keys.split()) for what, _, keys in parts}


# What the two sides hold; the base of both is a=1 b=1, except at the first contact.
SITUATIONS = {
    "only upstream changed": ("a=2 b=1", "a=1 b=1"),
    "only downstream changed": ("a=1 b=1", "a=3 b=1"),
    "both, other keys": ("a=2 b=1", "a=1 b=3"),
    "both, the same key": ("a=2 b=1", "a=3 b=1"),
    "both alike": ("a=2 b=1", "a=2 b=1"),
    "upstream added": ("a=1 b=1 c=2", "a=1 b=1"),
    "downstream added": ("a=1 b=1", "a=1 b=1 c=3"),
    "both added, other keys": ("a=1 b=1 c=2", "a=1 b=1 d=3"),
    "upstream deleted": ("b=1", "a=1 b=1"),
    "downstream deleted": ("a=1 b=1", "b=1"),
    "upstream edited, downstream deleted": ("a=2 b=1", "b=1"),
    "upstream deleted, downstream edited": ("b=1", "a=3 b=1"),
    "first contact": ("a=2 b=1 c=2", "a=3 b=1 d=3"),
}

# What upstream and downstream hold after a pass, and what a person is told.
TABLE: dict[Strategy, dict[str, tuple[str, str, str]]] = {
    "UpstreamWins": {
        "only upstream changed": ("a=2 b=1", "a=2 b=1", ""),
        "only downstream changed": ("a=1 b=1", "a=1 b=1", "overruled: a"),
        "both, other keys": ("a=2 b=1", "a=2 b=1", "overruled: b"),
        "both, the same key": ("a=2 b=1", "a=2 b=1", "overruled: a"),
        "both alike": ("a=2 b=1", "a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", "a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1", "a=1 b=1 c=3", "local_only: c"),
        "both added, other keys": ("a=1 b=1 c=2", "a=1 b=1 c=2 d=3", "local_only: d"),
        "upstream deleted": ("b=1", "b=1", ""),
        "downstream deleted": ("a=1 b=1", "a=1 b=1", "overruled: a"),
        "upstream edited, downstream deleted": ("a=2 b=1", "a=2 b=1", "overruled: a"),
        "upstream deleted, downstream edited": ("b=1", "b=1", "overruled: a"),
        "first contact": ("a=2 b=1 c=2 d=3", "a=2 b=1 c=2 d=3", "overruled: a"),
    },
    "DownstreamWins": {
        "only upstream changed": ("a=1 b=1", "a=1 b=1", "overruled: a"),
        "only downstream changed": ("a=3 b=1", "a=3 b=1", ""),
        "both, other keys": ("a=1 b=3", "a=1 b=3", "overruled: a"),
        "both, the same key": ("a=3 b=1", "a=3 b=1", "overruled: a"),
        "both alike": ("a=2 b=1", "a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", "a=1 b=1", "local_only: c"),
        "downstream added": ("a=1 b=1 c=3", "a=1 b=1 c=3", ""),
        "both added, other keys": ("a=1 b=1 c=2 d=3", "a=1 b=1 d=3", "local_only: c"),
        "upstream deleted": ("a=1 b=1", "a=1 b=1", "overruled: a"),
        "downstream deleted": ("b=1", "b=1", ""),
        "upstream edited, downstream deleted": ("b=1", "b=1", "overruled: a"),
        "upstream deleted, downstream edited": ("a=3 b=1", "a=3 b=1", "overruled: a"),
        "first contact": ("a=3 b=1 c=2 d=3", "a=3 b=1 c=2 d=3", "overruled: a"),
    },
    # Here downstream wrote later.
    "LastWriteWins": {
        "only upstream changed": ("a=2 b=1", "a=2 b=1", ""),
        "only downstream changed": ("a=3 b=1", "a=3 b=1", ""),
        "both, other keys": ("a=1 b=3", "a=1 b=3", "overruled: a"),
        "both, the same key": ("a=3 b=1", "a=3 b=1", "overruled: a"),
        "both alike": ("a=2 b=1", "a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", "a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1 c=3", "a=1 b=1 c=3", ""),
        "both added, other keys": ("a=1 b=1 d=3", "a=1 b=1 d=3", "overruled: c"),
        "upstream deleted": ("b=1", "b=1", ""),
        "downstream deleted": ("b=1", "b=1", ""),
        "upstream edited, downstream deleted": ("b=1", "b=1", "overruled: a"),
        "upstream deleted, downstream edited": ("a=3 b=1", "a=3 b=1", "overruled: a"),
        "first contact": ("a=3 b=1 c=2 d=3", "a=3 b=1 c=2 d=3", "overruled: a"),
    },
    "Merge": {
        "only upstream changed": ("a=2 b=1", "a=2 b=1", ""),
        "only downstream changed": ("a=3 b=1", "a=3 b=1", ""),
        "both, other keys": ("a=2 b=3", "a=2 b=3", ""),
        "both, the same key": ("a=2 b=1", "a=3 b=1", "conflicts: a"),
        "both alike": ("a=2 b=1", "a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", "a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1 c=3", "a=1 b=1 c=3", ""),
        "both added, other keys": ("a=1 b=1 c=2 d=3", "a=1 b=1 c=2 d=3", ""),
        "upstream deleted": ("b=1", "b=1", ""),
        "downstream deleted": ("b=1", "b=1", ""),
        "upstream edited, downstream deleted": ("a=2 b=1", "a=2 b=1", "overruled: a"),
        "upstream deleted, downstream edited": ("a=3 b=1", "a=3 b=1", "overruled: a"),
        "first contact": ("a=2 b=1 c=2 d=3", "a=3 b=1 c=2 d=3", "conflicts: a"),
    },
    "Skip": {
        "only upstream changed": ("a=2 b=1", "a=2 b=1", ""),
        "only downstream changed": ("a=1 b=1", "a=3 b=1", "conflicts: a"),
        "both, other keys": ("a=2 b=1", "a=1 b=3", "conflicts: b; deferred: a"),
        "both, the same key": ("a=2 b=1", "a=3 b=1", "conflicts: a"),
        "both alike": ("a=2 b=1", "a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", "a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1", "a=1 b=1 c=3", "conflicts: c"),
        "both added, other keys": ("a=1 b=1 c=2", "a=1 b=1 d=3", "conflicts: d; deferred: c"),
        "upstream deleted": ("b=1", "b=1", ""),
        "downstream deleted": ("a=1 b=1", "b=1", "conflicts: a"),
        "upstream edited, downstream deleted": ("a=2 b=1", "b=1", "conflicts: a"),
        "upstream deleted, downstream edited": ("b=1", "a=3 b=1", "conflicts: a"),
        "first contact": ("a=2 b=1 c=2 d=3", "a=3 b=1 c=2 d=3", "conflicts: a"),
    },
}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("strategy", TABLE)
def test_which_values_flow(strategy: Strategy, situation: str) -> None:
    base = None if situation == "first contact" else Base.same(leaves("a=1 b=1"))
    upstream, downstream = (leaves(side) for side in SITUATIONS[situation])

    agreement = agree(base, upstream, downstream, strategy, "Downstream")

    up_after, down_after, report = TABLE[strategy][situation]
    assert (agreement.upstream, agreement.downstream) == (leaves(up_after), leaves(down_after))
    reports = {name: getattr(agreement, name) for name in ("conflicts", "deferred", "local_only", "overruled")}
    assert {name: paths for name, paths in reports.items() if paths} == told(report)
    again = agree(agreement.base, agreement.upstream, agreement.downstream, strategy, "Downstream")
    assert (bool(again.up), bool(again.down), again.base) == (False, False, agreement.base)
    assert (again.conflicts, again.deferred) == (agreement.conflicts, agreement.deferred)


@pytest.mark.parametrize(("later", "expected"), [("Upstream", "a=2 b=1"), ("Downstream", "a=1 b=3")])
def test_the_last_write_wins_the_whole_object(later: Side, expected: str) -> None:
    agreement = agree(Base.same(leaves("a=1 b=1")), leaves("a=2 b=1"), leaves("a=1 b=3"), "LastWriteWins", later)
    assert agreement.upstream == agreement.downstream == leaves(expected)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("SourceWins", "UpstreamWins"),
        ("DestinationWins", "DownstreamWins"),
        ("MergeChanges", "Merge"),
        ("Skip", "Skip"),
    ],
)
def test_the_kinds_have_names_of_their_own_for_the_strategies(name: str, strategy: Strategy) -> None:
    assert STRATEGIES[name] == strategy
    assert set(STRATEGIES.values()) == TABLE.keys()


PAIR = Pair("u1", "d1")
UP = {"same": Sighting("u1"), "changed": Sighting("u1", changed=True), "anew": Sighting("u2"), "gone": GONE}
DOWN = {"same": Sighting("d1"), "changed": Sighting("d1", changed=True), "anew": Sighting("d2"), "gone": GONE}

# Upstream and downstream, and what is done if deletions propagate Down, Both, None.
OBJECTS: dict[tuple[str, str], tuple[Step, Step, Step]] = {
    ("same", "gone"): (Step.CREATE_DOWN, Step.DELETE_UP, Step.CREATE_DOWN),
    ("changed", "gone"): (Step.CREATE_DOWN, Step.CREATE_DOWN, Step.CREATE_DOWN),
    ("anew", "gone"): (Step.CREATE_DOWN, Step.CREATE_DOWN, Step.CREATE_DOWN),
    ("gone", "same"): (Step.DELETE_DOWN, Step.DELETE_DOWN, Step.LEAVE),
    ("gone", "changed"): (Step.LEAVE, Step.CREATE_UP, Step.LEAVE),
    ("gone", "anew"): (Step.LEAVE, Step.CREATE_UP, Step.LEAVE),
    ("gone", "gone"): (Step.FORGET, Step.FORGET, Step.FORGET),
}
PROPAGATIONS: tuple[DeletePropagation, ...] = ("Down", "Both", "None")


@pytest.mark.parametrize(("up", "down"), OBJECTS)
def test_which_objects_go_and_which_come_back(up: str, down: str) -> None:
    for propagate, step in zip(PROPAGATIONS, OBJECTS[up, down], strict=True):
        decision = deletion(UP[up], DOWN[down], PAIR, propagate)
        assert decision.step is step
        goner = {Step.DELETE_UP: "u1", Step.DELETE_DOWN: "d1"}.get(step, "")
        assert decision.uid == goner


@pytest.mark.parametrize("propagate", PROPAGATIONS)
def test_without_a_record_the_one_that_exists_is_copied(propagate: DeletePropagation) -> None:
    for changed in (False, True):
        assert deletion(Sighting("u", changed=changed), GONE, None, propagate).step is Step.CREATE_DOWN
        assert deletion(GONE, Sighting("d", changed=changed), None, propagate).step is Step.CREATE_UP
    assert deletion(GONE, GONE, None, propagate).step is Step.FORGET


@pytest.mark.parametrize("recorded", [None, PAIR])
def test_two_objects_that_exist_are_for_their_values(recorded: Pair | None) -> None:
    for propagate in PROPAGATIONS:
        for up in ("same", "changed", "anew"):
            for down in ("same", "changed", "anew"):
                assert deletion(UP[up], DOWN[down], recorded, propagate).step is Step.AGREE


@pytest.mark.parametrize("recorded", [None, PAIR])
def test_a_side_that_cannot_be_read_decides_nothing(recorded: Pair | None) -> None:
    for propagate in PROPAGATIONS:
        for other in (*UP.values(), None):
            assert deletion(other, None, recorded, propagate).step is Step.WAIT
            assert deletion(None, other, recorded, propagate).step is Step.WAIT


def test_a_person_hears_of_a_deletion_that_met_an_edit() -> None:
    for up, sighting in UP.items():
        for down, other in DOWN.items():
            for propagate in PROPAGATIONS:
                decision = deletion(sighting, other, PAIR, propagate)
                edited_down = up == "gone" and down in ("changed", "anew")
                edited_up = down == "gone" and up in ("changed", "anew") and propagate == "Both"
                assert decision.reported == (edited_down or edited_up)
                assert decision.reason
                assert decision.message
