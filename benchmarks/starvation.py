"""One namespace that makes the operator wait and compute, and a sync of another namespace: how much longer it takes.

Eight Git servers and ten clusters that take connections and never answer, and sixteen transforms of a few seconds that
are asked for again and again.
"""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from statistics import median
from typing import Any

from benchmarks.figures import Figure, Results
from benchmarks.gitstage import GitStage, git_stage
from benchmarks.sightings import watching
from benchmarks.stage import HOME
from benchmarks.taking import ready
from syncline.api.common import REQUESTED_AT
from syncline.controllers.kinds.configmapsync import RESOURCE as CONFIGMAPSYNCS
from syncline.controllers.kinds.configsync import RESOURCE as CONFIGSYNCS
from syncline.controllers.kinds.manifestsync import RESOURCE as MANIFESTSYNCS
from syncline.kube.client import PatchKind
from syncline.kube.resources import CONFIGMAPS, SECRETS, Resource

MALLORY = "bench-mallory"
GIT_SERVERS, CLUSTERS, TRANSFORMS = 8, 10, 16
ROUNDS = 5
GOAL = 2.0
_SLOW = "{% for i in range(99999) %}{% for j in range(400) %}{% endfor %}{% endfor %}x"


async def run() -> Results:
    async with git_stage() as scene:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"a": "1"}}
        scene.push({f"{number}/app.yaml": json.dumps(_named(manifest, number)) for number in range(2 * ROUNDS + 1)})
        with scene.operator():
            await _serve(scene, 2 * ROUNDS)  # what is done once for all
            idle = [await _serve(scene, number) for number in range(ROUNDS)]
            async with _attacked(scene):
                attacked = [await _serve(scene, number) for number in range(ROUNDS, 2 * ROUNDS)]
    ratio = median(attacked) / median(idle)
    return Results(
        title=f"{GIT_SERVERS} silent Git servers, {CLUSTERS} dead clusters, {TRANSFORMS} slow transforms",
        figures=[
            Figure(
                name="a ConfigSync of another namespace: time",
                text=f"{ratio:.2f} times its idle time ({median(idle):.2f} s to {median(attacked):.2f} s)",
                value=ratio,
                unit="",
                goal=GOAL,
            )
        ],
    )


async def _serve(scene: GitStage, number: int) -> float:
    """Return how long a new sync takes until it is Ready."""
    name = f"victim-{number}"
    async with watching(scene.scene.client, CONFIGSYNCS) as syncs:
        seen = syncs.until(ready(name, 1))
        began = time.monotonic()
        await scene.scene.client.create(CONFIGSYNCS, scene.sync(name, str(number)), HOME)
        return await seen - began


@asynccontextmanager
async def _attacked(scene: GitStage) -> AsyncIterator[None]:
    await scene.scene.create_namespaces([MALLORY], {})
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(GIT_SERVERS + CLUSTERS)]
        ports = [each.getsockname()[1] for each in silent]
        source = {"metadata": _at("app"), "data": {"a": "1"}}
        await scene.scene.create(CONFIGMAPS, [source])
        secrets = [
            {"metadata": _at(f"dead-{port}"), "stringData": {"kubeconfig": _kubeconfig(port)}}
            for port in ports[GIT_SERVERS:]
        ]
        await scene.scene.create(SECRETS, secrets)
        await scene.scene.create(CONFIGSYNCS, [_git(port) for port in ports[:GIT_SERVERS]])
        await scene.scene.create(MANIFESTSYNCS, [_remote(port) for port in ports[GIT_SERVERS:]])
        await scene.scene.create(CONFIGMAPSYNCS, [_slow(number) for number in range(TRANSFORMS)])
        poking = asyncio.create_task(_poke(scene))
        try:
            yield
        finally:
            poking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await poking


async def _poke(scene: GitStage) -> None:
    """Ask for all transforms again and again."""
    while True:
        for number in range(TRANSFORMS):
            body = {"metadata": {"annotations": {REQUESTED_AT: str(time.time())}}}
            await scene.scene.client.patch(CONFIGMAPSYNCS, f"slow-{number}", MALLORY, body, PatchKind.MERGE)
        await asyncio.sleep(1)


def _git(port: int) -> dict[str, Any]:
    git = {"repo": f"https://127.0.0.1:{port}/a.git", "revision": "0123456789" * 4}
    return _sync(CONFIGSYNCS, f"git-{port}", {"source": {"git": git}})


def _remote(port: int) -> dict[str, Any]:
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": f"dead-{port}"}}
    place = {"clusterName": f"dead-{port}", "connection": connection, "namespaces": [MALLORY]}
    source = {"apiVersion": "v1", "kind": "ConfigMap", "name": "app"}
    return _sync(MANIFESTSYNCS, f"dead-{port}", {"sourceRef": source, "targets": {"remoteClusters": [place]}})


def _slow(number: int) -> dict[str, Any]:
    transform = {"key": "*", "template": f"{_SLOW}{number}"}
    spec = {
        "sourceNamespace": MALLORY,
        "configMapName": "app",
        "targetName": f"slow-{number}",
        "destinationNamespaces": [HOME],
        "transforms": [transform],
    }
    return _sync(CONFIGMAPSYNCS, f"slow-{number}", spec)


def _sync(resource: Resource, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": _at(name), "spec": spec}


def _at(name: str) -> dict[str, str]:
    return {"namespace": MALLORY, "name": name}


def _kubeconfig(port: int) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {"token": "none"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def _named(manifest: dict[str, Any], number: int) -> dict[str, Any]:
    return {**manifest, "metadata": {"name": f"app-{number}"}}
