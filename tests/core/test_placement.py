"""Which targets a namespace goes to, and how replicas are divided."""

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.api.workspace_placement import PlacementWeight, WorkspacePlacement
from syncline.core.placement import (
    PlacementDecision,
    PlacementTarget,
    divide_replicas,
    place_namespace,
    target_weights,
    wanted_count,
)

ALL = WorkspacePlacement()
ONE = WorkspacePlacement(strategy="Spread", count=1)
TWO = WorkspacePlacement(strategy="Spread", count=2, spread_by="zone")
EVICTING = WorkspacePlacement(strategy="Spread", count=2, evict_after="10m")
WEIGHTED = WorkspacePlacement(
    strategy="Weighted",
    weights=[
        PlacementWeight(match_labels={"zone": "a"}, weight=3),
        PlacementWeight(match_labels={"zone": "b"}, weight=1),
    ],
)


def target(name: str, zone: str = "", **more: Any) -> PlacementTarget:
    return PlacementTarget(name=name, labels={"zone": zone} if zone else {}, **more)


EAST, WEST, NORTH = target("east", "a"), target("west", "b"), target("north", "a")


def place(spec: WorkspacePlacement, *targets: PlacementTarget, current: str = "") -> PlacementDecision:
    return place_namespace(spec, targets, "shop", frozenset(current.split()))


def place_new(spec: WorkspacePlacement, targets: list[PlacementTarget], count: int) -> dict[str, PlacementDecision]:
    return {
        name: place_namespace(spec, targets, name, frozenset()) for name in (f"n{number}" for number in range(count))
    }


class TestAll:
    def test_every_target_that_can_take_it_gets_it(self) -> None:
        found = place(
            ALL,
            EAST,
            WEST,
            target("down", ready=False),
            target("full", schedulable=False),
            target("old", compatible=False),
            target("away", lost_for=1),
        )
        assert found.targets == ("east", "west")
        assert "down is not ready" in found.message
        assert "full is unschedulable" in found.message
        assert "old does not serve the resources" in found.message
        assert "away cannot be reached" in found.message

    def test_where_copies_are_they_stay(self) -> None:
        gone = target("west", schedulable=False, ready=False, lost_for=1e9)
        spec = WorkspacePlacement(evict_after="1s")
        found = place(spec, EAST, gone, current="west")
        assert found.targets == ("east", "west")
        assert found.leaving == ()
        assert "west cannot be reached and keeps its copies" in found.message

    def test_a_target_that_is_taken_away_is_left(self) -> None:
        found = place(ALL, EAST, current="east west")
        assert (found.targets, found.leaving, found.reason) == (("east",), ("west",), "Moving")

    def test_no_target_is_told(self) -> None:
        found = place(ALL, target("east", ready=False))
        assert (found.targets, found.reason) == ((), "NoTarget")
        assert "east is not ready" in found.message
        assert "no SyncTarget can take it" in found.message

    def test_a_sync_that_selects_no_target_is_told_so(self) -> None:
        found = place(ALL)
        assert (found.targets, found.reason) == ((), "NoTarget")
        assert found.message == "the sync selects no SyncTarget: correct downstream, or add a SyncTarget"


class TestSpread:
    def test_it_takes_different_values_of_the_label(self) -> None:
        found = place(TWO, EAST, NORTH, WEST)
        assert "west" in found.targets
        assert len(found.targets) == 2

    def test_too_few_targets_are_told(self) -> None:
        found = place(TWO, EAST)
        assert (found.targets, found.reason) == (("east",), "TooFewTargets")
        assert "(1 of 2)" in found.message
        assert "add SyncTargets, or reduce placement.count" in found.message

    def test_copies_stay_although_another_spread_would_be_better(self) -> None:
        found = place(TWO, EAST, NORTH, WEST, current="east north")
        assert (found.targets, found.leaving) == (("east", "north"), ())

    def test_a_new_one_goes_where_no_copy_is_yet(self) -> None:
        assert place(TWO, EAST, NORTH, WEST, current="north").targets == ("north", "west")

    def test_of_too_many_the_best_spread_stays(self) -> None:
        found = place(TWO, EAST, NORTH, WEST, current="east north west")
        assert "west" in found.targets
        assert len(found.leaving) == 1

    def test_of_too_many_the_lost_one_goes(self) -> None:
        found = place(ONE, target("east", lost_for=5), WEST, current="east west")
        assert (found.targets, found.leaving) == (("west",), ("east",))

    def test_a_lost_target_moves_nothing_by_itself(self) -> None:
        found = place(ONE, target("east", lost_for=1e9, ready=False), WEST, current="east")
        assert (found.targets, found.leaving) == (("east",), ())

    @pytest.mark.parametrize(("lost_for", "targets"), [(599, ("east", "west")), (600, ("north", "west"))])
    def test_a_lost_target_is_left_when_its_time_is_over(self, lost_for: float, targets: tuple[str, ...]) -> None:
        found = place(EVICTING, target("east", lost_for=lost_for), WEST, NORTH, current="east west")
        assert found.targets == targets

    def test_a_lost_target_is_not_left_for_nowhere(self) -> None:
        found = place(EVICTING, target("east", lost_for=1e9), WEST, current="east west")
        assert (found.targets, found.leaving) == (("east", "west"), ())

    def test_a_target_that_is_taken_away_is_replaced(self) -> None:
        found = place(ONE, WEST, current="east")
        assert (found.targets, found.leaving, found.reason) == (("west",), ("east",), "Moving")
        assert "leaves east when the copies are there" in found.message


class TestWeighted:
    @pytest.mark.parametrize(
        ("spec", "count"),
        [
            (ALL, None),
            (TWO, 2),
            (WEIGHTED, 1),
            (WorkspacePlacement(strategy="Weighted", weights=WEIGHTED.weights, count=2), 2),
            (WorkspacePlacement(strategy="Weighted", weights=WEIGHTED.weights, replicas="Divide"), None),
        ],
    )
    def test_how_many_targets_a_namespace_gets(self, spec: WorkspacePlacement, count: int | None) -> None:
        assert wanted_count(spec) == count

    def test_the_first_entry_that_matches_counts(self) -> None:
        assert target_weights(WEIGHTED, [EAST, WEST, target("other")]) == {"east": 3, "west": 1, "other": 0}
        assert target_weights(ALL, [EAST]) == {"east": 1}

    def test_a_target_without_weight_gets_nothing(self) -> None:
        found = place(WEIGHTED, target("other", "c"))
        assert (found.targets, found.reason) == ((), "NoTarget")
        assert "other has no weight" in found.message

    def test_namespaces_go_by_weight(self) -> None:
        found = place_new(WEIGHTED, [EAST, WEST], 1000)
        shares = Counter(decision.targets for decision in found.values())
        assert 680 < shares[("east",)] < 820
        assert shares[("east",)] + shares[("west",)] == 1000

    def test_namespaces_are_balanced_over_equal_targets(self) -> None:
        found = place_new(ONE, [EAST, WEST, NORTH], 900)
        shares = Counter(decision.targets for decision in found.values())
        assert all(230 < number < 370 for number in shares.values())

    def test_another_target_takes_only_its_share(self) -> None:
        before = place_new(ONE, [EAST, WEST], 200)
        after = place_new(ONE, [EAST, WEST, NORTH], 200)
        assert all(after[name].targets in (before[name].targets, ("north",)) for name in before)


targets_drawn = st.lists(
    st.builds(
        PlacementTarget,
        name=st.sampled_from("abcdef"),
        labels=st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}, {"zone": "c"}]),
        ready=st.booleans() | st.just(value=True),
        schedulable=st.booleans() | st.just(value=True),
        compatible=st.booleans() | st.just(value=True),
        lost_for=st.sampled_from([0.0, 0.0, 0.0, 30.0, 9000.0]),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)
specs = st.sampled_from([ALL, ONE, TWO, EVICTING, WEIGHTED])
held = st.frozensets(st.sampled_from("abcdefg"))


@thorough
@given(specs, targets_drawn, held, st.randoms())
def test_placement_is_stable_and_sound(
    spec: WorkspacePlacement, targets: list[PlacementTarget], current: frozenset[str], dice: random.Random
) -> None:
    found = place_namespace(spec, targets, "shop", current)
    dice.shuffle(targets)
    assert place_namespace(spec, targets, "shop", current) == found, "the order does not matter"
    known = {one.name: one for one in targets}
    assert all(not known[name].obstacle for name in found.targets if name not in current), "only what can take it"
    assert {*found.targets} | {*found.leaving} >= current, "nothing is forgotten"
    assert not {*found.targets} & {*found.leaving}
    assert {*found.leaving} <= current
    count = wanted_count(spec)
    if count is not None:
        assert len(found.targets) <= count
    again = place_namespace(spec, targets, "shop", frozenset(found.targets))
    assert (again.targets, again.leaving) == (found.targets, ()), "where copies are, they stay"


@thorough
@given(targets_drawn)
def test_a_fresh_spread_has_as_many_values_as_possible(targets: list[PlacementTarget]) -> None:
    found = place_namespace(TWO, targets, "shop", frozenset())
    able = [one for one in targets if not one.obstacle]
    values = {one.labels.get("zone") for one in able if one.name in found.targets}
    assert len(values) == min(2, len({one.labels.get("zone") for one in able}))
    assert len(found.targets) == min(2, len(able))


class TestDividing:
    @pytest.mark.parametrize(
        ("total", "weights", "replicas"),
        [
            (6, {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 2}),
            (7, {"c": 1, "b": 1, "a": 1}, {"a": 3, "b": 2, "c": 2}),
            (1, {"b": 1, "a": 1}, {"a": 1, "b": 0}),
            (0, {"a": 1, "b": 1}, {"a": 0, "b": 0}),
            (-1, {"a": 1}, {"a": 0}),
            (8, {"a": 3, "b": 1}, {"a": 6, "b": 2}),
            (10, {"a": 3, "b": 1}, {"a": 8, "b": 2}),
            (5, {"a": 0, "b": 1}, {"a": 0, "b": 5}),
            (4, {"a": 0, "b": 0}, {"a": 2, "b": 2}),
        ],
    )
    def test_the_sum_is_exact(self, total: int, weights: dict[str, int], replicas: dict[str, int]) -> None:
        assert divide_replicas(total, weights).replicas == replicas
        assert divide_replicas(total, weights).exact

    def test_no_target_gets_none(self) -> None:
        found = divide_replicas(3, {})
        assert (found.replicas, found.exact) == ({}, False)

    def test_what_an_autoscaler_holds_stays_and_the_sum_is_not_claimed(self) -> None:
        found = divide_replicas(6, {"a": 1, "b": 1}, {"a": 9, "gone": 1})
        assert (found.replicas, found.exact) == ({"a": 9, "b": 3}, False)

    @thorough
    @given(
        st.integers(0, 200),
        st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10), min_size=1),
        st.booleans(),
    )
    def test_shares_are_fair_and_few_replicas_move(self, total: int, weights: dict[str, int], even: bool) -> None:
        if even or not any(weights.values()):
            weights = dict.fromkeys(weights, 1)
        found = divide_replicas(total, weights).replicas
        assert sum(found.values()) == total
        whole = sum(weights.values())
        assert all(abs(found[name] - Fraction(total * weights[name], whole)) < 1 for name in weights)
        more = divide_replicas(total + 1, dict(reversed(weights.items()))).replicas
        changes = [more[name] - found[name] for name in weights]
        assert all(abs(change) <= 1 for change in changes)
        if len({*weights.values()}) == 1:
            assert sorted(changes) == [*([0] * (len(weights) - 1)), 1]
