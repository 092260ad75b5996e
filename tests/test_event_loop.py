"""The event loop of `syncline run`."""

import asyncio
import runpy
import sys
import time

import pytest
import uvloop

from syncline import event_loop
from syncline.event_loop import new_event_loop


def test_the_operator_runs_on_uvloop() -> None:
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


def test_the_operator_runs_on_asyncio_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert runpy.run_path(event_loop.__file__)["new_event_loop"] is asyncio.new_event_loop


def test_the_clock_tells_the_order_of_events_in_the_same_millisecond() -> None:
    async def ask() -> list[float]:
        return [asyncio.get_running_loop().time() for _ in range(100)]

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        times = runner.run(ask())
    assert len(set(times)) > 90


def test_no_timer_is_early() -> None:
    async def wait() -> list[float]:
        loop, early = asyncio.get_running_loop(), []
        for number in range(40):
            delay = 0.0001 + number * 0.00017
            due = time.monotonic() + delay
            await asyncio.sleep(delay)
            early.append(due - time.monotonic())
            due, done = time.monotonic() + delay, asyncio.Event()
            loop.call_at(due, done.set)
            await done.wait()
            early.append(due - time.monotonic())
        return early

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert max(runner.run(wait())) <= 0
