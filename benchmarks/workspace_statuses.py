"""500 Deployments in an upstream, whose copies change their status: one by one, and all of them once a second.

No controllers run on either side meanwhile: the benchmark writes the statuses below as they would.
"""

import asyncio
import os
import time
from typing import Any

from benchmarks.figures import Figure, Results
from benchmarks.scale import scaled
from benchmarks.sightings import Check, in_all, watching
from benchmarks.taking import Taken
from benchmarks.usage import Machine, at_rest, cpu_seconds, memory_mb
from benchmarks.workspace_stage import WORKSPACESYNCS, Workspaces, synced, workspaces
from benchmarks.workspaces import latency_figures
from syncline.kube.client import PatchKind
from syncline.kube.resources import NAMESPACES, Resource
from syncline.testing.audit import Entry

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
COUNT = scaled(500, 5)
IN_EACH = 50
SAMPLES = scaled(200, 5)
SECONDS = int(os.environ.get("BENCH_CHURN", "20"))
NAME = "apps"
RESOURCE = {"group": "apps", "version": "v1", "resource": "deployments"}
_PLACES = [f"{NAME}-{space:02}" for space in range(-(-COUNT // IN_EACH))]
_OBJECTS = [(_PLACES[number // IN_EACH], f"web-{number:03}") for number in range(COUNT)]
_CONTROLLERS = "kube-controller-manager"
_WORKERS = 16
_SAMPLE, _CHURN = 10_000, 20_000
_SETTLE = 2.0


async def run() -> Results:
    """Measure the way of a status up."""
    async with workspaces(1) as scene:
        await _fill(scene)
        for plane in scene.planes:
            if _CONTROLLERS in plane.sandbox.pids:
                plane.sandbox.kill(_CONTROLLERS)
        with scene.operator() as operator:
            await scene.settled(operator)
            async with watching(scene.hub.client, WORKSPACESYNCS) as syncs:
                there = syncs.until(synced(NAME, COUNT))
                await scene.hub.create(WORKSPACESYNCS, [scene.sync(NAME, RESOURCE, status=True)])
                await there
            await at_rest(operator.pid)
            figures = await _samples(scene)
            await at_rest(operator.pid)
            figures += await _churn(scene, operator.pid)
            steady, peak = memory_mb(operator.pid)
    figures.append(Figure(name="memory", text=f"{steady:.0f} MB, at most {peak:.0f} MB", value=peak, unit="MB"))
    return Results(title=f"{COUNT} Deployments whose copies report a status to the upstream", figures=figures)


async def _fill(scene: Workspaces) -> None:
    labels = {"bench": NAME}
    await scene.upstream.create(NAMESPACES, ({"metadata": {"name": name, "labels": labels}} for name in _PLACES))
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    await scene.upstream.create(
        DEPLOYMENTS, ({**head, "metadata": {"namespace": space, "name": name}} for space, name in _OBJECTS)
    )


async def _report(scene: Workspaces, space: str, name: str, count: int) -> None:
    """Write the status of a copy."""
    status: dict[str, Any] = {"replicas": count, "updatedReplicas": count, "readyReplicas": count}
    status |= {"availableReplicas": count, "observedGeneration": 1}
    await scene.targets[0].client.patch(
        DEPLOYMENTS, name, space, {"status": status}, PatchKind.MERGE, subresource="status"
    )


async def _samples(scene: Workspaces) -> list[Figure]:
    """Change one status after another, and follow each to the upstream."""
    ours, echoes = [], []
    async with (
        watching(scene.targets[0].client, DEPLOYMENTS) as below,
        watching(scene.upstream.client, DEPLOYMENTS) as above,
    ):
        for number in range(SAMPLES):
            space, name = _OBJECTS[number * 7 % len(_OBJECTS)]
            arrived, echoed = above.until(_reports(_SAMPLE + number)), below.until(_reports(_SAMPLE + number))
            began = time.monotonic()
            await _report(scene, space, name, _SAMPLE + number)
            ours.append(await arrived - began)
            echoes.append(await echoed - began)
            await asyncio.sleep(0.05)
    return latency_figures("one status, copy to upstream", ours, echoes)


async def _churn(scene: Workspaces, operator: int) -> list[Figure]:
    """Change every status once a second, or as often as the machine can."""
    marks = scene.marks()
    own, machine, began = cpu_seconds(operator), Machine(operator, *_servers(scene)), time.monotonic()
    last = _CHURN + SECONDS - 1
    async with watching(scene.upstream.client, DEPLOYMENTS) as above:
        arrived = above.until(in_all(COUNT, _needle(last)))
        for tick in range(SECONDS):
            await _report_all(scene, _CHURN + tick)
            await asyncio.sleep(max(0.0, began + tick + 1 - time.monotonic()))
        ended, used = time.monotonic(), cpu_seconds(operator) - own
        after = max(0.0, await arrived - ended)
    taken = Taken(ended - began, used, used, machine.others())
    await at_rest(operator)
    await asyncio.sleep(_SETTLE)
    return _churn_figures(taken, COUNT * SECONDS, after, marks.asked()["upstream"])


def _churn_figures(taken: Taken, changes: int, after: float, asked: list[Entry]) -> list[Figure]:
    writes = sum(entry.changes for entry in asked)
    return [
        Figure(
            name="statuses change all the time: writes upstream a change",
            text=f"{writes / changes:.2f}  ({writes} for {changes}, {changes / taken.seconds:.0f} a second for"
            f" {taken.seconds:.0f} s), {len(asked) - writes} reads",
            value=writes / changes,
            unit="",
        ),
        Figure(
            name="the same: CPU of the operator",
            text=f"{taken.sender / taken.seconds:.0%} of one core, {taken.sender / changes * 1000:.2f} ms a change"
            f" (other processes took {taken.others:.0%} of the machine)",
            value=taken.sender / taken.seconds,
            unit="",
        ),
        Figure(
            name="the same: last status upstream after the last change",
            text=f"{after:.1f} s",
            value=after,
            unit="s",
        ),
    ]


async def _report_all(scene: Workspaces, count: int) -> None:
    rest = iter(_OBJECTS)

    async def work() -> None:
        for space, name in rest:
            await _report(scene, space, name, count)

    async with asyncio.TaskGroup() as group:
        for _ in range(_WORKERS):
            group.create_task(work())


def _servers(scene: Workspaces) -> list[int]:
    return [pid for plane in (scene.hub, *scene.planes) for pid in plane.sandbox.pids.values()]


def _needle(count: int) -> bytes:
    return f'"readyReplicas":{count},'.encode()


def _reports(count: int) -> Check:
    needle = _needle(count)
    return lambda line: needle in line
