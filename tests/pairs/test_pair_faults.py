"""Pairs when something goes wrong: a process that dies, a race, a refusal, a right that is missing, a forged record."""

import base64
import json
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.core.samples import BY_KIND
from tests.pairs.world import CONFIG, MARK_KEYS, MERGE, Json, MakePair, PairWorld, StoppedError, configmap, marks, said

from syncline.core.keypolicies import KeyPolicies, KeyPolicy
from syncline.core.outcome import Outcome
from syncline.core.ownership import BASE, MARKER, RESOLVE
from syncline.core.pair_rules import PairRules
from syncline.core.plan import MARK_UNPROVEN, Verb
from syncline.engine.sent_values import SentValues
from syncline.engine.twoway import TwoWay
from syncline.kube import Forbidden, Invalid
from syncline.kube.errors import ApiError, Conflict, ServerError

SECRET = {"apiVersion": "v1", "kind": "Secret", "data": {"password": base64.b64encode(b"canary-1").decode()}}
REPORT = PairRules(strategy="MergeChanges", two_way=True, on_conflict="Report", delay=0.01)
FORBIDDEN: dict[str, Any] = {"verb": "patch", "resource": "configmaps", "namespace": "up", "name": "sample"}


async def test_a_process_that_dies_after_any_request_is_finished_by_the_next(pair: MakePair) -> None:
    requests = 0
    while True:
        world = await configmap(pair)
        await world.up(lambda live: live["data"].update(a="2"))
        await world.down(lambda live: live["data"].update(b="3"))
        if not await dies_after(world, requests):
            break
        assert (await world.sync(MERGE)).state == "Synced"
        above, below = await world.values()
        assert above["data"] == below["data"] == {"a": "2", "b": "3"}
        await world.quiet(MERGE)
        requests += 1
    # Read the copy; write upstream; try and write the copy.
    assert requests == 4


async def dies_after(world: PairWorld, requests: int) -> bool:
    """Make a pass in which the process dies after so many requests; tell whether it died."""
    world.above.count = world.below.count = world.shared_count(requests)
    try:
        await world.sync(MERGE)
    except StoppedError:
        return True
    finally:
        world.above.count = world.below.count = None
    return False


async def test_a_copy_that_was_being_made_when_the_process_died_is_made(pair: MakePair) -> None:
    for requests in range(3):
        world = await pair("ConfigMap")
        await world.make(CONFIG)
        assert await dies_after(world, requests)
        assert (await world.sync(MERGE)).state == "Synced"
        await world.quiet(MERGE)


async def test_an_edit_in_the_middle_of_a_pass_is_read_and_decided_with_the_rest(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.down(lambda live: live["data"].update(b="3"))
    edited: list[str] = []

    async def edit(_: str) -> None:
        if not edited:
            edited.append("once")
            await world.up(lambda live: live["data"].update(a="2"))

    world.above.before_write = edit
    with capture_logs() as lines:
        assert (await world.sync(MERGE)).state == "Synced"
    above, below = await world.values()
    assert above["data"] == below["data"] == {"a": "2", "b": "3"}
    retries = [line for line in lines if "attempt" in line]
    assert [(line["attempt"], line["resource"]) for line in retries] == [(1, "configmaps")]


async def test_a_pair_that_never_rests_is_given_up_for_now(pair: MakePair) -> None:
    rules = PairRules(strategy="MergeChanges", two_way=True, max_retries=2, delay=0.01)
    world = await configmap(pair, rules)
    await world.down(lambda live: live["data"].update(b="3"))
    numbers = iter(range(100))

    async def edit(_: str) -> None:
        await world.up(lambda live: live["data"].update(a=f"again-{next(numbers)}"))

    world.above.before_write = edit
    outcome = await world.sync(rules)
    assert (outcome.state, outcome.reason, outcome.retry) == ("Failed", "Contended", True)
    assert next(numbers) == 3


def raising(error: ApiError) -> Any:
    async def refuse(_: str) -> None:
        raise error

    return refuse


async def test_without_the_right_to_write_upstream_the_copy_still_gets_what_flows_down(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.up(lambda live: live["data"].update(a="2"))
    await world.down(lambda live: live["data"].update(b="3"))
    world.above.before_write = raising(Forbidden(403, "Forbidden", "no", **FORBIDDEN))
    outcome = await world.sync(MERGE)
    assert (outcome.state, outcome.reason, outcome.retry) == ("Failed", "UpstreamForbidden", True)
    assert "patch configmaps" in outcome.message
    above, below = await world.values()
    assert (above["data"], below["data"]) == ({"a": "2", "b": "1"}, {"a": "2", "b": "3"})
    world.below.sent.clear()
    assert (await world.sync(MERGE)).reason == "UpstreamForbidden"
    assert world.below.sent == []
    world.above.before_write = None
    assert (await world.sync(MERGE)).state == "Synced"
    above, below = await world.values()
    assert above["data"] == below["data"] == {"a": "2", "b": "3"}


async def test_a_change_that_the_upstream_cannot_take_is_told_once_and_not_repeated_at_once(pair: MakePair) -> None:
    world = await pair("Widget.samples.example.com")
    sample = next(one for one in BY_KIND.values() if one.resource == world.resource)
    await world.make(sample.object())
    await world.sync(MERGE)
    await world.down(lambda live: live["spec"].update(size=5))
    refused = {"verb": "patch", "resource": "widgets", "namespace": "up", "name": "sample"}
    world.above.before_write = raising(Invalid(422, "Invalid", "size is too large", **refused))  # type: ignore[arg-type]
    world.above.sent.clear()
    outcome = await world.sync(MERGE)
    assert (outcome.state, outcome.reason) == ("Failed", "UpstreamRefused")
    assert "spec.size" in outcome.message
    assert world.above.sent == []


async def decided(pair: MakePair) -> PairWorld:
    """Make a pair with a conflict that a person has decided upstream."""
    world = await configmap(pair, REPORT)
    await world.up(lambda live: live["data"].update(a="2"))
    await world.down(lambda live: live["data"].update(a="3"))
    assert (await world.sync(REPORT)).state == "Conflict"
    await world.up(lambda live: live["metadata"].setdefault("annotations", {}).update({RESOLVE: "Upstream"}))
    return world


@pytest.mark.parametrize(
    "error",
    [Conflict(409, "Conflict", "changed", **FORBIDDEN), ServerError(503, "ServiceUnavailable", "", **FORBIDDEN)],
)
async def test_an_annotation_that_could_not_be_removed_is_removed_later(pair: MakePair, error: ApiError) -> None:
    world = await decided(pair)
    world.above.before_write = raising(error)
    outcome = await world.sync(REPORT)
    assert (outcome.state, outcome.retry, outcome.written) == ("Synced", True, Verb.UPDATE)
    world.above.before_write = None
    outcome = await world.sync(REPORT)
    assert (outcome.state, outcome.retry) == ("Synced", False)
    assert RESOLVE not in (await world.live(world.source))["metadata"].get("annotations", {})
    await world.quiet(REPORT)


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (Forbidden(403, "Forbidden", "no", **FORBIDDEN), "UpstreamForbidden", "grant the right to patch configmaps"),
        (Invalid(422, "Invalid", "annotations stay", **FORBIDDEN), "UpstreamRefused", "annotations stay"),
    ],
)
async def test_an_annotation_that_may_not_be_removed_is_told(
    pair: MakePair, error: ApiError, reason: str, words: str
) -> None:
    world = await decided(pair)
    world.above.before_write = raising(error)
    for _ in range(2):
        outcome = await world.sync(REPORT)
        assert (outcome.state, outcome.reason, outcome.retry) == ("Failed", reason, True)
        assert words in outcome.message
        assert RESOLVE in outcome.message
    world.above.before_write = None
    await world.up(lambda live: live["metadata"]["annotations"].pop(RESOLVE))
    assert (await world.quiet(REPORT)).state == "Synced"


async def test_a_record_that_is_too_large_is_refused_before_anything_is_written(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.up(lambda live: live["data"].update({f"{'k' * 200}-{number}": "" for number in range(300)}))
    await world.down(lambda live: live["data"].update(b="3"))
    outcome = await world.quiet(MERGE)
    assert (outcome.state, outcome.reason) == ("Failed", "BaseTooLarge")


async def test_the_values_of_a_secret_are_in_no_record_and_no_message(pair: MakePair) -> None:
    world = await pair("Secret")
    await world.make(SECRET)
    rules = PairRules(strategy="MergeChanges", two_way=True, on_conflict="Report", delay=0.01)
    outcomes = [await world.sync(rules)]
    await world.up(lambda live: live["data"].update(password=base64.b64encode(b"canary-2").decode()))
    await world.down(lambda live: live["data"].update(password=base64.b64encode(b"canary-3").decode()))
    with capture_logs() as lines:
        outcomes.append(await world.sync(rules))
    assert outcomes[-1].conflicts == ("data/password",)
    told = json.dumps([str(outcomes), str(lines), marks(await world.live(world.target))])
    for value in (b"canary-1", b"canary-2", b"canary-3"):
        assert value.decode() not in told
        assert base64.b64encode(value).decode() not in told


async def forged(pair: MakePair, rules: PairRules, forge: Any) -> tuple[PairWorld, Outcome, Json, Json]:
    """Have a tenant write the record on the copy, and make a pass; return what the upstream said before and after."""
    world = await configmap(pair, rules)
    before = said(await world.live(world.source))
    await world.replace_marks(forge)
    outcome = await world.sync(rules)
    return world, outcome, before, said(await world.live(world.source))


def claim(path: str, digest: str = "0" * 24) -> Any:
    """Write a record that says that the two sides once agreed on another value."""

    def forge(annotations: dict[str, str]) -> None:
        record = json.loads(annotations[BASE])
        record[path] = digest
        annotations[BASE] = json.dumps(record)

    return forge


def unclaim(path: str) -> Any:
    def forge(annotations: dict[str, str]) -> None:
        record = json.loads(annotations[BASE])
        record.pop(path)
        annotations[BASE] = json.dumps(record)

    return forge


@pytest.mark.parametrize("strategy", ["UpstreamWins", "DownstreamWins", "LastWriteWins", "MergeChanges", "Skip"])
@pytest.mark.parametrize("forge", [claim("data/a"), claim("data/z"), unclaim("data/b"), lambda marks: marks.pop(BASE)])
async def test_whoever_forges_the_record_on_a_copy_changes_nothing_upstream(
    pair: MakePair, strategy: Any, forge: Any
) -> None:
    rules = PairRules(strategy=strategy, two_way=True, delay=0.01)
    world, _, before, after = await forged(pair, rules, forge)
    assert after == before
    assert (await world.live(world.target))["data"] == CONFIG["data"]


async def test_a_removed_key_with_a_forged_record_is_not_removed_upstream(pair: MakePair) -> None:
    """Without the record, nobody can tell that the key was removed here, and not added there."""
    world = await configmap(pair)
    await world.down(lambda live: live["data"].pop("a"))
    await world.replace_marks(claim("data/b", "1" * 24))
    await world.sync(MERGE)
    above, below = await world.values()
    assert above["data"] == below["data"] == CONFIG["data"]


async def test_an_earlier_record_with_its_earlier_mark_gains_nothing(pair: MakePair) -> None:
    world = await configmap(pair)
    earlier = marks(await world.live(world.target))
    await world.up(lambda live: live["data"].update(c="added"))
    await world.sync(MERGE)
    await world.replace_marks(lambda annotations: annotations.update(earlier))
    await world.down(lambda live: live["data"].pop("c"))
    await world.sync(MERGE)
    above, below = await world.values()
    assert above["data"] == below["data"] == {**CONFIG["data"], "c": "added"}


async def test_a_mark_that_somebody_made_up_makes_no_object_ours(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.replace_marks(
        lambda annotations: annotations.update(
            {MARKER: annotations[MARKER].replace("Created", "Adopted")[:-9] + '0000000"}'}
        )
    )
    await world.down(lambda live: live["data"].update(a="theirs"))
    before = await world.live(world.source)
    outcome = await world.quiet(MERGE)
    assert outcome.state == "Conflict"
    assert await world.live(world.source) == before


async def test_a_mark_of_a_key_that_was_lost_keeps_everybody_away(pair: MakePair) -> None:
    world = await configmap(pair)
    lost = MARK_KEYS.current
    await world.replace_marks(
        lambda annotations: annotations.update({MARKER: annotations[MARKER].replace(lost, "0badf00d")})
    )
    await world.down(lambda live: live["data"].update(a="theirs"))
    assert (await world.quiet(MERGE)).reason == MARK_UNPROVEN
    source = await world.read()
    two_way = TwoWay(
        world.cluster,
        world.below,
        world.writer(),
        KeyPolicies("MergeChanges"),
        keys=None,
        transforms=(),
        sent=SentValues(),
    )
    outcome = await two_way.apply(source, world.desired_of(source), created_once=False)
    assert (outcome.reason, world.below.sent) == (MARK_UNPROVEN, [])


async def test_a_copy_with_more_keys_than_can_be_compared_with_globs_is_left(pair: MakePair) -> None:
    world = await configmap(pair)
    await world.down(lambda live: live["data"].update({f"k{number}": "" for number in range(200)}))
    source = await world.read()
    rules = (KeyPolicy(tuple(f"*{number}*x" for number in range(50)), "Skip"),) * 50
    policies = KeyPolicies("MergeChanges", rules)
    two_way = TwoWay(world.cluster, world.below, world.writer(), policies, keys=None, transforms=(), sent=SentValues())
    sent = len(world.below.sent)
    outcome = await two_way.apply(source, world.desired_of(source), created_once=False)
    assert (outcome.state, outcome.reason, len(world.below.sent)) == ("Failed", "InvalidContent", sent)


async def test_the_clock_of_a_server_is_compared_with_ours(pair: MakePair) -> None:
    world = await configmap(pair)
    # Both are of this machine; a server tells whole seconds.
    assert abs(world.above.skew) < 2
