"""An address that a server tells: the credential goes to its own host, or to one that a TenantPolicy lists."""

import pytest
from tests.fleet.forms import CANARY, SERVER, kubeconfig, secret
from tests.fleet.test_resolve import SECRET, Secrets

from syncline.fleet import NotResolved, Resolved, at_endpoint, resolve

PATH = "/services/apiexport/p1/apps"


async def found() -> Resolved:
    return await resolve(SECRET, "team-a", read_secret=Secrets(secret({"kubeconfig": kubeconfig()})))


async def test_the_own_host_is_used_at_any_path() -> None:
    one = await found()
    moved = at_endpoint(one, SERVER + PATH, allow_loopback=False, allow_host=lambda _: False)
    assert moved.credentials.connection.server == SERVER + PATH
    assert moved.credentials.connection.token == one.credentials.connection.token
    assert moved.key != one.key


@pytest.mark.parametrize(
    "host", ["https://elsewhere.example", "https://edge.example.com.evil.example:6443", "https://edge.example.com:1"]
)
async def test_another_host_is_refused_and_nothing_of_the_credential_is_told(host: str) -> None:
    with pytest.raises(NotResolved) as caught:
        at_endpoint(await found(), host + PATH, allow_loopback=False, allow_host=lambda _: False)
    assert caught.value.reason == "EndpointNotAllowed"
    assert CANARY not in str(caught.value)


async def test_another_export_of_the_own_host_is_refused_unless_a_policy_lists_it() -> None:
    with pytest.raises(NotResolved) as caught:
        at_endpoint(await found(), SERVER + PATH, allow_loopback=False, allow_host=lambda _: False, is_other=True)
    assert caught.value.reason == "EndpointNotAllowed"
    moved = at_endpoint(await found(), SERVER + PATH, allow_loopback=False, allow_host=lambda _: True, is_other=True)
    assert moved.credentials.connection.server == SERVER + PATH


async def test_another_host_is_used_where_a_policy_lists_it() -> None:
    moved = at_endpoint(await found(), f"https://shard.example{PATH}", allow_loopback=False, allow_host=lambda _: True)
    assert moved.credentials.connection.server == f"https://shard.example{PATH}"


@pytest.mark.parametrize("host", ["https://127.0.0.1", "https://169.254.169.254", "http://shard.example"])
async def test_a_refused_address_is_refused_here_too(host: str) -> None:
    with pytest.raises(NotResolved) as caught:
        at_endpoint(await found(), host + PATH, allow_loopback=False, allow_host=lambda _: True)
    assert caught.value.reason == "InvalidCredentials"
