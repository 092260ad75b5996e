"""An IgnitionSync is no way around a TenantPolicy: its repository is limited, and its gateways count."""

from collections.abc import Iterator

import pytest
from tests.configmapsync.world import until
from tests.ignitionsync.replica import Replica
from tests.ignitionsync.world import PROJECT, PlantWorld
from tests.tenancy.policies import Govern, governing


@pytest.fixture
def govern(world: PlantWorld) -> Iterator[Govern]:
    """Write policies over the namespace of the syncs, for the time of the test."""
    yield from governing(world)


def test_a_repository_that_is_no_longer_allowed_is_served_to_no_gateway(
    world: PlantWorld, replica: Replica, govern: Govern
) -> None:
    world.push(PROJECT)
    sync, pod = world.isync(), world.pod()
    assert replica.files(pod)
    policy = govern(repositories=["https://git.example.com/**"])
    told = sync.becomes("NotAllowed")["message"]
    assert told.startswith(policy.refusal("repositories", f"repository {world.url}"))
    until(lambda: replica.plan(pod).action, lambda action: action == "Hold")
    assert replica.plan(world.pod("gw-1")).action == "Hold"
    policy.change(repositories=None)
    until(lambda: replica.plan(pod).action, lambda action: action == "Publish")


def test_gateways_count_for_the_quota_of_targets(world: PlantWorld, replica: Replica, govern: Govern) -> None:
    policy = govern(quotas={"targets": 1})
    world.push(PROJECT)
    sync, pod = world.isync(), world.pod()
    assert replica.files(pod)
    second = world.pod("gw-1")
    what = f"to have 2 targets here and more than 1 in all of namespace {world.home}"
    assert sync.becomes("NotAllowed")["message"].startswith(policy.refusal("quotas.targets", what))
    until(lambda: replica.plan(second).action, lambda action: action == "Hold")
    second.remove()
    until(lambda: replica.plan(pod).action, lambda action: action == "Publish")


def test_ignitionsyncs_count_for_the_quota_of_syncs(world: PlantWorld, replica: Replica, govern: Govern) -> None:
    policy = govern(quotas={"syncs": 0})
    world.push(PROJECT)
    sync, pod = world.isync(), world.pod()
    what = f"to have more than 0 syncs in namespace {world.home}"
    assert sync.becomes("NotAllowed")["message"].startswith(policy.refusal("quotas.syncs", what))
    assert replica.plan(pod).action == "Hold"
    policy.change(quotas={"syncs": 1})
    until(lambda: replica.plan(pod).action, lambda action: action == "Publish")
