"""Credentials are exchanged without a restart: on a change of the Secret, and on a refusal by the cluster."""

import asyncio
import datetime as dt
from datetime import UTC

import pytest
from msgspec import Struct, field
from tests.fleet.conftest import Until
from tests.fleet.forms import CANARY, encode, secret
from tests.fleet.world import KEY, Remote, Vault, credentials_of, join, kubeconfig

from syncline.api.common import ObjectMeta
from syncline.fleet import ClusterDown, Credentials, Fleet, MemberKey, NotResolved, RemoteCluster, Timeouts
from syncline.kube import CONFIGMAPS, NAMESPACES, Client, Key, Reflector, Resource, Unauthorized
from syncline.testing.faults import Fault
from syncline.testing.proxy import FaultProxy

_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


class Meta(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


def told(fleet: Fleet) -> list[tuple[str, str]]:
    changes: list[tuple[str, str]] = []
    fleet.listen(lambda member: changes.append((member.health.state, member.health.reason)))
    return changes


async def test_a_changed_secret_is_taken_up_by_the_same_client_and_nobody_notices(
    remote: Remote, proxy: FaultProxy, fleet: Fleet
) -> None:
    first, second = remote.issue(), remote.issue()
    vault = Vault(remote.secret(first, server=proxy.server))
    member = join(fleet, vault)
    client = member.client
    assert await member.wait_probed()
    changes = told(fleet)
    reflector: Reflector[Meta, str] = Reflector(
        client,
        CONFIGMAPS,
        decode=Meta,
        project=lambda wire: wire.metadata.name,
        on_change=lambda *_: None,
        namespace=remote.namespace,
    )
    following = asyncio.create_task(member.run_watch(reflector.run))
    await reflector.synced.wait()
    lists = proxy.count(lambda asked: asked.resource == "configmaps" and asked.lists)

    vault.wire = remote.secret(second, server=proxy.server)
    assert join(fleet, vault) is member
    assert member.client is client
    await client.create(CONFIGMAPS, {"metadata": {"name": "news"}}, remote.namespace)
    async with asyncio.timeout(180):
        while reflector.get(key := _key(remote, "news")) is None:  # noqa: ASYNC110  # the watch has no event
            await asyncio.sleep(0.01)
    assert key.name == "news"
    assert proxy.count(lambda asked: asked.resource == "configmaps" and asked.lists) == lists
    assert proxy.requests[-1].token == f"Bearer {second}"
    assert (changes, reflector.status().failure) == ([], "")
    following.cancel()
    await asyncio.wait([following])


async def test_a_revoked_token_leads_to_the_secret_at_once_and_the_request_does_not_fail(
    fleet: Fleet, remote: Remote, until: Until
) -> None:
    vault = Vault(remote.secret(old := remote.issue("old")))
    member = join(fleet, vault)
    assert await member.wait_probed()
    changes = told(fleet)
    vault.wire = remote.secret()
    assert vault.reads == 0
    remote.revoke("old")
    await until(lambda: not remote.is_known(old))
    for _ in range(20):
        await member.client.get(NAMESPACES, "default")
    assert vault.reads == 1
    assert changes == []


async def test_a_revoked_token_without_a_new_one_takes_the_cluster_down_until_there_is_one(
    fleet: Fleet, remote: Remote, until: Until
) -> None:
    vault = Vault(remote.secret(old := remote.issue("old")))
    member = join(fleet, vault)
    assert await member.wait_probed()
    remote.revoke("old")
    await until(lambda: not remote.is_known(old))
    with pytest.raises((Unauthorized, ClusterDown)):
        await member.client.get(NAMESPACES, "default")
    await until(lambda: not member.up)
    assert member.health.reason == "Unauthorized"
    assert member.health.message == ("the cluster does not accept the credential in Secret team-a/edge: renew it there")
    with pytest.raises(ClusterDown, match="is not used since"):
        await member.client.get(NAMESPACES, "default")

    vault.wire = remote.secret()  # the probes find it, though nobody tells
    await until(lambda: member.up)
    await member.client.get(NAMESPACES, "default")


async def test_a_refused_credential_is_not_tried_at_full_speed(remote: Remote, proxy: FaultProxy, until: Until) -> None:
    timeouts = Timeouts(confirm=0.05, backoff_min=0.3, backoff_max=60.0, reread=0.0)
    async with Fleet(allow_loopback=True, timeouts=timeouts) as fleet:
        vault = Vault(remote.secret(server=proxy.server))
        member = join(fleet, vault)
        assert await member.wait_probed()
        refusing = proxy.inject(Fault(status=401), when=lambda _: True)
        with pytest.raises((Unauthorized, ClusterDown)):
            await member.client.get(NAMESPACES, "default")
        await until(lambda: member.health.reason == "Unauthorized")
        before = len(refusing.hits)
        await asyncio.sleep(1.5)
        assert len(refusing.hits) - before <= 5
        assert vault.reads <= 10


async def test_many_refused_requests_read_the_secret_once(remote: Remote, until: Until) -> None:
    async with Fleet(allow_loopback=True, timeouts=Timeouts(connect=60.0, request=60.0, probe=60.0)) as fleet:
        vault = Vault(remote.secret(old := remote.issue("old")))
        member = join(fleet, vault)
        assert await member.wait_probed()
        vault.wire = remote.secret()
        remote.revoke("old")
        await until(lambda: not remote.is_known(old))
        await asyncio.gather(*(member.client.get(NAMESPACES, "default") for _ in range(40)))
        assert vault.reads == 1


async def test_a_secret_that_cannot_be_read_again_leaves_things_as_they_are(
    fleet: Fleet, remote: Remote, until: Until
) -> None:
    async def fail() -> Credentials:
        raise NotResolved("SecretNotFound", "there is no Secret team-a/edge: create it")

    old = remote.issue("old")
    member = fleet.get_or_create(KEY, credentials_of(remote.secret(old)), user="a sync", reread=fail)
    assert await member.wait_probed()
    remote.revoke("old")
    await until(lambda: not remote.is_known(old))
    await until(lambda: member.health.reason == "Unauthorized")


async def test_a_new_credential_that_is_no_good_is_refused_and_the_old_one_goes_on(
    fleet: Fleet, remote: Remote
) -> None:
    vault = Vault(remote.secret())
    member = join(fleet, vault)
    assert await member.wait_probed()
    pair = {"client-certificate-data": encode(b"no certificate"), "client-key-data": encode(CANARY)}
    for wire, said in (
        (secret({"value": kubeconfig(remote.sandbox.server, b"no authority", {"token": CANARY})}), "not a PEM"),
        (
            secret({"value": kubeconfig(remote.sandbox.server, remote.sandbox.ca, pair)}),
            "the client key is not a private key",
        ),
    ):
        vault.wire = wire
        with pytest.raises(NotResolved, match=rf"^Secret team-a/edge: .*{said}") as caught:
            join(fleet, vault)
        assert CANARY not in str(caught.value)
    assert join(fleet, Vault(remote.secret(member.credentials.connection.token or ""))) is member
    await member.client.get(NAMESPACES, "default")


async def test_the_same_cluster_may_move_to_another_address(
    remote: Remote, proxy: FaultProxy, fleet: Fleet, until: Until
) -> None:
    vault = Vault(remote.secret())
    member = join(fleet, vault)
    reflector: Reflector[Meta, str] = Reflector(
        member.client,
        CONFIGMAPS,
        decode=Meta,
        project=lambda wire: wire.metadata.name,
        on_change=lambda *_: None,
        namespace=remote.namespace,
    )
    following = asyncio.create_task(member.run_watch(reflector.run))
    await reflector.synced.wait()
    changes = told(fleet)
    vault.wire = remote.secret(server=proxy.server)
    assert join(fleet, vault) is member
    await until(lambda: proxy.count(lambda asked: asked.follows) > 0)
    await member.client.create(CONFIGMAPS, {"metadata": {"name": "moved"}}, remote.namespace)
    await until(lambda: reflector.get(_key(remote, "moved")) is not None)
    assert changes == []
    assert member.uid == remote.uid
    following.cancel()
    await asyncio.wait([following])


async def test_a_client_certificate_is_as_good_as_a_token_and_is_exchanged_alike(fleet: Fleet, remote: Remote) -> None:
    now = dt.datetime.now(UTC).replace(microsecond=0)
    ends = now + dt.timedelta(days=3)
    begins = now - dt.timedelta(days=300)
    vault = Vault(remote.secret_with_certificate("one", begins=begins, ends=ends))
    member = join(fleet, vault)
    assert await member.wait_probed()
    assert member.credentials.expires == ends
    assert "the client certificate in Secret team-a/edge expires on" in (member.credentials.warning(now) or "")
    assert await _user(member.client) == "one"
    vault.wire = remote.secret_with_certificate("two", begins=begins, ends=now + dt.timedelta(days=400))
    assert join(fleet, vault) is member
    assert await _user(member.client) == "two"
    assert member.credentials.warning(now) is None


async def test_an_expired_client_certificate_is_named_as_such(fleet: Fleet, remote: Remote, until: Until) -> None:
    ended = dt.datetime.now(UTC) - dt.timedelta(hours=1)
    begins = ended - dt.timedelta(days=1)
    vault = Vault(remote.secret_with_certificate("late", begins=begins, ends=ended))
    member = join(fleet, vault)
    assert not await member.wait_probed()
    assert member.health.reason == "Unauthorized"
    assert member.health.message == (
        f"the client certificate in Secret team-a/edge expired on {ended:%Y-%m-%dT%H:%M:%SZ}: renew it there"
    )
    vault.wire = remote.secret_with_certificate("new", begins=begins, ends=ended + dt.timedelta(days=1))
    await until(lambda: member.up)


async def test_a_token_that_ends_is_known_to_end(fleet: Fleet, remote: Remote) -> None:
    member = join(fleet, Vault(remote.secret()))
    expires = member.credentials.expires
    assert expires is not None
    left = expires - dt.datetime.now(UTC)
    assert dt.timedelta(minutes=55) < left < dt.timedelta(minutes=61)
    assert member.credentials.warning(dt.datetime.now(UTC)) is None
    assert "the token in Secret" in (member.credentials.warning(expires - dt.timedelta(minutes=10)) or "")


async def test_when_one_of_two_secrets_with_equal_content_changes_the_other_keeps_its_member(
    fleet: Fleet, remote: Remote
) -> None:
    wire = remote.secret()
    other_key = MemberKey("team-a", "SyncTarget", "edge")
    vault = Vault(wire)
    member = join(fleet, vault)
    assert join(fleet, Vault(wire), other_key) is member
    vault.wire = remote.secret()
    changed: list[RemoteCluster] = []
    fleet.listen(changed.append)
    moved = join(fleet, vault)
    assert moved is not member
    assert member in changed, "users of the first key learn that it has another member"
    assert fleet.find(other_key) is member
    assert await moved.wait_probed()
    assert await member.wait_probed()


async def test_when_both_secrets_of_a_shared_member_have_changed_alike_a_refusal_keeps_it_whole(
    fleet: Fleet, remote: Remote, until: Until
) -> None:
    vault = Vault(remote.secret(old := remote.issue("old")))
    other_key = MemberKey("team-a", "SyncTarget", "edge")
    member = join(fleet, vault)
    assert join(fleet, vault, other_key) is member
    assert await member.wait_probed()
    vault.wire = remote.secret()
    remote.revoke("old")
    await until(lambda: not remote.is_known(old))
    await member.client.get(NAMESPACES, "default")
    assert fleet.find(KEY) is fleet.find(other_key) is member


async def test_no_credential_is_ever_told(
    remote: Remote,
    proxy: FaultProxy,
    fleet: Fleet,
    until: Until,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everything goes wrong in turn, and all that is said about it is collected."""
    said: list[str] = []
    old, new = remote.issue("old"), remote.issue("new")
    secrets = [old, new, *(part for token in (old, new) for part in token.split(".")[1:])]
    vault = Vault(remote.secret(old, server=proxy.server))
    member = join(fleet, vault)
    fleet.listen(lambda each: said.append(f"{each!r} {each.health!r}"))

    async def ask() -> None:
        try:
            await member.client.get(NAMESPACES, "default")
        except Exception as error:  # noqa: BLE001  # all of them
            chain: BaseException | None = error
            while chain is not None:
                said.append(f"{chain} {chain!r} {vars(chain)!r} {chain.args!r}")
                chain = chain.__cause__ or chain.__context__

    await ask()
    for fault in ({"lost": True}, {"status": 500}, {"status": 401}, {"cut": True}, {"delay": 30.0}):
        outage = proxy.inject(Fault(**fault), when=lambda _: True)
        await ask()
        await until(lambda: not member.up)
        await ask()
        outage.lift()
        await until(lambda: member.up)
    remote.revoke("old")
    await until(lambda: not remote.is_known(old))
    await ask()
    await until(lambda: not member.up)
    vault.wire = remote.secret(new, server="https://127.0.0.1:1")
    await until(lambda: member.health.reason == "Unreachable")
    await ask()
    said += [repr(vault.wire), repr(member), repr(member.credentials), repr(fleet.find(KEY)), str(KEY)]
    said += list(capsys.readouterr())
    assert len(said) > 10
    assert not [text for text in said if any(value in text for value in secrets)]


def _key(remote: Remote, name: str) -> Key:
    return Key(remote.namespace, name)


async def _user(client: Client) -> str:
    """Ask the cluster who we are."""
    review = await client.create(_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    return str(review["status"]["userInfo"]["username"])
