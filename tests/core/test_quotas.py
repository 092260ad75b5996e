"""Who keeps a place under a quota, what still fits, and when time is free again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.core.quotas import WINDOW, Holding, Meter, Seat, SharedTime, charged, fits, has_place

OLD, MIDDLE, NEW = (Seat.of(f"2026-01-0{day}T00:00:00Z", f"uid-{day}") for day in (1, 2, 3))
TWIN = Seat.of("2026-01-02T00:00:00Z", "uid-9")

seats = st.builds(Seat.of, st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]), st.uuids().map(str))
holdings = st.lists(st.builds(Holding, seats, st.integers(0, 50)), max_size=6, unique_by=lambda one: one.seat)


class TestPlaces:
    @pytest.mark.parametrize(
        ("seat", "others", "quota", "placed"),
        [
            (OLD, [MIDDLE, NEW], 1, True),
            (MIDDLE, [OLD, NEW], 1, False),
            (MIDDLE, [OLD, NEW], 2, True),
            (NEW, [OLD, MIDDLE], 3, True),
            (OLD, [], 0, False),
            (MIDDLE, [TWIN], 1, True),
            (TWIN, [MIDDLE], 1, False),
            (Seat.of("", ""), [OLD, MIDDLE], 2, False),
            (OLD, [Seat.of("", "")], 1, True),
        ],
        ids=[
            "the-oldest-keeps-its-place",
            "a-newer-one-exceeds",
            "there-is-room-for-two",
            "there-is-room-for-all",
            "none-is-allowed",
            "of-one-second-the-uid-decides",
            "of-one-second-the-uid-decides-against",
            "one-that-does-not-exist-yet-is-the-newest",
            "and-takes-no-place",
        ],
    )
    def test_the_oldest_keep_their_places(self, seat: Seat, others: list[Seat], quota: int, placed: bool) -> None:
        assert has_place(seat, others, quota) is placed

    @quick
    @given(st.lists(seats, min_size=1, max_size=8, unique=True), st.integers(0, 8))
    def test_as_many_have_a_place_as_the_quota_allows(self, all_: list[Seat], quota: int) -> None:
        placed = [one for one in all_ if has_place(one, [other for other in all_ if other is not one], quota)]
        assert sorted(placed) == sorted(all_)[:quota]


class TestRoom:
    @pytest.mark.parametrize(
        ("wanted", "own", "others", "fitting"),
        [
            (10, Holding(NEW, 0), [], True),
            (11, Holding(NEW, 0), [], False),
            (4, Holding(NEW, 0), [Holding(OLD, 6)], True),
            (5, Holding(NEW, 0), [Holding(OLD, 6)], False),
            (5, Holding(OLD, 4), [Holding(NEW, 6)], False),
            (4, Holding(OLD, 4), [Holding(NEW, 6)], True),
            (8, Holding(OLD, 8), [Holding(NEW, 8)], True),
            (8, Holding(NEW, 8), [Holding(OLD, 8)], False),
            (2, Holding(NEW, 8), [Holding(OLD, 8)], True),
            (8, Holding(NEW, 8), [Holding(OLD, 12)], True),
            (0, Holding(NEW, 8), [Holding(OLD, 12)], True),
        ],
        ids=[
            "all-of-it",
            "more-than-all-of-it",
            "what-is-left",
            "more-than-is-left",
            "an-older-one-does-not-grow-into-what-a-newer-one-has",
            "it-keeps-what-it-has",
            "of-too-much-the-oldest-is-served",
            "and-the-newest-is-not",
            "unless-it-shrinks-enough",
            "one-that-never-fits-holds-up-nobody",
            "less-is-always-allowed",
        ],
    )
    def test_a_sync_fits_into_ten_targets(
        self, wanted: int, own: Holding, others: list[Holding], fitting: bool
    ) -> None:
        assert fits(wanted, own, others, 10) is fitting

    @quick
    @given(holdings, st.integers(0, 60), st.integers(0, 100))
    def test_what_exists_never_grows_beyond_the_quota(self, all_: list[Holding], wanted: int, quota: int) -> None:
        if not all_:
            return
        own, *others = all_
        before = sum(one.targets for one in all_)
        if fits(wanted, own, others, quota):
            after = before - own.targets + wanted
            assert after <= quota or after <= before

    @quick
    @given(holdings, st.integers(0, 100), st.integers(0, 50))
    def test_what_a_newer_sync_wants_changes_nothing_for_one_that_stays_as_it_is(
        self, all_: list[Holding], quota: int, grown: int
    ) -> None:
        if not all_:
            return
        own, *others = sorted(all_, key=lambda one: one.seat)
        more = [Holding(other.seat, other.targets + grown) for other in others]
        assert fits(own.targets, own, others, quota) == fits(own.targets, own, more, quota)


class TestTime:
    def test_what_was_used_more_than_an_hour_ago_counts_no_more(self) -> None:
        meter = Meter()
        meter.add(30, now=0)
        meter.add(20, now=600)
        assert meter.used(now=600) == 50
        assert meter.used(now=WINDOW + 60) == 20
        assert meter.used(now=2 * WINDOW) == 0

    def test_it_says_when_there_is_time_again(self) -> None:
        meter = Meter()
        meter.add(30, now=0)
        meter.add(20, now=600)
        assert meter.wait(60, now=700) == 0
        wait = meter.wait(40, now=700)
        assert meter.used(now=700 + wait - 1) == 50
        assert meter.used(now=700 + wait) == 20

    def test_where_no_time_is_allowed_there_is_no_time_to_wait_for(self) -> None:
        meter = Meter()
        meter.add(1, now=0)
        assert meter.wait(0, now=1) == 0

    def test_the_same_time_is_told_until_more_is_used(self) -> None:
        meter = Meter()
        meter.add(30, now=5)
        assert 10 + meter.wait(30, now=10) == 50 + meter.wait(30, now=50)

    @quick
    @given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 300)), max_size=300))
    def test_it_remembers_no_more_than_an_hour_of_minutes(self, uses: list[tuple[float, float]]) -> None:
        meter, now = Meter(), 0.0
        for seconds, later in uses:
            now += later
            meter.add(seconds, now)
        assert len(meter._used) <= WINDOW / 60 + 2

    def test_those_who_are_there_at_once_share_the_time(self) -> None:
        place = SharedTime()
        first = place.enter(0)
        second = place.enter(10)
        assert place.leave(second, 20) == 5
        assert place.leave(first, 30) == 10 + 5 + 10


class TestBytes:
    @pytest.mark.parametrize(
        ("size", "asked", "bytes_"),
        [
            (100, {"a": 100}, 100),
            (100, {"b": 100}, 0),
            (100, {"a": 20, "b": 80}, 20),
            (50, {"a": 20, "b": 80}, 10),
            (100, {}, 0),
            (0, {"a": 10}, 0),
        ],
        ids=[
            "what-came-for-it",
            "what-came-for-others",
            "each-what-came-for-it",
            "after-it-was-packed-anew",
            "what-came-before-anybody-counted",
            "what-is-gone",
        ],
    )
    def test_each_tenant_pays_for_what_came_for_it(self, size: int, asked: dict[str, int], bytes_: int) -> None:
        assert charged(size, asked, "a") == bytes_
