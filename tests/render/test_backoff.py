"""How long a job that was stopped is left alone."""

from syncline.render.workers.backoff import CAPACITY, Backoff, Backoffs


def test_each_time_a_job_is_stopped_it_waits_longer_up_to_ten_minutes() -> None:
    quarantine = Backoffs()
    waits = [quarantine.add(b"job", "too slow", 0.0).seconds for _ in range(8)]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]


def test_a_job_may_be_tried_when_its_wait_is_over_and_is_remembered_until_it_goes_well() -> None:
    quarantine = Backoffs()
    quarantine.add(b"job", "too slow", 100.0)
    assert quarantine.of(b"job", 104.0) == Backoff("too slow", 6.0)
    assert quarantine.of(b"job", 110.0) is None
    assert b"job" in quarantine
    quarantine.reset(b"job")
    assert b"job" not in quarantine


def test_other_jobs_do_not_wait() -> None:
    quarantine = Backoffs()
    quarantine.add(b"job", "too slow", 0.0)
    assert quarantine.of(b"other", 0.0) is None


def test_only_so_many_jobs_are_remembered() -> None:
    quarantine = Backoffs()
    for number in range(CAPACITY + 1):
        quarantine.add(str(number).encode(), "too slow", 0.0)
    assert b"0" not in quarantine
    assert b"1" in quarantine
