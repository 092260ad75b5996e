import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from tests.kube.conftest import Until

from syncline.kube import Queue, QueueClosed, run_workers


@pytest.fixture
async def queue() -> AsyncIterator[Queue[str]]:
    made: Queue[str] = Queue("test")
    yield made
    made.close()


async def soon(queue: Queue[str]) -> str:
    async with asyncio.timeout(180):
        return await queue.get()


async def test_a_key_added_many_times_is_handed_out_once(queue: Queue[str]) -> None:
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert [await soon(queue), await soon(queue)] == ["a", "b"]
    assert queue.depth() == 0


async def test_a_key_added_while_in_work_is_handed_out_again_afterwards(queue: Queue[str]) -> None:
    queue.add("a")
    key = await soon(queue)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert await soon(queue) == "b"
    assert queue.depth() == 0, "nobody else gets it meanwhile"
    queue.done(key)
    assert await soon(queue) == "a"
    queue.done(key)
    assert queue.depth() == 0


async def test_the_urgent_go_first_and_the_rest_in_order(queue: Queue[str]) -> None:
    queue.add("resync-1", priority=10)
    queue.add("resync-2", priority=10)
    queue.add("edit", priority=0)
    queue.add("resync-2", priority=-5)
    assert [await soon(queue) for _ in range(3)] == ["resync-2", "edit", "resync-1"]


async def test_an_earlier_wish_wins_over_a_later_one(queue: Queue[str]) -> None:
    queue.add("a", delay=3600)
    queue.add("a", delay=7200)
    assert queue.depth() == 0
    queue.add("a")
    assert queue.depth() == 1
    queue.add("a", delay=3600)
    assert await soon(queue) == "a"
    queue.done("a")
    assert queue.depth() == 0


async def test_a_delayed_key_comes_when_it_is_due(queue: Queue[str]) -> None:
    now = asyncio.get_running_loop().time
    queue.add("late", delay=0.05)
    started = now()
    assert await soon(queue) == "late"
    assert now() - started >= 0.05


async def test_a_wish_made_while_in_work_keeps_its_time(queue: Queue[str]) -> None:
    queue.add("a")
    await soon(queue)
    queue.add("a", delay=3600)
    queue.done("a")
    assert queue.depth() == 0
    queue.add("a")
    assert await soon(queue) == "a"


async def test_failures_in_a_row_are_retried_later_and_later_up_to_a_cap() -> None:
    queue: Queue[str] = Queue("test", retry_first=0.2, retry_cap=10)
    delays = [queue.retry("a") for _ in range(12)]
    for count, delay in enumerate(delays):
        full = min(10, 0.2 * 2**count)
        assert 0.75 * full <= delay <= full
    assert queue.failures("a") == 12
    queue.forget("a")
    assert queue.retry("a") <= 0.2
    assert queue.retry("b") <= 0.2, "each key has its own count"
    queue.close()


async def test_a_closed_queue_hands_out_nothing_and_wakes_all_who_wait(queue: Queue[str]) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    queue.add("a")
    assert [type(result) for result in await asyncio.gather(*waiting, return_exceptions=True)] == [QueueClosed] * 3
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_work_that_waits_when_the_queue_closes_is_left(queue: Queue[str]) -> None:
    queue.add("a")
    queue.close()
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_cancelled_wait_loses_no_key(queue: Queue[str]) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await soon(queue) == "a"


async def test_depth_and_age_are_published(queue: Queue[str]) -> None:
    queue.add("a")
    queue.add("later", delay=3600)
    assert REGISTRY.get_sample_value("syncline_queue_depth", {"queue": "test"}) == 1
    oldest = REGISTRY.get_sample_value("syncline_queue_oldest_seconds", {"queue": "test"})
    assert oldest is not None
    assert 0 <= oldest < 30


async def test_workers_survive_a_failing_key_and_try_it_again(until: Until) -> None:
    queue: Queue[str] = Queue("test", retry_first=0.01)
    seen: list[str] = []

    async def handle(key: str) -> None:
        seen.append(key)
        if key == "bad" and seen.count("bad") < 3:
            raise RuntimeError("no luck")

    workers = asyncio.create_task(run_workers(queue, 2, handle))
    for key in ("bad", "good"):
        queue.add(key)
    await until(lambda: seen.count("bad") == 3)
    await until(lambda: queue.failures("bad") == 0)
    assert seen.count("good") == 1
    queue.close()
    await workers


async def test_a_handler_that_asks_for_a_retry_itself_keeps_its_count(until: Until) -> None:
    queue: Queue[str] = Queue("test", retry_first=0.01)
    seen: list[int] = []

    async def handle(key: str) -> None:
        seen.append(queue.failures(key))
        if len(seen) < 3:
            queue.retry(key)

    workers = asyncio.create_task(run_workers(queue, 2, handle))
    queue.add("a")
    await until(lambda: len(seen) == 3)
    assert seen == [0, 1, 2]
    queue.close()
    await workers


async def test_closing_lets_work_in_hand_finish() -> None:
    queue: Queue[str] = Queue("test")
    begun, may_end, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(_: str) -> None:
        begun.set()
        await may_end.wait()
        finished.set()

    workers = asyncio.create_task(run_workers(queue, 2, handle))
    queue.add("a")
    queue.add("a", delay=3600)
    await begun.wait()
    queue.close()
    may_end.set()
    await workers
    assert finished.is_set()


Step = tuple[str, str]
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "urgent", "later", "get", "done", "retry"]), st.sampled_from("abc")), max_size=60
)


@settings(deadline=None)
@given(STEPS)
async def test_whatever_happens_no_key_is_lost_doubled_or_shared(steps: list[Step]) -> None:
    """The model: which keys somebody asked for since they were last handed out, and which are in work."""
    queue: Queue[str] = Queue("test")
    asked, working = set[str](), set[str]()
    for step, key in steps:
        if step == "add":
            queue.add(key)
        elif step == "urgent":
            queue.add(key, priority=-1)
        elif step == "later":
            queue.add(key, delay=3600)
        elif step == "retry":
            queue.retry(key)
        elif step == "done" and key in working:
            queue.done(key)
            working.discard(key)
        elif step == "get" and queue.depth():
            got = await soon(queue)
            assert got not in working, "one worker at a time"
            assert got in asked
            asked.discard(got)
            working.add(got)
        if step in {"add", "urgent"}:
            asked.add(key)
        assert queue.depth() == len(asked - working)
    for key in working:
        queue.done(key)
    rest = [await soon(queue) for _ in range(queue.depth())]
    assert sorted(rest) == sorted(asked)
    queue.close()


async def test_groups_take_turns() -> None:
    queue: Queue[str] = Queue("test", group=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "b2", "c1"):
        queue.add(key)
    assert [await soon(queue) for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    queue.close()


async def test_a_group_that_has_its_share_in_work_waits_and_no_other_does() -> None:
    queue: Queue[str] = Queue("test", group=lambda key: key[0], share=2)
    for key in ("a1", "a2", "a3", "a4"):
        queue.add(key)
    assert [await soon(queue) for _ in range(2)] == ["a1", "a2"]
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add("b1")
    assert await waiting == "b1"
    queue.done("a1")
    assert await soon(queue) == "a3"
    queue.close()


async def test_what_is_not_urgent_is_not_put_off_for_ever() -> None:
    queue: Queue[str] = Queue("test")
    queue.add("resync", priority=1)
    handed_out = []
    for number in range(20):
        queue.add(f"edit-{number}")
        queue.add(f"another-{number}")
        handed_out.append(await soon(queue))
    assert "resync" in handed_out
    queue.close()


async def test_work_that_waits_for_an_answer_holds_no_worker(until: Until) -> None:
    queue: Queue[str] = Queue("test")
    answer = asyncio.Event()
    begun: list[str] = []

    async def handle(key: str) -> None:
        begun.append(key)
        if key.startswith("slow"):
            await answer.wait()

    workers = asyncio.create_task(run_workers(queue, 2, handle, waiting_after=0.01))
    for number in range(20):
        queue.add(f"slow-{number}")
    queue.add("quick")
    await until(lambda: "quick" in begun)
    assert len(begun) == 21
    answer.set()
    queue.close()
    await workers


async def test_nothing_is_begun_with_before_it_is_allowed(until: Until) -> None:
    queue: Queue[str] = Queue("test")
    allowed = asyncio.Event()
    begun: list[str] = []

    async def handle(key: str) -> None:
        begun.append(key)

    workers = asyncio.create_task(run_workers(queue, 2, handle, ready=allowed.wait))
    queue.add("a")
    await asyncio.sleep(0.05)
    assert not begun
    allowed.set()
    await until(lambda: begun == ["a"])
    queue.close()
    await workers


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=40))
async def test_every_key_is_handed_out_exactly_once(added: list[tuple[str, int, int]]) -> None:
    queue: Queue[str] = Queue("test", group=lambda key: key[0])
    for group, number, priority in added:
        queue.add(f"{group}{number}", priority=priority)
    wanted = {f"{group}{number}" for group, number, _ in added}
    handed_out = [await soon(queue) for _ in wanted]
    assert sorted(handed_out) == sorted(wanted)
    assert queue.depth() == 0
    queue.close()


async def test_no_group_takes_more_than_half_of_the_workers_even_for_a_moment(until: Until) -> None:
    queue: Queue[str] = Queue("test", group=lambda key: key[0])
    answer = asyncio.Event()
    begun: list[str] = []

    async def handle(key: str) -> None:
        begun.append(key)
        if key.startswith("a"):
            await answer.wait()

    workers = asyncio.create_task(run_workers(queue, 4, handle, waiting_after=3600))
    for number in range(10):
        queue.add(f"a{number}")
    await until(lambda: len(begun) == 2)
    queue.add("b")
    await until(lambda: "b" in begun)
    assert begun == ["a0", "a1", "b"]
    answer.set()
    await until(lambda: len(begun) == 11)
    queue.close()
    await workers
