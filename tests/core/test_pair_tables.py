"""The tables of pairs, cell by cell: what flows where nothing is written upstream, and what the options change."""

import pytest
from tests.core.test_twoway_tables import SITUATIONS, TABLE, digests, reported

from syncline.core.twoway import AgreementOptions, Base, Flow, OnConflict, Side, Strategy, agree

DOWN = AgreementOptions(upward=False)
REPORTS = ("conflicts", "deferred", "local_only", "kept", "overruled")

# What the copy holds after a pass, and what a person is told. Downstream wrote later.
TABLE_DOWN: dict[Strategy, dict[str, tuple[str, str]]] = {
    "UpstreamWins": {
        "only upstream changed": ("a=2 b=1", ""),
        "only downstream changed": ("a=1 b=1", "overruled: a"),
        "both, other keys": ("a=2 b=1", "overruled: b"),
        "both, the same key": ("a=2 b=1", "overruled: a"),
        "both alike": ("a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1 c=3", "local_only: c"),
        "both added, other keys": ("a=1 b=1 c=2 d=3", "local_only: d"),
        "upstream deleted": ("b=1", ""),
        "downstream deleted": ("a=1 b=1", "overruled: a"),
        "upstream edited, downstream deleted": ("a=2 b=1", "overruled: a"),
        "upstream deleted, downstream edited": ("b=1", "overruled: a"),
        "first contact": ("a=2 b=1 c=2 d=3", "kept: d; overruled: a"),
    },
    "DownstreamWins": {
        "only upstream changed": ("a=2 b=1", ""),
        "only downstream changed": ("a=3 b=1", "kept: a"),
        "both, other keys": ("a=2 b=3", "kept: b"),
        "both, the same key": ("a=3 b=1", "kept: a; overruled: a"),
        "both alike": ("a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1 c=3", "kept: c"),
        "both added, other keys": ("a=1 b=1 c=2 d=3", "kept: d"),
        "upstream deleted": ("b=1", ""),
        "downstream deleted": ("b=1", "kept: a"),
        "upstream edited, downstream deleted": ("b=1", "kept: a; overruled: a"),
        "upstream deleted, downstream edited": ("a=3 b=1", "kept: a; overruled: a"),
        "first contact": ("a=3 b=1 c=2 d=3", "kept: a d; overruled: a"),
    },
    "LastWriteWins": {
        "only upstream changed": ("a=2 b=1", ""),
        "only downstream changed": ("a=3 b=1", "kept: a"),
        "both, other keys": ("a=1 b=3", "kept: a b; overruled: a"),
        "both, the same key": ("a=3 b=1", "kept: a; overruled: a"),
        "both alike": ("a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1 c=3", "kept: c"),
        "both added, other keys": ("a=1 b=1 d=3", "kept: c d; overruled: c"),
        "upstream deleted": ("b=1", ""),
        "downstream deleted": ("b=1", "kept: a"),
        "upstream edited, downstream deleted": ("b=1", "kept: a; overruled: a"),
        "upstream deleted, downstream edited": ("a=3 b=1", "kept: a; overruled: a"),
        "first contact": ("a=3 b=1 c=2 d=3", "kept: a d; overruled: a"),
    },
    "Merge": {
        "only upstream changed": ("a=2 b=1", ""),
        "only downstream changed": ("a=3 b=1", "kept: a"),
        "both, other keys": ("a=2 b=3", "kept: b"),
        "both, the same key": ("a=3 b=1", "conflicts: a"),
        "both alike": ("a=2 b=1", ""),
        "upstream added": ("a=1 b=1 c=2", ""),
        "downstream added": ("a=1 b=1 c=3", "kept: c"),
        "both added, other keys": ("a=1 b=1 c=2 d=3", "kept: d"),
        "upstream deleted": ("b=1", ""),
        "downstream deleted": ("b=1", "kept: a"),
        "upstream edited, downstream deleted": ("a=2 b=1", "overruled: a"),
        "upstream deleted, downstream edited": ("a=3 b=1", "kept: a; overruled: a"),
        "first contact": ("a=3 b=1 c=2 d=3", "conflicts: a; kept: d"),
    },
    "Skip": {
        **{situation: (down, report) for situation, (_, down, report) in TABLE["Skip"].items()},
        "first contact": ("a=3 b=1 c=2 d=3", "conflicts: a d"),
    },
}


def started(situation: str) -> tuple[Base | None, dict[str, str], dict[str, str]]:
    base = None if situation == "first contact" else Base.same(digests("a=1 b=1"))
    upstream, downstream = (digests(side) for side in SITUATIONS[situation])
    return base, upstream, downstream


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("strategy", TABLE_DOWN)
def test_what_reaches_a_copy_whose_upstream_is_never_written(strategy: Strategy, situation: str) -> None:
    base, upstream, downstream = started(situation)

    agreement = agree(base, upstream, downstream, strategy, "Downstream", options=DOWN)

    down_after, report = TABLE_DOWN[strategy][situation]
    assert not agreement.up
    assert (agreement.upstream, agreement.downstream) == (upstream, digests(down_after))
    reports = {name: getattr(agreement, name) for name in REPORTS}
    assert {name: paths for name, paths in reports.items() if paths} == reported(report)
    again = agree(agreement.base, upstream, agreement.downstream or {}, strategy, "Downstream", options=DOWN)
    assert (bool(again.up), bool(again.down), again.base) == (False, False, agreement.base)
    assert (again.conflicts, again.deferred) == (agreement.conflicts, agreement.deferred)


@pytest.mark.parametrize("situation", [name for name in SITUATIONS if name != "first contact"])
@pytest.mark.parametrize("strategy", TABLE_DOWN)
def test_a_kept_edit_stays_an_edit(strategy: Strategy, situation: str) -> None:
    base, upstream, downstream = started(situation)
    agreement = agree(base, upstream, downstream, strategy, "Downstream", options=DOWN)
    recorded, was = agreement.base, base or Base.same({})
    assert recorded is not None
    for path in agreement.kept:
        assert (recorded.up.get(path), recorded.down.get(path)) == (was.up.get(path), was.down.get(path))


@pytest.mark.parametrize("strategy", TABLE)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_without_options_the_table_is_that_of_two_way_syncs(strategy: Strategy, situation: str) -> None:
    base, upstream, downstream = started(situation)
    expected = agree(base, upstream, downstream, strategy, "Downstream")
    assert agree(base, upstream, downstream, strategy, "Downstream", options=AgreementOptions()) == expected
    assert expected.kept == ()


@pytest.mark.parametrize(
    ("on_conflict", "upward", "up", "down", "report"),
    [
        ("UpstreamWins", True, "a=2 b=1", "a=2 b=1", "overruled: a"),
        ("DownstreamWins", True, "a=3 b=1", "a=3 b=1", "overruled: a"),
        ("Report", True, "a=2 b=1", "a=3 b=1", "conflicts: a"),
        ("UpstreamWins", False, "a=2 b=1", "a=2 b=1", "overruled: a"),
        ("DownstreamWins", False, "a=2 b=1", "a=3 b=1", "kept: a; overruled: a"),
        ("Report", False, "a=2 b=1", "a=3 b=1", "conflicts: a"),
    ],
)
def test_who_gets_a_path_that_was_changed_on_both_sides(
    on_conflict: OnConflict, upward: bool, up: str, down: str, report: str
) -> None:
    options = AgreementOptions(on_conflict=on_conflict, upward=upward)
    base, upstream, downstream = started("both, the same key")
    agreement = agree(base, upstream, downstream, "Merge", options=options)
    assert (agreement.upstream, agreement.downstream) == (digests(up), digests(down))
    reports = {name: getattr(agreement, name) for name in REPORTS}
    assert {name: paths for name, paths in reports.items() if paths} == reported(report)


@pytest.mark.parametrize("on_conflict", ["UpstreamWins", "DownstreamWins", "Report"])
@pytest.mark.parametrize("upward", [True, False])
def test_without_a_base_a_merge_overwrites_nothing(on_conflict: OnConflict, upward: bool) -> None:
    base, upstream, downstream = started("first contact")
    options = AgreementOptions(on_conflict=on_conflict, upward=upward)
    agreement = agree(base, upstream, downstream, "Merge", options=options)
    assert agreement.conflicts == ("data/a",)
    assert (agreement.up.unset, agreement.down.unset) == ((), ())
    assert "data/a" not in (*agreement.up.set, *agreement.down.set)


@pytest.mark.parametrize("strategy", ["Merge", "Skip"])
@pytest.mark.parametrize(
    ("side", "upward", "up", "down"),
    [
        ("Upstream", True, "a=2 b=1", "a=2 b=1"),
        ("Downstream", True, "a=3 b=1", "a=3 b=1"),
        ("Upstream", False, "a=2 b=1", "a=2 b=1"),
        ("Downstream", False, "a=2 b=1", "a=3 b=1"),
    ],
)
def test_a_person_settles_a_conflict(strategy: Strategy, side: Side, upward: bool, up: str, down: str) -> None:
    base, upstream, downstream = started("both, the same key")
    settled = agree(base, upstream, downstream, strategy, options=AgreementOptions(upward=upward, resolve=side))
    assert (settled.upstream, settled.downstream, settled.conflicts) == (digests(up), digests(down), ())
    after = agree(
        settled.base,
        settled.upstream or {},
        settled.downstream or {},
        strategy,
        options=AgreementOptions(upward=upward),
    )
    assert (after.up, after.down, after.conflicts, after.deferred) == (
        settled.up.__class__(),
        settled.down.__class__(),
        (),
        (),
    )


def test_what_skip_has_held_back_flows_once_the_conflict_is_settled() -> None:
    base, upstream, downstream = started("both, other keys")
    settled = agree(base, upstream, downstream, "Skip", options=AgreementOptions(resolve="Downstream"))
    assert settled.upstream == settled.downstream == digests("a=2 b=3")


def test_a_decision_of_a_person_changes_nothing_that_is_no_conflict() -> None:
    base, upstream, downstream = started("only upstream changed")
    for strategy in TABLE:
        options = AgreementOptions(resolve="Downstream")
        assert agree(base, upstream, downstream, strategy, options=options) == agree(
            base, upstream, downstream, strategy
        )


@pytest.mark.parametrize(
    ("strategy", "up", "down"),
    [
        ("UpstreamWins", "a=1 b=1 c=2", "a=1 b=1 c=2"),
        ("DownstreamWins", "a=1 b=1 d=3", "a=1 b=1 d=3"),
    ],
)
def test_an_exact_winner_removes_what_it_never_had(strategy: Strategy, up: str, down: str) -> None:
    base, upstream, downstream = started("both added, other keys")
    agreement = agree(base, upstream, downstream, strategy, options=AgreementOptions(exact=True))
    assert (agreement.upstream, agreement.downstream) == (digests(up), digests(down))


BASE_PARTS = {"spec/parts/[name=x]/a": "1", "spec/parts/[name=x]/b": "1", "spec/parts/[name=y]/a": "1"}


def test_an_item_removed_on_one_side_and_edited_on_the_other_is_decided_whole() -> None:
    up = {"spec/parts/[name=y]/a": "1"}
    down = {**BASE_PARTS, "spec/parts/[name=x]/b": "2"}
    agreement = agree(Base.same(BASE_PARTS), up, down, "Merge")
    assert agreement.upstream == agreement.downstream == down


def test_an_item_removed_on_one_side_alone_is_removed_on_the_other() -> None:
    up = {"spec/parts/[name=y]/a": "1"}
    down = {**BASE_PARTS, "spec/parts/[name=y]/a": "2"}
    agreement = agree(Base.same(BASE_PARTS), up, down, "Merge")
    assert agreement.upstream == agreement.downstream == {"spec/parts/[name=y]/a": "2"}


def test_changes_inside_an_item_that_both_sides_have_meet() -> None:
    up = {**BASE_PARTS, "spec/parts/[name=x]/a": "2"}
    down = {**BASE_PARTS, "spec/parts/[name=x]/b": "3"}
    agreement = agree(Base.same(BASE_PARTS), up, down, "Merge")
    assert (
        agreement.upstream
        == agreement.downstream
        == {**BASE_PARTS, "spec/parts/[name=x]/a": "2", "spec/parts/[name=x]/b": "3"}
    )


def test_paths_that_could_not_be_written_keep_their_base() -> None:
    base, upstream, downstream = started("both, other keys")
    agreement = agree(base, upstream, downstream, "Merge")
    recorded = agreement.base_after(up=upstream, unwritten=(*agreement.up.set, *agreement.up.unset))
    assert recorded == Base(digests("a=2 b=1"), digests("a=2 b=1"))
    again = agree(recorded, upstream, agreement.downstream or {}, "Merge")
    assert (again.up.set, again.down) == (("data/b",), Flow())
