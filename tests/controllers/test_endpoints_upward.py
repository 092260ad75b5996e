"""The addresses of copied Services are beside the Services upstream, for as long as they are at the target."""

import asyncio
from typing import Any

import pytest
from msgspec import structs
from tests.controllers.upward_world import SYNC, UpwardWorld, until

from syncline.controllers.lowered import Destination
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.copy_statuses import UpwardItem
from syncline.controllers.targets.endpoints_upward import EndpointsPass, EndpointsResult, EndpointsUpward
from syncline.core.endpoints_upward import SERVICE_LABEL, SLICES, upstream_name
from syncline.core.objects import Target
from syncline.core.plan import Policy
from syncline.engine.fanout import FanOut
from syncline.engine.unkept import UnkeptFields
from syncline.engine.write_loops import WriteLoops
from syncline.engine.writer import Writer
from syncline.kube.resources import Resource

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINT = Resource("", "v1", "endpoints", "Endpoints")
SLICE = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")

Json = dict[str, Any]


class Addresses:
    """A world with a Service that is copied, and its addresses."""

    def __init__(self, world: UpwardWorld) -> None:
        self.world = world
        self.step = EndpointsUpward()
        self.upstream = TargetCluster(
            destination=Destination(cluster="upstream"),
            cluster=world.upstream,
            client=world.client,
            owner=world.sites["east"].owner,
        )

    async def service(self, *sites: str) -> UpwardItem:
        """Make a Service upstream, which has copies at some targets."""
        await self.world.open(SERVICES)
        await self.world.make("web", SERVICES, {"ports": [{"port": 80, "protocol": "TCP"}]})
        source = await self.world.source("web", SERVICES)
        copies = tuple(
            (self.world.sites[name], Target(self.world.place(name), "web", "Service", name)) for name in sites
        )
        return UpwardItem(source=source, copies=copies)

    async def slice(self, site: str, name: str = "web-x1", address: str = "10.0.0.1", service: str = "web") -> None:
        """Make an EndpointSlice, as the controllers of a target do."""
        body = {
            "metadata": {"name": name, "labels": {SERVICE_LABEL: service}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "nodeName": "node-1"}],
            "ports": [{"port": 80, "protocol": "TCP", "name": ""}],
        }
        await self.world.client.create(SLICE, body, self.world.place(site))

    async def run(self, *items: UpwardItem, **options: Any) -> EndpointsResult:
        return await self.step.run(items, self.one(**options))

    def one(self, **options: Any) -> EndpointsPass:
        writer = Writer(
            self.upstream.cluster,
            self.upstream.client,
            self.upstream.owner,
            Policy(),
            claims=self.world.claims,
            write_loops=WriteLoops(),
            unkept=UnkeptFields(),
        )
        options = {"sites": tuple(self.world.sites.values())} | options
        return EndpointsPass(sync=SYNC, upstream=self.upstream, writer=writer, fan_out=FanOut(lambda: None), **options)

    async def upward(self, resource: Resource = SLICE) -> dict[str, list[str]]:
        """Return the addresses upstream, by the name of the object."""
        found, _ = await self.world.client.list(resource, self.world.home)
        return {one["metadata"]["name"]: addresses(one) for one in found}


def addresses(manifest: Json) -> list[str]:
    endpoints = [address for one in manifest.get("endpoints") or () for address in one["addresses"]]
    subsets = [address["ip"] for one in manifest.get("subsets") or () for address in one["addresses"]]
    return [*endpoints, *subsets]


@pytest.fixture
def addressed(world: UpwardWorld) -> Addresses:
    return Addresses(world)


async def test_slices_go_up_once_and_follow_their_origin(addressed: Addresses) -> None:
    item = await addressed.service("east")
    await addressed.run(item)
    await addressed.slice("east")
    await until_seen(addressed, "east", 1)
    assert (await addressed.run(item)).written == 1
    assert await addressed.upward() == {"web-x1": ["10.0.0.1"]}
    for _ in range(2):
        result = await addressed.run(item)
        assert (result.written, result.removed, result.failed) == (0, 0, ())
    assert (addressed.world.sites["east"].cluster.name, SLICES, addressed.world.place("east")) in result.follows
    await addressed.world.client.delete(SLICE, "web-x1", addressed.world.place("east"))
    await until_seen(addressed, "east", 0)
    assert (await addressed.run(item)).removed == 1
    assert await addressed.upward() == {}


async def test_what_names_the_target_does_not_go_up(addressed: Addresses) -> None:
    item = await addressed.service("east")
    await addressed.slice("east")
    await addressed.run(item)
    manifest = await addressed.world.client.get(SLICE, "web-x1", addressed.world.home)
    assert "nodeName" not in manifest["endpoints"][0]


async def test_slices_of_several_targets_have_names_of_their_own_and_endpoints_come_from_one(
    addressed: Addresses,
) -> None:
    item = await addressed.service("east", "west")
    for site, address in (("east", "10.0.0.1"), ("west", "10.0.0.2")):
        await addressed.slice(site, address=address)
        body = {
            "metadata": {"name": "web"},
            "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80, "protocol": "TCP"}]}],
        }
        await addressed.world.client.create(ENDPOINT, body, addressed.world.place(site))
    result = await addressed.run(item, several=True, only="west")
    assert result.failed == ()
    assert await addressed.upward() == {
        upstream_name(SLICES, "web-x1", "east"): ["10.0.0.1"],
        upstream_name(SLICES, "web-x1", "west"): ["10.0.0.2"],
    }
    assert await addressed.upward(ENDPOINT) == {"web": ["10.0.0.2"]}


async def test_what_came_from_a_target_out_of_reach_stays(addressed: Addresses) -> None:
    item = await addressed.service("east")
    await addressed.slice("east")
    await addressed.run(item)
    away = structs.replace(item, copies=(), unreachable=(("east", ""),))
    assert (await addressed.run(away, sites=(), unreachable=frozenset({"east"}))).removed == 0
    assert (await addressed.run(sites=(), certain=False)).removed == 0
    assert await addressed.upward() == {"web-x1": ["10.0.0.1"]}
    assert (await addressed.run(sites=())).removed == 1  # the target has left the sync


async def test_addresses_go_with_the_copy_of_their_service(addressed: Addresses) -> None:
    item = await addressed.service("east")
    await addressed.slice("east")
    await addressed.run(item)
    assert (await addressed.run()).removed == 1


async def test_addresses_that_are_no_longer_wanted_go_and_then_cost_nothing(addressed: Addresses) -> None:
    item = await addressed.service("east")
    await addressed.slice("east")
    await addressed.run(item)
    assert (await addressed.step.remove(addressed.one())).removed == 1
    assert await addressed.upward() == {}
    assert SYNC in addressed.step._cleared


async def test_an_object_upstream_that_is_not_ours_is_left_alone(addressed: Addresses) -> None:
    item = await addressed.service("east")
    theirs = {"metadata": {"name": "web-x1"}, "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]}
    await addressed.world.client.create(SLICE, theirs, addressed.world.home)
    await addressed.slice("east")
    result = await addressed.run(item)
    assert [outcome.reason for outcome in result.failed] == ["NotOurs"]
    assert await addressed.upward() == {"web-x1": ["192.0.2.1"]}
    await addressed.step.remove(addressed.one())
    assert await addressed.upward() == {"web-x1": ["192.0.2.1"]}


async def test_slices_of_other_services_and_namespaces_do_not_go_up(addressed: Addresses) -> None:
    """A tenant of a target who can make EndpointSlices reaches no Service but their own."""
    item = await addressed.service("east")
    await addressed.slice("east", "other", service="victim")
    await addressed.slice("west", "elsewhere")  # the Service has no copy there
    assert (await addressed.run(item)).written == 0
    assert await addressed.upward() == {}


async def test_a_target_cannot_fill_the_upstream(addressed: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncline.controllers.targets.endpoints_upward.MOST_SLICES", 2)
    item = await addressed.service("east")
    for number in range(4):
        await addressed.slice("east", f"web-x{number}")
    await addressed.run(item)
    assert [*await addressed.upward()] == ["web-x0", "web-x1"]


async def until_seen(addressed: Addresses, site: str, count: int) -> None:
    cluster, place = addressed.world.sites[site].cluster, addressed.world.place(site)
    items = cluster.informer(SLICES).unmanaged.items
    await until(lambda: sum(key.namespace == place for key, _ in items()) == count)


async def test_what_was_there_before_anybody_followed_is_found_and_its_end_is_noticed(addressed: Addresses) -> None:
    await addressed.world.open(SLICE)  # another sync watches the kind already
    item = await addressed.service("east")
    await addressed.slice("east")
    assert (await addressed.run(item)).written == 1
    await addressed.world.client.delete(SLICE, "web-x1", addressed.world.place("east"))
    await until_seen(addressed, "east", 0)
    assert (await addressed.run(item)).removed == 1


async def test_a_change_by_hand_upstream_is_repaired(addressed: Addresses) -> None:
    item = await addressed.service("east")
    await addressed.slice("east")
    await addressed.run(item)
    world = addressed.world
    target = Target(world.home, "web-x1", SLICES)
    before = world.upstream.managed_at(target)
    edit = {
        "apiVersion": SLICE.api_version,
        "kind": SLICE.kind,
        "metadata": {"name": "web-x1"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.66"]}],
    }
    path = f"{SLICE.path(world.home, 'web-x1')}?fieldManager=somebody&force=true"
    await asyncio.to_thread(world.sandbox.request, "PATCH", path, edit)
    await until(lambda: world.upstream.managed_at(target) is not before)
    await addressed.run(item)
    assert await addressed.upward() == {"web-x1": ["10.0.0.1"]}


async def test_a_sync_that_is_forgotten_leaves_nothing_behind(addressed: Addresses) -> None:
    item = await addressed.service("east")
    await addressed.slice("east")
    await addressed.run(item)
    addressed.step.forget(SYNC)
    assert not any(site.cluster.watch_filter.has_kind(SLICES) for site in addressed.world.sites.values())
    assert (addressed.step._syncs, addressed.step._cleared) == ({}, set())
