"""When somebody undoes the same write again and again, and when a source only changes often."""

import pytest

from syncline.engine.fights import FIRST_PAUSE, LAST_PAUSE, MAX_OBJECTS, MEMORY, TOLERATED, Fights

APP = "cluster/ConfigMap/team/app"


def written(fights: Fights, *digests: str, at: str = APP, now: float = 0.0) -> None:
    for digest in digests:
        fights.record(at, digest, "1", now)


def test_the_same_write_is_tolerated_a_few_times_and_then_paused() -> None:
    fights = Fights()
    for _ in range(TOLERATED):
        assert fights.pausing(APP, "red", 0.0) is None
        written(fights, "red")
    earlier = fights.pausing(APP, "red", 1.0)
    assert earlier is not None
    assert (earlier.count, earlier.version) == (TOLERATED, "1")


def test_a_source_that_changes_often_is_no_fight() -> None:
    fights = Fights()
    for number in range(100):
        digest = f"revision {number}"
        assert fights.pausing(APP, digest, 0.0) is None
        written(fights, digest)


def test_a_source_that_changes_to_and_fro_is_no_fight() -> None:
    fights = Fights()
    written(fights, *["red", "blue"] * 20)
    assert fights.pausing(APP, "red", 0.0) is None
    assert fights.pausing(APP, "blue", 0.0) is None


def test_another_object_is_another_matter() -> None:
    fights = Fights()
    written(fights, *["red"] * 9)
    assert fights.pausing("cluster/ConfigMap/team/other", "red", 0.0) is None


def test_a_change_of_the_source_goes_through_a_pause() -> None:
    fights = Fights()
    written(fights, *["red"] * 9)
    assert fights.pausing(APP, "blue", 0.0) is None


def test_the_pauses_of_a_fight_grow_and_stay_long_while_it_lasts() -> None:
    fights = Fights()
    written(fights, *["red"] * TOLERATED)
    now, pauses = 0.0, []
    for _ in range(2000):
        started = now
        while fights.pausing(APP, "red", now) is not None:
            now += FIRST_PAUSE
        pauses.append(now - started)
        written(fights, "red", now=now)
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE


@pytest.mark.parametrize(("later", "remembered"), [(MEMORY, 10), (MEMORY + 1, 0)])
def test_what_was_written_long_ago_is_forgotten(later: float, remembered: int) -> None:
    fights = Fights()
    for number in range(10):
        written(fights, "red", at=f"preview-{number}/app")
    fights.pausing(APP, "red", later)
    assert len(fights) == remembered


def test_a_write_after_a_long_while_is_the_first_one_again() -> None:
    fights = Fights()
    written(fights, *["red"] * TOLERATED)
    written(fights, "red", now=MEMORY + 1)
    assert fights.pausing(APP, "red", MEMORY + 1) is None


def test_what_we_let_go_of_is_forgotten_at_once() -> None:
    fights = Fights()
    written(fights, *["red"] * 9)
    fights.forget(APP)
    assert (fights.pausing(APP, "red", 0.0), len(fights)) == (None, 0)


def test_only_so_many_objects_are_remembered_and_those_in_a_fight_longest() -> None:
    fights = Fights()
    written(fights, *["red"] * TOLERATED)
    for number in range(MAX_OBJECTS + 10):
        written(fights, "red", at=f"cluster/ConfigMap/n{number}/app")
        if number % 1000 == 0:
            written(fights, "red")
    assert len(fights) == MAX_OBJECTS
    assert fights.pausing(APP, "red", 0.0) is not None
