"""The proxy itself: what no rule picks out passes unchanged, and what is asked for happens to nobody else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from tests.faults.scene import Scene

from syncline.kube import CONFIGMAPS, NAMESPACES, Client, Conflict, NotFound, Retry, Unreachable, load_kubeconfig
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy


@pytest.fixture
async def through(scene: Scene, proxy: FaultProxy) -> AsyncIterator[Client]:
    """An admin's client that goes through the proxy."""
    async with Client(load_kubeconfig(proxy.kubeconfig(scene.sandbox.kubeconfig)), retry=Retry(tries=1)) as client:
        yield client


async def test_what_no_rule_picks_out_passes_unchanged(scene: Scene, proxy: FaultProxy, through: Client) -> None:
    async with Client(load_kubeconfig(scene.sandbox.kubeconfig)) as direct:
        body = {"metadata": {"name": "large"}, "data": {"value": "x" * 500_000}}
        made = await through.create(CONFIGMAPS, body, scene.home)
        assert await direct.get(CONFIGMAPS, "large", scene.home) == made
        # The version of a list moves with every write to the cluster, whoever makes it.
        assert (await through.list(CONFIGMAPS, scene.home))[0] == (await direct.list(CONFIGMAPS, scene.home))[0]
        with pytest.raises(NotFound):
            await through.get(CONFIGMAPS, "absent", scene.home)
        with pytest.raises(Conflict):
            await through.delete(CONFIGMAPS, "large", scene.home, uid="another")
        assert await through.delete(CONFIGMAPS, "large", scene.home)
    assert [asked.verb for asked in proxy.requests] == ["create", "list", "get", "delete", "delete"]
    assert [asked.number for asked in proxy.requests] == [1, 0, 0, 2, 3]


async def test_a_lost_write_is_not_done_and_a_cut_one_is(scene: Scene, proxy: FaultProxy, through: Client) -> None:
    proxy.inject(Fault(lost=True), when=lambda asked: asked.number == 1)
    proxy.inject(Fault(cut=True), when=lambda asked: asked.number == 2)
    for name in ("lost", "cut"):
        with pytest.raises(Unreachable) as raised:
            await through.create(CONFIGMAPS, {"metadata": {"name": name}}, scene.home)
        assert raised.value.ambiguous
    assert {place[1] for place in scene.all_places()} == {"cut"}


async def test_hooks_are_called_before_and_after_the_server_has_acted(
    scene: Scene, proxy: FaultProxy, through: Client
) -> None:
    seen: list[bool] = []

    def look() -> None:
        seen.append((scene.home, "made") in scene.all_places())

    proxy.inject(Fault(before=look, after=look), when=lambda asked: asked.changes, times=1)
    await through.create(CONFIGMAPS, {"metadata": {"name": "made"}}, scene.home)
    assert seen == [False, True]


async def test_a_silenced_watch_says_nothing_more_and_stays_open(
    scene: Scene, proxy: FaultProxy, through: Client
) -> None:
    _, version = await through.list(NAMESPACES)
    lines = through.watch(NAMESPACES, version=version, seconds=60, silence=60)
    async with aclosing(lines):
        assert await anext(lines) == b""
        scene.namespace("heard")
        assert b"heard" in await anext(lines)
        silence = proxy.inject(Fault(silent=True), when=lambda asked: asked.verb == "watch")
        silence.lift()
        scene.namespace("unheard")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await anext(lines)
    assert len(silence.hits) == 1
