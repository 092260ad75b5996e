"""Each write of a sync's life is lost, or its answer is, and the operator dies over it: the end is always the same.

By default a few lives are lived, each with faults at a seeded sample of its writes; SYNCLINE_FAULTS=all lives one life
for each write, SYNCLINE_FAULTS_SEED takes another sample.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import Struct
from tests.faults.crew import ALL, MODES, Crew, Kill, sample
from tests.faults.scene import Scene, wait_until
from tests.faults.workload import Workload

from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy

SLOTS = 5 if ALL else 2
FAULTS = 4


class Run(Struct):
    """What a run of the workload came to."""

    snapshots: dict[str, str]
    counts: dict[str, Counter[str]]
    writes: int
    faults: int


def live(scene: Scene, fault: Callable[[Kill], Fault], numbers: Sequence[int], reference: Run | None) -> Run:
    """Run the workload with a fault at each of these writes; with a reference, each step must end as it did there."""
    snapshots: dict[str, str] = {}
    with FaultProxy(scene.sandbox) as proxy:
        workload = Workload(scene)
        crew = Crew(proxy.kubeconfig(scene.kubeconfig))
        rules = [
            proxy.inject(fault(crew.kill), when=lambda asked, number=number: asked.number >= number, times=1)
            for number in numbers
        ]
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
        faults = sum(len(rule.hits) for rule in rules)
        return Run(snapshots, workload.counts(), proxy.count(lambda asked: asked.changes), faults)


@pytest.fixture(scope="session")
def reference(arena: Sandbox, arena_kubeconfig: Path) -> Run:
    """A run in which nothing goes wrong."""
    scene = Scene(arena, arena_kubeconfig)
    run = live(scene, MODES["before"], (), None)
    scene.end()
    return run


def plans(mode: str, slot: int, writes: int) -> Iterator[list[int]]:
    """Yield the writes at which something goes wrong, for each life."""
    if ALL:
        yield from ([number] for number in range(1 + slot, writes + 1, SLOTS))
        return
    yield sample(f"{mode} {slot}", writes, FAULTS)


@pytest.mark.timeout(3600 if ALL else 300)
@pytest.mark.parametrize("slot", range(SLOTS))
@pytest.mark.parametrize("mode", MODES)
def test_a_crash_at_any_write_leads_to_the_same_end(
    arena: Sandbox, arena_kubeconfig: Path, reference: Run, mode: str, slot: int
) -> None:
    for numbers in plans(mode, slot, reference.writes):
        scene = Scene(arena, arena_kubeconfig)
        run = live(scene, MODES[mode], numbers, reference)
        # Statuses that follow each other closely are written as one: a run may need fewer writes than the reference.
        came = [number for number in numbers if number <= run.writes]
        assert run.faults >= len(came), f"writes {numbers} of {reference.writes} never came"
        assert run.counts == reference.counts, f"surplus writes: {mode} writes {numbers} of {reference.writes}"
        scene.end()
