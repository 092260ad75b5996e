"""Transform: from a source object to the desired object of each target."""

import asyncio
import threading
from typing import Any

import pytest
from msgspec import structs
from tests.controllers.parts import MadeUpCluster, lowered, namespace, place, renderer, source

from syncline.api.content import Keys
from syncline.api.manifestsync import Patch
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, SourceObject
from syncline.controllers.targets import transform
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.select import PlannedCopy
from syncline.controllers.targets.transform import MAX_VALUES, RenderedTargets, render_targets
from syncline.core.content import select_keys
from syncline.core.keypolicies import MOST_COMPARISONS, KeyPolicies, KeyPolicy
from syncline.core.objects import PLAIN, Target
from syncline.core.plan import Policy

CLUSTER = MadeUpCluster(namespace("a"), namespace("b"))
HERE = place(CLUSTER, "a", "b")


async def rendered(
    spec: LoweredSpec, *sources: SourceObject, at: TargetCluster = HERE, to: tuple[str, ...] = ("a", "b")
) -> RenderedTargets:
    copies = [
        PlannedCopy(site=at, source=one, target=Target(where, one.target.name, one.target.kind))
        for one in sources
        for where in to
    ]
    return await render_targets(spec, copies, {}, renderer(), PLAIN)


async def test_a_copy_holds_what_the_source_holds_and_names_it() -> None:
    found = await rendered(lowered(), source(data={"key": "value"}))
    assert found.failed == ()
    for _, desired in found.desired:
        assert desired.content.data == {"key": "value"}
        assert (desired.source, desired.revision) == ("ConfigMap/team/settings", "1")
    assert [str(desired.target) for _, desired in found.desired] == ["a/settings", "b/settings"]


async def test_targets_that_get_the_same_share_it() -> None:
    found = await rendered(lowered(), source(data={"key": "value"}))
    (_, first), (_, second) = found.desired
    assert first.content is second.content


async def test_other_kinds_are_copied_without_the_fields_of_their_cluster() -> None:
    service = source("web", "Service", spec={"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}, status={"x": 1})
    found = await rendered(lowered(), service, to=("a",))
    ((_, desired),) = found.desired
    assert desired.body is not None
    assert desired.body.fields == {"spec": {"ports": [{"port": 80}]}}


async def test_only_the_chosen_keys_are_copied() -> None:
    found = await rendered(lowered(keys=Keys(include=["k*"])), source(data={"key": "1", "other": "2"}), to=("a",))
    ((_, desired),) = found.desired
    assert desired.content.data == {"key": "1"}


async def test_a_source_that_must_not_be_copied_stalls_the_sync() -> None:
    token = source("token", "Secret", type="kubernetes.io/service-account-token", data={"token": "eA=="})
    with pytest.raises(SyncError, match="is a token of its own service account") as refused:
        await rendered(lowered(), token)
    assert (refused.value.reason, refused.value.stalled) == ("InvalidContent", True)


async def test_among_several_sources_only_the_targets_of_the_wrong_one_fail() -> None:
    token = source("token", "Secret", type="kubernetes.io/service-account-token", data={"token": "eA=="})
    found = await rendered(lowered(), token, source(data={"key": "value"}), to=("a",))
    assert [str(desired.target) for _, desired in found.desired] == ["a/settings"]
    assert [(str(one.target), one.state, one.reason) for one in found.failed] == [
        ("Secret a/token", "Failed", "InvalidContent")
    ]


async def test_a_patch_changes_the_copy() -> None:
    at = place(CLUSTER, "a", patch=Patch(patch_content='{"data": {"key": "patched"}}'))
    found = await rendered(lowered(), source(data={"key": "value"}), at=at, to=("a",))
    ((_, desired),) = found.desired
    assert desired.content.data == {"key": "patched"}


async def test_copies_that_differ_have_a_limit_together() -> None:
    at = place(CLUSTER, "a", "b", "c", patch=Patch(patch_content='{"data": {"own": "{{ target.namespace }}"}}'))
    large = source(data={f"key-{number}": "" for number in range(MAX_VALUES // 2 + 1)})
    copies = [PlannedCopy(site=at, source=large, target=Target(where, "settings", "ConfigMap")) for where in "abc"]
    own = renderer(lambda target: f'{{"data": {{"own": "{target.namespace}"}}}}')
    with pytest.raises(SyncError, match="use fewer targets or smaller sources") as refused:
        await render_targets(lowered(), copies, {}, own, PLAIN)
    assert (refused.value.reason, refused.value.stalled) == ("SourceTooLarge", True)
    found = await render_targets(lowered(), copies[:2], {}, own, PLAIN)
    assert [desired.content.data["own"] for _, desired in found.desired] == ["a", "b"]


async def test_copies_that_are_equal_have_no_limit_together() -> None:
    large = source(data={f"key-{number}": "" for number in range(MAX_VALUES // 2 + 1)})
    found = await rendered(lowered(), large, to=("a", "b", "c", "d"))
    assert len(found.desired) == 4


async def test_large_patches_of_one_sync_let_all_others_go_on() -> None:
    """Each of them takes a second to read, and there is one for each target."""
    targets = [f"ns-{number}" for number in range(6)]
    at = place(CLUSTER, *targets, patch=Patch(patch_content='{"data": {"own": "{{ target.namespace }}"}}'))
    own = renderer(lambda target: f'data: {{own: {target.namespace}, long: "{"x, " * 1000}"}}')
    copies = [PlannedCopy(site=at, source=source(), target=Target(to, "settings", "ConfigMap")) for to in targets]
    others: list[str] = []

    async def another() -> None:
        while len(found.desired) < len(targets):
            others.append("its turn")
            await asyncio.sleep(0)

    found = RenderedTargets()
    running = asyncio.create_task(another())
    found = await render_targets(lowered(), copies, {}, own, PLAIN)
    await running
    assert len(others) > len(targets)
    assert [desired.content.data["own"] for _, desired in found.desired] == targets


async def test_many_globs_over_many_keys_are_compared_while_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    others_ran = threading.Event()

    def slowly(*given: Any) -> Any:
        assert others_ran.wait(60), "the event loop waited for the selection of keys"
        return select_keys(*given)

    monkeypatch.setattr(transform, "select_keys", slowly)
    spec = lowered(keys=Keys(exclude=[f"*{number}*x" for number in range(100)]))
    large = source(data={f"key-{number}": "" for number in range(1_000)})
    running = asyncio.create_task(rendered(spec, large, to=("a",)))
    asyncio.get_running_loop().call_soon(others_ran.set)
    ((_, desired),) = (await running).desired
    assert len(desired.content.data) == 1_000


@pytest.mark.parametrize("two_way", [False, True])
async def test_more_conflict_policies_of_keys_than_can_be_compared_in_time_are_refused(two_way: bool) -> None:
    rules = (KeyPolicy(tuple(f"*{number}*x" for number in range(50)), "Skip"),) * 50
    one_way = Policy() if two_way else Policy(key_policies=rules)
    at = place(CLUSTER, "a")
    at = structs.replace(at, destination=structs.replace(at.destination, policy=one_way))
    spec = lowered(two_way=KeyPolicies("SourceWins", rules) if two_way else None)
    found = await rendered(spec, source(data={"key": ""}), at=at, to=("a",))
    assert found.failed == ()
    large = source(data={f"key-{number}": "" for number in range(MOST_COMPARISONS // 2500 + 1)})
    with pytest.raises(SyncError, match="keyPolicies has 2500 names and globs, and the copy has 201 keys"):
        await rendered(spec, large, at=at, to=("a",))
