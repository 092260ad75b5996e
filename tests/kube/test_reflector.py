"""The reflector against a real API server, also through a relay that breaks."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct, field, structs
from prometheus_client import REGISTRY
from tests.kube.conftest import Until
from tests.kube.relay import relay_to

from syncline.api.common import ObjectMeta
from syncline.kube import CONFIGMAPS, NAMESPACES, Client, Key, PatchKind, Reflector, Timing, load_kubeconfig
from syncline.sandbox import Sandbox
from syncline.testing.fixtures import SandboxFactory

QUICK = Timing(watch_min=1, watch_max=1, grace=1, settled=0.2, stale=3, backoff_min=0.05, backoff_max=0.2)


class ConfigMap(Struct, kw_only=True, rename="camel"):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] = field(default_factory=dict)


class Follower:
    """A reflector of ConfigMaps that holds their key `a`, and all that it told."""

    def __init__(self, client: Client, **options: Any) -> None:
        self.told: list[tuple[str, str | None, str | None]] = []
        self.learned_by: list[str] = []
        self.reflector: Reflector[ConfigMap, str] = Reflector(
            client, CONFIGMAPS, decode=ConfigMap, project=lambda obj: obj.data.get("a"), on_change=self.hear, **options
        )

    def hear(self, key: Key, old: str | None, new: str | None, by: str) -> None:
        self.told.append((key.name, old, new))
        self.learned_by.append(by)

    @property
    def held(self) -> dict[str, str]:
        return {key.name: value for key, value in self.reflector.items()}


@asynccontextmanager
async def following(client: Client, **options: Any) -> AsyncIterator[Follower]:
    follower = Follower(client, **options)
    task = asyncio.create_task(follower.reflector.run())
    try:
        async with asyncio.timeout(180):
            await follower.reflector.synced.wait()
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def settings(name: str, a: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": a}}


def count(metric: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric, {"resource": "configmaps", **labels}) or 0.0


async def test_it_holds_what_is_there_and_follows_what_happens(client: Client, namespace: str, until: Until) -> None:
    await client.create(CONFIGMAPS, settings("there", "1"), namespace)
    async with following(client, namespace=namespace) as follower:
        assert follower.held == {"there": "1"}
        await client.create(CONFIGMAPS, settings("new", "2"), namespace)
        await client.patch(CONFIGMAPS, "new", namespace, {"data": {"a": "3"}}, PatchKind.MERGE)
        await client.delete(CONFIGMAPS, "there", namespace)
        await until(lambda: follower.held == {"new": "3"})
        assert follower.told == [
            ("there", None, "1"),
            ("new", None, "2"),
            ("new", "2", "3"),
            ("there", "1", None),
        ]
        assert follower.reflector.get(Key(namespace, "new")) == "3"
        assert list(follower.reflector.values()) == ["3"]
        status = follower.reflector.status()
        assert (status.resource, status.synced, status.healthy, status.objects, status.failure) == (
            "configmaps",
            True,
            True,
            1,
            "",
        )


async def test_a_list_is_streamed_where_the_server_does_that(client: Client, namespace: str) -> None:
    before = count("syncline_api_requests_total", verb="list", code="200")
    async with following(client, namespace=namespace):
        pass
    assert count("syncline_api_requests_total", verb="list", code="200") == before


async def test_a_server_that_does_not_stream_lists_is_asked_for_pages(
    sandbox_factory: SandboxFactory, until: Until
) -> None:
    old = sandbox_factory(apiserver_args=["--feature-gates=WatchList=false"])
    async with Client(load_kubeconfig(old.kubeconfig)) as client:
        names = [f"settings-{number}" for number in range(5)]
        for name in names:
            await client.create(CONFIGMAPS, settings(name, "1"), "default")
        before = count("syncline_api_requests_total", verb="list", code="200")
        async with following(client, namespace="default", page=2, fields="metadata.name!=kube-root-ca.crt") as follower:
            assert sorted(follower.held) == names
            assert count("syncline_api_requests_total", verb="list", code="200") == before + 3
            await client.create(CONFIGMAPS, settings("new", "2"), "default")
            await until(lambda: follower.held.get("new") == "2")


async def test_what_our_own_writes_answer_is_told_once_and_with_who_wrote_it(
    client: Client, sandbox: Sandbox, namespace: str, until: Until
) -> None:
    async with relay_to(sandbox.server) as (relay, server):
        connection = structs.replace(load_kubeconfig(sandbox.kubeconfig), server=server)
        async with Client(connection) as through, following(through, namespace=namespace) as follower:
            reflector = follower.reflector
            relay.hold()  # a watch that is slower than the answers to our writes
            made = await client.create(CONFIGMAPS, settings("ours", "1"), namespace, type=ConfigMap)
            reflector.observe(made, "us")
            patch = {"data": {"a": "2"}}
            changed = await client.patch(CONFIGMAPS, "ours", namespace, patch, PatchKind.MERGE, type=ConfigMap)
            reflector.observe(changed, "us")
            assert follower.held == {"ours": "2"}
            assert await client.delete(CONFIGMAPS, "ours", namespace)
            reflector.observe_deleted(Key(namespace, "ours"), made.metadata.uid, "us")
            assert follower.held == {}
            await client.create(CONFIGMAPS, settings("theirs", "3"), namespace)
            relay.go_on()
            await until(lambda: follower.held == {"theirs": "3"})
            assert follower.told == [
                ("ours", None, "1"),
                ("ours", "1", "2"),
                ("ours", "2", None),
                ("theirs", None, "3"),
            ]
            assert follower.learned_by == ["us", "us", "us", ""]


async def test_an_object_that_leaves_the_selection_is_gone(client: Client, namespace: str, until: Until) -> None:
    await client.create(CONFIGMAPS, settings("mine", "1", team="a"), namespace)
    await client.create(CONFIGMAPS, settings("other", "1", team="b"), namespace)
    async with following(client, namespace=namespace, labels="team=a") as follower:
        assert follower.held == {"mine": "1"}
        await client.patch(CONFIGMAPS, "mine", namespace, {"metadata": {"labels": {"team": "b"}}}, PatchKind.MERGE)
        await client.patch(CONFIGMAPS, "other", namespace, {"metadata": {"labels": {"team": "a"}}}, PatchKind.MERGE)
        await until(lambda: follower.held == {"other": "1"})


async def test_metadata_alone_can_be_followed(client: Client, until: Until) -> None:
    class Named(Struct):
        metadata: ObjectMeta = field(default_factory=ObjectMeta)

    name = f"kube-test-{secrets.token_hex(4)}"
    reflector: Reflector[Named, str] = Reflector(
        client,
        NAMESPACES,
        decode=Named,
        project=lambda obj: obj.metadata.labels.get("team", "-"),
        on_change=lambda *_: None,
        metadata_only=True,
        timing=QUICK,
    )
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(180):
        await reflector.synced.wait()
    assert reflector.get(Key("", "default")) == "-"
    await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {"team": "a"}}})
    await until(lambda: reflector.get(Key("", name)) == "a")
    task.cancel()


async def test_what_is_not_wanted_is_not_held(client: Client, namespace: str, until: Until) -> None:
    await client.create(CONFIGMAPS, {"metadata": {"name": "no-a"}, "data": {"b": "1"}}, namespace)
    async with following(client, namespace=namespace) as follower:
        assert len(follower.reflector) == 0
        await client.patch(CONFIGMAPS, "no-a", namespace, {"data": {"a": "1"}}, PatchKind.MERGE)
        await until(lambda: follower.held == {"no-a": "1"})
        await client.patch(CONFIGMAPS, "no-a", namespace, {"data": {"a": None}}, PatchKind.MERGE)
        await until(lambda: follower.held == {})
        assert follower.told == [("no-a", None, "1"), ("no-a", "1", None)]


async def test_watches_that_end_are_taken_up_where_they_ended(client: Client, namespace: str, until: Until) -> None:
    async with following(client, namespace=namespace, timing=QUICK) as follower:
        lists = count("syncline_relists_total")
        watches = count("syncline_api_requests_total", verb="watch", code="200")
        await until(lambda: count("syncline_api_requests_total", verb="watch", code="200") >= watches + 3)
        await client.create(CONFIGMAPS, settings("new", "1"), namespace)
        await until(lambda: follower.held == {"new": "1"})
        assert count("syncline_relists_total") == lists
        assert follower.reflector.healthy()


async def test_a_socket_that_fell_silent_is_abandoned_and_what_was_missed_is_found(
    client: Client, sandbox: Sandbox, namespace: str, until: Until
) -> None:
    async with relay_to(sandbox.server) as (relay, server):
        connection = structs.replace(load_kubeconfig(sandbox.kubeconfig), server=server)
        async with Client(connection) as through, following(through, namespace=namespace, timing=QUICK) as follower:
            lists = count("syncline_relists_total")
            relay.fall_silent()
            await client.create(CONFIGMAPS, settings("missed", "1"), namespace)
            await until(lambda: follower.held == {"missed": "1"})
            assert count("syncline_relists_total") == lists, "resumed, not listed anew"


async def test_the_real_numbers_heal_a_silent_socket_within_a_minute() -> None:
    timing = Timing()
    assert timing.watch_max + timing.grace + timing.backoff_min < 60
    assert timing.watch_max + timing.grace < timing.stale


async def test_a_connection_that_breaks_is_resumed(
    client: Client, sandbox: Sandbox, namespace: str, until: Until
) -> None:
    async with relay_to(sandbox.server) as (relay, server):
        connection = structs.replace(load_kubeconfig(sandbox.kubeconfig), server=server)
        async with Client(connection) as through, following(through, namespace=namespace) as follower:
            lists = count("syncline_relists_total")
            for number in range(3):
                relay.break_off()
                await client.create(CONFIGMAPS, settings(f"missed-{number}", "1"), namespace)
                await until(lambda: f"missed-{number}" in follower.held)  # noqa: B023  # awaited at once
            assert count("syncline_relists_total") == lists


async def test_without_rights_it_says_which_and_goes_on_once_they_are_granted(
    client: Client, sandbox: Sandbox, namespace: str, until: Until
) -> None:
    user = f"user-{secrets.token_hex(4)}"
    follower = Follower(client.impersonating(user), namespace=namespace, timing=QUICK)
    task = asyncio.create_task(follower.reflector.run())
    await until(lambda: bool(follower.reflector.status().failure))
    failure = follower.reflector.status().failure
    assert failure.startswith(f"cannot watch configmaps in namespace '{namespace}': 403 Forbidden")
    assert not follower.reflector.healthy()

    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "viewers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/viewers?fieldManager=tests"
    await asyncio.to_thread(sandbox.request, "PATCH", path, binding)
    await until(follower.reflector.healthy)
    await until(lambda: follower.reflector.status().failure == "")
    task.cancel()


@pytest.mark.usefixtures("mended")
async def test_a_server_that_goes_away_and_forgets_costs_a_list_and_loses_nothing(arena: Sandbox, until: Until) -> None:
    direct = load_kubeconfig(arena.kubeconfig)
    namespace = f"kube-test-{secrets.token_hex(4)}"
    async with relay_to(arena.server) as (relay, server), Client(direct) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        for name in ("stays", "changes", "goes"):
            await client.create(CONFIGMAPS, settings(name, "1"), namespace)
        async with (
            Client(structs.replace(direct, server=server)) as through,
            following(through, namespace=namespace, timing=QUICK) as follower,
        ):
            assert follower.held == {"stays": "1", "changes": "1", "goes": "1"}
            follower.told.clear()
            relists = count("syncline_relists_total")
            relay.refusing = True
            relay.break_off()
            await until(lambda: bool(follower.reflector.status().failure))
            await until(lambda: not follower.reflector.healthy())
            assert follower.held == {"stays": "1", "changes": "1", "goes": "1"}, "unreachable is not gone"

            await client.delete(CONFIGMAPS, "goes", namespace)
            await client.create(CONFIGMAPS, settings("comes", "2"), namespace)
            await client.patch(CONFIGMAPS, "changes", namespace, {"data": {"a": "2"}}, PatchKind.MERGE)
            await asyncio.to_thread(arena.kill, "kube-apiserver")
            await asyncio.to_thread(arena.start, "kube-apiserver")
            assert follower.told == []

            relay.refusing = False
            await until(lambda: follower.held == {"stays": "1", "changes": "2", "comes": "2"})
            assert sorted(follower.told) == [("changes", "1", "2"), ("comes", None, "2"), ("goes", "1", None)]
            assert count("syncline_relists_total") == relists + 1
            await until(follower.reflector.healthy)


@pytest.mark.usefixtures("mended")
async def test_a_control_plane_that_freezes_or_crashes_is_followed_again(arena: Sandbox, until: Until) -> None:
    namespace = f"kube-test-{secrets.token_hex(4)}"
    options = {"namespace": namespace, "timing": QUICK}
    async with Client(load_kubeconfig(arena.kubeconfig)) as client, following(client, **options) as follower:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await client.create(CONFIGMAPS, settings("before", "1"), namespace)
        await asyncio.to_thread(arena.pause, "kube-apiserver")
        await until(lambda: "did not answer in time" in follower.reflector.status().failure)
        await asyncio.to_thread(arena.resume, "kube-apiserver")
        await client.create(CONFIGMAPS, settings("frozen", "1"), namespace)
        await until(lambda: follower.held == {"before": "1", "frozen": "1"})

        await asyncio.to_thread(arena.kill, "etcd")
        await asyncio.to_thread(arena.kill, "kube-apiserver")
        await until(lambda: bool(follower.reflector.status().failure))
        await asyncio.to_thread(arena.start, "etcd")
        await asyncio.to_thread(arena.start, "kube-apiserver")
        await client.create(CONFIGMAPS, settings("crashed", "1"), namespace)
        await until(lambda: sorted(follower.held) == ["before", "crashed", "frozen"])
        assert [name for name, _, new in follower.told if new is None] == [], "nothing was ever taken for gone"
        await until(follower.reflector.healthy)


@pytest.mark.parametrize("raising", ["project", "on_change"])
async def test_a_mistake_of_the_caller_with_one_object_hides_no_other(
    client: Client, namespace: str, until: Until, raising: str
) -> None:
    seen: list[str] = []

    def project(obj: ConfigMap) -> str | None:
        if raising == "project" and obj.metadata.name == "poison":
            raise RuntimeError("cannot read that")
        return obj.data.get("a")

    def on_change(key: Key, _: str | None, __: str | None, ___: str) -> None:
        if raising == "on_change" and key.name == "poison":
            raise RuntimeError("cannot use that")
        seen.append(key.name)

    reflector: Reflector[ConfigMap, str] = Reflector(
        client,
        CONFIGMAPS,
        decode=ConfigMap,
        project=project,
        on_change=on_change,
        namespace=namespace,
        fields="metadata.name!=kube-root-ca.crt",
    )
    await client.create(CONFIGMAPS, settings("poison", "1"), namespace)
    await client.create(CONFIGMAPS, settings("good", "1"), namespace)
    task = asyncio.create_task(reflector.run())
    await until(lambda: seen == ["good"])
    await client.patch(CONFIGMAPS, "poison", namespace, {"data": {"a": "2"}}, PatchKind.MERGE)
    await client.create(CONFIGMAPS, settings("better", "1"), namespace)
    await until(lambda: seen == ["good", "better"])
    task.cancel()
