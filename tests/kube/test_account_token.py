"""Tokens of a ServiceAccount that somebody else requests."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.kube.scripted import ScriptedServer, Step, refuses, says, scripted_server

from syncline.kube import Client, ConfigError, account_token, load_kubeconfig
from syncline.kube.account_token import AccountToken
from syncline.kube.retry import Retry
from syncline.sandbox import Sandbox


def issues(token: str, seconds: float = 3600.0) -> Step:
    """Answer with a token that ends then."""
    end = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    return says({"status": {"token": token, "expirationTimestamp": end}})


def account(client: Client) -> AccountToken:
    return AccountToken(client, "syncline-system", "syncline")


def requester(server: ScriptedServer) -> Client:
    return Client(server.connection, retry=Retry(tries=1))


async def test_concurrent_callers_share_one_token() -> None:
    async with scripted_server() as server, requester(server) as client:
        server.answer(issues("one"), issues("two"))
        credential = account(client)
        assert set(await asyncio.gather(*(credential.token() for _ in range(5)))) == {"one"}
        assert [request.path for request in server.requests] == [
            "/api/v1/namespaces/syncline-system/serviceaccounts/syncline/token"
        ]


async def test_a_token_is_renewed_before_it_ends_and_used_on_while_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_token, "RENEW_AFTER", 0.0)
    monkeypatch.setattr(account_token, "PAUSE", 0.0)
    async with scripted_server() as server, requester(server) as client:
        server.answer(issues("one"), refuses(500), issues("two"))
        credential = account(client)
        assert [await credential.token() for _ in range(3)] == ["one", "one", "two"]


async def test_a_token_that_has_ended_is_not_used_on() -> None:
    async with scripted_server() as server, requester(server) as client:
        server.answer(issues("one", seconds=-1.0), refuses(500))
        credential = account(client)
        assert await credential.token() == "one"
        with pytest.raises(
            ConfigError, match="the token of ServiceAccount syncline-system/syncline cannot be requested"
        ):
            await credential.token()


async def test_a_token_that_is_rejected_is_replaced_once() -> None:
    async with scripted_server() as server, requester(server) as client:
        server.answer(issues("one"), issues("two"), refuses(403, "Forbidden", "no"))
        credential = account(client)
        assert await credential.token() == "one"
        assert await credential.renew("one")
        assert await credential.renew("one")
        assert await credential.token() == "two"
        with pytest.raises(ConfigError, match="you need the right to create serviceaccounts/token there"):
            await credential.renew("two")


async def test_where_nothing_is_installed_the_command_that_does_it_is_named(sandbox: Sandbox) -> None:
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
        with pytest.raises(ConfigError, match="run `syncline install --without-deployment` first"):
            await AccountToken(client, "default", "nobody").token()
        assert await AccountToken(client, "default", "default").token()
