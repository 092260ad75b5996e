"""One ConfigSync with 1,000 objects: first apply against a bare loop, one object changed, and a pass with no change."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from statistics import median
from typing import Any

from msgspec import Struct

from benchmarks import gitpush
from benchmarks.bare import BareLoop
from benchmarks.figures import Figure, Results, Sample, ratio
from benchmarks.gitpush import follow
from benchmarks.gitstage import GitStage, git_stage
from benchmarks.mirror import LABEL, Request, encode
from benchmarks.scale import scaled
from benchmarks.sightings import DELETED, in_all, watching
from benchmarks.stage import HOME
from benchmarks.taking import Taken, TimedChange, ready, take, take_audited
from benchmarks.usage import at_rest, children_mb, family_seconds, memory_mb
from syncline.api.common import REQUESTED_AT
from syncline.controllers.kinds.configsync import RESOURCE as CONFIGSYNCS
from syncline.core.desired import from_manifest
from syncline.core.marks import MarkKeys
from syncline.core.objects import PLAIN, Target
from syncline.core.ownership import OWNER_LABEL, Owner, object_id_of
from syncline.core.placing import Placed
from syncline.core.plan import Change
from syncline.core.request_bodies import create_body
from syncline.kube.client import PatchKind
from syncline.kube.config import load_kubeconfig
from syncline.kube.resources import CONFIGMAPS, NAMESPACES, Resource
from syncline.testing.operator import OperatorProcess

OBJECTS = scaled(1000, 20)
ROUNDS = 3
PUSHES = 3
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
SHARES = {CONFIGMAPS: OBJECTS - 2 * (OBJECTS // 20), DEPLOYMENTS: OBJECTS // 20, SERVICES: OBJECTS // 20}
_IN_A_FILE = 10
_PAYLOAD = "".join(f"setting-{number}: the value of this setting\n" for number in range(25))

Json = dict[str, Any]


async def run() -> Results:
    async with git_stage() as scene:
        await scene.grant(("apps", "deployments"), ("", "services"))
        bare, ours, unchecked = [], [], []
        for number in range(ROUNDS):
            bare.append(await _bare_round(scene, f"bare-{number}"))
            ours.append(await _our_round(scene, f"ours-{number}"))
            unchecked.append(await _our_round(scene, f"unchecked-{number}", validation="None"))
        scene.push(_files("last", "first"))
        with scene.operator() as operator:
            await _applied(scene, operator, "last")
            inside = [await _one_object(scene, operator, number) for number in range(PUSHES)]
            beside = [await follow(scene, operator, "last", {"beside.txt": str(number)}) for number in range(PUSHES)]
            asked = [await _asked_for(scene, operator, number) for number in range(PUSHES)]
            steady, peak = memory_mb(operator.pid)
            children = children_mb(operator.pid)
    return Results(
        title=f"one ConfigSync with {OBJECTS:,} objects, a tenth of them Deployments and Services",
        figures=[
            *_first_figures(ours, bare),
            *_validation_figures(ours, unchecked),
            *gitpush.figures("one object changed", inside, syncs=1, builds=1, requests=4),
            *gitpush.figures("push beside", beside, syncs=1, builds=0, requests=0),
            *_pass_figures(asked),
            Figure(
                name="memory",
                text=f"{steady:.0f} MB, at most {peak:.0f} MB, {children:.0f} MB in children that build",
                value=peak,
                unit="MB",
            ),
        ],
    )


class Round(Struct, frozen=True):
    """What a round took, and how much of that was from the first object that was seen to the last."""

    taken: Taken
    spread: float


async def _bare_round(scene: GitStage, name: str) -> Round:
    system = await scene.scene.client.get(NAMESPACES, "kube-system")
    with BareLoop.to(load_kubeconfig(scene.scene.kubeconfig)) as loop:
        await loop.prepare("POST", "application/json", _creates(name, system["metadata"]["uid"]))
        taken = await _seen(scene, name, LABEL, loop.pid, loop.go)
        await loop.done()
    return taken


async def _our_round(scene: GitStage, name: str, **spec: object) -> Round:
    scene.push(_files(name, "first"))
    with scene.operator() as operator:
        taken = await _applied(scene, operator, name, **spec)
        async with watching(scene.scene.client, CONFIGSYNCS) as syncs:
            gone = syncs.until(lambda line: DELETED in line)
            await scene.scene.client.delete(CONFIGSYNCS, name, HOME)
            await gone
    return taken


async def _applied(scene: GitStage, operator: OperatorProcess, name: str, **spec: object) -> Round:
    client = scene.scene.client
    body = scene.sync(name, name, **spec)
    return await _seen(
        scene, name, OWNER_LABEL, operator.pid, lambda: client.create(CONFIGSYNCS, body, HOME), audited=True
    )


async def _seen(
    scene: GitStage, name: str, label: str, sender: int, change: TimedChange, *, audited: bool = False
) -> Round:
    """Make a change, and wait until all objects of a name are there; of ours, until the sync is Ready too."""
    client, needle = scene.scene.client, f'"bench":"{name}"'.encode()
    async with AsyncExitStack() as stack:
        seen, firsts = [], []
        for resource, count in SHARES.items():
            objects = await stack.enter_async_context(watching(client, resource, label))
            seen.append(objects.until(in_all(count, needle)))
            firsts.append(objects.until(in_all(1, needle)))
        everything = list(seen)
        if audited:
            syncs = await stack.enter_async_context(watching(client, CONFIGSYNCS))
            everything.append(syncs.until(ready(name, OBJECTS)))
        taken = await (take_audited if audited else take)(scene.scene, sender, change, everything)
        return Round(taken, max(await asyncio.gather(*seen)) - min(await asyncio.gather(*firsts)))


async def _one_object(scene: GitStage, operator: OperatorProcess, number: int) -> gitpush.Pushed:
    token = f"push-{number}"
    path, before = next(iter(_files("last", "first").items()))
    return await follow(scene, operator, "last", {path: before.replace('"first"', f'"{token}"', 1)}, token)


async def _asked_for(scene: GitStage, operator: OperatorProcess, number: int) -> tuple[float, int, int]:
    """Have a person ask for a sync, which compares all objects; return its CPU, and how much it wrote and read."""
    client, word = scene.scene.client, f"again-{number}"
    await at_rest(operator.pid)
    mark, before = scene.scene.audit.mark(), family_seconds(operator.pid)
    async with watching(client, CONFIGSYNCS) as syncs:
        handled = syncs.until(lambda line: f'"lastHandledRequest":"{word}"'.encode() in line)
        patch = {"metadata": {"annotations": {REQUESTED_AT: word}}}
        await client.patch(CONFIGSYNCS, "last", HOME, patch, PatchKind.MERGE)
        await handled
    await at_rest(operator.pid)
    cpu, requests = family_seconds(operator.pid) - before, scene.requests(mark)
    writes = sum(entry.changes for entry in requests)
    return cpu, writes, len(requests) - writes


def _files(name: str, token: str) -> dict[str, str]:
    """Return the objects as files, several in each."""
    texts = [json.dumps(manifest) for manifest in _manifests(name, token)]
    starts = range(0, len(texts), _IN_A_FILE)
    return {f"{name}/{start:04}.yaml": "\n---\n".join(texts[start : start + _IN_A_FILE]) for start in starts}


def _manifests(name: str, token: str) -> list[Json]:
    found: list[Json] = []
    for resource, count in SHARES.items():
        for number in range(count):
            called = f"{name}-{number:04}"
            metadata = {"name": called, "labels": {"bench": name}}
            head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
            found.append({**head, **_fields(resource, called, token)})
    return found


def _fields(resource: Resource, name: str, token: str) -> Json:
    labels = {"app": name}
    if resource is CONFIGMAPS:
        return {"data": {"token": token, "settings.yaml": _PAYLOAD}}
    if resource is SERVICES:
        return {"spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}
    container = {
        "name": "app",
        "image": "registry.example.com/app:1",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {"spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}}


def _creates(name: str, cluster: str) -> list[Request]:
    """Return the requests of the operator, under other marks."""
    owner = Owner(CONFIGSYNCS.kind, HOME, name, name, keys=MarkKeys([bytes(32)]))
    requests = []
    for manifest in _manifests(name, "first"):
        resource = next(one for one in SHARES if one.kind == manifest["kind"])
        kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
        target = Target(HOME, manifest["metadata"]["name"], kind)
        desired = from_manifest(
            Placed(target=target, manifest=manifest, origin=f"{name}/0000.yaml:1"), (), PLAIN, "0" * 40
        )
        body = create_body(
            desired, owner, object_id_of(cluster, target), Change(digest=desired.digest), desired.content
        )
        requests.append((f"{resource.path(HOME)}?fieldManager=syncline", encode(body)))
    return requests


def _first_figures(ours: Sequence[Round], bare: Sequence[Round]) -> list[Figure]:
    plurals = {one.plural for one in SHARES}
    requests = ours[0].taken.requests
    written = sum(entry.resource in plurals and entry.changes for entry in requests)
    return [
        ratio("first apply: time", _samples(ours, "seconds"), _samples(bare, "seconds"), "s", 1.25),
        ratio("first apply: first object to last", _spreads(ours), _spreads(bare), "s"),
        ratio("first apply: CPU, servers too", _samples(ours, "cpu"), _samples(bare, "cpu"), "s"),
        ratio("first apply: CPU, sender", _samples(ours, "sender"), _samples(bare, "sender"), "s"),
        Figure(
            name="first apply: API requests",
            text=f"{written / OBJECTS:.2f} writes an object + {len(requests) - written}",
            value=written / OBJECTS,
            unit="",
            goal=1,
        ),
    ]


def _validation_figures(ours: Sequence[Round], unchecked: Sequence[Round]) -> list[Figure]:
    """Compare with rounds in which nothing is checked before it is written."""
    return [
        ratio("validation: time", _samples(ours, "seconds"), _samples(unchecked, "seconds"), "s", 1.05),
        ratio("validation: CPU, servers too", _samples(ours, "cpu"), _samples(unchecked, "cpu"), "s"),
        ratio("validation: CPU, sender", _samples(ours, "sender"), _samples(unchecked, "sender"), "s"),
    ]


def _pass_figures(passes: Sequence[tuple[float, int, int]]) -> list[Figure]:
    cpu, writes, reads = (median(one) for one in zip(*passes, strict=True))
    return [
        Figure(
            name="sync asked for, nothing to do: CPU",
            text=f"{cpu:.2f} s, git included, to compare all objects",
            value=cpu,
            unit="s",
        ),
        Figure(
            name="sync asked for, nothing to do: API requests",
            text=f"{writes:g} writes (the answer in its status), {reads:g} reads",
            value=writes + reads,
            unit="",
            goal=1,
        ),
    ]


def _samples(rounds: Sequence[Round], what: str) -> list[Sample]:
    return [Sample(getattr(one.taken, what), one.taken.others) for one in rounds]


def _spreads(rounds: Sequence[Round]) -> list[Sample]:
    return [Sample(one.spread, one.taken.others) for one in rounds]
