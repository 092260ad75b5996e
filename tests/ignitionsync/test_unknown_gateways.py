"""Pods of gateways: a list that fails is not a namespace without them, and a series ends with its pod."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from prometheus_client import REGISTRY
from tests.kube.scripted import refuses, scripted_server

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import CR_NAME
from syncline.api.ignition_git import IgnitionGit
from syncline.api.ignition_status import DiscoveredGateway, IgnitionSyncStatus, RolloutStatus
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.controllers.errors import SyncError
from syncline.controllers.gateways.metrics import FleetMetrics
from syncline.controllers.gateways.pods import PodWire, to_gateway_pod
from syncline.controllers.kinds.ignitionsync import IgnitionSyncReconciler, ResolvedRef
from syncline.core.gateway_refs import RefChoice
from syncline.core.gateway_status import FleetReport
from syncline.engine.cluster import Cluster
from syncline.engine.sync_object import Sync
from syncline.kube.client import Client
from syncline.kube.events import EventRecorder
from syncline.reconcilers import BuildTools, new_reconcilers
from syncline.render.build_pool import BuildPool
from syncline.render.transform_pool import TransformPool
from syncline.settings import Settings

A = "a" * 40


@pytest_asyncio.fixture
async def refused(tmp_path: Path) -> AsyncIterator[IgnitionSyncReconciler]:
    """Return the reconciler of an operator that may list neither pods nor ConfigMaps."""
    settings = Settings(git_cache=str(tmp_path))
    async with scripted_server() as server, Client(server.connection) as client, settings.mirrors() as mirrors:
        server.answer(refuses(403, "Forbidden", "pods is forbidden: User cannot list resource"))
        tools = BuildTools(TransformPool(), BuildPool(), mirrors)
        made = new_reconcilers(Cluster(client), tools, EventRecorder(client, "tests", "tests"), settings).gateways
        made.fleet.pods.watches.follow("site")
        made.fleet.reports.watches.follow("site")
        made.fleet.start()
        yield made
        await made.fleet.stop()


async def test_pods_that_cannot_be_listed_are_unknown_and_the_status_keeps_its_gateways(
    refused: IgnitionSyncReconciler,
) -> None:
    with pytest.raises(SyncError) as unknown:
        await refused._wait_for_watches("site")
    error = unknown.value
    assert (error.reason, error.status) == ("GatewaysUnknown", "Unknown")
    assert error.message.startswith("the pods of namespace site are not known: ")
    before = IgnitionSyncStatus(
        discovered_gateways=[DiscoveredGateway(name="g", namespace="site", pod_name="g-0", sync_status="Synced")],
        rollout=RolloutStatus(generation=1, commit=A, healthy_commit=A),
    )
    sync = Sync(
        kind="IgnitionSync",
        metadata=ObjectMeta(name="plant", namespace="site", uid="u", generation=1),
        spec=IgnitionSyncSpec(git=IgnitionGit(repo="https://git.example.com/plant.git", ref="main")),
        status=before,
    )
    result = refused._unobserved(sync, ResolvedRef(choice=RefChoice("main"), commit=A), error)
    after = refused.kind.extend_status(result, before, "2026-01-01T00:00:00Z")
    assert [one.pod_name for one in after.discovered_gateways] == ["g-0"]
    assert after.rollout == before.rollout


@pytest.mark.parametrize(
    ("spec", "shares"),
    [
        ({}, False),
        ({"shareProcessNamespace": True}, True),
        ({"shareProcessNamespace": False}, False),
        ({"shareProcessNamespace": True, "hostPID": True}, False),
        ({"hostPID": True}, False),
    ],
)
def test_a_pod_shares_its_own_processes_and_never_those_of_the_node(spec: dict[str, bool], *, shares: bool) -> None:
    body = {"metadata": {"name": "g-0", "namespace": "site", "annotations": {CR_NAME: "plant"}}, "spec": spec}
    found = to_gateway_pod(msgspec.convert(body, PodWire))
    assert found is not None
    assert found.facts.shares_processes is shares


def fleet(*pods: str) -> FleetReport:
    gateways = tuple(
        DiscoveredGateway(name="one", namespace="site", pod_name=pod, sync_status="Synced") for pod in pods
    )
    return FleetReport(rollout=RolloutStatus(commit=A), gateways=gateways, completed=True)


def series(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"syncline_ignition_{name}", {"namespace": "site", "name": "series", **labels})


def test_series_end_with_their_pod_and_their_sync_and_two_pods_of_one_name_are_two() -> None:
    metrics = FleetMetrics()
    metrics.update("site", "series", fleet("g-0", "g-1"), 1000.0)
    assert (series("gateways_discovered"), series("gateways_synced")) == (2, 2)
    assert (series("gateway_status", pod="g-0"), series("gateway_status", pod="g-1")) == (1, 1)
    metrics.update("site", "series", fleet("g-1"), 1001.0)
    assert (series("gateway_status", pod="g-0"), series("gateway_status", pod="g-1")) == (None, 1)
    assert (series("gateways_discovered"), series("last_sync_timestamp_seconds")) == (1, 1001)
    metrics.forget("site", "series")
    names = ("gateways_discovered", "gateways_synced", "last_sync_timestamp_seconds")
    assert [series(name) for name in names] == [None] * 3
    assert series("gateway_status", pod="g-1") is None
