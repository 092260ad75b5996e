"""Two-way agreement, on digests of values: every way in which one key can differ, and what holds for any number.

What each strategy does is in `test_twoway_tables.py`; whole histories are in `test_twoway_machine.py`.
"""

import time
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.core.oracle import other_map
from tests.core.twoway_world import Record, Rules, World, digests, stop_before
from tests.sampling import quick

from syncline.core.twoway import Agreement, Base, Flow, Side, Strategy, agree, changes

Digests = dict[str, str]

STRATEGIES: tuple[Strategy, ...] = ("UpstreamWins", "DownstreamWins", "LastWriteWins", "Merge", "Skip")
SIDES: list[Digests] = [
    {},
    {"data/a": "1"},
    {"data/a": "2"},
    {"data/a": "3"},
    {"binaryData/a": "1"},
    {"binaryData/a": "2"},
    {"binaryData/a": "4"},
]


class Case(Struct, frozen=True):
    base: Base | None
    up: Digests
    down: Digests
    strategy: Strategy
    later: Side

    def agree(self) -> Agreement:
        return agree(self.base, self.up, self.down, self.strategy, self.later)


def every() -> Iterator[Case]:
    """Return every state of one key, under every strategy; a base may have two halves."""
    halves = ({}, {"data/a": "1"}, {"binaryData/a": "1"})
    bases = [None, *(Base(up, down) for up, down in product(halves, repeat=2))]
    for base, up, down, strategy, later in product(bases, SIDES, SIDES, STRATEGIES, ("Upstream", "Downstream")):
        yield Case(base, up, down, strategy, later)


EVERY = list(every())


def test_a_second_pass_changes_nothing_and_reports_the_same() -> None:
    for case in EVERY:
        first = case.agree()
        second = agree(first.base, first.upstream, first.downstream, case.strategy, case.later)
        assert (second.up, second.down, second.overruled) == (Flow(), Flow(), ())
        assert (second.base, second.conflicts, second.deferred) == (first.base, first.conflicts, first.deferred)


def test_a_key_is_in_one_map_at_most() -> None:
    for case in EVERY:
        agreement = case.agree()
        for result in (agreement.upstream, agreement.downstream):
            assert result is not None
            assert not any(other_map(path) in result for path in result)


def test_each_side_ends_with_what_one_of_the_two_had() -> None:
    for case in EVERY:
        agreement = case.agree()
        assert agreement.upstream in (case.up, case.down)
        assert agreement.downstream in (case.up, case.down)


def test_what_is_not_reported_is_agreed() -> None:
    for case in EVERY:
        agreement = case.agree()
        settled = case.base is not None and (case.base.up, case.base.down) == (case.up, case.down)
        assert (agreement.upstream == agreement.downstream or settled) != bool(
            agreement.conflicts or agreement.local_only
        )


def test_set_and_unset_lead_from_each_side_to_its_result() -> None:
    for case in EVERY:
        agreement = case.agree()
        for there, other, flow, result in (
            (case.up, case.down, agreement.up, agreement.upstream),
            (case.down, case.up, agreement.down, agreement.downstream),
        ):
            assert set(flow.unset) <= there.keys()
            kept = {path: value for path, value in there.items() if path not in flow.unset}
            assert kept | {path: other[path] for path in flow.set} == result
            assert bool(flow) == (there != result)


def test_what_is_reported_keeps_its_base() -> None:
    for case in EVERY:
        agreement = case.agree()
        if agreement.conflicts or agreement.local_only:
            assert agreement.base == (case.base or Base({}, {}))
            assert (agreement.upstream, agreement.downstream) == (case.up, case.down)


def test_a_conflict_ends_when_one_side_gives_in() -> None:
    for case in EVERY:
        agreement = case.agree()
        for agreed in (case.up, case.down):
            end = agree(agreement.base, agreed, agreed, case.strategy, case.later)
            assert (end.up, end.down, end.conflicts, end.local_only) == (Flow(), Flow(), (), ())
            assert end.base == Base.same(agreed)


def test_what_one_side_gains_from_a_strategy_the_other_gains_from_its_mirror() -> None:
    mirrors: dict[Strategy, Strategy] = {
        "UpstreamWins": "DownstreamWins",
        "DownstreamWins": "UpstreamWins",
        "LastWriteWins": "LastWriteWins",
        "Merge": "Merge",
    }
    for case in EVERY:
        if case.strategy in mirrors:
            here = case.agree()
            base = None if case.base is None else Base(case.base.down, case.base.up)
            later: Side = "Downstream" if case.later == "Upstream" else "Upstream"
            there = agree(base, case.down, case.up, mirrors[case.strategy], later)
            assert (here.up, here.down, here.upstream) == (there.down, there.up, there.downstream)
            assert (here.conflicts, here.local_only, here.overruled) == (
                there.conflicts,
                there.local_only,
                there.overruled,
            )


def test_without_a_base_no_key_goes() -> None:
    for case in EVERY:
        agreement = case.agree()
        if case.base is None:
            assert bool(agreement.upstream) >= bool(case.up)
            assert bool(agreement.downstream) >= bool(case.down)


def test_only_the_last_write_wins_by_the_clock() -> None:
    for case in EVERY:
        if case.strategy != "LastWriteWins":
            assert case.agree() == agree(case.base, case.up, case.down, case.strategy)


def test_a_side_that_cannot_be_seen_decides_nothing() -> None:
    for strategy in STRATEGIES:
        for base in (None, Base.same({"data/a": "1"})):
            for up, down in ((None, {}), ({}, None), (None, None), ({"data/a": "2"}, None)):
                unseen = agree(base, up, down, strategy)
                assert unseen == Agreement(previous_base=base)
                assert unseen.base == base


@quick
@given(
    st.lists(st.tuples(*[st.sampled_from(SIDES)] * 3), max_size=4),
    st.sampled_from(("UpstreamWins", "DownstreamWins", "Merge")),
    st.randoms(use_true_random=False),
)
def test_keys_are_decided_one_by_one_in_any_order(
    keys: list[tuple[Digests, Digests, Digests]], strategy: Strategy, random: Random
) -> None:
    def together(side: int) -> Digests:
        entries = [(f"{path}{number}", value) for number, key in enumerate(keys) for path, value in key[side].items()]
        random.shuffle(entries)
        return dict(entries)

    whole = agree(Base.same(together(0)), together(1), together(2), strategy)

    alone = [agree(Base.same(was), up, down, strategy) for was, up, down in keys]
    for part in ("conflicts", "local_only", "overruled"):
        assert list(getattr(whole, part)) == sorted(
            f"{path}{number}" for number, one in enumerate(alone) for path in getattr(one, part)
        )
    for part in ("upstream", "downstream"):
        assert getattr(whole, part) == {
            f"{path}{number}": value for number, one in enumerate(alone) for path, value in getattr(one, part).items()
        }


paths = st.sampled_from(("data/a", "data/b", "binaryData/b"))
edits = st.lists(st.tuples(paths, st.sampled_from(("1", "2", None))), max_size=3)


@quick
@given(edits, edits, st.sampled_from(("UpstreamWins", "DownstreamWins", "Merge", "Skip")), st.data())
def test_the_order_of_events_on_the_two_sides_does_not_matter(
    up: list[tuple[str, str | None]], down: list[tuple[str, str | None]], strategy: Strategy, data: st.DataObject
) -> None:
    ends = []
    for turns in (sorted([True] * len(up) + [False] * len(down)), None):
        world = synced(Rules(strategy=strategy))
        left, right = list(up), list(down)
        for is_up in turns or data.draw(st.permutations([True] * len(up) + [False] * len(down))):
            (world.up if is_up else world.down).set(*(left if is_up else right).pop(0))
        world.full_pass()
        ends.append(world.state())
    assert ends[0] == ends[1]


@quick
@given(
    st.lists(st.tuples(st.sampled_from(("1", "2", None)), st.booleans()), max_size=3),
    st.lists(st.tuples(st.sampled_from(("1", "2", None)), st.booleans()), max_size=3),
    st.data(),
)
def test_edits_of_different_keys_merge_alike_whenever_passes_are_made(
    up: list[tuple[str | None, bool]], down: list[tuple[str | None, bool]], data: st.DataObject
) -> None:
    world = synced(Rules(strategy="Merge"))
    left, right = list(up), list(down)
    for is_up in data.draw(st.permutations([True] * len(up) + [False] * len(down))):
        value, then_pass = (left if is_up else right).pop(0)
        (world.up if is_up else world.down).set("data/a" if is_up else "data/b", value)
        if then_pass:
            world.full_pass()
    world.full_pass()
    expected = {"data/a": up[-1][0] if up else "0", "data/b": down[-1][0] if down else "0"}
    assert world.up.values == world.down.values == {path: value for path, value in expected.items() if value}


@quick
@given(
    st.tuples(st.sampled_from((None, "1")), st.sampled_from((None, "1", "2")), st.sampled_from((None, "1", "3"))),
    st.tuples(st.sampled_from((None, "1")), st.sampled_from((None, "1", "2")), st.sampled_from((None, "1", "3"))),
    st.booleans(),
)
def test_a_pass_that_is_killed_before_any_write_is_finished_by_the_next(
    a: tuple[str | None, ...], b: tuple[str | None, ...], first: bool
) -> None:
    was, up, down = (
        {path: value for path, value in (("data/a", one), ("data/b", other)) if value}
        for one, other in zip(a, b, strict=True)
    )
    for strategy, up_first in product(STRATEGIES, (True, False)):
        before = World(Rules(strategy=strategy))
        before.up.create(up)
        before.down.create(down)
        if not first:
            before.record = Record(Base.same(digests(was)), before.down.uid)
        undisturbed = before.copy()
        for number in range(undisturbed.full_pass() + 1):
            world = before.copy()
            stop_before(world.writes(up_first=up_first), number)
            world.full_pass()
            assert world.state() == undisturbed.state()


def synced(rules: Rules) -> World:
    world = World(rules)
    world.up.create({"data/a": "0", "data/b": "0"})
    world.full_pass()
    return world


BASE = Base.same({"data/a": "1", "data/b": "1"})


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("base", [BASE, None])
def test_a_one_way_path_flows_down_and_never_up(strategy: Strategy, base: Base | None) -> None:
    up, down = {"data/a": "1", "data/b": "2"}, {"data/a": "1", "data/b": "3"}
    agreement = agree(base, up, down, strategy, "Downstream", oneway={"data/b"})
    assert (agreement.up, agreement.down) == (Flow(), Flow(set=("data/b",)))
    assert agreement.overruled == ("data/b",)
    assert agreement.base == Base.same(up)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("base", [BASE, None])
def test_what_a_transformation_removes_stays_where_the_server_put_it(strategy: Strategy, base: Base | None) -> None:
    up, down = {"data/a": "1", "data/b": "1"}, {"data/a": "1", "data/b": "1", "binaryData/c": "3"}
    agreement = agree(base, up, down, strategy, oneway={"data/c"})
    assert (agreement.up, agreement.down, agreement.local_only) == (Flow(), Flow(), ("binaryData/c",))


def test_an_edit_of_a_one_way_path_holds_nothing_else_back() -> None:
    up, down = {"data/a": "2", "data/b": "1"}, {"data/a": "1", "data/b": "3"}
    for strategy in ("Skip", "LastWriteWins"):
        agreement = agree(BASE, up, down, strategy, "Downstream", oneway={"data/b"})
        assert agreement.downstream == up
        assert not agreement.conflicts
    assert changes(BASE, up, down, oneway={"data/b"}).down == ()


def test_one_way_counts_for_all_that_is_below() -> None:
    agreement = agree(Base.same({}), {"spec/a/x": "1"}, {"spec/a/x": "2", "spec/ab": "3"}, "Merge", oneway={"spec/a"})
    assert agreement.downstream == {"spec/a/x": "1", "spec/ab": "3"}
    assert agreement.upstream == {"spec/a/x": "1", "spec/ab": "3"}


def test_a_value_and_the_values_below_it_are_decided_together() -> None:
    base = Base.same({"spec/a/x": "1", "spec/a-b": "1"})
    up, down = {"spec/a": "2", "spec/a-b": "1"}, {"spec/a/x": "3", "spec/a/y": "3", "spec/a-b": "4"}

    merged = agree(base, up, down, "Merge")

    assert merged.conflicts == ("spec/a", "spec/a/x", "spec/a/y")
    assert merged.up == Flow(set=("spec/a-b",))
    assert merged.base == Base.same({"spec/a/x": "1", "spec/a-b": "4"})
    won = agree(base, up, down, "UpstreamWins")
    assert won.down == Flow(set=("spec/a", "spec/a-b"), unset=("spec/a/x", "spec/a/y"))
    assert won.downstream == up


def test_changes_name_what_each_side_did() -> None:
    up, down = {"data/a": "2", "data/b": "1", "data/c": "5"}, {"data/a": "1", "data/c": "5"}
    assert changes(BASE, up, down).up == ("data/a",)
    assert changes(BASE, up, down).down == ("data/b",)
    assert changes(None, up, down).up == ("data/a", "data/b")


def test_the_base_of_many_conflicts_takes_little_time() -> None:
    """A ConfigMap can have 90,000 keys, and any of them may be changed on both sides."""
    agreed = {f"data/a{number}": "a" for number in range(25_000)}
    up = {f"data/k{number}": "u" for number in range(25_000)}
    down = dict.fromkeys(up, "d")
    before = time.thread_time()
    found = agree(Base.same(agreed), {**agreed, **up}, {**agreed, **down}, "Merge")
    assert found.base == Base.same(agreed)
    assert time.thread_time() - before < 8
