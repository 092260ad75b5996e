"""Pairs on a real API server: what flows, and that nothing is written at rest."""

import pytest
from tests.core.samples import BY_KIND, Sample
from tests.pairs.world import CONFIG, MERGE, Json, MakePair, PairWorld, configmap, container, marks

from syncline.api.configsync import Ignored
from syncline.core.ownership import BASE, RESOLVE
from syncline.core.pair_rules import PairRules
from syncline.core.plan import Policy

SAMPLE_KINDS = ["Deployment.apps", "Service", "Widget.samples.example.com"]
REPORT = PairRules(strategy="MergeChanges", two_way=True, on_conflict="Report", delay=0.01)


def sample_of(world: PairWorld) -> Sample:
    return next(one for one in BY_KIND.values() if one.resource == world.resource)


async def made(pair: MakePair, kind: str, rules: PairRules = MERGE) -> PairWorld:
    world = await pair(kind)
    await world.make(sample_of(world).object())
    assert (await world.sync(rules)).state == "Synced"
    return world


async def test_a_copy_is_made_with_its_base_and_then_left_alone(pair: MakePair) -> None:
    world = await configmap(pair)
    assert world.below.sent == ["create?", "create"]
    assert (await world.quiet(MERGE)).reason == "Agreed"


async def test_changes_of_both_sides_meet(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.up(lambda live: live["data"].update(a="2"))
    await world.down(lambda live: live["data"].update(b="3", c="new"))
    assert (await world.sync(MERGE)).state == "Synced"
    above, below = await world.values()
    assert above["data"] == below["data"] == {"a": "2", "b": "3", "c": "new"}
    await world.quiet(MERGE)


@pytest.mark.parametrize("kind", SAMPLE_KINDS)
async def test_defaults_of_the_server_are_no_edits(pair: MakePair, kind: str) -> None:
    world = await pair(kind)
    await world.make(sample_of(world).object())
    before = await world.live(world.source)
    assert (await world.sync(MERGE)).state == "Synced"
    await world.quiet(MERGE)
    assert world.above.sent == []
    assert (await world.live(world.source))["spec"] == before["spec"]


async def test_a_deployment_is_edited_on_both_sides_inside_one_container(pair: MakePair) -> None:
    world = await made(pair, "Deployment.apps")
    await world.up(lambda live: container(live).update(image="registry.example/app:2"))
    await world.down(lambda live: container(live)["env"].append({"name": "ADDED", "value": "here"}))
    await world.down(lambda live: live["spec"].update(replicas=7))
    assert (await world.sync(MERGE)).state == "Synced"
    for live in (await world.live(world.source), await world.live(world.target)):
        assert container(live)["image"] == "registry.example/app:2"
        assert {"name": "ADDED", "value": "here"} in container(live)["env"]
        assert live["spec"]["replicas"] == 7
    await world.quiet(MERGE)


async def test_items_of_lists_with_keys_come_and_go_one_by_one(pair: MakePair) -> None:
    world = await made(pair, "Widget.samples.example.com")
    await world.up(lambda live: live["spec"].update(parts=[{"name": "one"}, {"name": "two"}], plain=[{"name": "x"}]))
    await world.sync(MERGE)
    await world.up(lambda live: live["spec"].update(parts=[{"name": "two", "weight": 5}]))
    await world.down(lambda live: live["spec"]["parts"].append({"name": "three"}))
    await world.down(lambda live: live["spec"].update(plain=[{"name": "x"}, {"name": "y"}]))
    assert (await world.sync(MERGE)).state == "Synced"
    above, below = await world.values()
    assert {part["name"] for part in above["spec"]["parts"]} == {"two", "three"}
    assert above["spec"]["plain"] == below["spec"]["plain"] == [{"name": "x"}, {"name": "y"}]
    assert sorted(above["spec"]["parts"], key=str) == sorted(below["spec"]["parts"], key=str)
    await world.quiet(MERGE)


async def test_a_port_of_a_service_goes_although_the_server_gave_it_a_node_port(pair: MakePair) -> None:
    world = await pair("Service")
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    await world.make(
        {"apiVersion": "v1", "kind": "Service", "spec": {"type": "NodePort", "selector": {"app": "x"}, "ports": ports}}
    )
    await world.sync(MERGE)
    node_port = (await world.live(world.target))["spec"]["ports"][0]["nodePort"]
    await world.up(lambda live: live["spec"].update(ports=live["spec"]["ports"][:1]))
    assert (await world.sync(MERGE)).state == "Synced"
    live = await world.live(world.target)
    assert [(port["port"], port["nodePort"]) for port in live["spec"]["ports"]] == [(80, node_port)]
    await world.quiet(MERGE)


async def test_labels_and_annotations_flow_but_none_that_belong_to_one_side(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.down(lambda live: live["metadata"].setdefault("labels", {}).update({"team": "red"}))
    await world.down(
        lambda live: live["metadata"]["annotations"].update({"syncline.dev/prune": "Disabled", "kcp.io/path": "x"})
    )
    await world.sync(MERGE)
    meta = (await world.live(world.source))["metadata"]
    assert meta["labels"] == {"team": "red"}
    assert "annotations" not in meta
    await world.quiet(MERGE)


@pytest.mark.parametrize("strategy", ["DownstreamWins", "LastWriteWins", "MergeChanges", "Skip"])
async def test_a_sync_that_goes_down_never_writes_upstream(pair: MakePair, strategy: str) -> None:
    rules = PairRules(strategy=strategy, delay=0.01)  # type: ignore[arg-type]
    world = await configmap(pair, rules)
    await world.down(lambda live: live["data"].update(b="3", c="new"))
    await world.sync(rules)
    outcome = await world.quiet(rules)
    assert outcome.state == ("Conflict" if strategy == "Skip" else "Synced")
    await world.up(lambda live: live["data"].update(a="2"))
    await world.sync(rules)
    assert world.above.sent == []
    below = (await world.live(world.target))["data"]
    if strategy == "Skip":
        assert below == {"a": "1", "b": "3", "c": "new"}
    elif strategy == "LastWriteWins":
        assert below == {"a": "2", "b": "1"}
    else:
        assert below == {"a": "2", "b": "3", "c": "new"}
    await world.quiet(rules)


async def test_the_later_object_wins_whole(pair: MakePair) -> None:
    rules = PairRules(strategy="LastWriteWins", two_way=True, delay=0.01)
    world = await configmap(pair, rules)
    await world.up(lambda live: live["data"].update(a="2"))
    source = await world.read()
    await world.pairs(rules).preview(source, world.desired_of(source))
    await world.down(lambda live: live["data"].update(b="3"))
    outcome = await world.sync(rules)
    above, below = await world.values()
    assert above["data"] == below["data"] == {"a": "1", "b": "3"}
    assert (outcome.reason, outcome.conflicts) == ("Overruled", ())
    await world.quiet(rules)


async def test_a_conflict_is_told_by_its_path_until_a_person_decides(pair: MakePair) -> None:
    world = await configmap(pair, REPORT)
    await world.up(lambda live: live["data"].update(a="secret-above"))
    await world.down(lambda live: live["data"].update(a="secret-below", b="3"))
    outcome = await world.sync(REPORT)
    assert (outcome.state, outcome.reason, outcome.conflicts) == ("Conflict", "EditedOnBothSides", ("data/a",))
    assert "data.a" in outcome.message
    assert "secret-" not in outcome.message
    assert (await world.live(world.source))["data"] == {"a": "secret-above", "b": "3"}
    assert (await world.quiet(REPORT)).conflicts == ("data/a",)


@pytest.mark.parametrize("side", ["Upstream", "Downstream"])
@pytest.mark.parametrize("on", ["source", "target"])
async def test_an_annotation_settles_a_conflict_and_goes(pair: MakePair, side: str, on: str) -> None:
    world = await configmap(pair, REPORT)
    await world.up(lambda live: live["data"].update(a="2"))
    await world.down(lambda live: live["data"].update(a="3"))
    await world.sync(REPORT)

    def annotate(live: Json) -> None:
        live["metadata"].setdefault("annotations", {})[RESOLVE] = side

    await world.edit(getattr(world, on), annotate)
    assert (await world.sync(REPORT)).state == "Synced"
    lives = await world.live(world.source), await world.live(world.target)
    assert [live["data"]["a"] for live in lives] == (["2", "2"] if side == "Upstream" else ["3", "3"])
    assert not any(RESOLVE in live["metadata"].get("annotations", {}) for live in lives)
    await world.quiet(REPORT)


async def test_a_decision_upstream_counts_once_where_the_upstream_is_not_written(pair: MakePair) -> None:
    rules = PairRules(strategy="Skip")
    world = await configmap(pair, rules)
    await world.down(lambda live: live["data"].update(a="3"))
    await world.up(lambda live: live["metadata"].setdefault("annotations", {}).update({RESOLVE: "Upstream"}))
    assert (await world.sync(rules)).state == "Synced"
    assert (await world.live(world.target))["data"]["a"] == "1"
    await world.down(lambda live: live["data"].update(a="4"))
    assert (await world.sync(rules)).state == "Conflict"
    await world.down(lambda live: live["metadata"]["annotations"].update({RESOLVE: "Upstream"}))
    assert (await world.sync(rules)).state == "Synced"
    assert (await world.live(world.target))["data"]["a"] == "1"
    assert world.above.sent == []


async def test_an_annotation_that_says_something_else_is_told_and_stays(pair: MakePair) -> None:
    world = await configmap(pair, REPORT)
    await world.down(lambda live: live["metadata"]["annotations"].update({RESOLVE: "Mine"}))
    outcome = await world.quiet(REPORT)
    assert (outcome.state, outcome.reason) == ("Conflict", "InvalidResolve")
    assert RESOLVE in outcome.message


async def test_paths_of_transforms_go_down_only(pair: MakePair) -> None:
    world = await pair("Deployment.apps")
    world.transform = lambda manifest: container(manifest).update(image="mirror.example/app")
    rules = PairRules(
        strategy="MergeChanges", two_way=True, one_way=("/spec/template/spec/containers/0/image",), delay=0.01
    )
    await world.make(sample_of(world).object())
    await world.sync(rules)
    await world.down(lambda live: container(live).update(image="evil.example/app"))
    await world.down(lambda live: live["spec"].update(replicas=7))
    await world.sync(rules)
    above, below = await world.live(world.source), await world.live(world.target)
    assert container(above)["image"] == "registry.example/app:1"
    assert container(below)["image"] == "mirror.example/app"
    assert above["spec"]["replicas"] == 7
    await world.quiet(rules)


async def test_fields_that_are_left_to_others_flow_nowhere(pair: MakePair) -> None:
    world = await pair("Deployment.apps")
    world.ignored = (Ignored(paths=["/spec/replicas"]),)
    await world.make(sample_of(world).object())
    await world.sync(MERGE)
    first = (await world.live(world.source))["spec"]["replicas"]
    await world.down(lambda live: live["spec"].update(replicas=7))
    await world.quiet(MERGE)
    await world.up(lambda live: live["spec"].update(replicas=9, minReadySeconds=3))
    await world.sync(MERGE)
    below = (await world.live(world.target))["spec"]
    assert (below["replicas"], below["minReadySeconds"], first) == (7, 3, first)
    await world.quiet(MERGE)


async def test_an_object_that_is_not_ours_is_left_alone(pair: MakePair) -> None:
    world = await pair("ConfigMap")
    await world.make(CONFIG)
    await world.make({**CONFIG, "data": {"z": "theirs"}}, world.target)
    outcome = await world.quiet(MERGE)
    assert (outcome.state, outcome.reason) == ("Conflict", "NotOurs")


async def test_an_adopted_object_keeps_what_it_has_and_takes_what_it_lacks(pair: MakePair) -> None:
    world = await pair("Deployment.apps")
    world.policy = Policy(management="Adopt")
    body = sample_of(world).object()
    await world.make(body)
    await world.make({**body, "spec": {**body["spec"], "minReadySeconds": 5}}, world.target)
    assert (await world.sync(MERGE)).state == "Synced"
    above = await world.live(world.source)
    assert above["spec"]["minReadySeconds"] == 5
    await world.quiet(MERGE)


async def test_a_deleted_copy_is_made_again(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.delete(world.target)
    assert (await world.sync(MERGE)).reason == "Created"
    await world.quiet(MERGE)


async def test_a_copy_that_followed_its_upstream_becomes_one_of_a_pair_without_losing_anything(pair: MakePair) -> None:
    world = await pair("Deployment.apps")
    await world.make(sample_of(world).object())
    source = await world.read()
    assert (await world.writer().apply(world.desired_of(source))).state == "Synced"
    assert BASE not in marks(await world.live(world.target))
    before = await world.live(world.source)
    assert (await world.sync(MERGE)).state == "Synced"
    assert (await world.live(world.source))["spec"] == before["spec"]
    assert BASE in marks(await world.live(world.target))
    await world.down(lambda live: live["spec"].update(replicas=9))
    await world.sync(MERGE)
    assert (await world.live(world.source))["spec"]["replicas"] == 9
    source = await world.read()
    assert (await world.writer().apply(world.desired_of(source))).state == "Synced"
    assert BASE not in marks(await world.live(world.target))
    await world.sync(MERGE)
    await world.quiet(MERGE)


@pytest.mark.parametrize("kind", ["ConfigMap", "Deployment.apps"])
async def test_an_edited_copy_is_told_from_one_that_is_as_it_was_agreed_on(pair: MakePair, kind: str) -> None:
    world = await pair(kind)
    await world.make(sample_of(world).object() if kind != "ConfigMap" else CONFIG)
    rules = PairRules(strategy="MergeChanges", delay=0.01)
    await world.sync(rules)
    desired = world.desired_of(await world.read())
    assert not await world.pairs(rules).is_edited(desired)
    await world.up(lambda live: live["metadata"].setdefault("labels", {}).update(team="blue"))
    await world.sync(rules)
    assert not await world.pairs(rules).is_edited(desired)
    await world.down(lambda live: live["metadata"]["labels"].update(team="green"))
    await world.sync(rules)
    assert await world.pairs(rules).is_edited(desired)
    await world.delete(world.target)
    assert not await world.pairs(rules).is_edited(desired)


async def test_a_copy_whose_record_somebody_forged_counts_as_edited(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.replace_marks(lambda annotations: annotations.update({BASE: "{}"}))
    assert await world.pairs(MERGE).is_edited(world.desired_of(await world.read()))


async def test_a_preview_says_what_would_flow_and_writes_nothing(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.up(lambda live: live["data"].update(a="2"))
    await world.down(lambda live: live["data"].update(b="3"))
    world.below.sent.clear()
    source = await world.read()
    action = await world.pairs(MERGE).preview(source, world.desired_of(source))
    assert (action.verb.name, world.above.sent, world.below.sent) == ("UPDATE", [], [])
    assert "data.b to the upstream object" in action.message
    assert "data.a to the copy" in action.message
