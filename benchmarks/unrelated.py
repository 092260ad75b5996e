"""What the operator costs in a large cluster of which nothing is its business: 20,000 Secrets and ConfigMaps."""

import asyncio
import time

from benchmarks.figures import Figure, Results
from benchmarks.scale import scaled
from benchmarks.stage import Stage, stage
from benchmarks.subject import CONFIGMAP, SECRET
from benchmarks.usage import cpu_seconds, memory_mb
from syncline.testing.operator import OperatorProcess

OBJECTS = scaled(10_000)
NAMESPACES = [f"team-{number:02}" for number in range(50)]
_STEADY = 10.0
_POLL = 0.05


async def run() -> Results:
    async with stage() as scene:
        await scene.create_namespaces(NAMESPACES, {})
        await _fill(scene)
        began = time.monotonic()
        with OperatorProcess(scene.kubeconfig, wait=False) as operator:
            while not operator.is_ready():
                if operator.returncode is not None:
                    raise RuntimeError(f"the operator has ended:\n{operator.log()[-2000:]}")
                await asyncio.sleep(_POLL)
            seconds, cpu = time.monotonic() - began, cpu_seconds(operator.pid)
            await asyncio.sleep(_STEADY)
            steady, peak = memory_mb(operator.pid)
            idle = (cpu_seconds(operator.pid) - cpu) / _STEADY
    figures = [
        Figure(name="memory, at most", text=f"{peak:.0f} MB", value=peak, unit="MB", goal=90),
        Figure(name="memory, steady", text=f"{steady:.0f} MB", value=steady, unit="MB", goal=90),
        Figure(name="CPU until ready", text=f"{cpu:.2f} s", value=cpu, unit="s", goal=2),
        Figure(name="time until ready", text=f"{seconds:.1f} s", value=seconds, unit="s"),
        Figure(name="CPU once ready", text=f"{idle:.1%} of a core", value=idle, unit="cores"),
    ]
    return Results(title=f"{2 * OBJECTS:,} unrelated Secrets and ConfigMaps in the cluster", figures=figures)


async def _fill(scene: Stage) -> None:
    for subject in (CONFIGMAP, SECRET):
        bodies = (subject.source(NAMESPACES[n % 50], f"unrelated-{n:05}", "none") for n in range(OBJECTS))
        await scene.create(subject.resource, bodies)
