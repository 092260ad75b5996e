"""A kind is watched for as long as a sync needs it, and no longer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from syncline.api.common import LabelSelector
from syncline.core.group_kind import GroupKind
from syncline.core.ownership import OWNER_LABEL
from syncline.engine.cluster import Cluster
from syncline.engine.watch_filter import LabelQuery, WatchFilter
from syncline.kube import NAMESPACES, Client, load_kubeconfig
from syncline.kube.metrics import cached
from syncline.sandbox import Sandbox


@pytest.fixture
async def cluster(sandbox: Sandbox) -> AsyncIterator[Cluster]:
    """A cluster that is told when to close what is not needed, and takes no time for it."""
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
        cluster = Cluster(client, grace=0.0)
        cluster._tasks = {}
        yield cluster
        await cluster.stop()


async def opened(cluster: Cluster, group: str, kind: str) -> str:
    informer = await cluster.open_kind(GroupKind(group, kind))
    await cluster.wait_synced(informer, 60)
    return informer.kind


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


async def test_a_kind_that_nobody_needs_is_watched_no_more_and_leaves_nothing(cluster: Cluster) -> None:
    kind = await opened(cluster, "apps", "Deployment")
    tasks = dict(cluster._tasks or {})
    assert [sample for sample in cached.collect()[0].samples if sample.labels["resource"] == "deployments"]
    cluster.close_unneeded()
    assert not cluster.is_open(kind)
    await asyncio.wait(tasks.values(), timeout=180)
    assert all(task.done() for task in tasks.values())
    assert (cluster._tasks, cluster._opened, cluster._needed) == ({}, {}, {})
    assert not [sample for sample in cached.collect()[0].samples if sample.labels["resource"] == "deployments"]
    await opened(cluster, "apps", "Deployment")


async def test_a_kind_is_watched_while_a_sync_is_interested_in_a_name_or_in_labels(cluster: Cluster) -> None:
    kind = await opened(cluster, "apps", "Deployment")
    query = LabelQuery("team", LabelSelector(match_labels={"a": "b"}))
    cluster.watch_filter.retain(kind, ("web", "web"))
    cluster.watch_filter.retain(kind, (), (query,))
    cluster.watch_filter.release(kind, ("web", "web"))
    cluster.close_unneeded()
    assert cluster.is_open(kind)
    cluster.watch_filter.release(kind, (), (query,))
    cluster.close_unneeded()
    assert not cluster.is_open(kind)


async def test_a_kind_is_watched_while_objects_of_it_carry_our_label(cluster: Cluster) -> None:
    namespace = f"views-{uuid4().hex[:8]}"
    await cluster.client.create(NAMESPACES, {"metadata": {"name": namespace}})
    kind = await opened(cluster, "", "LimitRange")
    resource = cluster.informer(kind).resource
    await cluster.client.create(
        resource, {"metadata": {"name": "copy", "labels": {OWNER_LABEL: "somebody"}}}, namespace
    )
    await until(lambda: len(cluster.informer(kind).managed.reflector) == 1)
    cluster.close_unneeded()
    assert cluster.is_open(kind)
    await cluster.client.delete(resource, "copy", namespace)
    await until(lambda: not len(cluster.informer(kind).managed.reflector))
    cluster.close_unneeded()
    assert not cluster.is_open(kind)


async def test_a_kind_that_was_needed_a_moment_ago_is_still_watched(cluster: Cluster) -> None:
    cluster.grace = 3600.0
    kind = await opened(cluster, "apps", "Deployment")
    cluster.close_unneeded()
    assert cluster.is_open(kind)
    assert cluster.watched_for(kind) > 0
    assert cluster.watched_for("Unheard") == 0


def test_an_interest_that_ends_leaves_nothing() -> None:
    watch_filter = WatchFilter()
    query = LabelQuery("team", LabelSelector(match_labels={"a": "b"}))
    watch_filter.retain("Secret", ("a", "b"), (query,))
    watch_filter.retain("Secret", ("a",))
    watch_filter.release("Secret", ("a", "b"), (query,))
    assert watch_filter.has_kind("Secret")
    watch_filter.release("Secret", ("a",))
    assert not watch_filter.has_kind("Secret")
    assert (watch_filter._names, watch_filter._queries) == ({}, {})
