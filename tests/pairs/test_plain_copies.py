"""Copies that just follow their upstream, on a real API server: what others add stays, unless the copy is exact."""

import base64

import pytest
from tests.core.samples import BY_KIND
from tests.pairs.world import CONFIG, MakePair, PairWorld

from syncline.core.outcome import Outcome
from syncline.core.ownership import BASE
from syncline.core.plan import Policy

KEEPING = Policy(keep_extras=True)
VALUE = base64.b64encode(b"value").decode()


async def follow(world: PairWorld, policy: Policy = KEEPING) -> Outcome:
    world.policy = policy
    world.below.sent.clear()
    source = await world.read()
    return await world.writer().apply(world.desired_of(source))


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_keys_that_others_add_stay_and_keys_that_the_upstream_removes_go(pair: MakePair, kind: str) -> None:
    world = await pair(kind)
    await world.make({"apiVersion": "v1", "kind": kind, "data": {"a": VALUE, "b": VALUE}})
    assert (await follow(world)).reason == "Created"
    await world.down(lambda live: live["data"].update(mine=VALUE))
    await world.seen(world.target)
    assert (await follow(world)).state == "Synced"
    assert world.below.sent == []
    await world.up(lambda live: live["data"].pop("b"))
    assert (await follow(world)).state == "Synced"
    assert (await world.live(world.target))["data"] == {"a": VALUE, "mine": VALUE}
    await world.down(lambda live: live["data"].update(a="ZWRpdGVk"))
    await world.seen(world.target)
    assert (await follow(world)).drift
    live = await world.live(world.target)
    assert live["data"] == {"a": VALUE, "mine": VALUE}
    assert BASE not in live["metadata"]["annotations"]
    assert (await follow(world, Policy(exact=True))).state == "Synced"
    assert (await world.live(world.target))["data"] == {"a": VALUE}


async def test_an_exact_deployment_loses_fields_that_others_added_and_takes_nothing_over(pair: MakePair) -> None:
    world = await pair("Deployment.apps")
    exact = Policy(exact=True)
    sample = next(one for one in BY_KIND.values() if one.resource == world.resource)
    await world.make(sample.object())
    await world.make(sample.object(), world.target)
    assert (await follow(world, exact)).reason == "NotOurs"
    await world.delete(world.target)
    assert (await follow(world, exact)).state == "Synced"
    await world.down(lambda live: live["spec"].update(minReadySeconds=9))
    await world.seen(world.target)
    assert (await follow(world, Policy())).written is None
    assert (await follow(world, exact)).state == "Synced"
    assert "minReadySeconds" not in (await world.live(world.target))["spec"]


async def test_a_copy_that_nobody_touches_is_neither_read_nor_written(pair: MakePair) -> None:
    world = await pair("ConfigMap")
    await world.make(CONFIG)
    await follow(world)
    world.below.asked.clear()
    assert (await follow(world)).state == "Synced"
    assert world.below.asked == []
