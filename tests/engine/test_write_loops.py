"""When somebody undoes the same write again and again, and when a source only changes often."""

import pytest

from syncline.engine.write_loops import (
    FIRST_PAUSE,
    LAST_PAUSE,
    MAX_OBJECTS,
    REMEMBERED_SECONDS,
    TOLERATED_WRITES,
    WriteLoops,
)

APP = "cluster/ConfigMap/team/app"


def written(write_loops: WriteLoops, *digests: str, at: str = APP, now: float = 0.0) -> None:
    for digest in digests:
        write_loops.record(at, digest, "1", now)


def test_the_same_write_is_tolerated_a_few_times_and_then_paused() -> None:
    write_loops = WriteLoops()
    for _ in range(TOLERATED_WRITES):
        assert write_loops.paused_by(APP, "red", 0.0) is None
        written(write_loops, "red")
    earlier = write_loops.paused_by(APP, "red", 1.0)
    assert earlier is not None
    assert (earlier.count, earlier.version) == (TOLERATED_WRITES, "1")


def test_a_source_that_changes_often_is_no_fight() -> None:
    write_loops = WriteLoops()
    for number in range(100):
        digest = f"revision {number}"
        assert write_loops.paused_by(APP, digest, 0.0) is None
        written(write_loops, digest)


def test_a_source_that_changes_to_and_fro_is_no_fight() -> None:
    write_loops = WriteLoops()
    written(write_loops, *["red", "blue"] * 20)
    assert write_loops.paused_by(APP, "red", 0.0) is None
    assert write_loops.paused_by(APP, "blue", 0.0) is None


def test_another_object_is_another_matter() -> None:
    write_loops = WriteLoops()
    written(write_loops, *["red"] * 9)
    assert write_loops.paused_by("cluster/ConfigMap/team/other", "red", 0.0) is None


def test_a_change_of_the_source_goes_through_a_pause() -> None:
    write_loops = WriteLoops()
    written(write_loops, *["red"] * 9)
    assert write_loops.paused_by(APP, "blue", 0.0) is None


def test_the_pauses_of_a_fight_grow_and_stay_long_while_it_lasts() -> None:
    write_loops = WriteLoops()
    written(write_loops, *["red"] * TOLERATED_WRITES)
    now, pauses = 0.0, []
    for _ in range(2000):
        started = now
        while write_loops.paused_by(APP, "red", now) is not None:
            now += FIRST_PAUSE
        pauses.append(now - started)
        written(write_loops, "red", now=now)
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE


@pytest.mark.parametrize(("later", "remembered"), [(REMEMBERED_SECONDS, 10), (REMEMBERED_SECONDS + 1, 0)])
def test_what_was_written_long_ago_is_forgotten(later: float, remembered: int) -> None:
    write_loops = WriteLoops()
    for number in range(10):
        written(write_loops, "red", at=f"preview-{number}/app")
    write_loops.paused_by(APP, "red", later)
    assert len(write_loops) == remembered


def test_a_write_after_a_long_while_is_the_first_one_again() -> None:
    write_loops = WriteLoops()
    written(write_loops, *["red"] * TOLERATED_WRITES)
    written(write_loops, "red", now=REMEMBERED_SECONDS + 1)
    assert write_loops.paused_by(APP, "red", REMEMBERED_SECONDS + 1) is None


def test_what_we_let_go_of_is_forgotten_at_once() -> None:
    write_loops = WriteLoops()
    written(write_loops, *["red"] * 9)
    write_loops.forget(APP)
    assert (write_loops.paused_by(APP, "red", 0.0), len(write_loops)) == (None, 0)


def test_only_so_many_objects_are_remembered_and_those_in_a_fight_longest() -> None:
    write_loops = WriteLoops()
    written(write_loops, *["red"] * TOLERATED_WRITES)
    for number in range(MAX_OBJECTS + 10):
        written(write_loops, "red", at=f"cluster/ConfigMap/n{number}/app")
        if number % 1000 == 0:
            written(write_loops, "red")
    assert len(write_loops) == MAX_OBJECTS
    assert write_loops.paused_by(APP, "red", 0.0) is not None
