import asyncio
from contextlib import AsyncExitStack

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.conftest import Until

from syncline.fairness import on_behalf_of
from syncline.kube import FairLimiter


async def test_no_more_than_the_limit_at_once() -> None:
    limiter, most = FairLimiter(max=3), 0

    async def work() -> None:
        nonlocal most
        async with limiter.slot():
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(50)))
    assert most == 3
    assert limiter.in_flight == 0


async def test_keys_take_turns_however_much_each_of_them_wants(until: Until) -> None:
    limiter, order = FairLimiter(max=1), list[str]()

    async def work(key: str) -> None:
        async with limiter.slot(key):
            order.append(key)

    async with limiter.slot("first"):
        tasks = [asyncio.create_task(work("big")) for _ in range(100)]
        await until(lambda: limiter.waiting("big") == 100)
        tasks += [asyncio.create_task(work("small")) for _ in range(3)]
        await until(lambda: limiter.waiting("small") == 3)
    await asyncio.gather(*tasks)
    assert order[:7] == ["big", "small", "big", "small", "big", "small", "big"]


async def test_a_namespace_with_many_syncs_has_no_more_turns_than_one_with_a_single_sync(until: Until) -> None:
    limiter, order = FairLimiter(max=1), list[str]()

    async def work(namespace: str, key: str) -> None:
        on_behalf_of.set(namespace)
        async with limiter.slot(key):
            order.append(namespace)

    async with limiter.slot("first"):
        tasks = [asyncio.create_task(work("mallory", f"sync-{number}")) for number in range(50) for _ in range(20)]
        await until(lambda: sum(limiter.waiting(f"sync-{number}") for number in range(50)) == 1000)
        tasks += [asyncio.create_task(work("victim", "sync")) for _ in range(20)]
        await until(lambda: limiter.waiting("sync") == 20)
    await asyncio.gather(*tasks)
    assert order[:40].count("victim") == 20


async def test_a_namespace_whose_requests_are_never_answered_leaves_slots_to_others(until: Until) -> None:
    limiter, held, served = FairLimiter(max=6, share=4), asyncio.Event(), list[str]()

    async def work(namespace: str, *, is_held: bool) -> None:
        on_behalf_of.set(namespace)
        async with limiter.slot("sync"):
            if is_held:
                await held.wait()
            served.append(namespace)

    crowd = [asyncio.create_task(work("mallory", is_held=True)) for _ in range(100)]
    await until(lambda: limiter.waiting("sync") == 96)
    await asyncio.gather(*(work("victim", is_held=False) for _ in range(20)))
    assert served == ["victim"] * 20
    assert (limiter.in_flight, limiter.waiting("sync")) == (4, 96)
    held.set()
    await asyncio.gather(*crowd)
    assert (limiter.in_flight, limiter._held, limiter._waiting) == (0, {}, {})


async def test_a_namespace_whose_account_is_throttled_slows_down_no_other() -> None:
    limiter = FairLimiter(max=12, share=8)

    async def slots_of(namespace: str, *, throttled: int = 0, served: int = 0) -> int:
        """Return how many slots a namespace has at once, after so many answers."""
        on_behalf_of.set(namespace)
        for _ in range(throttled):
            limiter.on_throttle()
            for allowance in limiter._throttled.values():
                allowance._last_cut = float("-inf")
        for _ in range(served):
            limiter.on_success()
        async with AsyncExitStack() as stack:
            while limiter._may_hold_more(namespace):
                await stack.enter_async_context(limiter.slot("sync"))
            return limiter.in_flight

    assert await asyncio.create_task(slots_of("mallory", throttled=3)) == 1
    assert await asyncio.create_task(slots_of("victim")) == 8
    assert limiter.limit == 12
    assert await asyncio.create_task(slots_of("mallory", served=1 + 2 + 3)) == 4
    assert await asyncio.create_task(slots_of("mallory", served=4 + 5 + 6 + 7)) == 8
    assert not limiter._throttled


async def test_the_limit_halves_when_throttled_and_grows_back() -> None:
    limiter = FairLimiter(max=8)
    limiter.on_throttle()
    limiter.on_throttle()
    assert limiter.limit == 4, "one moment of overload counts once"
    for _ in range(4):
        limiter.on_success()
    assert limiter.limit == 5
    for _ in range(5 + 6 + 7 + 100):
        limiter.on_success()
    assert limiter.limit == 8


async def test_the_limit_never_falls_to_nothing() -> None:
    limiter = FairLimiter(max=1)
    limiter.on_throttle()
    async with limiter.slot():
        assert limiter.limit == 1


async def test_a_lower_limit_holds_new_ones_back_until_enough_have_left(until: Until) -> None:
    limiter = FairLimiter(max=4)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(limiter.slot())
        limiter.on_throttle()
        late = asyncio.create_task(limiter.acquire("late"))
        await until(lambda: limiter.waiting("late") == 1)
    await late
    assert limiter.in_flight == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.integers(1, 4), st.integers(1, 4))
async def test_no_slot_is_lost_when_waiters_are_cancelled(
    wishes: list[tuple[str, bool]], size: int, share: int
) -> None:
    limiter = FairLimiter(max=size, share=share)

    async def work(key: str) -> None:
        on_behalf_of.set(key)
        async with limiter.slot(key):
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(work(key)) for key, _ in wishes]
    await asyncio.sleep(0)
    for task, (_, cancelled) in zip(tasks, wishes, strict=True):
        if cancelled:
            task.cancel()
            await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert limiter.in_flight == 0
    assert not limiter._waiting
    assert not limiter._held
