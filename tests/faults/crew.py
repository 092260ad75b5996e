"""An operator that dies over single writes, and how these are chosen."""

import os
import random
from collections.abc import Callable
from pathlib import Path

from syncline.testing.faults import Fault
from syncline.testing.operator import OperatorProcess

ALL = os.environ.get("SYNCLINE_FAULTS") == "all"
SEED = os.environ.get("SYNCLINE_FAULTS_SEED", "1")

Kill = Callable[[], object]
MODES: dict[str, Callable[[Kill], Fault]] = {
    "before": lambda kill: Fault(before=kill, lost=True),
    "after": lambda kill: Fault(after=kill),
    "ambiguous": lambda _: Fault(cut=True),
}


class Crew:
    """The operator, replaced when it dies."""

    def __init__(self, kubeconfig: Path, *flags: str) -> None:
        self._start = lambda: OperatorProcess(kubeconfig, *flags)
        self._operator = self._start()

    def kill(self) -> None:
        self._operator.kill()

    def check(self) -> None:
        """Start another one if there is none."""
        if self._operator.returncode is not None:
            log = self._operator.log()
            self._operator.stop()
            assert self._operator.returncode == -9, log[-4000:]
            self._operator = self._start()

    def stop(self) -> None:
        assert self._operator.stop() in (0, -9), "it neither was killed nor ended well"


def sample(name: str, writes: int, faults: int) -> list[int]:
    """Choose writes at which something goes wrong: one in each part of a life."""
    choice = random.Random(f"{SEED} {name}")
    parts = min(faults, writes)
    return [choice.randint(writes * part // parts + 1, writes * (part + 1) // parts) for part in range(parts)]
