"""1,000 ConfigMaps in 50 namespaces of an upstream, taken to one target and to three by a WorkspaceSync.

The first sync is compared with a bare loop: it lists the ConfigMaps of the upstream, then creates the namespaces and
then the copies in each target, with the same bodies. After that: edits, a restart, and an upstream that was away.
`BENCH_AWAY` is how many seconds it is away.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from statistics import median
from typing import Any

from benchmarks.bare import BareLoop
from benchmarks.figures import Figure, Results, Sample, percentile, ratio
from benchmarks.mirror import LABEL, Request, encode
from benchmarks.scale import scaled
from benchmarks.sightings import DELETED, Check, in_all, watching
from benchmarks.stage import HOME
from benchmarks.subject import CONFIGMAP
from benchmarks.taking import Taken
from benchmarks.usage import at_rest, cpu_seconds, memory_mb
from benchmarks.workspace_stage import WORKSPACESYNCS, Plane, Workspaces, synced, take_all, workspaces
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.client import PatchKind
from syncline.kube.config import load_kubeconfig
from syncline.kube.resources import CONFIGMAPS, NAMESPACES
from syncline.testing.audit import Entry
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy

SPACES = scaled(50, 2)
IN_EACH = 20
OBJECTS = SPACES * IN_EACH
ROUNDS = 3
EDITS = scaled(200, 5)
CHANGED = scaled(20, 3)
GONE = scaled(5)
AWAY = float(os.environ.get("BENCH_AWAY", "10"))
NAME = "team"
RESOURCE = {"group": "", "version": "v1", "resource": "configmaps"}
_PLACES = [f"{NAME}-{space:03}" for space in range(SPACES)]
_OBJECTS = [(space, f"conf-{number:02}") for space in _PLACES for number in range(IN_EACH)]
_TOKEN = "first"
_SETTLE = 3.0
_KEPT = ("labels", "annotations", "name", "namespace")


class FirstSync:
    """What one first sync took, and what came of it."""

    def __init__(self, taken: Taken, requests: dict[str, list[Entry]], memory: tuple[float, float]) -> None:
        self.taken = taken
        self.requests = requests
        self.memory = memory


async def one_target() -> Results:
    """Measure everything with one target."""
    async with workspaces(1) as scene:
        await _fill(scene)
        figures = await _first_syncs(scene, ROUNDS, goal=1.25)
        with scene.operator() as operator:
            await scene.settled(operator)
            figures += await _edits(scene, operator.pid)
        figures += await _restart(scene)
        figures += await _away(scene)
    return Results(
        title=f"{OBJECTS:,} ConfigMaps in {SPACES} namespaces to one target by WorkspaceSync", figures=figures
    )


async def three_targets() -> Results:
    """Measure the first sync and a restart with three targets."""
    async with workspaces(3) as scene:
        await _fill(scene)
        figures = await _first_syncs(scene, ROUNDS)
        figures += await _restart(scene)
    return Results(title=f"{OBJECTS:,} ConfigMaps in {SPACES} namespaces to three targets", figures=figures)


async def _fill(scene: Workspaces) -> None:
    labels = {"bench": NAME}
    await scene.upstream.create(NAMESPACES, ({"metadata": {"name": name, "labels": labels}} for name in _PLACES))
    await scene.upstream.create(CONFIGMAPS, (CONFIGMAP.source(space, name, _TOKEN) for space, name in _OBJECTS))


async def _first_syncs(scene: Workspaces, rounds: int, goal: float | None = None) -> list[Figure]:
    """Let Syncline and the bare loop take turns; what the last first sync made stays."""
    ours: list[FirstSync] = []
    bare: list[Taken] = []
    ends: list[Taken] = []
    for number in range(rounds):
        with scene.operator() as operator:
            await scene.settled(operator)
            ours.append(await _our_round(scene, operator.pid))
            batches = [await _batches(target, f"bare{number}") for target in scene.targets]
            if number < rounds - 1:
                ends.append(await _end_sync(scene, operator.pid))
        bare.append(await _bare_round(scene, batches, f"bare{number}"))
    return _first_figures(scene, ours, bare, ends, goal)


async def _our_round(scene: Workspaces, operator: int) -> FirstSync:
    marks = scene.marks()
    async with AsyncExitStack() as stack:
        watches = [
            await stack.enter_async_context(watching(target.client, CONFIGMAPS, OWNER_LABEL))
            for target in scene.targets
        ]
        syncs = await stack.enter_async_context(watching(scene.hub.client, WORKSPACESYNCS))
        seen = [one.until(in_all(OBJECTS, CONFIGMAP.needle(_TOKEN))) for one in watches]
        seen.append(syncs.until(synced(NAME, OBJECTS * len(scene.targets))))
        body = scene.sync(NAME, RESOURCE)
        taken = await take_all(scene, [operator], lambda: scene.hub.client.create(WORKSPACESYNCS, body, HOME), seen)
    await asyncio.sleep(_SETTLE)
    return FirstSync(taken, dict(marks.asked()), memory_mb(operator))


async def _end_sync(scene: Workspaces, operator: int) -> Taken:
    """Delete the sync, which removes its copies and its namespaces."""
    async with watching(scene.hub.client, WORKSPACESYNCS) as syncs:
        gone = syncs.until(lambda line: DELETED in line)
        taken = await take_all(scene, [operator], lambda: scene.hub.client.delete(WORKSPACESYNCS, NAME, HOME), [gone])
    left: Sequence[Any] = _PLACES
    for target in scene.targets:
        while left:  # the control plane takes its own time with namespaces
            left, _ = await target.client.list(NAMESPACES, labels=OWNER_LABEL, metadata_only=True)
            await asyncio.sleep(0.2)
        left = _PLACES
    return taken


async def _batches(target: Plane, prefix: str) -> tuple[list[Request], list[Request]]:
    """Return what the operator has created in a target, under other names and marks, for the bare loop to create."""
    spaces, _ = await target.client.list(NAMESPACES, labels=OWNER_LABEL)
    copies, _ = await target.client.list(CONFIGMAPS, labels=OWNER_LABEL)
    made = []
    for resource, found in ((NAMESPACES, spaces), (CONFIGMAPS, copies)):
        bodies = [_body(one, prefix, {"apiVersion": "v1", "kind": resource.kind}) for one in found]
        made.append(
            [(f"{resource.path(body['metadata'].get('namespace'))}?fieldManager=bare", encode(body)) for body in bodies]
        )
    return made[0], made[1]


def _body(found: dict[str, Any], prefix: str, head: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in found["metadata"].items() if name in _KEPT}
    place = "namespace" if "namespace" in metadata else "name"
    metadata[place] = metadata[place].replace(NAME, prefix)
    return {**head, "metadata": metadata, **({"data": found["data"]} if "data" in found else {})}


async def _bare_round(scene: Workspaces, batches: Sequence[tuple[list[Request], list[Request]]], prefix: str) -> Taken:
    with ExitStack() as stack:
        reader = stack.enter_context(BareLoop.to(load_kubeconfig(scene.upstream.kubeconfig)))
        await reader.prepare("GET", "application/json", [(CONFIGMAPS.path(), b"")])
        stages: list[list[BareLoop]] = []
        for stage in range(2):
            loops = [stack.enter_context(BareLoop.to(load_kubeconfig(one.kubeconfig))) for one in scene.targets]
            for loop, batch in zip(loops, batches, strict=True):
                await loop.prepare("POST", "application/json", batch[stage])
            stages.append(loops)

        async def send() -> None:
            for loops in ([reader], *stages):
                for loop in loops:
                    loop.go()
                for loop in loops:
                    await loop.done()

        async with AsyncExitStack() as watches:
            seen = []
            for target in scene.targets:
                copies = await watches.enter_async_context(watching(target.client, CONFIGMAPS, LABEL))
                seen.append(copies.until(in_all(OBJECTS, f'"namespace":"{prefix}-'.encode())))
            return await take_all(scene, [loop.pid for loops in ([reader], *stages) for loop in loops], send, seen)


def _first_figures(
    scene: Workspaces, ours: Sequence[FirstSync], bare: Sequence[Taken], ends: Sequence[Taken], goal: float | None
) -> list[Figure]:
    mine = [one.taken for one in ours]
    copies = OBJECTS * len(scene.targets)
    writes = [sum(_on(one.requests, target.name, "configmaps") for target in scene.targets) for one in ours]
    spaces = median(sum(_on(one.requests, target.name, "namespaces") for target in scene.targets) for one in ours)
    reads = median(sum(not entry.changes for entry in one.requests["upstream"]) for one in ours)
    steady, peak = ours[-1].memory
    figures = [
        ratio("first sync: time", _samples(mine, "seconds"), _samples(bare, "seconds"), "s", goal),
        ratio("first sync: CPU, servers too", _samples(mine, "cpu"), _samples(bare, "cpu"), "s"),
        ratio("first sync: CPU, sender", _samples(mine, "sender"), _samples(bare, "sender"), "s"),
        Figure(
            name="first sync: writes a copy",
            text=f"{max(writes) / copies:.2f}, and {spaces / len(scene.targets):g} namespaces in each target",
            value=max(writes) / copies,
            unit="",
            goal=1,
        ),
        Figure(
            name="first sync: other requests",
            text=f"{reads:g} reads of the upstream, {median(len(one.requests['hub']) for one in ours):g} of the hub",
            value=reads,
            unit="",
        ),
        Figure(name="memory", text=f"{steady:.0f} MB, at most {peak:.0f} MB", value=peak, unit="MB"),
    ]
    if ends:
        taken = median(one.seconds for one in ends)
        figures.append(Figure(name="sync deleted: time until it is gone", text=f"{taken:.1f} s", value=taken, unit="s"))
    return figures


def _on(requests: dict[str, list[Entry]], plane: str, resource: str) -> int:
    return sum(entry.changes and entry.resource == resource for entry in requests[plane])


def _samples(rounds: Sequence[Taken], what: str) -> list[Sample]:
    return [Sample(getattr(taken, what), taken.others) for taken in rounds]


async def _edits(scene: Workspaces, operator: int) -> list[Figure]:
    """Edit one object after another, and follow each to its copy."""
    copies, echoes = [], []
    used = cpu_seconds(operator)
    async with (
        watching(scene.targets[0].client, CONFIGMAPS, OWNER_LABEL) as below,
        watching(scene.upstream.client, CONFIGMAPS) as above,
    ):
        for number in range(EDITS):
            space, name = _OBJECTS[number * 7 % len(_OBJECTS)]
            token = f"edit-{number:04}"
            copied, echoed = below.until(_holds(token)), above.until(_holds(token))
            began = time.monotonic()
            await _edit(scene, space, name, token)
            copies.append(await copied - began)
            echoes.append(await echoed - began)
            await asyncio.sleep(0.05)  # the status of the last one is not part of the next
    await at_rest(operator)
    cpu = (cpu_seconds(operator) - used) / EDITS
    return [
        *latency_figures("one edit, upstream to copy", copies, echoes),
        Figure(name="one edit: CPU of the operator", text=f"{cpu * 1000:.0f} ms", value=cpu, unit="s"),
    ]


def latency_figures(what: str, ours: Sequence[float], echoes: Sequence[float]) -> list[Figure]:
    """Compare with the time in which a bare watch hears of the change itself."""
    figures = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        value, floor = percentile(ours, share), percentile(echoes, share)
        text = f"{value * 1000:.0f} ms; {value / floor:.1f} x the change's own echo ({floor * 1000:.0f} ms)"
        figures.append(Figure(name=f"{what}: {name}", text=text, value=value, unit="s"))
    return figures


async def _edit(scene: Workspaces, space: str, name: str, token: str) -> None:
    await scene.upstream.client.patch(CONFIGMAPS, name, space, {"data": {"token": token}}, PatchKind.MERGE)


def _holds(token: str) -> Check:
    needle = f'"{token}"'.encode()
    return lambda line: needle in line


async def _restart(scene: Workspaces) -> list[Figure]:
    """Start the operator where all is as it should be."""
    marks, began = scene.marks(), time.monotonic()
    with scene.operator() as operator:
        await scene.settled(operator)
        quiet = await at_rest(operator.pid) - began
        cpu, (steady, peak) = cpu_seconds(operator.pid), memory_mb(operator.pid)
        await asyncio.sleep(_SETTLE)
    asked = marks.asked()
    writes = [f"{plane}: {entry}" for plane, entries in asked.items() for entry in entries if entry.changes]
    reads = sum(len(entries) for entries in asked.values()) - len(writes)
    return [
        Figure(
            name="restart: writes",
            text=f"{len(writes)} {'; '.join(writes[:3])}".strip(),
            value=len(writes),
            unit="",
            goal=0,
        ),
        Figure(name="restart: reads, without watches", text=str(reads), value=reads, unit=""),
        Figure(name="restart: time until quiet", text=f"{quiet:.1f} s", value=quiet, unit="s"),
        Figure(name="restart: CPU until quiet", text=f"{cpu:.2f} s", value=cpu, unit="s"),
        Figure(name="restart: memory", text=f"{steady:.0f} MB, at most {peak:.0f} MB", value=peak, unit="MB"),
    ]


async def _away(scene: Workspaces) -> list[Figure]:
    """Cut the operator off from the upstream for a while, in which some objects change there and some go."""
    with FaultProxy(scene.upstream.sandbox) as proxy:
        await scene.redirect(scene.upstream, proxy.server)
        with scene.operator() as operator:
            await scene.settled(operator)
            cut = proxy.inject(Fault(lost=True), when=lambda _: True)
            proxy.cut_watches()
            for space, name in _OBJECTS[:CHANGED]:
                await _edit(scene, space, name, "while-away")
            for space, name in _OBJECTS[-GONE:]:
                await scene.upstream.client.delete(CONFIGMAPS, name, space)
            await asyncio.sleep(AWAY)
            marks = scene.marks()
            target = scene.targets[0].client
            async with (
                watching(target, CONFIGMAPS, OWNER_LABEL) as copies,
                watching(scene.hub.client, WORKSPACESYNCS) as syncs,
            ):
                edited = copies.until(in_all(CHANGED, b'"while-away"'))
                told = syncs.until(synced(NAME, OBJECTS - GONE))
                taken = await take_all(scene, [operator.pid], cut.lift, [edited, told])
            await asyncio.sleep(_SETTLE)
            asked = marks.asked()
    writes = _on(dict(asked), scene.targets[0].name, "configmaps")
    below = sum(entry.changes for entry in asked[scene.targets[0].name])
    reads = sum(not entry.changes for entry in asked["upstream"])
    what = f"upstream away for {AWAY:g} s, {CHANGED} changed and {GONE} gone"
    return [
        Figure(
            name=f"{what}: writes a change",
            text=f"{writes / (CHANGED + GONE):.2f}; {below} writes to the target in all, {reads} reads of the upstream",
            value=below / (CHANGED + GONE),
            unit="",
            goal=1,
        ),
        Figure(
            name="upstream back: until all is in order",
            text=f"{taken.seconds:.1f} s; CPU {taken.sender:.2f} s of the operator",
            value=taken.seconds,
            unit="s",
        ),
    ]
