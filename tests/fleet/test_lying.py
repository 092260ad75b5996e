"""What answers is not always the cluster that was meant: it is found out, and nothing that it says is believed."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from tests.fleet.conftest import Until
from tests.fleet.world import Impostor, Remote, Vault, join

from syncline.fleet import ClusterDown, Fleet, Timeouts
from syncline.kube import CONFIGMAPS, NAMESPACES, BadAnswer, NotFound, PatchKind, Resource, Unreachable
from syncline.sandbox import Sandbox

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
CALM = Timeouts(connect=60.0, request=60.0, probe=60.0, heartbeat=60.0, confirm=0.02, backoff_min=0.05, backoff_max=0.2)
"""So that only what happens leads to a probe."""


@pytest.fixture
async def impostor() -> AsyncIterator[Impostor]:
    async with Impostor().serving() as running:
        yield running


@pytest.fixture
async def calm() -> AsyncIterator[Fleet]:
    async with Fleet(allow_loopback=True, timeouts=CALM) as running:
        yield running


def page(text: str, status: int = 200, kind: str = "text/html") -> Callable[[], web.Response]:
    return lambda: web.Response(text=text, status=status, content_type=kind)


LIES = {
    "a login page": page("<html>please log in</html>"),
    "nothing at all": page(""),
    "garbage": page("\x00\xff garbage", kind="application/json"),
    "a list that is no object": page("[]", kind="application/json"),
    "an empty object": page("{}", kind="application/json"),
    "another object": page('{"metadata":{"name":"other","uid":"u"}}', kind="application/json"),
    "an object without a UID": page('{"metadata":{"name":"kube-system"}}', kind="application/json"),
    "a deep object": page('{"metadata":' * 5000, kind="application/json"),
    "a redirect": lambda: web.Response(status=302, headers={"Location": "https://login.example.com"}),
    "a page that is not found": page("404 page not found\n", 404, "text/plain"),
    "a page that is forbidden": page("go away", 403, "text/plain"),
    "far too much": page("{" + " " * (9 << 20), kind="application/json"),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_what_is_no_api_server_is_not_taken_for_one(
    impostor: Impostor, calm: Fleet, lie: Callable[[], web.Response]
) -> None:
    impostor.uid, impostor.answer = None, lie
    member = join(calm, Vault(impostor.secret()))
    assert not await member.wait_probed()
    assert (member.health.reason, member.uid) == ("BadAnswer", "")
    with pytest.raises(ClusterDown, match="is not used since"):
        await member.client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default")
    assert all(method == "GET" for method, _ in impostor.asked)


@pytest.mark.parametrize(
    "lie", [LIES[name] for name in ("a login page", "nothing at all", "garbage", "a redirect", "far too much")]
)
async def test_a_cluster_that_begins_to_lie_is_noticed_with_the_first_answer(
    impostor: Impostor, calm: Fleet, until: Until, lie: Callable[[], web.Response]
) -> None:
    member = join(calm, Vault(impostor.secret()))
    assert await member.wait_probed()
    impostor.uid, impostor.answer = None, lie
    with pytest.raises(Unreachable) as caught:
        await member.client.patch(CONFIGMAPS, "x", "default", {}, PatchKind.MERGE)
    assert isinstance(caught.value, BadAnswer)
    assert caught.value.ambiguous
    await until(lambda: not member.up)
    assert member.health.reason == "BadAnswer"
    impostor.uid = "uid-1"
    await until(lambda: member.up)


async def test_what_is_not_found_on_a_server_that_is_no_cluster_is_not_gone(impostor: Impostor, calm: Fleet) -> None:
    """A copy or a source counts as gone after a 404: it must come from the cluster."""
    member = join(calm, Vault(impostor.secret()))
    assert await member.wait_probed()
    impostor.uid, impostor.answer = None, LIES["a page that is not found"]
    with pytest.raises(ClusterDown):
        await member.client.get(CONFIGMAPS, "x", "default")


async def test_a_real_server_may_say_plainly_that_it_does_not_serve_a_group(fleet: Fleet, remote: Remote) -> None:
    member = join(fleet, Vault(remote.secret(remote.sandbox.token)))
    with pytest.raises(NotFound):
        await member.client.list(Resource("absent.example.com", "v1", "things", "Thing"))
    assert member.up


async def test_another_cluster_behind_the_same_address_is_refused_until_the_first_is_back(
    impostor: Impostor, calm: Fleet, until: Until
) -> None:
    told = []
    calm.listen(lambda each: told.append((each.health.state, each.health.reason)))
    member = join(calm, Vault(impostor.secret()))
    assert await member.wait_probed()
    impostor.uid = "uid-2"
    impostor.drop_connections()
    asked = len(impostor.asked)
    with pytest.raises(Unreachable):
        await member.client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default")
    await until(lambda: not member.up)
    with pytest.raises(
        ClusterDown, match=r"cluster edge is not used since .*: another cluster with another UID answers"
    ) as caught:
        await member.client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default")
    assert caught.value.reason == "NotTheSame"
    assert {path for _, path in impostor.asked[asked:]} <= {KUBE_SYSTEM, "/version"}
    assert member.uid == "uid-1"

    impostor.uid = "uid-1"
    await until(lambda: member.up)
    assert told == [("Up", "Reachable"), ("Down", "NotTheSame"), ("Up", "Reachable")]


async def test_another_cluster_is_noticed_without_any_failure(impostor: Impostor, fleet: Fleet, until: Until) -> None:
    member = join(fleet, Vault(impostor.secret()))
    assert await member.wait_probed()
    impostor.uid = "uid-2"
    await until(lambda: member.health.reason == "NotTheSame")


async def test_another_cluster_is_accepted_when_its_secret_changes_and_is_another_member(
    impostor: Impostor, calm: Fleet, until: Until
) -> None:
    vault = Vault(impostor.secret("one"))
    member = join(calm, vault)
    assert await member.wait_probed()
    impostor.uid = "uid-2"
    member._breaker.probe_now()
    await until(lambda: member.health.reason == "NotTheSame")

    vault.wire = impostor.secret("two")
    assert join(calm, vault) is member
    await until(lambda: member.closed)
    assert (member.uid, member.health.state, member.health.reason) == ("uid-1", "Down", "Replaced")
    with pytest.raises(ClusterDown, match="now refers to another cluster"):
        await member.client.get(NAMESPACES, "default")
    other = join(calm, vault)
    assert other is not member
    assert await other.wait_probed()
    assert (other.uid, other.credentials.connection.token) == ("uid-2", "two")
    assert list(calm) == [other]


async def test_a_secret_that_comes_to_name_another_real_cluster_is_another_member(
    fleet: Fleet, remote: Remote, sandbox: Sandbox, until: Until
) -> None:
    elsewhere = Remote(sandbox)
    vault = Vault(remote.secret())
    member = join(fleet, vault)
    assert await member.wait_probed()
    vault.wire = elsewhere.secret()
    join(fleet, vault)
    with pytest.raises(Unreachable):
        await member.client.list(CONFIGMAPS, elsewhere.namespace)
    await until(lambda: member.closed)
    other = join(fleet, vault)
    assert await other.wait_probed()
    assert (member.uid, other.uid) == (remote.uid, elsewhere.uid)
    assert (await other.client.get(NAMESPACES, elsewhere.namespace))["metadata"]["name"] == elsewhere.namespace


class Workspace(Impostor):
    """A workspace of kcp, which has no namespace kube-system."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/api/v1/namespaces/default":
            return web.json_response({"metadata": {"name": "default", "uid": "uid-of-default"}})
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.99.0"})
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)


async def test_a_cluster_without_kube_system_is_known_by_its_default_namespace() -> None:
    async with Workspace().serving() as workspace, Fleet(allow_loopback=True, timeouts=CALM) as fleet:
        member = join(fleet, Vault(workspace.secret()))
        assert await member.wait_probed()
        assert member.uid == "uid-of-default"


async def test_a_busy_server_is_not_a_dead_one(impostor: Impostor, fleet: Fleet) -> None:
    member = join(fleet, Vault(impostor.secret()))
    assert await member.wait_probed()
    impostor.uid = None
    impostor.answer = lambda: web.json_response({"kind": "Status", "code": 429}, status=429)
    asked = len(impostor.asked)
    while len(impostor.asked) < asked + 3:  # noqa: ASYNC110  # heartbeats
        await asyncio.sleep(0.02)
    assert member.up


async def test_a_cluster_that_was_rebuilt_with_a_new_authority_says_so_whatever_was_told_before(
    impostor: Impostor, calm: Fleet, until: Until
) -> None:
    member = join(calm, Vault(impostor.secret()))
    assert await member.wait_probed()

    async def hang_up() -> None:
        impostor.drop_connections()

    impostor.hold = hang_up
    member._breaker.probe_now()
    await until(lambda: not member.up)
    assert (member.health.reason, "broke" in member.health.message) == ("Unreachable", True)
    since = member.health.since
    impostor.hold = None
    await impostor.rebuild()
    await until(lambda: member.health.reason == "CertificateNotTrusted")
    message = member.health.message
    assert "certificate verify failed" in message
    assert message.endswith("if the cluster has a new certificate authority, write it to Secret team-a/edge")
    assert member.health.since == since
