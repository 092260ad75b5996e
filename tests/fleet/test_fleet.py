"""One member a credential: shared by all who have the same one, by nobody else, and for as long as it is used."""

import asyncio
import time

import pytest
from prometheus_client import REGISTRY
from tests.fleet.conftest import Until
from tests.fleet.world import KEY, UNHURRIED, Remote, Vault, credentials_of, join

from syncline.fleet import ClusterDown, Fleet, MemberKey, RemoteCluster
from syncline.kube import CONFIGMAPS, NAMESPACES, Unreachable
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy

OTHER = MemberKey("team-a", "Secret", "other")
SAME_NAME = MemberKey("team-a", "SyncTarget", "edge")


async def test_syncs_that_name_the_same_secret_share_a_client(fleet: Fleet, remote: Remote) -> None:
    vault = Vault(remote.secret())
    assert join(fleet, vault, user="one") is join(fleet, vault, user="two")
    assert len(list(fleet)) == 1


async def test_secrets_with_equal_content_share_a_client_and_others_do_not(fleet: Fleet, remote: Remote) -> None:
    wire = remote.secret()
    member = join(fleet, Vault(wire))
    assert join(fleet, Vault(wire), OTHER) is member
    assert join(fleet, Vault(remote.secret()), MemberKey("team-a", "Secret", "third")) is not member


async def test_namespaces_share_nothing_even_where_their_secrets_are_equal(fleet: Fleet, remote: Remote) -> None:
    wire = remote.secret()
    elsewhere = MemberKey("team-b", "Secret", "edge")
    assert join(fleet, Vault(wire)) is not join(fleet, Vault(wire), elsewhere)


async def test_a_member_that_nobody_uses_is_closed_after_a_while(fleet: Fleet, remote: Remote, until: Until) -> None:
    vault = Vault(remote.secret())
    member = join(fleet, vault, user="one")
    join(fleet, vault, user="two")
    assert await member.wait_probed()
    fleet.retain("one", ())
    await asyncio.sleep(0.5)
    assert not member.closed
    fleet.retain("two", ())
    await until(lambda: member.closed)
    assert list(fleet) == []
    with pytest.raises(ClusterDown, match="no sync uses it any more"):
        await member.client.get(NAMESPACES, "default")
    again = join(fleet, vault, user="one")
    assert again is not member
    assert await again.wait_probed()


async def test_a_member_that_is_used_again_in_time_stays(fleet: Fleet, remote: Remote) -> None:
    vault = Vault(remote.secret())
    member = join(fleet, vault, user="one")
    fleet.retain("one", ())
    await asyncio.sleep(0)
    assert join(fleet, vault, user="two") is member
    await asyncio.sleep(0.5)
    assert not member.closed


async def test_a_user_keeps_what_it_says_and_nothing_else(fleet: Fleet, remote: Remote, until: Until) -> None:
    first, second = join(fleet, Vault(remote.secret())), join(fleet, Vault(remote.secret()), OTHER)
    fleet.retain("a sync", {OTHER})
    await until(lambda: first.closed)
    assert not second.closed
    fleet.retain("a sync", {OTHER})
    fleet.retain("never seen", ())


async def test_without_a_user_a_member_lasts_for_a_while(fleet: Fleet, remote: Remote, until: Until) -> None:
    member = fleet.get_or_create(KEY, credentials_of(remote.secret()))
    assert await member.wait_probed()
    await until(lambda: member.closed)


async def test_those_who_listen_hear_of_the_end(fleet: Fleet, remote: Remote, until: Until) -> None:
    told: list[RemoteCluster] = []
    fleet.listen(told.append)
    member = join(fleet, Vault(remote.secret()))
    assert await member.wait_probed()
    fleet.retain("a sync", ())
    await until(lambda: member.closed)
    assert told[-1] is member
    assert (member.health.state, member.health.reason) == ("Down", "Closed")


async def test_a_request_under_way_does_not_outlive_its_fleet(remote: Remote, proxy: FaultProxy, until: Until) -> None:
    async with Fleet(allow_loopback=True) as fleet:
        member = join(fleet, Vault(remote.secret(server=proxy.server)))
        assert await member.wait_probed()
        held = proxy.inject(Fault(delay=120), when=lambda asked: asked.changes)
        write = asyncio.create_task(member.client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, remote.namespace))
        await until(lambda: bool(held.hits))
    started = time.monotonic()
    with pytest.raises(Unreachable):
        await write
    assert time.monotonic() - started < UNHURRIED


async def test_the_health_and_the_expiry_of_each_member_are_counted_while_it_is_there(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    def value(name: str) -> float | None:
        return REGISTRY.get_sample_value(name, {"namespace": "team-a", "cluster": "edge"})

    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    assert await member.wait_probed()
    assert value("syncline_cluster_up") == 1
    assert (value("syncline_credential_expiry_timestamp_seconds") or 0) > time.time()
    proxy.inject(Fault(lost=True), when=lambda _: True)
    await until(lambda: not member.up)
    assert value("syncline_cluster_up") == 0
    fleet.retain("a sync", ())
    await until(lambda: member.closed)
    assert value("syncline_cluster_up") is None
    assert value("syncline_credential_expiry_timestamp_seconds") is None


async def test_two_clusters_of_one_name_do_not_take_each_others_figures(
    fleet: Fleet, remote: Remote, until: Until
) -> None:
    member, other = join(fleet, Vault(remote.secret())), join(fleet, Vault(remote.secret()), SAME_NAME)
    assert await member.wait_probed()
    assert await other.wait_probed()
    fleet.retain("a sync", {SAME_NAME})
    await until(lambda: member.closed)
    assert REGISTRY.get_sample_value("syncline_cluster_up", {"namespace": "team-a", "cluster": "edge"}) == 1


async def test_an_impersonated_view_of_a_members_client_passes_the_same_gate(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    member = join(fleet, Vault(remote.secret(server=proxy.server)))
    view = member.client.impersonating("somebody")
    assert await member.wait_probed()
    proxy.inject(Fault(lost=True), when=lambda _: True)
    await until(lambda: not member.up)
    with pytest.raises(ClusterDown):
        await view.get(NAMESPACES, "default")
