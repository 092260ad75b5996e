"""Watches that open and bring nothing, while lists are answered: found by a probe, and healed by lists."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from msgspec import structs
from prometheus_client import REGISTRY
from tests.kube.conftest import Until
from tests.kube.scripted import ScriptedServer, Step, config_map, event, listing, refuses, streams
from tests.kube.test_reflector import following, settings
from tests.kube.test_reflector_faults import Follower, initial

from syncline.kube import CONFIGMAPS, NAMESPACES, Client, Connection, Timing, load_kubeconfig
from syncline.testing.fixtures import SandboxFactory

QUICK = Timing(watch_min=4, watch_max=4, grace=0.8, probe=1, settled=0.05, backoff_min=0.01, backoff_max=0.05)
TOO_OLD = streams({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
NEVER = 3600.0


class Served:
    """A server whose watches open; what its lists have, and how it answers probes, can be changed."""

    def __init__(self) -> None:
        self.version = 10
        self.objects = {"one": "1"}
        self.probe: Step = TOO_OLD
        self.state: Step | None = None
        """The answer to a watch that begins with all objects; as to a probe if it is None."""
        self.watch: Step = _lasts
        self.probes = 0
        self.lists = 0

    def change(self, **objects: str) -> None:
        self.version += 1
        self.objects = objects

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        found = [config_map(name, self.version, a=value) for name, value in self.objects.items()]
        if "watch" not in request.query:
            self.lists += 1
            return await listing(self.version, *found)(request)
        if "sendInitialEvents" in request.query:
            self.lists += 1
            return await initial(self.version, *found)(request)
        if request.query["resourceVersion"] == "1":
            self.probes += 1
            return await self.probe(request)
        if request.query["resourceVersion"] == "0":
            return await (self.state or self.probe)(request)
        return await self.watch(request)


async def _lasts(request: web.BaseRequest) -> web.StreamResponse:
    """Open a watch, bring nothing, and end it in time."""
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(TimeoutError):
        async with asyncio.timeout(float(request.query["timeoutSeconds"])):
            await asyncio.Event().wait()
    return response


SILENT = streams(end="hold")
MUTE = {"ended": _lasts, "silent": SILENT, "closed": streams()}


@pytest.fixture
async def served() -> Served:
    return Served()


@pytest.fixture
async def follower(scripted: ScriptedServer, served: Served, until: Until) -> AsyncIterator[Follower]:
    async with Client(scripted.connection) as client:
        made = Follower(client, scripted, until, structs.replace(QUICK, relist=NEVER))
        await made.run(served)
        await made.until_asked(2)
        yield made
        await made.stop()


@pytest.mark.parametrize("kind", MUTE)
async def test_what_a_mute_watch_holds_back_is_found_by_a_list(follower: Follower, served: Served, kind: str) -> None:
    served.watch = served.probe = MUTE[kind]
    served.change(two="2")
    await follower.until(lambda: follower.held == {"two": "2"})
    await follower.until(lambda: not follower.reflector.status().delivers)
    assert not follower.reflector.healthy()
    served.change(three="3")
    await follower.until(lambda: follower.held == {"three": "3"})
    assert {("one", "1", None), ("two", "2", None)} <= set(follower.told)


async def test_a_mute_watch_is_told_as_one_that_fails(follower: Follower, served: Served) -> None:
    served.watch = served.probe = _lasts
    await follower.until(lambda: follower.reflector.status().unwatched > 3)
    status = follower.reflector.status()
    assert status.failure.startswith("cannot watch configmaps: watches open, but bring nothing")
    assert (status.working, status.healthy, status.refused) == (0.0, False, False)
    assert REGISTRY.get_sample_value(
        "syncline_watch_restarts_total", {"resource": "configmaps", "reason": "NothingDelivered"}
    )


@pytest.mark.parametrize("answer", [TOO_OLD, refuses(410, "Expired")], ids=["in the stream", "by status"])
async def test_a_mute_watch_is_trusted_again_once_a_probe_is_answered(
    follower: Follower, served: Served, answer: Step
) -> None:
    served.watch = served.probe = _lasts
    await follower.until(lambda: not follower.reflector.status().delivers)
    served.probe = answer
    await follower.until(follower.reflector.healthy)
    assert follower.reflector.status().failure == ""


async def test_a_mute_watch_is_trusted_again_once_it_brings_something(follower: Follower, served: Served) -> None:
    served.watch = served.probe = _lasts
    await follower.until(lambda: not follower.reflector.status().delivers)
    served.watch = streams(event("ADDED", "new", 50, a="1"), end="hold")
    await follower.until(follower.reflector.healthy)
    assert follower.held == {"one": "1", "new": "1"}


async def test_a_server_that_sends_what_there_is_delivers(follower: Follower, served: Served) -> None:
    """As the API server without its watch cache: it has all events since the first version, and no bookmarks."""
    served.probe, served.state = _lasts, streams(event("ADDED", "one", 10, a="1"), end="hold")
    await follower.until(lambda: served.probes == 2)
    assert served.lists == 1
    assert follower.reflector.healthy()


async def test_without_an_object_no_answer_proves_nothing_but_what_appears_is_found_soon(
    follower: Follower, served: Served
) -> None:
    served.watch = streams({"type": "DELETED", "object": config_map("one", 11, a="1")}, end="hold")
    await follower.until(lambda: follower.held == {})
    served.watch = served.probe = _lasts
    served.version, served.objects = 11, {}
    await follower.until(lambda: served.lists == 3)
    assert follower.reflector.healthy()
    assert follower.reflector.status().failure == ""
    served.change(new="2")
    await follower.until(lambda: follower.held == {"new": "2"})
    assert [kind for kind, _ in follower.asked].count("list") >= 2, "a stream may be held back, too"
    await follower.until(lambda: not follower.reflector.status().delivers)


async def test_a_kind_at_rest_costs_few_probes_and_no_list(follower: Follower, served: Served) -> None:
    """As a real server does it whose version of the kind does not move on: a watch brings nothing at all."""
    await follower.until(lambda: served.probes == 2)
    watches = sum(kind == "watch" for kind, _ in follower.asked) - served.probes
    assert watches >= 3
    assert served.lists == 1
    assert follower.reflector.healthy()


@pytest.mark.parametrize("refusal", [refuses(400, "BadRequest"), refuses(403, "Forbidden"), refuses(500)])
async def test_a_probe_that_is_refused_tells_nothing(follower: Follower, served: Served, refusal: Step) -> None:
    served.probe = refusal
    await follower.until(lambda: served.probes >= 2)
    assert served.lists == 1
    assert follower.reflector.status().failure == ""


async def test_a_probe_without_an_answer_does_not_count_if_the_watch_brings_something(
    follower: Follower, served: Served
) -> None:
    watched = asyncio.Event()

    async def after_the_probe(request: web.BaseRequest) -> web.StreamResponse:
        await watched.wait()
        return await streams(event("ADDED", "new", 50, a="1"), end="hold")(request)

    async def not_before_the_watch(request: web.BaseRequest) -> Any:
        response = web.StreamResponse()
        await response.prepare(request)
        watched.set()
        await follower.until(lambda: "new" in follower.held)
        return response

    served.watch, served.probe = after_the_probe, not_before_the_watch
    await follower.until(lambda: "new" in follower.held)
    await follower.until(lambda: served.probes == 1)
    assert served.lists == 1
    assert follower.reflector.status().delivers


class Noting(Client):
    """A client that notes from which versions it was asked to watch."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.versions: list[str | None] = []

    def watch(self, *args: Any, **options: Any) -> AsyncGenerator[bytes]:
        self.versions.append(options.get("version"))
        return super().watch(*args, **options)

    @property
    def watches(self) -> list[str]:
        """The watches, without the lists and the probes."""
        return [version for version in self.versions if version not in (None, "0", "1")]

    @property
    def probes(self) -> int:
        return self.versions.count("1")


BRIEF = Timing(watch_min=4, watch_max=4, grace=10, probe=5, relist=NEVER)


@pytest.mark.parametrize("version", ["young", "restarted"])
async def test_a_real_server_answers_probes_of_a_kind_at_rest(
    sandbox_factory: SandboxFactory, until: Until, version: str
) -> None:
    """Also if it has all events since its first version, or no event of the kind at all."""
    real = sandbox_factory()
    if version == "restarted":
        await asyncio.to_thread(real.kill, "kube-apiserver")
        await asyncio.to_thread(real.start, "kube-apiserver")
    async with (
        Noting(load_kubeconfig(real.kubeconfig)) as client,
        following(client, labels="nobody=has-it", timing=BRIEF) as follower,
    ):
        lists = client.versions.count(None)
        await until(lambda: client.probes >= 2 and len(client.watches) >= 4)
        assert client.versions.count(None) == lists
        assert follower.reflector.healthy()
        await client.create(CONFIGMAPS, settings("new", "1", nobody="has-it"), "default")
        await until(lambda: follower.held == {"new": "1"})


@pytest.mark.parametrize("objects", [0, 1])
async def test_a_server_without_its_watch_cache_is_not_suspected(
    sandbox_factory: SandboxFactory, until: Until, objects: int
) -> None:
    """Its watches bring nothing but events, and it has all of them since the first version until etcd is compacted."""
    real = sandbox_factory(apiserver_args=["--watch-cache=false"])
    async with Noting(load_kubeconfig(real.kubeconfig)) as client:
        for number in range(objects):
            await client.create(CONFIGMAPS, settings(f"old-{number}", "1", here="yes"), "default")
        labels = {"here": "yes"} if objects else {"nobody": "has-it"}
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        async with following(client, labels=selector, timing=BRIEF) as follower:
            await until(lambda: client.probes >= 2)
            assert client.versions.count("0") >= 1 or objects
            assert follower.reflector.healthy()
            await client.create(CONFIGMAPS, settings("new", "1", **labels), "default")
            await until(lambda: "new" in follower.held)


async def test_a_server_whose_versions_move_on_is_not_probed(sandbox_factory: SandboxFactory, until: Until) -> None:
    """As kubeadm sets up etcd: it reports its progress, so each watch of a kind at rest ends with a bookmark."""
    real = sandbox_factory(etcd_args=["--watch-progress-notify-interval=200ms"])
    async with (
        Noting(load_kubeconfig(real.kubeconfig)) as client,
        following(client, labels="nobody=has-it", timing=BRIEF),
    ):

        async def move_on() -> None:
            """As leases do in any cluster."""
            while True:
                await client.create(NAMESPACES, {"metadata": {"name": f"moves-{secrets.token_hex(4)}"}})
                await asyncio.sleep(0.5)

        moving = asyncio.create_task(move_on())
        await until(lambda: len(client.watches) >= 6)
        moving.cancel()
        assert client.probes == 0
        assert client.versions.count(None) == 1
