"""Loaded before all other modules: `syncline run` and `syncline agent` exit with 0 on a SIGTERM while others load.

Otherwise the exit would look like a crash. The first process of a container would even ignore the signal, and the
kubelet would kill it half a minute later. No work has started at this time, so nothing needs a shutdown. `operator.run`
installs its own handler later.

The garbage collector pauses while the modules are loaded: loading produces no garbage, and the collector would take a
quarter of the time of a start. Loaded modules stay until the end, so later collections pass them over.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def leave_on_sigterm() -> None:
    """Exit with 0 on a SIGTERM, until the operator or the agent installs its own handler."""
    signal.signal(signal.SIGTERM, _leave)


@contextmanager
def loading() -> Iterator[None]:
    """Pause garbage collection while modules are loaded. Later collections pass over all that exists then."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


if sys.argv[1:2] in (["run"], ["agent"]):
    leave_on_sigterm()
