"""Copies that cannot be changed: they are deleted and created again, but only if the new ones are accepted."""

import pytest
from tests.pairs.test_pair_faults import dies_after
from tests.pairs.world import CONFIG, MERGE, Json, MakePair, PairWorld

from syncline.core.ownership import RESOLVE
from syncline.core.pair_rules import PairRules
from syncline.core.plan import Policy, Verb
from syncline.kube.errors import Invalid

IMMUTABLE: Json = {**CONFIG, "immutable": True}
REPORT = PairRules(strategy="MergeChanges", two_way=True, on_conflict="Report", delay=0.01)


async def replaced(pair: MakePair, rules: PairRules = MERGE) -> PairWorld:
    """Make an immutable pair of which the upstream object is then created again with other data."""
    world = await pair("ConfigMap")
    world.policy = Policy(keep_extras=True)  # as a WorkspaceSync has it
    await world.make(IMMUTABLE)
    assert (await world.sync(rules)).state == "Synced"
    await world.delete(world.source)
    await world.make({**IMMUTABLE, "data": {"a": "2", "c": "new"}})
    return world


@pytest.mark.parametrize("strategy", ["UpstreamWins", "LastWriteWins", "MergeChanges", "Skip"])
@pytest.mark.parametrize("two_way", [True, False])
async def test_an_immutable_copy_follows_an_upstream_object_that_was_created_again(
    pair: MakePair, strategy: str, two_way: bool
) -> None:
    rules = PairRules(strategy=strategy, two_way=two_way, delay=0.01)  # type: ignore[arg-type]
    world = await replaced(pair, rules)
    before = await world.live(world.target)
    source = await world.read()
    preview = await world.pairs(rules).preview(source, world.desired_of(source))
    assert (preview.verb, preview.reason) == (Verb.RECREATE, "Recreated")
    outcome = await world.sync(rules)
    assert (outcome.state, outcome.reason, outcome.written) == ("Synced", "Recreated", Verb.RECREATE)
    live = await world.live(world.target)
    assert (live["data"], live["immutable"]) == ({"a": "2", "c": "new"}, True)
    assert live["metadata"]["uid"] != before["metadata"]["uid"]
    await world.quiet(rules)


async def test_an_immutable_copy_stays_if_the_server_would_refuse_the_new_one(pair: MakePair) -> None:
    world = await replaced(pair)
    before = await world.live(world.target)

    async def refuse(name: str) -> None:
        if name == "create?":
            raise Invalid(422, "Invalid", "no", verb="create", resource="configmaps", namespace="down", name="sample")

    world.below.before_write = refuse
    outcome = await world.sync(MERGE)
    assert (outcome.state, outcome.reason, outcome.retry) == ("Failed", "RecreateRefused", True)
    assert await world.live(world.target) == before


async def test_an_edit_of_an_immutable_copy_goes_up_before_the_copy_is_created_again(pair: MakePair) -> None:
    world = await pair("ConfigMap")
    await world.make(CONFIG)
    await world.sync(MERGE)
    await world.down(lambda live: live.update(immutable=True))
    await world.down(lambda live: live["metadata"].setdefault("labels", {}).update(team="red"))
    await world.up(lambda live: live["data"].update(a="2"))
    outcome = await world.sync(MERGE)
    assert (outcome.state, outcome.reason) == ("Synced", "Recreated"), outcome
    above, below = await world.values()
    assert above == below
    assert (below["data"], below["labels"]) == ({"a": "2", "b": "1"}, {"team": "red"})
    await world.quiet(MERGE)


async def test_an_immutable_copy_with_values_that_it_keeps_stays(pair: MakePair) -> None:
    world = await pair("ConfigMap")
    await world.make(CONFIG)
    await world.sync(REPORT)
    await world.down(lambda live: (live["data"].update(a="mine"), live.update(immutable=True)))
    await world.delete(world.source)
    await world.make({**IMMUTABLE, "data": {"a": "2", "b": "2"}})
    outcome = await world.quiet(REPORT)
    assert (outcome.state, outcome.reason) == ("Conflict", "Immutable")
    assert (await world.live(world.target))["data"] == {"a": "mine", "b": "1"}
    await world.up(lambda live: live["metadata"].setdefault("annotations", {}).update({RESOLVE: "Upstream"}))
    assert (await world.sync(REPORT)).reason == "Recreated"
    live = await world.live(world.target)
    assert live["data"] == {"a": "2", "b": "2"}
    assert RESOLVE not in (await world.live(world.source))["metadata"].get("annotations", {})
    await world.quiet(REPORT)


async def test_a_process_that_dies_after_any_request_of_it_is_finished_by_the_next(pair: MakePair) -> None:
    requests, died = 0, True
    while died:
        world = await replaced(pair)
        died = await dies_after(world, requests)
        assert (await world.sync(MERGE)).state == "Synced"
        assert (await world.live(world.target))["data"] == {"a": "2", "c": "new"}
        await world.quiet(MERGE)
        requests += 1
    assert requests > len(["read", "create?", "delete", "create"])
