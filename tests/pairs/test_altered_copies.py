"""Pairs whose downstream server changes what is written: nothing flaps, and nothing of it reaches the upstream."""

from typing import Any

import pytest
from tests.configmapsync.admission import altered
from tests.pairs.world import CONFIG, MERGE, MakePair, PairWorld

from syncline.core.pair_rules import PairRules
from syncline.kube import BadRequest
from syncline.sandbox import Sandbox

INJECTED = 'Object{data: {"injected": "always"}, metadata: Object.metadata{labels: {"seen": "yes"}}}'
STRATEGIES = ["UpstreamWins", "DownstreamWins", "LastWriteWins", "MergeChanges", "Skip"]


async def check(world: PairWorld, rules: PairRules) -> None:
    await world.make(CONFIG)
    assert (await world.sync(rules)).state == "Synced"
    assert (await world.live(world.target))["data"] == {**CONFIG["data"], "injected": "always"}
    await world.quiet(rules)
    if rules.strategy != "DownstreamWins":
        await world.up(lambda live: live["data"].update(a="2"))
        assert (await world.sync(rules)).state == "Synced"
        await world.quiet(rules)
    above, below = await world.values()
    assert above["data"] == {key: value for key, value in below["data"].items() if key != "injected"}
    assert above["labels"] == {}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_what_a_policy_adds_to_every_copy_is_no_edit(pair: MakePair, sandbox: Sandbox, strategy: Any) -> None:
    world = await pair("ConfigMap")
    with altered(sandbox, world.target.namespace, INJECTED):
        await check(world, PairRules(strategy=strategy, two_way=True, delay=0.01))


async def test_without_dry_runs_the_answer_to_the_write_corrects_the_record(pair: MakePair, sandbox: Sandbox) -> None:
    world = await pair("ConfigMap")

    async def no_dry_runs(name: str) -> None:
        if name.endswith("?"):
            message = 'admission webhook "x" does not support dry run'
            raise BadRequest(400, "BadRequest", message, verb="create", resource="configmaps")

    world.below.before_write = no_dry_runs
    with altered(sandbox, world.target.namespace, INJECTED):
        await check(world, MERGE)


async def test_a_lost_record_does_not_make_edits_of_what_a_policy_adds(pair: MakePair, sandbox: Sandbox) -> None:
    world = await pair("ConfigMap")
    with altered(sandbox, world.target.namespace, INJECTED):
        await check(world, MERGE)
        await world.replace_marks(lambda annotations: annotations.pop("syncline.dev/base"))
        before = await world.live(world.source)
        assert (await world.sync(MERGE)).state == "Synced"
        assert await world.live(world.source) == before
        await world.quiet(MERGE)
