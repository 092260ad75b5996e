import asyncio
from contextlib import AsyncExitStack

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.conftest import Until

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
        await until(lambda: len(limiter._waiting.get("big", ())) == 100)
        tasks += [asyncio.create_task(work("small")) for _ in range(3)]
        await until(lambda: len(limiter._waiting.get("small", ())) == 3)
    await asyncio.gather(*tasks)
    assert order[:7] == ["big", "small", "big", "small", "big", "small", "big"]


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
        await until(lambda: "late" in limiter._waiting)
    await late
    assert limiter.in_flight == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.integers(1, 4))
async def test_no_slot_is_lost_when_waiters_are_cancelled(wishes: list[tuple[str, bool]], size: int) -> None:
    limiter = FairLimiter(max=size)

    async def work(key: str) -> None:
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
