"""The schemas of an API server: fetched once for each API version, and again when the server says that they changed."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.kube.scripted import ScriptedServer, refuses, says

from syncline.kube import BadAnswer, Client, NotFound, Retry, ServerError, openapi
from syncline.kube.openapi import OpenAPI


@pytest.fixture
async def impatient(scripted: ScriptedServer) -> AsyncIterator[Client]:
    async with Client(scripted.connection, retry=Retry(tries=1)) as client:
        yield client


def index(**hashes: str) -> dict[str, Any]:
    """Make an index of documents with these hashes."""
    return {
        "paths": {
            path.replace("__", "/"): {"serverRelativeURL": f"/openapi/v3/{path.replace('__', '/')}?hash={mark}"}
            for path, mark in hashes.items()
        }
    }


def document(title: str) -> dict[str, Any]:
    return {"openapi": "3.0.0", "paths": {"/x": {}}, "components": {"schemas": {title: {"type": "object"}}}}


def titles(found: openapi.SchemaDocument) -> list[str]:
    return [*msgspec.json.decode(zlib.decompress(found.packed))["schemas"]]


async def test_a_real_server_publishes_its_kinds(client: Client) -> None:
    found = await OpenAPI(client).documents(["v1", "apps/v1", "no.example.com/v1"])
    assert found.keys() == {"v1", "apps/v1"}
    assert "io.k8s.api.apps.v1.Deployment" in titles(found["apps/v1"])
    assert "io.k8s.api.core.v1.Service" in titles(found["v1"])


async def test_while_nothing_changes_nothing_is_asked(scripted: ScriptedServer, impatient: Client) -> None:
    scripted.answer(says(index(apis__apps__v1="1")), says(document("a")))
    schemas = OpenAPI(impatient)
    first, second = await schemas.documents(["apps/v1"]), await schemas.documents(["apps/v1"])
    assert first == second
    assert [one.path for one in scripted.requests] == ["/openapi/v3", "/openapi/v3/apis/apps/v1"]


async def test_a_fresh_index_costs_one_request_while_hashes_are_the_same(
    scripted: ScriptedServer, impatient: Client
) -> None:
    scripted.answer(says(index(api__v1="1")), says(document("a")), says(index(api__v1="1")))
    schemas = OpenAPI(impatient)
    await schemas.documents(["v1"])
    await schemas.documents(["v1"], age=0)
    assert [one.path for one in scripted.requests] == ["/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3"]


async def test_another_hash_brings_another_document(scripted: ScriptedServer, impatient: Client) -> None:
    scripted.answer(
        says(index(api__v1="1")), says(document("a")), says(index(api__v1="2")), says(document("b")), refuses(500)
    )
    schemas = OpenAPI(impatient)
    before = await schemas.documents(["v1"])
    after = await schemas.documents(["v1"], age=0)
    assert titles(before["v1"]) == ["a"]
    assert titles(after["v1"]) == ["b"]
    assert before["v1"].digest != after["v1"].digest


async def test_an_api_version_that_is_not_in_the_index_is_looked_for_once_more(
    scripted: ScriptedServer, impatient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openapi, "FRESH", 0.0)
    scripted.answer(says(index()), says(index(apis__new__v1="1")), says(document("a")))
    assert (await OpenAPI(impatient).documents(["new/v1"])).keys() == {"new/v1"}


async def test_callers_at_the_same_time_share_a_document(scripted: ScriptedServer, impatient: Client) -> None:
    scripted.answer(says(index(api__v1="1")), says(document("a")))
    schemas = OpenAPI(impatient)
    await asyncio.gather(*(schemas.documents(["v1"]) for _ in range(10)))
    assert len(scripted.requests) == 2


async def test_a_caller_who_gives_up_leaves_the_others_alone(scripted: ScriptedServer, impatient: Client) -> None:
    released = asyncio.Event()

    async def slowly(_: web.BaseRequest) -> web.StreamResponse:
        await released.wait()
        return web.json_response(index(api__v1="1"))

    scripted.answer(slowly, says(document("a")))
    schemas = OpenAPI(impatient)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await schemas.documents(["v1"])
    other = asyncio.create_task(schemas.documents(["v1"]))
    released.set()
    assert titles((await other)["v1"]) == ["a"]
    assert len(scripted.requests) == 2


async def test_an_index_does_not_lead_elsewhere(scripted: ScriptedServer, impatient: Client) -> None:
    elsewhere = {"paths": {"api/v1": {"serverRelativeURL": "//evil.example.com/api/v1/secrets?hash=%31"}}}
    scripted.answer(says(elsewhere), says(document("a")))
    await OpenAPI(impatient).documents(["v1"])
    assert scripted.requests[-1].path == "/openapi/v3/api/v1"


async def test_a_server_without_schemas_is_told_from_one_that_fails(
    scripted: ScriptedServer, impatient: Client
) -> None:
    schemas = OpenAPI(impatient)
    scripted.answer(refuses(404, "NotFound"))
    with pytest.raises(NotFound):
        await schemas.documents(["v1"])
    scripted.answer(refuses(503, "ServiceUnavailable"))
    with pytest.raises(ServerError):
        await schemas.documents(["v1"])
    # A document that has gone is no sign of a server without schemas.
    scripted.answer(says(index(api__v1="1")), refuses(404, "NotFound"))
    with pytest.raises(BadAnswer):
        await schemas.documents(["v1"])
    scripted.answer(says(document("a")))
    assert titles((await schemas.documents(["v1"]))["v1"]) == ["a"]


@pytest.mark.parametrize("answer", [[], {"paths": 1}, {"paths": {"api/v1": 3}}, {}])
async def test_an_index_that_is_none_is_an_error(scripted: ScriptedServer, impatient: Client, answer: Any) -> None:
    scripted.answer(says(answer))
    with pytest.raises(BadAnswer):
        await OpenAPI(impatient).documents(["v1"])


async def test_what_is_too_large_is_not_kept(
    scripted: ScriptedServer, impatient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openapi, "DOCUMENT_LIMIT", 100)
    scripted.answer(says(index(api__v1="1")), says(document("a" * 100)))
    with pytest.raises(BadAnswer, match="larger than"):
        await OpenAPI(impatient).documents(["v1"])
    monkeypatch.setattr(openapi, "INDEX_LIMIT", 10)
    scripted.answer(says(index(api__v1="1")))
    with pytest.raises(BadAnswer, match="larger than"):
        await OpenAPI(impatient).documents(["v1"])


async def test_the_documents_that_were_asked_for_last_are_kept(
    scripted: ScriptedServer, impatient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openapi, "CACHE_BYTES", 1)

    async def any_document(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(
            index(apis__a__v1="1", apis__b__v1="1") if request.path == "/openapi/v3" else document(request.path)
        )

    scripted.answer(any_document)
    schemas = OpenAPI(impatient)
    for version in ("a/v1", "b/v1", "b/v1", "a/v1"):
        await schemas.documents([version])
    paths = [one.path.removeprefix("/openapi/v3") for one in scripted.requests]
    assert paths == ["", "/apis/a/v1", "/apis/b/v1", "/apis/a/v1"]
