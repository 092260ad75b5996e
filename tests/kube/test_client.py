import asyncio
import base64
import traceback
from typing import Any

import pytest
from aiohttp import web
from msgspec import Struct, field, structs
from tests.kube.scripted import TOKEN, ScriptedServer, config_map, listing, refuses, says, says_nothing

from syncline import __version__
from syncline.api.common import ObjectMeta
from syncline.kube import (
    CONFIGMAPS,
    NAMESPACES,
    SECRETS,
    AlreadyExists,
    ApiError,
    BadAnswer,
    Client,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    PatchKind,
    Unreachable,
    load_kubeconfig,
    transport,
)
from syncline.kube import client as client_module
from syncline.kube.errors import CacheFull
from syncline.kube.retry import Retry
from syncline.sandbox import Sandbox


class ConfigMap(Struct, kw_only=True, rename="camel", omit_defaults=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] = field(default_factory=dict)


def named(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"app": "shop"}}, "data": data}


async def test_an_object_lives_and_dies(client: Client, namespace: str) -> None:
    created = await client.create(CONFIGMAPS, named("settings", a="1"), namespace, type=ConfigMap)
    assert created.data == {"a": "1"}
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAPS, named("settings"), namespace)

    found = await client.get(CONFIGMAPS, "settings", namespace)
    found["data"] = {"a": "2"}
    replaced = await client.replace(CONFIGMAPS, "settings", namespace, found, type=ConfigMap)
    assert replaced.data == {"a": "2"}
    with pytest.raises(Conflict):
        await client.replace(CONFIGMAPS, "settings", namespace, found)

    assert await client.delete(CONFIGMAPS, "settings", namespace)
    with pytest.raises(NotFound, match=f"cannot get configmaps 'settings' in namespace '{namespace}': 404"):
        await client.get(CONFIGMAPS, "settings", namespace)


async def test_patches_of_all_kinds_bear_our_name(client: Client, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    await client.patch(CONFIGMAPS, "settings", namespace, body, PatchKind.APPLY)
    await client.patch(CONFIGMAPS, "settings", namespace, {"data": {"b": "2"}}, PatchKind.MERGE)
    patch = [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "3"}]
    result = await client.patch(CONFIGMAPS, "settings", namespace, patch, PatchKind.JSON)
    assert result["data"] == {"a": "3", "b": "2"}
    assert {entry["manager"] for entry in result["metadata"]["managedFields"]} == {"syncline"}
    with pytest.raises(ApiError, match="test"):
        await client.patch(CONFIGMAPS, "settings", namespace, patch, PatchKind.JSON)


async def test_an_apply_takes_fields_over_only_by_force(client: Client, sandbox: Sandbox, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "theirs"}}
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings?fieldManager=somebody"
    await asyncio.to_thread(sandbox.request, "PATCH", path, body)
    mine = {**body, "data": {"a": "ours"}}
    with pytest.raises(Conflict, match="somebody"):
        await client.patch(CONFIGMAPS, "settings", namespace, mine, PatchKind.APPLY)
    forced = await client.patch(CONFIGMAPS, "settings", namespace, mine, PatchKind.APPLY, force=True)
    assert forced["data"] == {"a": "ours"}


async def test_a_delete_hits_only_the_object_that_was_meant(client: Client, namespace: str) -> None:
    first = await client.create(CONFIGMAPS, named("settings"), namespace, type=ConfigMap)
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, "settings", namespace, uid="another")
    changed = await client.patch(
        CONFIGMAPS, "settings", namespace, {"data": {"a": "1"}}, PatchKind.MERGE, type=ConfigMap
    )
    with pytest.raises(Conflict):
        await client.delete(
            CONFIGMAPS, "settings", namespace, uid=first.metadata.uid, version=first.metadata.resource_version
        )
    assert await client.delete(
        CONFIGMAPS, "settings", namespace, uid=first.metadata.uid, version=changed.metadata.resource_version
    )


async def test_a_delete_says_whether_a_finalizer_holds_the_object(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await client.create(CONFIGMAPS, body, namespace)
    assert not await client.delete(CONFIGMAPS, "held", namespace)
    await client.patch(CONFIGMAPS, "held", namespace, {"metadata": {"finalizers": None}}, PatchKind.MERGE)


async def test_a_list_is_complete_whatever_the_page(client: Client, namespace: str) -> None:
    names = [f"settings-{number}" for number in range(7)]
    await asyncio.gather(*(client.create(CONFIGMAPS, named(name), namespace) for name in names))
    for page in (1, 3, 500):
        items, version = await client.list(CONFIGMAPS, namespace, labels="app=shop", type=ConfigMap, page=page)
        assert sorted(item.metadata.name for item in items) == names
        assert version.isdecimal()
    items, _ = await client.list(CONFIGMAPS, namespace, fields="metadata.name=settings-3", type=ConfigMap)
    assert [item.metadata.name for item in items] == ["settings-3"]


async def test_metadata_comes_without_the_rest(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, named("settings", a="1"), namespace)
    items, _ = await client.list(CONFIGMAPS, namespace, labels="app=shop", metadata_only=True)
    assert [(item["kind"], item.get("data")) for item in items] == [("PartialObjectMetadata", None)]
    alone = await client.get(CONFIGMAPS, "settings", namespace, metadata_only=True)
    assert (alone["kind"], alone["metadata"]["labels"]) == ("PartialObjectMetadata", {"app": "shop"})


async def test_a_view_acts_with_the_rights_of_another(client: Client, sandbox: Sandbox, namespace: str) -> None:
    grant = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "viewers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/viewers?fieldManager=tests"
    await asyncio.to_thread(sandbox.request, "PATCH", path, grant)
    await client.create(CONFIGMAPS, named("settings"), namespace)
    alice = client.impersonating("alice")
    assert (await alice.get(CONFIGMAPS, "settings", namespace))["metadata"]["name"] == "settings"
    with pytest.raises(Forbidden, match=r"cannot create configmaps in namespace .*alice"):
        await alice.create(CONFIGMAPS, named("more"), namespace)
    with pytest.raises(Forbidden):
        await alice.get(SECRETS, "any", namespace)
    await client.create(CONFIGMAPS, named("more"), namespace)


async def test_the_server_tells_its_version_and_whether_it_is_ready(client: Client) -> None:
    assert (await client.version()).startswith("v1.")
    assert await client.probe("/readyz") == "ok"


async def test_no_error_shows_what_is_in_a_secret(client: Client, namespace: str) -> None:
    canary = "canary-7f3a"
    encoded = base64.b64encode(canary.encode()).decode()
    bad: list[dict[str, Any]] = [
        {"metadata": {"name": "s"}, "data": {"password": canary + "!"}},
        {"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": encoded}},
        {"metadata": {"name": "s", "labels": {"a": f"{canary} not a label"}}, "data": {"password": encoded}},
        {"metadata": {"name": "s"}, "data": {f"{canary} no key": encoded}},
    ]
    for body in bad:
        with pytest.raises(ApiError) as caught:
            await client.create(SECRETS, body, namespace)
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caught.value.message
        assert encoded not in shown
        assert canary not in shown.replace(f"data[{canary} no key]", "")
    with pytest.raises(Invalid, match=r"422 Invalid: see data\[\.dockerconfigjson\]"):
        await client.create(SECRETS, bad[1], namespace)


async def test_an_answer_of_another_shape_is_not_shown(client: Client, namespace: str) -> None:
    class Odd(Struct):
        data: int = 0

    secret = {"metadata": {"name": "s"}, "stringData": {"password": "canary"}}
    with pytest.raises(BadAnswer, match="create secrets does not have the expected shape") as caught:
        await client.create(SECRETS, secret, namespace, type=Odd)
    assert caught.value.ambiguous, "it was carried out"
    assert "canary" not in "".join(traceback.format_exception(caught.value)).replace('"canary"', "")
    with pytest.raises(BadAnswer) as caught:
        await client.get(SECRETS, "s", namespace, type=Odd)
    assert not caught.value.ambiguous


@pytest.mark.parametrize("user", ["", " ", "alice ", "alice\r\nImpersonate-Group: system:masters"])
async def test_a_user_that_the_server_would_read_otherwise_is_not_sent(scripted: ScriptedServer, user: str) -> None:
    scripted.answer(says({}))
    async with Client(scripted.connection, retry=Retry(tries=1)) as client:
        with pytest.raises(Unreachable, match="cannot send a request") as caught:
            await client.impersonating(user).get(CONFIGMAPS, "a", "team")
    assert scripted.requests == []
    assert TOKEN not in str(caught.value)


async def test_who_we_are_is_told_in_the_header_and_nowhere_else(scripted: ScriptedServer) -> None:
    scripted.answer(refuses(403, "Forbidden"))
    async with Client(scripted.connection) as client:
        with pytest.raises(Forbidden) as caught:
            await client.impersonating("alice").get(CONFIGMAPS, "a", "team")
    headers = scripted.requests[0].headers
    assert headers["User-Agent"] == f"syncline/{__version__}"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Impersonate-User"] == "alice"
    assert not [name for name in headers if name.startswith("Impersonate-") and name != "Impersonate-User"]
    assert headers["Accept-Encoding"] == "identity"
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


async def test_a_redirect_is_not_followed(scripted: ScriptedServer) -> None:
    scripted.answer(says({}, 307, Location="/elsewhere"))
    async with Client(scripted.connection) as client:
        with pytest.raises(ApiError, match="307 Redirect"):
            await client.get(CONFIGMAPS, "a", "team")
    assert len(scripted.requests) == 1


async def test_a_list_whose_pages_expired_starts_over_once(scripted: ScriptedServer) -> None:
    first = listing(5, config_map("a", 1), more="next")
    scripted.answer(first, refuses(410, "Expired"), first, listing(5, config_map("b", 2)))
    async with Client(scripted.connection) as client:
        items, version = await client.list(CONFIGMAPS, type=ConfigMap)
        assert ([item.metadata.name for item in items], version) == (["a", "b"], "5")
        scripted.answer(first, refuses(410, "Expired"), first, refuses(410, "Expired"))
        with pytest.raises(Gone):
            await client.list(CONFIGMAPS)


async def test_a_list_with_a_failing_page_fails(scripted: ScriptedServer) -> None:
    scripted.answer(listing(5, config_map("a", 1), more="next"), refuses(403, "Forbidden"))
    async with Client(scripted.connection) as client:
        with pytest.raises(Forbidden):
            await client.list(CONFIGMAPS)


async def test_pages_shrink_until_the_answer_fits(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER", 10_000)
    big = listing(5, config_map("a", 1, blob="x" * 20_000))
    scripted.answer(big, listing(5, config_map("a", 1), more="next"), big, listing(5, config_map("b", 1)))
    async with Client(scripted.connection) as client:
        items, _ = await client.list(CONFIGMAPS, type=ConfigMap, page=100)
        assert [item.metadata.name for item in items] == ["a", "b"]
        assert [request.query["limit"] for request in scripted.requests] == ["100", "25", "25", "6"]
        scripted.answer(big)
        with pytest.raises(BadAnswer, match="larger than"):
            await client.list(CONFIGMAPS)
        with pytest.raises(BadAnswer, match="larger than"):
            await client.get(CONFIGMAPS, "a", "team")


async def test_a_server_that_never_answers_is_given_up(scripted: ScriptedServer) -> None:
    scripted.answer(says_nothing)
    async with Client(scripted.connection, timeout=0.2) as client:
        with pytest.raises(Unreachable, match="did not answer in time") as caught:
            await client.create(CONFIGMAPS, named("a"), "team")
    assert caught.value.ambiguous


async def test_slow_answers_hold_up_nobody_else(scripted: ScriptedServer) -> None:
    async def one_is_slow(request: web.BaseRequest) -> web.StreamResponse:
        return await (says_nothing if request.path.endswith("slow") else says(config_map("quick", 1)))(request)

    scripted.answer(one_is_slow)
    async with Client(scripted.connection) as client, asyncio.TaskGroup() as group:
        slow = [group.create_task(client.get(CONFIGMAPS, "slow", "team")) for _ in range(10)]
        for _ in range(100):
            await client.get(CONFIGMAPS, "quick", "team")
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()


async def test_a_server_that_is_not_there_is_named(sandbox: Sandbox) -> None:
    nobody = structs.replace(load_kubeconfig(sandbox.kubeconfig), server="https://127.0.0.1:1")
    async with Client(nobody) as client:
        with pytest.raises(Unreachable, match=r"cannot connect to https://127.0.0.1:1: .*refused") as caught:
            await client.get(NAMESPACES, "default")
    assert not caught.value.ambiguous


async def test_a_list_without_an_end_is_left(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that belongs to a tenant may send pages for ever, with objects and without."""
    scripted.answer(listing(5, config_map("a", 1), config_map("b", 1), more="next"))
    async with Client(scripted.connection) as client:
        with pytest.raises(CacheFull, match="the list of configmaps does not end after 12 objects"):
            [page async for page in client.bounded_pages(CONFIGMAPS, most=10)]
        assert len(scripted.requests) == 6
        monkeypatch.setattr(client_module, "LISTING_SECONDS", 0.05)
        scripted.answer(listing(5, more="next"))
        with pytest.raises(CacheFull, match="does not end after 0 objects"):
            [page async for page in client.bounded_pages(CONFIGMAPS)]


async def test_large_objects_after_small_ones_are_asked_for_in_smaller_pages(scripted: ScriptedServer) -> None:
    """Whoever names objects decides their order: the first ones say nothing about the size of the others."""
    small, large = listing(5, config_map("a", 1), more="next"), listing(5, config_map("b", 1, text="x" * 5000))
    scripted.answer(small, large, large, large)
    async with Client(scripted.connection) as client:
        pages = client.pages(CONFIGMAPS, page=1, pace=lambda _: 8, page_bytes=1000)
        assert [len(page.items) async for page in pages] == [1, 1]
        assert [request.query["limit"] for request in scripted.requests] == ["1", "8", "2", "1"]
