"""Loaded before everything else: `syncline run` ends at once, with 0, on a SIGTERM that comes while the rest is loaded.

Otherwise the signal would end it as a crash does; and the first process of a container would not even notice it, and be
killed half a minute later. Nothing was begun then, so that nothing needs to be ended. `operator.run` takes over.
"""

import os
import signal
import sys
from types import FrameType


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


if sys.argv[1:2] == ["run"]:
    signal.signal(signal.SIGTERM, _leave)
