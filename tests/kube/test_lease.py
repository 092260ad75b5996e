import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from msgspec import structs
from tests.kube.conftest import Until
from tests.kube.relay import relay_to

from syncline.kube import LEASES, Client, LeaderElection, PatchKind, load_kubeconfig
from syncline.sandbox import Sandbox
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy


def candidate(client: Client, namespace: str, identity: str, duration: float = 2.0) -> LeaderElection:
    return LeaderElection(client, namespace, "syncline", identity, duration=duration, renew=duration / 2, retry=0.1)


@asynccontextmanager
async def running(election: LeaderElection) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(election.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def holder(client: Client, namespace: str) -> str:
    return str((await client.get(LEASES, "syncline", namespace))["spec"]["holderIdentity"])


async def test_one_leads_and_keeps_leading(client: Client, namespace: str, until: Until) -> None:
    one, two = candidate(client, namespace, "one"), candidate(client, namespace, "two")
    async with running(one):
        await until(one.leading.is_set)
        async with running(two):
            await until(lambda: two.holder == "one")
            first = now = (await client.get(LEASES, "syncline", namespace))["spec"]
            renewals = set[str]()
            while len(renewals) < 25:  # longer than the lease lasts
                now = (await client.get(LEASES, "syncline", namespace))["spec"]
                renewals.add(now["renewTime"])
                assert one.leading.is_set()
                assert not two.leading.is_set()
            assert now["leaseTransitions"] == first["leaseTransitions"]
            assert now["acquireTime"] == first["acquireTime"]


async def test_another_takes_over_when_the_leader_dies(client: Client, namespace: str, until: Until) -> None:
    one, two = candidate(client, namespace, "one"), candidate(client, namespace, "two")
    async with running(one) as task:
        await until(one.leading.is_set)
        async with running(two):
            await until(lambda: two.holder == "one")
            assert not two.leading.is_set()
            task.cancel()
            await until(two.leading.is_set)
    spec = (await client.get(LEASES, "syncline", namespace))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)


async def test_a_lease_that_is_released_is_taken_at_once(client: Client, namespace: str, until: Until) -> None:
    one = candidate(client, namespace, "one", duration=3600)
    two = candidate(client, namespace, "two", duration=3600)
    async with running(one):
        await until(one.leading.is_set)
    async with running(two):
        await until(lambda: two.holder == "one")
        await one.release()
        assert not one.leading.is_set()
        await until(two.leading.is_set)
    await one.release()
    assert await holder(client, namespace) == "two", "who does not lead has nothing to release"


async def test_a_lease_is_released_also_if_a_renewal_was_written_whose_answer_never_came(
    client: Client, sandbox: Sandbox, namespace: str, until: Until
) -> None:
    written, answered = threading.Event(), threading.Event()

    def withhold() -> None:
        written.set()
        answered.wait(600)

    with FaultProxy(sandbox) as proxy:
        async with Client(load_kubeconfig(proxy.kubeconfig(sandbox.kubeconfig))) as through:
            one = candidate(through, namespace, "one", duration=3600)
            try:
                async with running(one):
                    await until(one.leading.is_set)
                    proxy.inject(Fault(after=withhold), when=lambda asked: asked.verb == "update", times=1)
                    await until(written.is_set)
                await one.release()
            finally:
                answered.set()
    assert not (await client.get(LEASES, "syncline", namespace))["spec"].get("holderIdentity")


async def test_clocks_of_others_do_not_matter(client: Client, namespace: str, until: Until) -> None:
    """A record from the far future is held for as long as it says, counted from when it was seen, and no longer."""
    spec = {
        "holderIdentity": "gone",
        "leaseDurationSeconds": 1,
        "renewTime": "2099-01-01T00:00:00.000000Z",
        "acquireTime": "2099-01-01T00:00:00.000000Z",
    }
    await client.create(LEASES, {"metadata": {"name": "syncline"}, "spec": spec}, namespace)
    one = candidate(client, namespace, "one")
    async with running(one):
        await until(lambda: one.holder == "gone")
        assert not one.leading.is_set()
        await until(one.leading.is_set)


async def test_a_leader_that_cannot_renew_resigns_before_another_may_take_over(
    client: Client, sandbox: Sandbox, namespace: str, until: Until
) -> None:
    async with relay_to(sandbox.server) as (relay, server):
        connection = structs.replace(load_kubeconfig(sandbox.kubeconfig), server=server)
        async with Client(connection) as through:
            one, two = candidate(through, namespace, "one", duration=4), candidate(client, namespace, "two", duration=4)
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(running(one))
                await until(one.leading.is_set)
                await stack.enter_async_context(running(two))
                await until(lambda: two.holder == "one")
                relay.fall_silent()
                relay.refusing = True
                await until(lambda: not one.leading.is_set())
                assert not two.leading.is_set(), "never both"
                await until(two.leading.is_set)
                relay.break_off()
                relay.refusing = False
                await until(lambda: one.holder == "two")
                assert not one.leading.is_set()


async def test_a_lease_that_somebody_took_away_is_noticed(client: Client, namespace: str, until: Until) -> None:
    one = candidate(client, namespace, "one")
    async with running(one):
        await until(one.leading.is_set)
        taken = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}}
        await client.patch(LEASES, "syncline", namespace, taken, PatchKind.MERGE)
        await until(lambda: not one.leading.is_set())
        await client.delete(LEASES, "syncline", namespace)
        await until(one.leading.is_set)


async def test_what_others_wrote_on_the_lease_stays(client: Client, namespace: str, until: Until) -> None:
    await client.create(LEASES, {"metadata": {"name": "syncline", "annotations": {"note": "ours"}}}, namespace)
    one = candidate(client, namespace, "one")
    async with running(one):
        await until(one.leading.is_set)
    assert (await client.get(LEASES, "syncline", namespace))["metadata"]["annotations"] == {"note": "ours"}


def test_times_that_make_no_sense_are_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="retry < renew < duration"):
        LeaderElection(client, "default", "syncline", "one", duration=5, renew=10)
