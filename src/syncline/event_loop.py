"""The event loop of the operator: that of uvloop, or of asyncio on a platform that uvloop does not support."""

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple, Unpack

__all__ = ["new_event_loop"]

Ts = TypeVarTuple("Ts")

# uvloop counts whole milliseconds: it cuts off the time at which a timer starts, and rounds its delay.
_TICK = 0.0015

new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
"""Make the event loop. Its clock is `time.monotonic`, and no timer is early, as with asyncio."""

try:
    import uvloop
except ImportError:
    pass
else:

    class _Loop(uvloop.Loop):
        """Keeps time as asyncio does: two events in the same millisecond have an order."""

        def time(self) -> float:
            return time.monotonic()

        def call_later(
            self,
            delay: float,
            callback: Callable[[Unpack[Ts]], object],
            *args: *Ts,
            context: Context | None = None,
        ) -> asyncio.TimerHandle:
            return super().call_later(delay + _TICK if delay > 0 else delay, callback, *args, context=context)

    new_event_loop = _Loop
