"""One target that does not answer, and what it holds up."""

import asyncio
from functools import partial

import pytest

from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Verb
from syncline.engine import fanout
from syncline.engine.fanout import WIDTH, YIELD_AFTER, FanOut, Job

QUICK, SLOW = Target("quick", "conf"), Target("slow", "conf")


async def told(_: list[Outcome]) -> None:
    return


def jobs(answer: asyncio.Event) -> list[tuple[Target, Job]]:
    async def quick() -> Outcome:
        return Outcome(target=QUICK, state="Synced", reason="Created", message="")

    async def slow() -> Outcome:
        await answer.wait()
        return Outcome(target=SLOW, state="Synced", reason="Created", message="")

    return [(SLOW, slow), (QUICK, quick)]


async def test_a_target_that_does_not_answer_holds_up_no_turn_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fanout, "STALL_AFTER", 3600.0)
    answer, late = asyncio.Event(), asyncio.Event()
    fan_out = FanOut(late.set, lambda: True)
    async with asyncio.timeout(180):
        first = await fan_out.run(jobs(answer), told)
        again = await fan_out.run(jobs(answer), told)
    for outcomes in (first, again):
        assert {outcome.target: outcome.reason for outcome in outcomes} == {QUICK: "Created", SLOW: "InProgress"}
    answer.set()
    async with asyncio.timeout(180):
        await late.wait()


async def test_what_was_written_after_its_run_had_ended_is_told_by_the_next_one_and_once() -> None:
    answer, late = asyncio.Event(), asyncio.Event()
    fan_out = FanOut(late.set, lambda: True)

    async def write() -> Outcome:
        await answer.wait()
        return Outcome(target=SLOW, state="Synced", reason="Updated", written=Verb.UPDATE)

    async def look() -> Outcome:
        return Outcome(target=SLOW, state="Synced", reason="Synced")

    (begun,) = await fan_out.run([(SLOW, write)], told)
    answer.set()
    await late.wait()
    (reported,), (idle,) = await fan_out.run([(SLOW, look)], told), await fan_out.run([(SLOW, look)], told)
    assert (begun.reason, reported.written, idle.written) == ("InProgress", Verb.UPDATE, None)


async def test_without_one_the_turn_waits_for_it() -> None:
    answer = asyncio.Event()
    asyncio.get_running_loop().call_later(2 * YIELD_AFTER, answer.set)
    outcomes = await FanOut(lambda: None).run(jobs(answer), told)
    assert {outcome.reason for outcome in outcomes} == {"Created"}


async def test_a_cluster_that_does_not_answer_keeps_no_worker_from_the_others() -> None:
    answer = asyncio.Event()

    async def job(target: Target) -> Outcome:
        if target.cluster == "silent":
            await answer.wait()
        return Outcome(target=target, state="Synced", reason="Created", message="")

    places = [
        Target(f"space-{number}", "conf", cluster=cluster)
        for cluster in ("silent", "well")
        for number in range(2 * WIDTH)
    ]
    fan_out = FanOut(lambda: None, lambda: True)
    outcomes = await fan_out.run([(place, partial(job, place)) for place in places], told)
    assert {(outcome.target.cluster, outcome.reason) for outcome in outcomes} == {
        ("silent", "InProgress"),
        ("well", "Created"),
    }
    assert len(outcomes) == len(places)
    answer.set()
    await fan_out.drain(1)
    outcomes = await fan_out.run([(place, partial(job, place)) for place in places], told)
    assert {outcome.reason for outcome in outcomes} == {"Created"}
