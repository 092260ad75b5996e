"""100 sources x 100 namespaces: 10,000 copies of Secrets, made, kept over a restart, joined by a namespace."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.bare import BareLoop
from benchmarks.figures import Figure, Results
from benchmarks.mirror import LABEL, Mirror
from benchmarks.restart import restart
from benchmarks.scale import scaled
from benchmarks.sightings import Check, in_all, watching
from benchmarks.stage import HOME, Stage, stage
from benchmarks.subject import SECRET
from benchmarks.taking import Taken, take, take_audited
from benchmarks.usage import memory_mb
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.config import load_kubeconfig
from syncline.testing.operator import OperatorProcess

SOURCES = scaled(100)
SPACES = scaled(100)
COPIES = SOURCES * SPACES
MEMORY = 120.0
_BARE_SOURCES = scaled(10)
_NAMES = [f"source-{number:03}" for number in range(SOURCES)]
_TOKEN = "right"


async def run() -> Results:
    async with stage() as scene:
        spaces = [f"bench-{number:03}" for number in range(SPACES)]
        await scene.create_namespaces(spaces, {"bench": "copies"})
        await scene.create(SECRET.resource, [SECRET.source(HOME, name, _TOKEN) for name in _NAMES])
        bare = await _bare(scene, spaces)
        with OperatorProcess(scene.kubeconfig) as operator:
            created = await _watched(scene, operator.pid, COPIES, SPACES, lambda: _sync_all(scene))
            await asyncio.sleep(1)
            steady, peak = memory_mb(operator.pid)
        again = await restart(scene, MEMORY)
        with OperatorProcess(scene.kubeconfig) as operator:
            joined = await _watched(scene, operator.pid, SOURCES, SPACES + 1, lambda: _add_namespace(scene))
    return Results(
        title=f"{SOURCES} sources x {SPACES} namespaces = {COPIES:,} copies of Secrets, by {SOURCES} ManifestSyncs",
        figures=[
            *_creation(created, bare),
            Figure(
                name="create: memory",
                text=f"{steady:.0f} MB, at most {peak:.0f} MB",
                value=peak,
                unit="MB",
                goal=MEMORY,
            ),
            *again,
            *_joining(joined),
        ],
    )


async def _bare(scene: Stage, spaces: list[str]) -> Taken:
    """Let the bare loop create a part of what is there later, for comparison; a copy takes it so long."""
    requests = []
    for number in range(_BARE_SOURCES):
        mirror = await Mirror.of(scene, SECRET, f"bare-{number:03}", spaces)
        requests += mirror.creates(_TOKEN)
    async with watching(scene.client, SECRET.resource, LABEL) as copies:
        with BareLoop.to(load_kubeconfig(scene.kubeconfig)) as loop:
            await loop.prepare("POST", "application/json", requests)
            seen = copies.until(in_all(len(requests), SECRET.needle(_TOKEN)))
            taken = await take(scene, loop.pid, loop.go, [seen])
            await loop.done()
    return taken


async def _watched(
    scene: Stage, operator: int, copies_made: int, targets: int, change: Callable[[], Coroutine[Any, Any, None]]
) -> Taken:
    """Make a change, until so many copies have come and all syncs are Ready with so many targets."""
    client = scene.client
    async with watching(client, SECRET.resource, OWNER_LABEL) as copies, watching(client, SECRET.syncs) as syncs:
        made, told = in_all(copies_made, SECRET.needle(_TOKEN)), _all_ready(targets)
        return await take_audited(scene, operator, change, [copies.until(made), syncs.until(told)])


async def _sync_all(scene: Stage) -> None:
    await scene.create(SECRET.syncs, (SECRET.sync(name, name, bench="copies") for name in _NAMES))


async def _add_namespace(scene: Stage) -> None:
    await scene.create_namespaces(["bench-new"], {"bench": "copies"})


def _all_ready(targets: int) -> Check:
    seen: set[bytes] = set()
    summary = f'"summary":"{targets}/{targets}"'.encode()

    def check(line: bytes) -> bool:
        if summary in line:
            seen.add(line.split(b'"name":"', 1)[1].split(b'"', 1)[0])
        return len(seen) == SOURCES

    return check


def _creation(taken: Taken, bare: Taken) -> list[Figure]:
    per_copy, floor = taken.seconds / COPIES, bare.seconds / (_BARE_SOURCES * SPACES)
    on_secrets = sum(entry.resource == "secrets" and entry.changes for entry in taken.requests)
    beside = len(taken.requests) - on_secrets
    return [
        Figure(
            name="create: time",
            text=f"{taken.seconds:.1f} s, {1 / per_copy:.0f} copies a second; a copy takes"
            f" {per_copy / floor:.2f} x as long as by the bare loop"
            f" (other processes took {max(taken.others, bare.others):.0%} of the machine)",
            value=per_copy / floor,
            unit="x",
        ),
        Figure(
            name="create: API requests",
            text=f"{on_secrets / COPIES:.2f} writes a copy + {beside / SOURCES:.1f} requests a sync",
            value=on_secrets / COPIES,
            unit="",
            goal=1,
        ),
        Figure(
            name="create: CPU",
            text=f"{taken.sender:.1f} s of the operator, {taken.cpu - taken.sender:.1f} s of the servers",
            value=taken.sender,
            unit="s",
        ),
    ]


def _joining(taken: Taken) -> list[Figure]:
    text = f"{len(taken.requests)}, {taken.writes} of them writes, for {SOURCES} copies and {SOURCES} statuses"
    return [
        Figure(
            name=f"namespace added under {SOURCES} syncs: time",
            text=f"{taken.seconds:.2f} s from its POST until all copies are there and all syncs Ready",
            value=taken.seconds,
            unit="s",
        ),
        Figure(name="namespace added: API requests", text=text, value=len(taken.requests), unit=""),
    ]
