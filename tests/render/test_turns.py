"""Who waits for whom."""

import asyncio

import pytest

from syncline.render.quarantine import CAPACITY, Held, Quarantine
from syncline.render.turns import Turns


async def test_groups_take_turns_whatever_their_size() -> None:
    turns = Turns(1)
    order: list[str] = []

    async def visit(group: str, name: str) -> None:
        async with turns.turn(group):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for group, name in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")]:
            tasks.create_task(visit(group, name))
    assert order == ["a1", "a2", "b1", "c1", "a3", "b2"]


async def test_a_newcomer_goes_before_a_crowd_that_holds_the_other_places() -> None:
    turns = Turns(2)
    order: list[str] = []
    first, second = turns.turn("crowd"), turns.turn("crowd")
    await first.__aenter__()
    await second.__aenter__()

    async def visit(group: str) -> None:
        async with turns.turn(group):
            order.append(group)

    async with asyncio.TaskGroup() as tasks:
        for group in ["crowd", "crowd", "newcomer"]:
            tasks.create_task(visit(group))
        await asyncio.sleep(0)
        await first.__aexit__(None, None, None)
    assert order == ["newcomer", "crowd", "crowd"]
    await second.__aexit__(None, None, None)


async def test_no_more_than_the_places_are_taken() -> None:
    turns = Turns(3)
    inside = most = 0

    async def visit(number: int) -> None:
        nonlocal inside, most
        async with turns.turn(str(number % 4)):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*map(visit, range(50)))
    assert most == 3


async def test_a_place_that_is_given_up_while_waiting_is_not_lost() -> None:
    turns = Turns(1)
    async with turns.turn("a"):
        waiting = asyncio.create_task(turns.turn("a").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with asyncio.timeout(10), turns.turn("b"):
        pass


async def test_a_place_that_is_given_up_when_just_won_is_passed_on() -> None:
    turns = Turns(1)
    first = turns.turn("a")
    await first.__aenter__()
    waiting = asyncio.create_task(turns.turn("a").__aenter__())
    await asyncio.sleep(0)
    await first.__aexit__(None, None, None)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(10), turns.turn("b"):
        pass


def test_each_time_a_job_is_stopped_it_waits_longer_up_to_ten_minutes() -> None:
    quarantine = Quarantine()
    waits = [quarantine.add(b"job", "too slow", 0.0).seconds for _ in range(8)]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]


def test_a_job_may_be_tried_when_its_wait_is_over_and_is_remembered_until_it_goes_well() -> None:
    quarantine = Quarantine()
    quarantine.add(b"job", "too slow", 100.0)
    assert quarantine.holds(b"job", 104.0) == Held("too slow", 6.0)
    assert quarantine.holds(b"job", 110.0) is None
    assert b"job" in quarantine
    quarantine.release(b"job")
    assert b"job" not in quarantine


def test_other_jobs_do_not_wait() -> None:
    quarantine = Quarantine()
    quarantine.add(b"job", "too slow", 0.0)
    assert quarantine.holds(b"other", 0.0) is None


def test_only_so_many_jobs_are_remembered() -> None:
    quarantine = Quarantine()
    for number in range(CAPACITY + 1):
        quarantine.add(str(number).encode(), "too slow", 0.0)
    assert b"0" not in quarantine
    assert b"1" in quarantine
