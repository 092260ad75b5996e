"""A dead, slow or failing cluster is noticed, costs its users no time, and is used again as soon as it is back."""

import asyncio
import time

import pytest
from msgspec import Struct, field
from tests.fleet.conftest import Until
from tests.fleet.forms import CANARY, secret
from tests.fleet.world import QUICK, UNHURRIED, Impostor, Remote, Vault, join, kubeconfig

from syncline.api.common import ObjectMeta
from syncline.fleet import ClusterDown, ClusterHealth, Fleet, MemberKey, RemoteCluster, Timeouts
from syncline.kube import (
    CONFIGMAPS,
    NAMESPACES,
    SECRETS,
    Client,
    Forbidden,
    NotFound,
    Reflector,
    ServerError,
    Unreachable,
)
from syncline.testing.faults import Asked, Fault
from syncline.testing.proxy import FaultProxy


class Meta(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


def everything(_: Asked) -> bool:
    return True


def told(fleet: Fleet) -> list[ClusterHealth]:
    """Note every change that a fleet tells of."""
    changes: list[ClusterHealth] = []
    fleet.listen(lambda member: changes.append(member.health))
    return changes


def states(changes: list[ClusterHealth]) -> list[tuple[str, str]]:
    return [(health.state, health.reason) for health in changes]


async def error_of(client: Client) -> tuple[Exception, float]:
    """Return what a read fails with, and how long that took."""
    started = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        await client.get(NAMESPACES, "default")
    return caught.value, time.monotonic() - started


async def test_a_member_knows_which_cluster_it_is_and_what_it_runs(fleet: Fleet, remote: Remote) -> None:
    changes = told(fleet)
    member = join(fleet, Vault(remote.secret()))
    assert (member.health.state, member.health.reason, member.last_seen) == ("Unknown", "Connecting", None)
    assert await member.wait_probed()
    assert member.uid == remote.uid
    assert member.version.startswith("v1.")
    assert member.last_seen is not None
    assert states(changes) == [("Up", "Reachable")]
    assert (await member.client.get(NAMESPACES, "default"))["metadata"]["name"] == "default"


async def test_the_first_request_waits_until_it_is_known_who_is_there(fleet: Fleet, remote: Remote) -> None:
    member = join(fleet, Vault(remote.secret()))
    assert (await member.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"] == remote.uid == member.uid


async def test_a_cluster_that_was_never_there_is_down_and_says_so(fleet: Fleet, remote: Remote) -> None:
    member = join(fleet, Vault(remote.secret(server="https://127.0.0.1:1")))
    assert not await member.wait_probed()
    error, _ = await error_of(member.client)
    assert isinstance(error, ClusterDown)
    assert (error.cluster, error.reason, error.ambiguous) == ("edge", "Unreachable", False)
    since = f"{member.health.since:%Y-%m-%dT%H:%M:%SZ}"
    assert str(error) == (
        f"cluster edge is unreachable since {since}: cannot connect to https://127.0.0.1:1: Connection refused"
    )


async def test_a_dead_cluster_costs_no_time_and_is_asked_by_nobody_but_its_probe(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    changes = told(fleet)
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    outage = proxy.inject(Fault(lost=True), when=everything)
    await error_of(member.client)
    await until(lambda: not member.up)
    asked, started = len(outage.hits), time.monotonic()
    for _ in range(500):
        await error_of(member.client)
    elapsed = time.monotonic() - started
    assert len(outage.hits) - asked < 5 + elapsed / QUICK.backoff_min
    assert all(request.name == "kube-system" for request in outage.hits[asked:])

    outage.lift()
    await until(lambda: member.up)
    await member.client.get(NAMESPACES, "default")
    assert states(changes) == [("Up", "Reachable"), ("Down", "Unreachable"), ("Up", "Reachable")]
    down = changes[1]
    assert down.last_seen is not None
    assert down.last_seen <= down.since


async def test_probes_of_a_dead_cluster_become_rare(remote: Remote, proxy: FaultProxy, until: Until) -> None:
    timeouts = Timeouts(confirm=0.01, backoff_min=0.05, backoff_max=0.8)
    async with Fleet(allow_loopback=True, timeouts=timeouts) as fleet:
        outage = proxy.inject(Fault(lost=True), when=everything)
        join(fleet, Vault(remote.secret(server=proxy.server)))
        await until(lambda: len(outage.hits) >= 12)
        gaps = [later.at - earlier.at for earlier, later in zip(outage.hits, outage.hits[1:], strict=False)]
        assert min(gaps[5:]) > 0.3
        assert max(gaps) < UNHURRIED  # without a limit, the last gap would be more than a minute


async def test_a_slow_cluster_is_given_up_before_its_requests_run_out_of_time(
    remote: Remote, proxy: FaultProxy, until: Until
) -> None:
    timeouts = Timeouts(
        connect=1.0, request=60.0, probe=0.5, heartbeat=0.5, confirm=0.05, backoff_min=0.1, backoff_max=0.2
    )
    async with Fleet(allow_loopback=True, timeouts=timeouts) as fleet:
        member = join(fleet, Vault(remote.secret(server=proxy.server)))
        assert await member.wait_probed()
        slow = proxy.inject(Fault(delay=120), when=everything)
        read = asyncio.create_task(error_of(member.client))
        write = asyncio.create_task(member.client.create(NAMESPACES, {"metadata": {"name": "never"}}))
        error, elapsed = await read
        assert elapsed < 50
        assert isinstance(error, Unreachable)
        with pytest.raises(Unreachable) as caught:
            await write
        assert caught.value.ambiguous
        assert member.health.reason == "Unreachable"
        slow.lift()
        await until(lambda: member.up)


async def test_a_server_that_accepts_and_never_speaks_is_given_up(remote: Remote) -> None:
    held: list[asyncio.StreamWriter] = []
    over = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await over.wait()
        writer.transport.abort()

    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    timeouts = Timeouts(connect=0.5, probe=1.0)
    async with silent, Fleet(allow_loopback=True, timeouts=timeouts) as fleet:
        server = f"https://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        member = join(fleet, Vault(remote.secret(server=server)))
        started = time.monotonic()
        assert not await member.wait_probed()
        assert time.monotonic() - started < UNHURRIED
        over.set()
    assert held


async def test_a_dead_cluster_among_others_does_not_delay_them(remote: Remote, proxy: FaultProxy, fleet: Fleet) -> None:
    wires = [remote.secret(server=proxy.server)] + [remote.secret() for _ in range(5)]
    keys = [MemberKey("team-a", "Secret", f"edge-{number}") for number in range(6)]
    dead, *others = [join(fleet, Vault(wire), key) for wire, key in zip(wires, keys, strict=True)]
    await asyncio.gather(*(member.wait_probed() for member in (dead, *others)))
    proxy.inject(Fault(delay=120), when=everything)
    stuck = [asyncio.create_task(error_of(dead.client)) for _ in range(50)]
    started = time.monotonic()
    for _ in range(20):
        await asyncio.gather(*(member.client.get(NAMESPACES, "default") for member in others))
    assert time.monotonic() - started < UNHURRIED
    await asyncio.gather(*stuck)


async def test_a_failing_cluster_is_down_and_a_failing_kind_is_not(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    changes = told(fleet)
    one_kind = proxy.inject(Fault(status=503), when=lambda asked: asked.resource == "configmaps")
    for _ in range(5):
        with pytest.raises(ServerError):
            await member.client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, remote.namespace)
    await member.client.get(NAMESPACES, "default")
    assert changes == []
    one_kind.lift()

    outage = proxy.inject(Fault(status=500), when=everything)
    await until(lambda: not member.up)
    assert states(changes) == [("Down", "ServerError")]
    outage.lift()
    await until(lambda: member.up)


async def test_a_refusal_is_an_answer_and_no_outage(remote: Remote, proxy: FaultProxy, fleet: Fleet) -> None:
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    changes = told(fleet)
    probes = proxy.count(lambda asked: asked.name == "kube-system")
    for _ in range(10):
        with pytest.raises(Forbidden):
            await member.client.list(SECRETS)
        with pytest.raises(NotFound):
            await member.client.get(CONFIGMAPS, "absent", remote.namespace)
    assert proxy.count(lambda asked: asked.name == "kube-system") - probes < 10
    assert changes == []


async def test_after_a_broken_connection_nothing_is_sent_before_the_cluster_has_shown_who_it_is(
    remote: Remote, proxy: FaultProxy, fleet: Fleet
) -> None:
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    proxy.inject(Fault(cut=True), when=lambda asked: asked.verb == "create", times=1)
    with pytest.raises(Unreachable) as caught:
        await member.client.create(CONFIGMAPS, {"metadata": {"name": "cut"}}, remote.namespace)
    assert caught.value.ambiguous
    before = len(proxy.requests)
    assert (await member.client.get(CONFIGMAPS, "cut", remote.namespace))["metadata"]["name"] == "cut"
    assert [asked.name for asked in proxy.requests[before:]] == ["kube-system", "cut"]
    assert member.up


async def test_a_watch_on_a_cluster_that_falls_silent_is_broken_off_and_resumed_at_once(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    reflector: Reflector[Meta, str] = Reflector(
        member.client,
        CONFIGMAPS,
        decode=Meta,
        project=lambda wire: wire.metadata.resource_version,
        on_change=lambda *_: None,
        namespace=remote.namespace,
        metadata_only=True,
    )
    following = asyncio.create_task(member.run_watch(reflector.run))
    await reflector.synced.wait()
    silence = proxy.inject(Fault(silent=True, delay=120), when=everything)
    await until(lambda: not member.up)
    await until(lambda: bool(reflector.status().failure))
    # By now the reflector would let half a minute pass before its next try.
    await until(lambda: reflector._health.streak >= 4)
    silence.lift()
    await until(lambda: member.up)
    back = time.monotonic()
    await member.client.create(CONFIGMAPS, {"metadata": {"name": "news"}}, remote.namespace)
    await until(lambda: any(key.name == "news" for key, _ in reflector.items()))
    assert time.monotonic() - back < 25
    following.cancel()
    await asyncio.wait([following])


async def test_a_cluster_is_looked_after_while_nobody_asks_it_anything(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    changes = told(fleet)
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    outage = proxy.inject(Fault(lost=True), when=everything)
    await until(lambda: not member.up)
    outage.lift()
    await until(lambda: member.up)
    assert [health.state for health in changes] == ["Up", "Down", "Up"]


async def test_one_lost_probe_is_no_outage(remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until) -> None:
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    changes = told(fleet)
    lost = proxy.inject(Fault(lost=True), when=lambda asked: asked.name == "kube-system", times=1)
    await until(lambda: bool(lost.hits))
    before = len(proxy.requests)
    await until(lambda: len(proxy.requests) > before + 1)
    assert changes == []


async def test_somebody_who_waits_can_have_a_cluster_probed_at_once(
    remote: Remote, proxy: FaultProxy, until: Until
) -> None:
    timeouts = Timeouts(confirm=0.01, backoff_min=60.0, backoff_max=60.0)
    async with Fleet(allow_loopback=True, timeouts=timeouts) as fleet:
        outage = proxy.inject(Fault(lost=True), when=everything)
        member = join(fleet, Vault(remote.secret(server=proxy.server)))
        assert not await member.wait_probed()
        outage.lift()
        member._breaker.probe_now()
        await until(lambda: member.up)


async def test_a_cluster_that_does_not_trust_our_authority_is_down(fleet: Fleet, remote: Remote) -> None:
    other = Impostor().authority
    wire = secret({"value": kubeconfig(remote.sandbox.server, other.certificate, {"token": CANARY})})
    member = join(fleet, Vault(wire))
    assert not await member.wait_probed()
    assert "certificate" in member.health.message
    assert CANARY not in member.health.message


async def test_a_credential_that_may_not_see_what_names_a_cluster_is_told_what_it_lacks(
    fleet: Fleet, remote: Remote, until: Until
) -> None:
    remote.allow("configmaps")
    member = join(fleet, Vault(remote.secret()))
    assert not await member.wait_probed()
    assert member.health.reason == "Forbidden"
    assert "grant get on namespaces" in member.health.message
    assert "Secret team-a/edge" in member.health.message
    remote.allow("configmaps", "namespaces")
    await until(lambda: member.up)


async def test_a_listener_that_fails_harms_nobody(fleet: Fleet, remote: Remote) -> None:
    def fail(_: RemoteCluster) -> None:
        raise RuntimeError("a mistake")

    fleet.listen(fail)
    changes = told(fleet)
    assert await join(fleet, Vault(remote.secret())).wait_probed()
    assert states(changes) == [("Up", "Reachable")]
