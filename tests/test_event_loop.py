"""The event loop of `syncline run`."""

import asyncio
import sys
import time

import pytest
import uvloop

from syncline.operator import new_event_loop


def test_the_operator_runs_on_uvloop() -> None:
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


def test_the_operator_runs_on_asyncio_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, asyncio.BaseEventLoop)


def test_the_clock_of_the_loop_goes_on_while_a_callback_runs() -> None:
    """A lease that ran out while the process was frozen has run out for the callback in hand too."""

    async def busy() -> tuple[float, float]:
        clock = asyncio.get_running_loop().time
        looped, real = clock(), time.monotonic()
        while time.monotonic() - real < 0.05:
            pass
        return clock() - looped, time.monotonic() - real

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        looped, real = runner.run(busy())
    assert looped == pytest.approx(real, abs=0.02)
