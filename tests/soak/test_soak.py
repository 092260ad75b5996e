"""After everything has come and gone, the operator holds what it held before, and nothing else."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.inside import running
from tests.soak.census import census, missing, surplus
from tests.soak.rounds import GROUP, Round, allow_kinds

from syncline.api.common import ObjectMeta
from syncline.controllers import deleted_syncs
from syncline.controllers.targets import clusters
from syncline.engine.sync_object import RawSync
from syncline.operator import Operator
from syncline.render.workers import pool
from syncline.sandbox import Options, Sandbox
from syncline.testing.audit import AuditLog
from syncline.testing.operator import install

ROUNDS = 2
# What is let go of after minutes goes after this many seconds here.
SOON = 0.5


@pytest.fixture
def quiet_hub() -> Iterator[Sandbox]:
    """A control plane without anything of another test: what others leave behind would be watched too."""
    with Sandbox.create(Options()) as running:
        allow_kinds(running)
        yield running


@pytest.mark.timeout(900)
async def test_after_a_churn_of_clusters_namespaces_kinds_and_syncs_all_is_as_before(
    quiet_hub: Sandbox, far: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_syncs, "REMEMBERED_FOR", SOON)
    monkeypatch.setattr(pool, "IDLE_SECONDS", SOON)
    async with running(await asyncio.to_thread(install, quiet_hub), tmp_path) as operator:
        before = await at_rest(operator)
        for _ in range(ROUNDS):
            await asyncio.to_thread(Round(quiet_hub, far).play)
        await becomes(operator, before)


@pytest.fixture
def round_(arena: Sandbox, far: Sandbox) -> Iterator[Round]:
    """What a test makes in the arena; all of it goes again."""
    role = allow_kinds(arena)
    made = Round(arena, far)
    made.begin()
    yield made
    made.end()
    role.delete()


async def test_a_kind_that_a_sync_no_longer_writes_leaves_its_inventory_and_is_watched_no_more(
    round_: Round, arena_kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "MAX_WRITE_SECONDS", 0.0)
    async with running(arena_kubeconfig, tmp_path) as operator:
        sync = await asyncio.to_thread(round_.copy_thing_and_config_map)
        thing = f"{round_.kind}.{GROUP}"
        assert operator._hub.is_open(thing)
        await asyncio.to_thread(round_.copy_config_map_only, sync)
        await until(lambda: not operator._hub.is_open(thing))
        assert operator._hub.is_open("ConfigMap")
        await asyncio.to_thread(round_.end_syncs)


async def test_a_kind_whose_only_object_waits_stays_in_the_inventory(
    round_: Round, arena_kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each attempt to write it would record the kind, and the next one drop it: two writes of the status."""
    monkeypatch.setattr(clusters, "MAX_WRITE_SECONDS", 0.0)
    audit = AuditLog(round_.hub)
    async with running(arena_kubeconfig, tmp_path):
        sync = await asyncio.to_thread(round_.build_for_missing_namespace)
        before = await asyncio.to_thread(audit.mark)
        await asyncio.to_thread(round_.request_and_wait, sync)
        writes = [one for one in audit.writes(since=before) if (one.resource, one.name) == ("configsyncs", sync.name)]
        assert sorted(one.subresource for one in writes if one.code < 300) == ["", "status"]  # the request, its answer
        await asyncio.to_thread(round_.end_syncs)


async def test_a_sync_that_is_created_again_under_its_name_is_not_taken_for_the_one_before(
    arena_kubeconfig: Path, tmp_path: Path
) -> None:
    async with running(arena_kubeconfig, tmp_path) as operator:
        controller = operator._syncs[0]
        first, second = (
            controller._kind.read(RawSync(metadata=ObjectMeta(name="sync", namespace="team", uid=uid)))
            for uid in ("one", "two")
        )
        state = controller._state_of(first)
        state.finalizing_since = 1.0
        assert controller._state_of(first) is state
        # Otherwise its deletion would be given up at once: the patience for it is over already.
        assert controller._state_of(second).finalizing_since is None


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.05)


async def at_rest(operator: Operator) -> Counter[str]:
    """Wait until the operator has begun to work, and return what it holds then."""
    for reflector in (operator._hub.namespaces, *operator._reflectors):
        await reflector.synced.wait()
    async with asyncio.timeout(180):
        while (now := census(operator)) != (await later(operator)):
            pass
    return now


async def later(operator: Operator) -> Counter[str]:
    await asyncio.sleep(SOON)
    return census(operator)


async def becomes(operator: Operator, before: Counter[str]) -> None:
    """Wait until the operator holds no more and no less than before; fail with what differs."""
    deadline = asyncio.get_running_loop().time() + 300
    while (now := census(operator)) and (more := surplus(now, before), less := missing(now, before)) != ({}, {}):
        assert asyncio.get_running_loop().time() < deadline, f"more than before: {more}; less than before: {less}"
        await asyncio.sleep(1.0)
