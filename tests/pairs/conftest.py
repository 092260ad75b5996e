"""A control plane with namespaces for pairs."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest
from tests.core.samples import WIDGET_CRD
from tests.pairs.world import KEY, MARK_KEYS, RESOURCES, MakePair, PairWorld

from syncline.core.group_kind import GroupKind
from syncline.engine.cluster import Cluster
from syncline.engine.markkeys import MarkRing
from syncline.kube import NAMESPACES, AlreadyExists, Client, NotFound, Resource, load_kubeconfig
from syncline.sandbox import Sandbox

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)


@pytest.fixture
async def cluster(sandbox: Sandbox) -> AsyncIterator[Cluster]:
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
        cluster = Cluster(client, key=KEY, marks=MarkRing(MARK_KEYS))
        await cluster.identify()
        cluster.start()
        yield cluster
        await cluster.stop()


@pytest.fixture
async def pair(cluster: Cluster) -> AsyncIterator[MakePair]:
    """Makes a pair of a kind, in two namespaces of its own."""
    made: list[str] = []

    async def make(kind: str) -> PairWorld:
        if GroupKind.parse(kind).kind == "Widget":
            await serve_widgets(cluster)
        informer = await cluster.open_kind(GroupKind.parse(kind))
        await cluster.wait_synced(informer, 60)
        places = [f"{side}-{secrets.token_hex(4)}" for side in ("up", "down")]
        for place in places:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
            await cluster.client.create(NAMESPACES, body)
            made.append(place)
        return PairWorld(cluster, kind, *places)

    yield make
    for place in made:
        await cluster.client.delete(NAMESPACES, place)


async def serve_widgets(cluster: Cluster) -> None:
    with contextlib.suppress(AlreadyExists):
        await cluster.client.create(CRDS, WIDGET_CRD)
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(NotFound):
                await cluster.client.list(RESOURCES["Widget.samples.example.com"])
                break
            await asyncio.sleep(0.05)
    cluster.discovery.forget()
