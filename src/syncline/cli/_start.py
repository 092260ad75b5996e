"""Loaded before all other modules: `syncline run` exits with 0 on a SIGTERM during the loading of the other modules.

Otherwise the exit would look like a crash. The first process of a container would even ignore the signal, and the
kubelet would kill it half a minute later. No work has started at this time, so nothing needs a shutdown. `operator.run`
installs its own handler later.
"""

import os
import signal
import sys
from types import FrameType


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


if sys.argv[1:2] == ["run"]:
    signal.signal(signal.SIGTERM, _leave)
