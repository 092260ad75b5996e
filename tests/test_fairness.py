"""Who waits for whom."""

import asyncio

import pytest

from syncline.fairness import FairSemaphore


async def test_groups_take_turns_whatever_their_size() -> None:
    slots = FairSemaphore(1)
    order: list[str] = []

    async def visit(group: str, name: str) -> None:
        async with slots.slot(group):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for group, name in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")]:
            tasks.create_task(visit(group, name))
    assert order == ["a1", "a2", "b1", "c1", "a3", "b2"]


async def test_a_newcomer_goes_before_a_crowd_that_holds_the_other_places() -> None:
    slots = FairSemaphore(2)
    order: list[str] = []
    first, second = slots.slot("crowd"), slots.slot("crowd")
    await first.__aenter__()
    await second.__aenter__()

    async def visit(group: str) -> None:
        async with slots.slot(group):
            order.append(group)

    async with asyncio.TaskGroup() as tasks:
        for group in ["crowd", "crowd", "newcomer"]:
            tasks.create_task(visit(group))
        await asyncio.sleep(0)
        await first.__aexit__(None, None, None)
    assert order == ["newcomer", "crowd", "crowd"]
    await second.__aexit__(None, None, None)


async def test_no_more_than_the_places_are_taken() -> None:
    slots = FairSemaphore(3)
    inside = most = 0

    async def visit(number: int) -> None:
        nonlocal inside, most
        async with slots.slot(str(number % 4)):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*map(visit, range(50)))
    assert most == 3


async def test_a_place_that_is_given_up_while_waiting_is_not_lost() -> None:
    slots = FairSemaphore(1)
    async with slots.slot("a"):
        waiting = asyncio.create_task(slots.slot("a").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with asyncio.timeout(60), slots.slot("b"):
        pass


async def test_a_place_that_is_given_up_when_just_won_is_passed_on() -> None:
    slots = FairSemaphore(1)
    first = slots.slot("a")
    await first.__aenter__()
    waiting = asyncio.create_task(slots.slot("a").__aenter__())
    await asyncio.sleep(0)
    await first.__aexit__(None, None, None)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(60), slots.slot("b"):
        pass


async def test_a_group_holds_no_more_than_its_share_and_the_rest_is_for_others() -> None:
    slots = FairSemaphore(4, share=2)
    inside: list[str] = []
    let_go = asyncio.Event()

    async def visit(group: str) -> None:
        async with slots.slot(group):
            inside.append(group)
            await let_go.wait()

    async with asyncio.TaskGroup() as tasks:
        for group in ["crowd"] * 6 + ["newcomer"]:
            tasks.create_task(visit(group))
        await asyncio.sleep(0)
        assert inside == ["crowd", "crowd", "newcomer"]
        let_go.set()
    assert len(inside) == 7


async def test_what_two_groups_want_does_not_wait_behind_what_one_of_them_wants_alone() -> None:
    slots = FairSemaphore(2, share=1)
    async with slots.slot("crowd"):
        together = asyncio.create_task(slots.slot("crowd", "newcomer").__aenter__())
        await asyncio.sleep(0)
        assert together.done()


async def test_who_gives_up_waiting_leaves_no_trace() -> None:
    slots = FairSemaphore(1)
    async with slots.slot("a"):
        waiting = asyncio.create_task(slots.slot("b").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert not slots._waiting
    assert not +slots._held


async def test_a_crowd_that_gives_up_all_at_once_leaves_every_slot_free() -> None:
    slots = FairSemaphore(3, share=2)

    async def visit() -> None:
        async with slots.slot("crowd"):
            await asyncio.Event().wait()

    crowd = [asyncio.create_task(visit()) for _ in range(16)]
    await asyncio.sleep(0)
    for task in crowd:
        task.cancel()
    await asyncio.wait(crowd)
    assert all(task.cancelled() for task in crowd)
    async with asyncio.timeout(60), slots.slot(""), slots.slot(""), slots.slot(""):
        pass
