"""How long an edit takes to reach its copy: one sync among 500, edited one after another."""

import asyncio
import time

from benchmarks.figures import Figure, Results, percentile
from benchmarks.scale import scaled
from benchmarks.sightings import Check, watching
from benchmarks.stage import HOME, Stage, stage
from benchmarks.subject import CONFIGMAP
from syncline.core.ownership import OWNER_LABEL
from syncline.testing.operator import OperatorProcess

SYNCS_THERE = scaled(500)
SAMPLES = scaled(200)
AWAY = "bench-away"


async def run() -> Results:
    async with stage() as scene:
        await scene.create_namespaces([AWAY], {"bench": "latency"})
        names = [f"conf-{number:03}" for number in range(SYNCS_THERE)]
        with OperatorProcess(scene.kubeconfig):
            await _converge(scene, names)
            copies, echoes = await _samples(scene, [names[number * 7 % SYNCS_THERE] for number in range(SAMPLES)])
    p50, p99 = percentile(copies, 0.5), percentile(copies, 0.99)
    floor, floor_p99 = percentile(echoes, 0.5), percentile(echoes, 0.99)
    figures = [
        Figure(name="edit to copy, p50", text=_text(p50, floor), value=p50 / floor, unit="x"),
        Figure(name="edit to copy, p99", text=_text(p99, floor_p99), value=p99 / floor_p99, unit="x"),
    ]
    title = f"edit of one source among {SYNCS_THERE} syncs, {SAMPLES} samples, against the edit's own echo from a watch"
    return Results(title=title, figures=figures)


async def _converge(scene: Stage, names: list[str]) -> None:
    await scene.create(CONFIGMAP.resource, [CONFIGMAP.source(HOME, name, "none") for name in names])
    ready: set[bytes] = set()

    def all_ready(line: bytes) -> bool:
        if b'"summary":"1/1"' in line:
            ready.add(line.split(b'"name":"', 1)[1].split(b'"', 1)[0])
        return len(ready) == len(names)

    async with watching(scene.client, CONFIGMAP.syncs) as syncs:
        seen = syncs.until(all_ready)
        await scene.create(CONFIGMAP.syncs, (CONFIGMAP.sync(name, name, bench="latency") for name in names))
        await seen


async def _samples(scene: Stage, names: list[str]) -> tuple[list[float], list[float]]:
    copies, echoes = [], []
    async with (
        watching(scene.client, CONFIGMAP.resource, OWNER_LABEL) as targets,
        watching(scene.client, CONFIGMAP.resource, f"!{OWNER_LABEL}") as sources,
    ):
        for number, name in enumerate(names):
            token = f"token-{number:04}"
            copied, echoed = targets.until(_holds(token)), sources.until(_holds(token))
            began = time.monotonic()
            await CONFIGMAP.edit(scene, name, token)
            copies.append(await copied - began)
            echoes.append(await echoed - began)
            await asyncio.sleep(0.02)  # the status of the last one is not part of the next
    return copies, echoes


def _holds(token: str) -> Check:
    needle = f'"{token}"'.encode()
    return lambda line: needle in line


def _text(ours: float, floor: float) -> str:
    return f"{ours / floor:.1f} x  ({ours * 1000:.0f} ms to {floor * 1000:.0f} ms)"
