"""The table of two-way synchronisation, cell by cell: which values flow under each strategy."""

import pytest

from syncline.core.twoway import STRATEGIES, Base, Side, Strategy, agree

Digests = dict[str, str]


def digests(text: str) -> Digests:
    """Read `a=1 b=2`."""
    return {f"data/{key}": value for key, _, value in (word.partition("=") for word in text.split())}


def reported(text: str) -> dict[str, tuple[str, ...]]:
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
    base = None if situation == "first contact" else Base.same(digests("a=1 b=1"))
    upstream, downstream = (digests(side) for side in SITUATIONS[situation])

    agreement = agree(base, upstream, downstream, strategy, "Downstream")

    up_after, down_after, report = TABLE[strategy][situation]
    assert (agreement.upstream, agreement.downstream) == (digests(up_after), digests(down_after))
    reports = {name: getattr(agreement, name) for name in ("conflicts", "deferred", "local_only", "overruled")}
    assert {name: paths for name, paths in reports.items() if paths} == reported(report)
    again = agree(agreement.base, agreement.upstream, agreement.downstream, strategy, "Downstream")
    assert (bool(again.up), bool(again.down), again.base) == (False, False, agreement.base)
    assert (again.conflicts, again.deferred) == (agreement.conflicts, agreement.deferred)


@pytest.mark.parametrize(("later", "expected"), [("Upstream", "a=2 b=1"), ("Downstream", "a=1 b=3")])
def test_the_last_write_wins_the_whole_object(later: Side, expected: str) -> None:
    agreement = agree(Base.same(digests("a=1 b=1")), digests("a=2 b=1"), digests("a=1 b=3"), "LastWriteWins", later)
    assert agreement.upstream == agreement.downstream == digests(expected)


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
