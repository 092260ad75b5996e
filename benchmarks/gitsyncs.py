"""1,000 ConfigSyncs of one repository, each of a path of its own: applied first, left alone, then one path changed."""

import json
import time
from collections.abc import Callable

from benchmarks.figures import Figure, Results
from benchmarks.gitpush import Pushed, figures, follow
from benchmarks.gitstage import GitStage, Meter, git_stage, until
from benchmarks.scale import scaled
from benchmarks.sightings import Check, in_all, watching
from benchmarks.taking import Taken, take_audited
from benchmarks.usage import children_mb, family_seconds, memory_mb
from syncline.controllers.kinds.configsync import RESOURCE as CONFIGSYNCS
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.resources import CONFIGMAPS
from syncline.testing.operator import OperatorProcess

SYNCS = scaled(1000)
PUSHES = 3
INTERVAL = 10.0
INTERVALS = 3
_NAMES = [f"app-{number:04}" for number in range(SYNCS)]


async def run() -> Results:
    async with git_stage() as scene:
        scene.push({f"apps/{name}/config.yaml": _manifest(name, "first") for name in _NAMES})
        with scene.operator() as operator:
            first = await _first(scene, operator)
            checks, fetches = scene.asked
            steady, peak = memory_mb(operator.pid)
            children = children_mb(operator.pid)
            quiet = await _left_alone(scene, operator)
            pushes = [await _one_path(scene, operator, number) for number in range(PUSHES)]
            later, _ = memory_mb(operator.pid)
    memory = f"{steady:.0f} MB, at most {peak:.0f} MB, {children:.0f} MB in children that build; later {later:.0f} MB"
    return Results(
        title=f"{SYNCS:,} ConfigSyncs of one repository with {SYNCS:,} paths",
        figures=[
            *_first_figures(first, checks, fetches),
            Figure(name="memory", text=memory, value=peak, unit="MB"),
            *quiet,
            *figures("one path changed", pushes, syncs=SYNCS, builds=1, requests=4),
        ],
    )


async def _first(scene: GitStage, operator: OperatorProcess) -> Taken:
    client = scene.scene.client
    async with watching(client, CONFIGMAPS, OWNER_LABEL) as objects, watching(client, CONFIGSYNCS) as syncs:
        seen = [objects.until(in_all(SYNCS, b'"first"')), syncs.until(_all_ready())]
        return await take_audited(scene.scene, operator.pid, lambda: _sync_all(scene), seen)


async def _sync_all(scene: GitStage) -> None:
    bodies = (scene.sync(name, f"apps/{name}", refreshInterval=f"{INTERVAL:g}s") for name in _NAMES)
    await scene.scene.create(CONFIGSYNCS, bodies)


async def _left_alone(scene: GitStage, operator: OperatorProcess) -> list[Figure]:
    """Look on for a few intervals in which nothing happens; they begin and end with a check."""
    await until(_checked(scene, 1))
    began, mark, meter = time.monotonic(), scene.scene.audit.mark(), Meter(operator)
    before = family_seconds(operator.pid)
    await until(_checked(scene, INTERVALS))
    passed = (time.monotonic() - began) / INTERVAL
    cpu = (family_seconds(operator.pid) - before) / passed
    turns, requests = meter.count("syncline_sync_total", kind=CONFIGSYNCS.kind), scene.requests(mark)
    return [
        Figure(
            name="left alone: checks at the git server",
            text=f"{INTERVALS / passed:.2f} an interval, for all syncs together",
            value=INTERVALS / passed,
            unit="",
            goal=1,
        ),
        Figure(
            name="left alone: work",
            text=f"{cpu:.3f} s of CPU an interval, git included; {len(requests)} API requests, {turns} turns",
            value=cpu,
            unit="s",
        ),
    ]


async def _one_path(scene: GitStage, operator: OperatorProcess, number: int) -> Pushed:
    name, token = _NAMES[number * 7 % SYNCS], f"push-{number}"
    return await follow(scene, operator, name, {f"apps/{name}/config.yaml": _manifest(name, token)}, token)


def _checked(scene: GitStage, more: int) -> Callable[[], bool]:
    enough = scene.asked[0] + more
    return lambda: scene.asked[0] >= enough


def _all_ready() -> Check:
    seen: set[bytes] = set()

    def check(line: bytes) -> bool:
        if b'"summary":"1/1"' in line:
            seen.add(line.split(b'"name":"', 1)[1].split(b'"', 1)[0])
        return len(seen) == SYNCS

    return check


def _manifest(name: str, token: str) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"token": token, "for": name}}
    )


def _first_figures(taken: Taken, checks: int, fetches: int) -> list[Figure]:
    objects = sum(one.resource == "configmaps" and one.changes for one in taken.requests)
    beside = len(taken.requests) - objects
    return [
        Figure(
            name="first apply of all: time",
            text=f"{taken.seconds:.1f} s, {SYNCS / taken.seconds:.0f} syncs a second"
            f" (other processes took {taken.others:.0%} of the machine)",
            value=taken.seconds,
            unit="s",
        ),
        Figure(
            name="first apply of all: CPU",
            text=f"{taken.sender:.1f} s of the operator, {taken.cpu - taken.sender:.1f} s of the servers",
            value=taken.sender,
            unit="s",
        ),
        Figure(
            name="first apply of all: API requests",
            text=f"{objects / SYNCS:.2f} writes an object + {beside / SYNCS:.2f} a sync",
            value=len(taken.requests) / SYNCS,
            unit="",
        ),
        Figure(
            name="first apply of all: at the git server",
            text=f"{checks} checks, {fetches} fetches",
            value=fetches,
            unit="",
            goal=1,
        ),
    ]
