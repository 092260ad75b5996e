"""1 -> 1,000 namespaces: create, update, delete; against a bare loop that sends the same requests.

Both are measured from the user's request until one watch has shown the last copy as it should be; Syncline also until
its status is Ready. The rounds of both alternate. While the bare loop runs there is no operator, so that the watches of
the operator count as its own cost.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

import msgspec

from benchmarks.bare import BareLoop
from benchmarks.figures import Figure, Results, Sample, ratio
from benchmarks.mirror import LABEL, Mirror, Request
from benchmarks.sightings import Check, in_all, watching
from benchmarks.stage import HOME, SYNCS, Stage, config_map, stage, sync
from benchmarks.usage import Machine, cpu_seconds
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.config import load_kubeconfig
from syncline.kube.resources import CONFIGMAPS
from syncline.testing.audit import OPERATOR
from syncline.testing.operator import OperatorProcess

TARGETS = 1000
ROUNDS = 5
PHASES = ("create", "update", "delete")
SPACES = [f"bench-{number:04}" for number in range(TARGETS)]
_DELETED = b'"type":"DELETED"'
_SETTLE = 1.0


class Taken(msgspec.Struct):
    """What one phase of one round took."""

    seconds: float
    cpu: float
    """Of the sender and of the control plane together."""
    sender: float
    others: float
    requests: int = 0


Round = dict[str, Taken]


async def run() -> Results:
    async with stage() as scene:
        await scene.create_namespaces(SPACES, {"bench": "fanout"})
        bare: list[Round] = []
        ours: list[Round] = []
        for number in range(ROUNDS):
            bare.append(await _bare_round(scene, f"bare-{number}"))
            ours.append(await _our_round(scene, f"ours-{number}"))
    figures = [figure for phase in PHASES for figure in _figures(phase, ours, bare)]
    return Results(title=f"1 -> {TARGETS:,} namespaces, against a bare loop with the same requests", figures=figures)


async def _bare_round(scene: Stage, name: str) -> Round:
    connection = load_kubeconfig(scene.kubeconfig)
    assert connection.ca_pem is not None
    assert connection.token is not None
    mirror = await Mirror.of(scene, name, SPACES)
    taken = {}
    with BareLoop(connection.server, connection.ca_pem.decode(), connection.token) as loop:

        async def phase(method: str, kind: str, requests: list[Request], *needles: bytes) -> Taken:
            await loop.prepare(method, kind, requests)
            seen = copies.until(in_all(TARGETS, *needles))
            result = await _measure(scene, loop.pid, loop.go, [seen])
            await loop.done()
            return result

        async with watching(scene.client, CONFIGMAPS, LABEL) as copies:
            first, second = f"{name}-first", f"{name}-second"
            taken["create"] = await phase("POST", "application/json", mirror.creates(first), first.encode())
            patches = await mirror.updates(scene, second)
            taken["update"] = await phase("PATCH", "application/json-patch+json", patches, second.encode())
            deletes = await mirror.deletes(scene)
            taken["delete"] = await phase("DELETE", "application/json", deletes, _DELETED)
    return taken


async def _our_round(scene: Stage, name: str) -> Round:
    first, second = f"{name}-first", f"{name}-second"
    await scene.create(CONFIGMAPS, [config_map(HOME, name, first)])
    body = sync(name, name, destinationNamespaceSelector={"matchLabels": {"bench": "fanout"}})
    taken = {}
    with OperatorProcess(scene.kubeconfig) as operator:

        async def phase(change: Callable[[], Awaitable[object]], right: Check, told: Check) -> Taken:
            mark = scene.audit.mark()
            result = await _measure(scene, operator.pid, change, [copies.until(right), syncs.until(told)])
            await asyncio.sleep(_SETTLE)  # the event for people comes after the status
            asked = scene.audit.entries(OPERATOR, since=mark, until=scene.audit.mark())
            result.requests = sum(entry.verb != "watch" for entry in asked)
            return result

        async with watching(scene.client, CONFIGMAPS, OWNER_LABEL) as copies, watching(scene.client, SYNCS) as syncs:
            taken["create"] = await phase(
                lambda: scene.client.create(SYNCS, body, HOME), in_all(TARGETS, first.encode()), _ready(name)
            )
            created = (await scene.client.get(SYNCS, name, HOME))["status"]["sourceRevision"]
            taken["update"] = await phase(
                lambda: scene.edit(name, second), in_all(TARGETS, second.encode()), _ready(name, not_at=created)
            )
            taken["delete"] = await phase(
                lambda: scene.client.delete(SYNCS, name, HOME),
                in_all(TARGETS, _DELETED),
                lambda line: _DELETED in line,
            )
    return taken


async def _measure(
    scene: Stage, sender: int, change: Callable[[], Awaitable[object] | None], seen: Sequence["asyncio.Task[float]"]
) -> Taken:
    machine = Machine(sender, *scene.sandbox.pids.values())
    own, servers, started = cpu_seconds(sender), cpu_seconds(*scene.server_pids), time.monotonic()
    if (under_way := change()) is not None:
        await under_way
    ended = max(await asyncio.gather(*seen))
    own, servers = cpu_seconds(sender) - own, cpu_seconds(*scene.server_pids) - servers
    return Taken(ended - started, own + servers, own, machine.others())


def _ready(name: str, not_at: str = "") -> Check:
    """Check for a sync that is Ready at another revision of its source."""

    def check(line: bytes) -> bool:
        found: dict[str, Any] = msgspec.json.decode(line)["object"]
        status = found.get("status") or {}
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
        named = found["metadata"]["name"] == name and status.get("targets", {}).get("synced") == TARGETS
        return named and ready and status["sourceRevision"] != not_at

    return check


def _figures(phase: str, ours: Sequence[Round], bare: Sequence[Round]) -> list[Figure]:
    mine, other = [one[phase] for one in ours], [one[phase] for one in bare]
    goal = None if phase == "delete" else 1.25
    beyond = median(taken.requests - TARGETS for taken in mine)
    counts = "  ".join(str(taken.requests) for taken in mine)
    return [
        ratio(f"{phase}: time", _samples(mine, "seconds"), _samples(other, "seconds"), "s", goal),
        ratio(f"{phase}: CPU, servers too", _samples(mine, "cpu"), _samples(other, "cpu"), "s"),
        ratio(f"{phase}: CPU, sender", _samples(mine, "sender"), _samples(other, "sender"), "s"),
        Figure(
            name=f"{phase}: API requests", text=f"1.0 per target + {beyond:g}  (rounds {counts})", value=beyond, unit=""
        ),
    ]


def _samples(rounds: Sequence[Taken], what: str) -> list[Sample]:
    return [Sample(getattr(taken, what), taken.others) for taken in rounds]
