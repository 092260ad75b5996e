"""A restart of the operator when all is as it should be: nothing is written, and little is asked."""

import asyncio
import time

from benchmarks.figures import Figure
from benchmarks.stage import Stage
from benchmarks.usage import cpu_seconds, memory_mb
from syncline.testing.audit import OPERATOR, Entry
from syncline.testing.operator import OperatorProcess

_QUIET = 5.0
_POLL = 0.1


async def restart(scene: Stage, goal: float) -> list[Figure]:
    """Start the operator where there is none, wait until it is quiet, and end it; `goal` is for its memory, in MB."""
    mark, began = scene.audit.mark(), time.monotonic()
    with OperatorProcess(scene.kubeconfig) as operator:
        ready = time.monotonic() - began
        quiet, asked = await _until_quiet(scene, mark, began)
        cpu, (steady, peak) = cpu_seconds(operator.pid), memory_mb(operator.pid)
    writes = [entry for entry in asked if entry.changes]
    reads = len(asked) - len(writes)
    return [
        Figure(name="restart: writes", text=str(len(writes)), value=len(writes), unit="", goal=0),
        Figure(name="restart: reads, without watches", text=str(reads), value=reads, unit=""),
        Figure(name="restart: time until ready", text=f"{ready:.1f} s", value=ready, unit="s"),
        Figure(name="restart: time until quiet", text=f"{quiet:.1f} s", value=quiet, unit="s"),
        Figure(name="restart: CPU until quiet", text=f"{cpu:.2f} s", value=cpu, unit="s"),
        Figure(
            name="restart: memory",
            text=f"{steady:.0f} MB, at most {peak:.0f} MB",
            value=peak,
            unit="MB",
            goal=goal,
        ),
    ]


async def _until_quiet(scene: Stage, mark: int, began: float) -> tuple[float, list[Entry]]:
    """Wait until the operator has asked for nothing but watches for a while; return when it last did."""
    asked: list[Entry] = []
    last, now = 0.0, 0.0
    while now - last < _QUIET:
        found = [entry for entry in scene.audit.entries(OPERATOR, since=mark) if entry.verb != "watch"]
        now = time.monotonic() - began
        if len(found) > len(asked) or not found:
            asked, last = found, now
        await asyncio.sleep(_POLL)
    return last, asked
