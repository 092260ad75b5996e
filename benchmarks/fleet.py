"""One of ten clusters fails, refusing connections or saying nothing: what the nine others notice of it.

Ten control planes of their own, one sync that writes to all of them. Each edit of the source is followed until its copy
is in all clusters that live; the first edit after the failure is told apart, for then the operator does not know yet.
Where a cluster says nothing the edits go on until the operator has found out.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Results, percentile
from benchmarks.scale import scaled
from benchmarks.sightings import Sightings, in_all, watching
from benchmarks.stage import HOME, Stage, stage
from benchmarks.subject import SECRET
from benchmarks.taking import ready
from syncline.kube.client import Client
from syncline.kube.config import load_kubeconfig
from syncline.kube.resources import NAMESPACES, SECRETS
from syncline.sandbox import Sandbox
from syncline.testing.operator import OperatorProcess

CLUSTERS = scaled(10, 2)
SAMPLES = 30
SECONDS = 30.0
_AT_ONCE = 3
_PLACE = "bench-away"
_SERVER = "kube-apiserver"
_PAUSE = 0.3


class Edge:
    """One of the clusters."""

    def __init__(self, name: str, sandbox: Sandbox, copies: Sightings) -> None:
        self.name = name
        self.sandbox = sandbox
        self.copies = copies


async def run() -> Results:
    async with stage() as scene, _edges() as edges:
        for edge in edges:
            await _introduce(scene, edge)
        await scene.create(SECRET.resource, [SECRET.source(HOME, "source", "none")])
        with OperatorProcess(scene.kubeconfig, "--allow-loopback"):
            async with watching(scene.client, SECRET.syncs) as syncs:
                there = syncs.until(ready("sync", CLUSTERS))
                await scene.create(
                    SECRET.syncs, [SECRET.remote_sync("sync", "source", [_target(one) for one in edges])]
                )
                await there
                alive = await _samples(scene, edges, "alive")
                edges[0].sandbox.kill(_SERVER)
                dead = await _samples(scene, edges[1:], "dead")
                back = syncs.until(ready("sync", CLUSTERS))
                edges[0].sandbox.start(_SERVER)
                await back
                edges[1].sandbox.pause(_SERVER)
                silent = await _samples(scene, [edges[0], *edges[2:]], "silent", SECONDS)
                edges[1].sandbox.resume(_SERVER)
    figures = [
        *_figures("all alive", alive, alive),
        *_figures("one refuses connections", dead, alive),
        *_figures("one says nothing", silent, alive),
    ]
    title = f"{CLUSTERS} clusters: from an edit of the source until its copy is in all that live"
    return Results(title=title, figures=figures)


@asynccontextmanager
async def _edges() -> AsyncIterator[list[Edge]]:
    """Start the clusters, each with a namespace for copies, and watch it."""
    with ExitStack() as sandboxes, ThreadPoolExecutor(_AT_ONCE) as threads:
        running = [sandboxes.enter_context(one) for one in threads.map(lambda _: Sandbox.create(), range(CLUSTERS))]
        async with AsyncExitStack() as stack:
            edges = []
            for number, sandbox in enumerate(running):
                client = await stack.enter_async_context(Client(load_kubeconfig(sandbox.kubeconfig)))
                await client.create(NAMESPACES, {"metadata": {"name": _PLACE}})
                copies = await stack.enter_async_context(watching(client, SECRETS))
                edges.append(Edge(f"edge-{number}", sandbox, copies))
            yield edges


async def _introduce(scene: Stage, edge: Edge) -> None:
    """Put the credential of a cluster beside the sync: an account of its own, as a tenant would have it."""
    kubeconfig = await asyncio.to_thread(_account, edge.sandbox)
    body = {
        "metadata": {"namespace": HOME, "name": edge.name},
        "data": {"value": base64.b64encode(kubeconfig.read_bytes()).decode()},
    }
    await scene.client.create(SECRETS, body, HOME)


def _account(sandbox: Sandbox) -> Path:
    home, rbac = f"/api/v1/namespaces/{_PLACE}", "/apis/rbac.authorization.k8s.io/v1"
    sandbox.request("POST", f"{home}/serviceaccounts", {"metadata": {"name": "syncline"}})
    rules = [{"apiGroups": [""], "resources": ["namespaces", "secrets"], "verbs": ["*"]}]
    sandbox.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": "syncline"}, "rules": rules})
    binding = {
        "metadata": {"name": "syncline"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "syncline"},
        "subjects": [{"kind": "ServiceAccount", "name": "syncline", "namespace": _PLACE}],
    }
    sandbox.request("POST", f"{rbac}/clusterrolebindings", binding)
    return sandbox.kubeconfig_for(sandbox.service_account_token(_PLACE, "syncline"), "syncline")


def _target(edge: Edge) -> dict[str, Any]:
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": edge.name}}
    return {"clusterName": edge.name, "connection": connection, "namespaces": [_PLACE]}


async def _samples(scene: Stage, edges: Sequence[Edge], word: str, seconds: float = 0) -> list[float]:
    """Return how long each edit takes to be in all these clusters."""
    taken: list[float] = []
    end = time.monotonic() + seconds
    while len(taken) < SAMPLES or time.monotonic() < end:
        number = len(taken)
        token = f"{word}-{number:03}"
        seen = [edge.copies.until(in_all(1, SECRET.needle(token))) for edge in edges]
        began = time.monotonic()
        await SECRET.edit(scene, "source", token)
        taken.append(max(await asyncio.gather(*seen)) - began)
        await asyncio.sleep(_PAUSE)  # the status of the last one is not part of the next
    return taken


def _figures(what: str, samples: Sequence[float], alive: Sequence[float]) -> list[Figure]:
    first, rest = samples[0], samples[1:]
    figures = []
    for name, value, floor in (
        ("first edit", first, percentile(alive, 0.5)),
        ("p50", percentile(rest, 0.5), percentile(alive[1:], 0.5)),
        ("worst", max(rest), max(alive[1:])),
    ):
        text = f"{value * 1000:.0f} ms, {value / floor:.1f} x"
        figures.append(Figure(name=f"{what}: {name}", text=text, value=value / floor, unit="x"))
    return figures
