"""A restart with 1,000 converged copies: nothing is written, and little is asked."""

import asyncio
import time

from benchmarks.figures import Figure, Results
from benchmarks.sightings import in_all, watching
from benchmarks.stage import HOME, SYNCS, Stage, config_map, stage, sync
from benchmarks.usage import cpu_seconds, memory_mb
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.resources import CONFIGMAPS
from syncline.testing.audit import OPERATOR, Entry
from syncline.testing.operator import OperatorProcess

TARGETS = 1000
_QUIET = 5.0
_POLL = 0.1


async def run() -> Results:
    async with stage() as scene:
        await _converge(scene)
        mark, began = scene.audit.mark(), time.monotonic()
        with OperatorProcess(scene.kubeconfig) as operator:
            ready = time.monotonic() - began
            quiet, asked = await _until_quiet(scene, mark, began)
            cpu, (steady, peak) = cpu_seconds(operator.pid), memory_mb(operator.pid)
    writes = [entry for entry in asked if entry.changes]
    reads = [entry for entry in asked if not entry.changes and entry.verb != "watch"]
    figures = [
        Figure(name="writes", text=str(len(writes)), value=len(writes), unit="", goal=0),
        Figure(name="reads, without watches", text=str(len(reads)), value=len(reads), unit=""),
        Figure(name="time until ready", text=f"{ready:.1f} s", value=ready, unit="s"),
        Figure(name="time until quiet", text=f"{quiet:.1f} s", value=quiet, unit="s"),
        Figure(name="CPU until quiet", text=f"{cpu:.2f} s", value=cpu, unit="s"),
        Figure(name="memory", text=f"{steady:.0f} MB, at most {peak:.0f} MB", value=peak, unit="MB"),
    ]
    return Results(title=f"restart with {TARGETS:,} converged copies", figures=figures)


async def _converge(scene: Stage) -> None:
    names = [f"bench-{number:04}" for number in range(TARGETS)]
    await scene.create_namespaces(names, {"bench": "restart"})
    await scene.create(CONFIGMAPS, [config_map(HOME, "source", "right")])
    with OperatorProcess(scene.kubeconfig):
        async with watching(scene.client, CONFIGMAPS, OWNER_LABEL) as copies, watching(scene.client, SYNCS) as syncs:
            seen = copies.until(in_all(TARGETS, b'"right"')), syncs.until(lambda line: b"1000/1000" in line)
            body = sync("restart", "source", destinationNamespaceSelector={"matchLabels": {"bench": "restart"}})
            await scene.client.create(SYNCS, body, HOME)
            await asyncio.gather(*seen)


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
