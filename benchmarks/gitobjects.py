"""One ConfigSync with 1,000 objects: first apply against a bare loop, one object changed, and a pass with no change."""

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from benchmarks import gitpush
from benchmarks.bare import BareLoop
from benchmarks.figures import Figure, Results, Sample, ratio
from benchmarks.gitpush import follow
from benchmarks.gitstage import GitStage, git_stage
from benchmarks.mirror import LABEL, Request, encode
from benchmarks.scale import scaled
from benchmarks.sightings import DELETED, in_all, watching
from benchmarks.stage import HOME
from benchmarks.taking import Change, Taken, ready, take, take_audited
from benchmarks.usage import children_mb, memory_mb
from syncline.controllers.configsynckind import RESOURCE as CONFIGSYNCS
from syncline.controllers.wishes import wish
from syncline.core.objects import PLAIN, Target
from syncline.core.ownership import OWNER_LABEL, Owner, place
from syncline.core.placing import Placed
from syncline.core.plan import Edit
from syncline.core.writing import create_body
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
        bare, ours = [], []
        for number in range(ROUNDS):
            bare.append(await _bare_round(scene, f"bare-{number}"))
            ours.append(await _our_round(scene, f"ours-{number}"))
        scene.push(_files("last", "first"))
        with scene.operator() as operator:
            await _applied(scene, operator, "last")
            inside = [await _one_object(scene, operator, number) for number in range(PUSHES)]
            beside = [await follow(scene, operator, "last", {"beside.txt": str(number)}) for number in range(PUSHES)]
            steady, peak = memory_mb(operator.pid)
            children = children_mb(operator.pid)
    return Results(
        title=f"one ConfigSync with {OBJECTS:,} objects, a tenth of them Deployments and Services",
        figures=[
            *_first_figures(ours, bare),
            *gitpush.figures("one object changed", inside, syncs=1, builds=1, requests=4),
            *gitpush.figures("nothing changed", beside, syncs=1, builds=0, requests=0),
            Figure(
                name="memory",
                text=f"{steady:.0f} MB, at most {peak:.0f} MB, {children:.0f} MB in children that build",
                value=peak,
                unit="MB",
            ),
        ],
    )


async def _bare_round(scene: GitStage, name: str) -> Taken:
    system = await scene.scene.client.get(NAMESPACES, "kube-system")
    with BareLoop.to(load_kubeconfig(scene.scene.kubeconfig)) as loop:
        await loop.prepare("POST", "application/json", _creates(name, system["metadata"]["uid"]))
        taken = await _seen(scene, name, LABEL, loop.pid, loop.go)
        await loop.done()
    return taken


async def _our_round(scene: GitStage, name: str) -> Taken:
    scene.push(_files(name, "first"))
    with scene.operator() as operator:
        taken = await _applied(scene, operator, name)
        async with watching(scene.scene.client, CONFIGSYNCS) as syncs:
            gone = syncs.until(lambda line: DELETED in line)
            await scene.scene.client.delete(CONFIGSYNCS, name, HOME)
            await gone
    return taken


async def _applied(scene: GitStage, operator: OperatorProcess, name: str) -> Taken:
    client = scene.scene.client
    body = scene.sync(name, name)
    return await _seen(
        scene, name, OWNER_LABEL, operator.pid, lambda: client.create(CONFIGSYNCS, body, HOME), audited=True
    )


async def _seen(scene: GitStage, name: str, label: str, sender: int, change: Change, *, audited: bool = False) -> Taken:
    """Make a change, and wait until all objects of a name are there; of ours, until the sync is Ready too."""
    async with AsyncExitStack() as stack:
        seen = []
        needle = f'"bench":"{name}"'.encode()
        for resource, count in SHARES.items():
            objects = await stack.enter_async_context(watching(scene.scene.client, resource, label))
            seen.append(objects.until(in_all(count, needle)))
        if not audited:
            return await take(scene.scene, sender, change, seen)
        syncs = await stack.enter_async_context(watching(scene.scene.client, CONFIGSYNCS))
        seen.append(syncs.until(ready(name, OBJECTS)))
        return await take_audited(scene.scene, sender, change, seen)


async def _one_object(scene: GitStage, operator: OperatorProcess, number: int) -> gitpush.Pushed:
    token = f"push-{number}"
    path, before = next(iter(_files("last", "first").items()))
    return await follow(scene, operator, "last", {path: before.replace('"first"', f'"{token}"', 1)}, token)


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
    owner = Owner(CONFIGSYNCS.kind, HOME, name, name)
    requests = []
    for manifest in _manifests(name, "first"):
        resource = next(one for one in SHARES if one.kind == manifest["kind"])
        kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
        target = Target(HOME, manifest["metadata"]["name"], kind)
        desired = wish(Placed(target=target, manifest=manifest, origin=f"{name}/0000.yaml:1"), (), PLAIN, "0" * 40)
        body = create_body(desired, owner, place(cluster, target), Edit(digest=desired.digest), desired.content)
        requests.append((f"{resource.path(HOME)}?fieldManager=syncline", encode(body)))
    return requests


def _first_figures(ours: Sequence[Taken], bare: Sequence[Taken]) -> list[Figure]:
    plurals = {one.plural for one in SHARES}
    written = sum(entry.resource in plurals and entry.changes for entry in ours[0].requests)
    return [
        ratio("first apply: time", _samples(ours, "seconds"), _samples(bare, "seconds"), "s", 1.25),
        ratio("first apply: CPU, servers too", _samples(ours, "cpu"), _samples(bare, "cpu"), "s"),
        ratio("first apply: CPU, sender", _samples(ours, "sender"), _samples(bare, "sender"), "s"),
        Figure(
            name="first apply: API requests",
            text=f"{written / OBJECTS:.2f} writes an object + {len(ours[0].requests) - written}",
            value=written / OBJECTS,
            unit="",
            goal=1,
        ),
    ]


def _samples(rounds: Sequence[Taken], what: str) -> list[Sample]:
    return [Sample(getattr(taken, what), taken.others) for taken in rounds]
