"""Rates, memories and budgets, with a clock of our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.limits import BodyBudget, Buckets, OverBudgetError, source_of
from syncline.receiver.limits import Deliveries


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_taken_at_once_and_then_so_many_a_second() -> None:
    clock = Clock()
    buckets = Buckets(rate=2, burst=3, capacity=10, clock=clock)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a") == 0.5
    assert buckets.take("b") == 0
    clock.now += 0.5
    assert (buckets.take("a"), buckets.take("a")) == (0, 0.5)
    clock.now += 60
    assert [bool(buckets.take("a")) for _ in range(4)] == [False, False, False, True]


def test_only_so_many_buckets_are_kept_and_the_quiet_ones_go_first() -> None:
    buckets = Buckets(rate=1, burst=1, capacity=2, clock=Clock())
    for key in ("a", "b", "a", "c"):
        buckets.take(key)
    assert len(buckets) == 2
    assert buckets.take("a") > 0
    assert buckets.take("b") == 0


@quick
@given(st.lists(st.floats(0, 3), max_size=40))
def test_never_more_than_the_burst_and_the_rate_allow(waits: list[float]) -> None:
    clock = Clock()
    buckets = Buckets(rate=2, burst=5, capacity=1, clock=clock)
    taken = 0
    for wait in waits:
        clock.now += wait
        taken += buckets.take("a") == 0
        assert taken <= 5 + 2 * (clock.now - 100) + 1e-6


def test_what_is_given_back_can_be_taken_again_and_never_more() -> None:
    buckets = Buckets(rate=0.1, burst=2, capacity=2, clock=Clock())
    buckets.give_back("a")
    for _ in range(5):
        assert buckets.take("a") == 0
        buckets.give_back("a")
    buckets.give_back("a")
    assert [bool(buckets.take("a")) for _ in range(3)] == [False, False, True]


def test_deliveries_are_remembered_as_long_as_there_is_room() -> None:
    deliveries = Deliveries(2)
    for delivery in ("a", "b", "c"):
        deliveries.add(delivery)
    assert [delivery in deliveries for delivery in ("a", "b", "c")] == [False, True, True]
    assert len(deliveries) == 2


def test_a_share_of_the_budget_is_given_back_whatever_happens() -> None:
    budget = BodyBudget(10)
    with budget.share() as first:
        first(6)
        with budget.share() as second:
            second(4)
            with pytest.raises(OverBudgetError):
                second(1)
        with budget.share() as third:
            third(4)
    with budget.share() as again:
        again(10)


def test_a_sender_has_a_share_of_the_budget_and_the_first_bytes_of_each_request_are_free() -> None:
    budget = BodyBudget(10, share=6, free=2)
    with budget.share("one") as first, budget.share("one") as second, budget.share("two") as other:
        first(3)
        first(5)
        second(2)
        with pytest.raises(OverBudgetError):
            second(1)
        other(6)
        with pytest.raises(OverBudgetError):
            other(1)
    with budget.share("two") as again:
        again(8)


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        (None, ""),
        ("nonsense", ""),
    ],
)
def test_an_address_is_known_by_who_owns_it(address: str | None, source: str) -> None:
    assert source_of(address) == source
