"""Each write of a sync's life is lost, or its answer is, and the operator dies over it: the end is always the same.

By default a seeded sample of the plans is run; SYNCLINE_FAULTS=all runs every one, SYNCLINE_FAULTS_SEED another sample.
"""

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest
from msgspec import Struct
from tests.faults.scene import Scene, wait_until
from tests.faults.workload import Workload

from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

ALL = os.environ.get("SYNCLINE_FAULTS") == "all"
SEED = os.environ.get("SYNCLINE_FAULTS_SEED", "1")
SLOTS = 5

Kill = Callable[[], object]
MODES: dict[str, Callable[[Kill], Fault]] = {
    "before": lambda kill: Fault(before=kill, lost=True),
    "after": lambda kill: Fault(after=kill),
    "ambiguous": lambda _: Fault(cut=True),
}


class Run(Struct):
    """What a run of the workload came to."""

    snapshots: dict[str, str]
    counts: dict[str, Counter[str]]
    writes: int
    faults: int


class Crew:
    """The operator, replaced when it dies."""

    def __init__(self, proxy: FaultProxy, scene: Scene) -> None:
        self._kubeconfig = proxy.kubeconfig(scene.kubeconfig)
        self._operator = OperatorProcess(self._kubeconfig)

    def kill(self) -> None:
        self._operator.kill()

    def check(self) -> None:
        """Start another one if there is none."""
        if self._operator.returncode is not None:
            log = self._operator.log()
            self._operator.stop()
            assert self._operator.returncode == -9, log[-4000:]
            self._operator = OperatorProcess(self._kubeconfig)

    def stop(self) -> None:
        assert self._operator.stop() in (0, -9), "it neither was killed nor ended well"


def live(scene: Scene, fault: Callable[[Kill], Fault], number: int, reference: Run | None) -> Run:
    """Run the workload with a fault at one write (0: none); with a reference, each step must end as it did there."""
    snapshots: dict[str, str] = {}
    with FaultProxy(scene.sandbox) as proxy:
        workload = Workload(scene)
        crew = Crew(proxy, scene)
        rule = proxy.inject(fault(crew.kill), when=lambda asked: asked.number >= number, times=int(number > 0))
        try:
            for name, do in workload.steps:
                do()

                def ended(name: str = name) -> bool:
                    crew.check()
                    return workload.is_done() if reference is None else workload.snapshot() == reference.snapshots[name]

                wait_until(ended, f"the end of: {name}", instead=workload.snapshot)
                snapshots[name] = workload.snapshot()
        finally:
            crew.stop()
        workload.check_foreign()
        return Run(snapshots, workload.counts(), proxy.count(lambda asked: asked.changes), len(rule.hits))


@pytest.fixture(scope="session")
def reference(arena: Sandbox) -> Run:
    """A run in which nothing goes wrong."""
    scene = Scene(arena)
    run = live(scene, MODES["before"], 0, None)
    scene.end()
    return run


@pytest.mark.timeout(3600 if ALL else 300)
@pytest.mark.parametrize("slot", range(SLOTS))
@pytest.mark.parametrize("mode", MODES)
def test_a_crash_at_any_write_leads_to_the_same_end(arena: Sandbox, reference: Run, mode: str, slot: int) -> None:
    numbers = range(1 + slot, reference.writes + 1, SLOTS)
    for number in numbers if ALL else random.Random(f"{SEED} {mode} {slot}").sample(numbers, 1):
        scene = Scene(arena)
        run = live(scene, MODES[mode], number, reference)
        # Statuses that follow each other closely are written as one: a run may need fewer writes than the reference.
        assert run.faults == 1 or run.writes < number, f"write {number} of {reference.writes} never came"
        assert run.counts == reference.counts, f"surplus writes: {mode} write {number} of {reference.writes}"
        scene.end()
