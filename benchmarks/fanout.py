"""1 -> 1,000 namespaces: create, update, delete; against a bare loop that sends the same requests.

Both are measured from the user's request until one watch has shown the last copy as it should be; Syncline also until
its status is Ready. The rounds of both alternate. While the bare loop runs there is no operator, so that the watches of
the operator count as its own cost.
"""

from collections.abc import Sequence
from functools import partial
from statistics import median

from benchmarks.bare import BareLoop
from benchmarks.figures import Figure, Results, Sample, ratio
from benchmarks.mirror import LABEL, Mirror, Request
from benchmarks.scale import scaled
from benchmarks.sightings import DELETED, Check, in_all, watching
from benchmarks.stage import HOME, Stage, stage
from benchmarks.subject import CONFIGMAP, SECRET, Subject
from benchmarks.taking import Taken, TimedChange, ready, take, take_audited
from syncline.core.ownership import OWNER_LABEL
from syncline.kube.config import load_kubeconfig
from syncline.testing.operator import Launch, OperatorProcess

TARGETS = scaled(1000)
ROUNDS = 5
PHASES = ("create", "update", "delete")
SPACES = [f"bench-{number:04}" for number in range(TARGETS)]

Round = dict[str, Taken]


async def run(subject: Subject) -> Results:
    async with stage() as scene:
        await scene.create_namespaces(SPACES, {"bench": "fanout"})
        bare: list[Round] = []
        ours: list[Round] = []
        for number in range(ROUNDS):
            bare.append(await _bare_round(scene, subject, f"bare-{number}"))
            ours.append(await our_round(scene, subject, f"ours-{number}"))
    figures = [figure for phase in PHASES for figure in _figures(phase, ours, bare)]
    title = f"1 -> {TARGETS:,} {subject.kind}s by {subject.syncs.kind}, against a bare loop with the same requests"
    return Results(title=title, figures=figures)


configmaps = partial(run, CONFIGMAP)
secrets = partial(run, SECRET)


async def _bare_round(scene: Stage, subject: Subject, name: str) -> Round:
    mirror = await Mirror.of(scene, subject, name, SPACES)
    taken = {}
    with BareLoop.to(load_kubeconfig(scene.kubeconfig)) as loop:

        async def phase(method: str, kind: str, requests: list[Request], needle: bytes) -> Taken:
            await loop.prepare(method, kind, requests)
            result = await take(scene, loop.pid, loop.go, [copies.until(in_all(TARGETS, needle))])
            await loop.done()
            return result

        async with watching(scene.client, subject.resource, LABEL) as copies:
            first, second = f"{name}-first", f"{name}-second"
            taken["create"] = await phase("POST", "application/json", mirror.creates(first), subject.needle(first))
            patches = await mirror.updates(scene, second)
            taken["update"] = await phase("PATCH", "application/json-patch+json", patches, subject.needle(second))
            deletes = await mirror.deletes(scene)
            taken["delete"] = await phase("DELETE", "application/json", deletes, DELETED)
    return taken


async def our_round(scene: Stage, subject: Subject, name: str, launch: Launch | None = None) -> Round:
    """Create, update and delete the copies of one sync, with an operator of its own."""
    first, second = f"{name}-first", f"{name}-second"
    client, sort = scene.client, subject.syncs
    await scene.create(subject.resource, [subject.source(HOME, name, first)])
    body = subject.sync(name, name, bench="fanout")
    taken = {}
    with OperatorProcess(scene.kubeconfig, launch=launch) as operator:

        async def phase(change: TimedChange, right: Check, told: Check) -> Taken:
            return await take_audited(scene, operator.pid, change, [copies.until(right), syncs.until(told)])

        async with watching(client, subject.resource, OWNER_LABEL) as copies, watching(client, sort) as syncs:
            taken["create"] = await phase(
                lambda: client.create(sort, body, HOME), in_all(TARGETS, subject.needle(first)), ready(name, TARGETS)
            )
            created = (await client.get(sort, name, HOME))["status"]["sourceRevision"]
            taken["update"] = await phase(
                lambda: subject.edit(scene, name, second),
                in_all(TARGETS, subject.needle(second)),
                ready(name, TARGETS, not_at=created),
            )
            taken["delete"] = await phase(
                lambda: client.delete(sort, name, HOME), in_all(TARGETS, DELETED), lambda line: DELETED in line
            )
    return taken


def _figures(phase: str, ours: Sequence[Round], bare: Sequence[Round]) -> list[Figure]:
    mine, other = [one[phase] for one in ours], [one[phase] for one in bare]
    goal = None if phase == "delete" else 1.25
    counts = [len(taken.requests) for taken in mine]
    beyond = median(count - TARGETS for count in counts)
    rounds = "  ".join(map(str, counts))
    return [
        ratio(f"{phase}: time", _samples(mine, "seconds"), _samples(other, "seconds"), "s", goal),
        ratio(f"{phase}: CPU, servers too", _samples(mine, "cpu"), _samples(other, "cpu"), "s"),
        ratio(f"{phase}: CPU, sender", _samples(mine, "sender"), _samples(other, "sender"), "s"),
        Figure(
            name=f"{phase}: API requests", text=f"1.0 per target + {beyond:g}  (rounds {rounds})", value=beyond, unit=""
        ),
    ]


def _samples(rounds: Sequence[Taken], what: str) -> list[Sample]:
    return [Sample(getattr(taken, what), taken.others) for taken in rounds]
