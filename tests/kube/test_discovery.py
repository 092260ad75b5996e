"""Which kinds are served, and what is said of one that is not."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from tests.kube.scripted import ScriptedServer, hangs_up, refuses, says

from syncline.kube import CRDS, BadAnswer, Client, NotFound, Resource, Retry, Unreachable, discovery
from syncline.kube.discovery import Discovery
from syncline.kube.errors import ApiError, KindNotServed

APISERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)


def crd(group: str, kind: str, *versions: str, scope: str = "Namespaced") -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "shortNames": [f"{kind.lower()[:3]}x"]},
            "scope": scope,
            "versions": [
                {"name": version, "served": True, "storage": version == versions[0], "schema": schema}
                for version in versions
            ],
        },
    }


@pytest.fixture
def group() -> str:
    return f"g{secrets.token_hex(4)}.example.com"


@pytest.fixture
async def impatient(scripted: ScriptedServer) -> AsyncIterator[Client]:
    async with Client(scripted.connection, retry=Retry(tries=1)) as client:
        yield client


async def eventually(discovered: Discovery, *kind: str) -> Resource:
    """Find a kind that is served soon: the server lists it a moment after it has accepted it."""
    async with asyncio.timeout(180):
        while True:
            try:
                discovered.forget()
                return await discovered.find(*kind)
            except KindNotServed:
                await asyncio.sleep(0.02)


async def refusal(discovered: Discovery, *kind: str) -> KindNotServed:
    with pytest.raises(KindNotServed) as caught:
        await discovered.find(*kind)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (("", "ConfigMap"), Resource("", "v1", "configmaps", "ConfigMap")),
        (("", "Namespace"), Resource("", "v1", "namespaces", "Namespace", namespaced=False)),
        (("", "Endpoints", "v1"), Resource("", "v1", "endpoints", "Endpoints")),
        (("apps", "Deployment"), Resource("apps", "v1", "deployments", "Deployment")),
        (
            ("rbac.authorization.k8s.io", "ClusterRole"),
            Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
        ),
        (
            ("autoscaling", "HorizontalPodAutoscaler"),
            Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        ),
        (
            ("autoscaling", "HorizontalPodAutoscaler", "v1"),
            Resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        ),
    ],
)
async def test_a_kind_is_found_in_the_version_asked_for_or_preferred(
    client: Client, kind: tuple[str, ...], expected: Resource
) -> None:
    assert await Discovery(client).find(*kind) == expected


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (("", "configmap", "v1"), "kind configmap of v1 is not served; write kind ConfigMap"),
        (("", "configmaps"), "kind configmaps of the core group is not served; write kind ConfigMap"),
        (("apps", "deploy"), "kind deploy of group apps is not served; write kind Deployment"),
        (("apps", "Deployment", "v1beta1"), "kind Deployment of apps/v1beta1 is not served; write apiVersion apps/v1"),
        (("autoscaling", "HorizontalPodAutoscaler", "v3"), "write apiVersion autoscaling/v2 or autoscaling/v1"),
        (("extensions", "Ingress", "v1beta1"), "write kind Ingress of networking.k8s.io/v1"),
        (("", "deployment", "v1"), "write kind Deployment of apps/v1"),
        (("apps", "Deploymnet"), "did you mean Deployment?"),
        (("", "StatefullSet"), "did you mean StatefulSet of apps/v1?"),
        (("nowhere.example.com", "Whatnot", "v1"), "no kind of group nowhere.example.com is served"),
        (("apps", "Zeppelin"), "kind Zeppelin of group apps is not served"),
    ],
)
async def test_what_is_not_served_comes_with_advice(client: Client, kind: tuple[str, ...], advice: str) -> None:
    error = await refusal(Discovery(client), *kind)
    assert advice in str(error)
    assert error.certain


async def test_a_kind_that_appears_later_is_found_and_one_that_goes_is_lost(client: Client, group: str) -> None:
    discovered = Discovery(client)
    await refusal(discovered, group, "Widget")
    await client.create(CRDS, crd(group, "Widget", "v1", "v2"))
    found = await eventually(discovered, group, "Widget")
    assert found == Resource(group, "v2", "widgets", "Widget")
    assert (await discovered.find(group, "Widget", "v1")).api_version == f"{group}/v1"
    assert "write kind Widget" in str(await refusal(discovered, group, "widx"))

    await client.delete(CRDS, f"widgets.{group}")
    async with asyncio.timeout(180):
        while True:
            discovered.forget()
            try:
                await discovered.find(group, "Widget")
            except KindNotServed:
                break
            await asyncio.sleep(0.02)


async def test_without_an_event_an_unknown_kind_is_looked_for_once_more(
    client: Client, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovered = Discovery(client)
    await discovered.resources()
    await client.create(CRDS, crd(group, "Gadget", "v1", scope="Cluster"))
    await eventually(Discovery(client), group, "Gadget")
    assert not (await refusal(discovered, group, "Gadget")).args[0].endswith("Gadget"), "the last reading is young"
    monkeypatch.setattr(discovery, "FRESH", 0.0)
    assert await discovered.find(group, "Gadget") == Resource(group, "v1", "gadgets", "Gadget", namespaced=False)
    await client.delete(CRDS, f"gadgets.{group}")


async def test_every_kind_is_told_once_with_what_can_be_done(client: Client) -> None:
    served = await Discovery(client).resources()
    places = [(one.resource.group, one.resource.plural) for one in served]
    assert len(set(places)) == len(places)
    by_kind = {(one.resource.group, one.resource.kind): one for one in served}
    assert by_kind["", "Secret"].keeps_objects
    assert by_kind["", "Secret"].verbs >= {"get", "list", "watch", "create", "update", "patch", "delete"}
    assert not by_kind["authorization.k8s.io", "SubjectAccessReview"].keeps_objects
    assert not by_kind["", "ComponentStatus"].keeps_objects
    assert by_kind["autoscaling", "HorizontalPodAutoscaler"].resource.version == "v2"
    assert len([*filter(lambda one: one.keeps_objects, served)]) > 40


async def test_every_kind_that_keeps_objects_can_be_listed(client: Client) -> None:
    kept = [one.resource for one in await Discovery(client).resources() if one.keeps_objects]
    for resource in kept:
        if "." not in resource.group.removesuffix(".k8s.io"):
            _, version = await client.list(resource, metadata_only=True)
            assert version, resource


async def test_a_broken_extension_harms_no_others_and_is_named(client: Client, group: str) -> None:
    name = f"v1.{group}"
    service = {"name": "nobody", "namespace": "default"}
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": service}
    await client.create(APISERVICES, {"metadata": {"name": name}, "spec": {**spec, "insecureSkipTLSVerify": True}})
    discovered = Discovery(client)
    try:
        async with asyncio.timeout(180):
            while f"{group}/v1" not in discovered.silent:
                discovered.forget()
                await discovered.resources()
        assert (await discovered.find("apps", "Deployment")).version == "v1"
        error = await refusal(discovered, group, "Widget", "v1")
        assert "its API service does not answer" in str(error)
        assert not error.certain
        elsewhere = await refusal(discovered, "apps", "Zeppelin")
        assert f"API services that do not answer: {group}/v1" in str(elsewhere)
        assert elsewhere.certain
    finally:
        await client.delete(APISERVICES, name)


def named(*kinds: str, **more: Any) -> dict[str, Any]:
    verbs = ["get", "list"]
    return {
        "resources": [
            {"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": verbs, **more} for kind in kinds
        ]
    }


OLD_SERVER: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {
        "resources": [
            *named("Pod")["resources"],
            {"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": ["get", "patch"]},
            {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": None},
        ]
    },
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "example.com",
                "versions": [{"groupVersion": "example.com/v1alpha1"}, {"groupVersion": "example.com/v1"}],
                "preferredVersion": {"groupVersion": "example.com/v1"},
            },
            {"name": "empty.example.com", "versions": [{"groupVersion": "empty.example.com/v1"}]},
            {"name": "broken.example.com", "versions": [{"groupVersion": "broken.example.com/v1"}]},
        ],
    },
    "/apis/example.com/v1": named("Widget"),
    "/apis/example.com/v1alpha1": named("Widget", "Gadget"),
    "/apis/empty.example.com/v1": {"resources": None},
}


def old_server(answers: dict[str, Any], broken: Any = None) -> Callable[[web.BaseRequest], Any]:
    """Answer as a server before aggregated discovery."""

    async def step(request: web.BaseRequest) -> web.StreamResponse:
        if request.path in answers:
            return await says(answers[request.path])(request)
        answer: web.StreamResponse = await (broken or refuses(503, "ServiceUnavailable"))(request)
        return answer

    return step


async def test_an_older_server_is_asked_version_by_version(scripted: ScriptedServer, impatient: Client) -> None:
    scripted.answer(old_server(OLD_SERVER))
    discovered = Discovery(impatient)
    assert await discovered.find("", "Pod") == Resource("", "v1", "pods", "Pod")
    assert await discovered.find("", "Node") == Resource("", "v1", "nodes", "Node", namespaced=False)
    assert (await discovered.find("example.com", "Widget")).version == "v1"
    assert (await discovered.find("example.com", "Widget", "v1alpha1")).version == "v1alpha1"
    assert (await discovered.find("example.com", "Gadget")).version == "v1alpha1"
    assert [one.resource.kind for one in await discovered.resources()] == ["Pod", "Node", "Widget", "Gadget"]
    assert discovered.silent == ("broken.example.com/v1",)
    assert not (await refusal(discovered, "broken.example.com", "Thing")).certain
    assert (await refusal(discovered, "broken.example.com", "Thing", "v2")).certain
    assert (await refusal(discovered, "empty.example.com", "Thing", "v1")).certain
    assert sorted(received.path for received in scripted.requests) == sorted(
        [*OLD_SERVER, "/apis/broken.example.com/v1"]
    )


async def test_a_server_that_aggregates_a_part_is_asked_version_by_version(
    scripted: ScriptedServer, impatient: Client
) -> None:
    """As kcp does: its aggregated core group lacks the kinds that CRDs add, such as Services."""
    pod = {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "verbs": ["get"]}
    part = {
        "kind": "APIGroupDiscoveryList",
        "items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [pod]}]}],
    }
    scripted.answer(old_server({**OLD_SERVER, "/api": part}))
    discovered = Discovery(impatient)
    assert await discovered.find("", "Node") == Resource("", "v1", "nodes", "Node", namespaced=False)
    assert (await discovered.served("", "Pod")).subresources == {"status"}
    assert (await discovered.find("example.com", "Widget")).version == "v1"


async def test_what_can_be_written_separately_is_known_from_either_form(
    client: Client, scripted: ScriptedServer, impatient: Client
) -> None:
    new = Discovery(client)
    assert (await new.served("apps", "Deployment")).subresources >= {"status", "scale"}
    assert (await new.served("", "Service")).subresources >= {"status"}
    assert (await new.served("", "ConfigMap")).subresources == frozenset()
    scripted.answer(old_server(OLD_SERVER))
    old = Discovery(impatient)
    assert (await old.served("", "Pod")).subresources == {"status"}
    assert (await old.served("", "Node")).subresources == frozenset()


@pytest.mark.parametrize("broken", [refuses(500), refuses(404), says("nothing"), says({"groups": 1})])
async def test_a_version_that_answers_badly_is_silent(scripted: ScriptedServer, impatient: Client, broken: Any) -> None:
    scripted.answer(old_server(OLD_SERVER, broken))
    discovered = Discovery(impatient)
    assert (await discovered.find("example.com", "Widget")).version == "v1"
    assert discovered.silent == ("broken.example.com/v1",)


async def test_a_version_that_takes_too_long_is_silent(
    scripted: ScriptedServer, impatient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(discovery, "VERSION_SECONDS", 0.5)
    scripted.answer(old_server(OLD_SERVER, never))
    discovered = Discovery(impatient)
    assert (await discovered.find("example.com", "Widget")).version == "v1"
    assert discovered.silent == ("broken.example.com/v1",)


async def test_a_server_out_of_reach_is_not_one_without_kinds(scripted: ScriptedServer, impatient: Client) -> None:
    scripted.answer(old_server(OLD_SERVER, hangs_up))
    with pytest.raises(Unreachable):
        await Discovery(impatient).find("example.com", "Widget")
    scripted.answer(old_server({path: body for path, body in OLD_SERVER.items() if path != "/apis"}))
    with pytest.raises(ApiError):
        await Discovery(impatient).find("", "Pod")
    scripted.answer(says({"kind": "Surprise"}))
    with pytest.raises(BadAnswer, match="no list of API groups"):
        await Discovery(impatient).find("", "Pod")


@pytest.fixture
def aggregated(scripted: ScriptedServer) -> Callable[..., None]:
    def serve(*kinds: str, **version: Any) -> None:
        def document(*groups: Any) -> dict[str, Any]:
            return {"kind": "APIGroupDiscoveryList", "items": list(groups)}

        resources = [
            {"resource": f"{kind.lower()}s", "responseKind": {"kind": kind}, "scope": "Cluster"} for kind in kinds
        ]
        group = {
            "metadata": {"name": "example.com"},
            "versions": [{"version": "v1", "resources": resources, **version}],
        }
        scripted.answer(old_server({"/api": document(), "/apis": document(group)}))

    return serve


async def test_two_requests_read_everything_and_are_shared(
    scripted: ScriptedServer, impatient: Client, aggregated: Callable[..., None]
) -> None:
    aggregated("Widget", "Gadget")
    discovered = Discovery(impatient)
    kinds = [discovered.find("example.com", kind) for kind in ("Widget", "Gadget") * 50]
    found = await asyncio.gather(*kinds, discovered.resources())
    assert found[0] == Resource("example.com", "v1", "widgets", "Widget", namespaced=False)
    assert [received.path for received in scripted.requests] == ["/api", "/apis"]
    assert (
        scripted.requests[0]
        .headers["Accept"]
        .startswith("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    )


async def test_unknown_kinds_cost_one_reading_together(
    scripted: ScriptedServer, impatient: Client, aggregated: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregated("Widget")
    discovered = Discovery(impatient)
    await discovered.resources()
    monkeypatch.setattr(discovery, "FRESH", -1.0)
    asked = [discovered.find("example.com", f"Unknown{number}") for number in range(50)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(answer, KindNotServed) for answer in answers)
    assert len(scripted.requests) == 4
    monkeypatch.undo()
    await refusal(discovered, "example.com", "Unknown")
    assert len(scripted.requests) == 4


async def test_what_is_known_is_known_for_ten_minutes(
    scripted: ScriptedServer, impatient: Client, aggregated: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregated("Widget")
    discovered = Discovery(impatient)
    await discovered.resources()
    scripted.answer(refuses(500))
    assert await discovered.find("example.com", "Widget")
    monkeypatch.setattr(discovery, "KEPT", 0.0)
    with pytest.raises(ApiError):
        await discovered.find("example.com", "Widget")


async def test_a_reading_that_fails_is_not_kept(
    scripted: ScriptedServer, impatient: Client, aggregated: Callable[..., None]
) -> None:
    scripted.answer(refuses(500))
    discovered = Discovery(impatient)
    with pytest.raises(ApiError):
        await discovered.resources()
    aggregated("Widget")
    assert await discovered.find("example.com", "Widget")


async def test_a_caller_who_gives_up_leaves_the_others_their_reading(
    scripted: ScriptedServer, impatient: Client, aggregated: Callable[..., None]
) -> None:
    aggregated("Widget")
    discovered = Discovery(impatient)
    first, second = (asyncio.create_task(discovered.find("example.com", "Widget")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).kind == "Widget"
    assert first.cancelled()
    assert len(scripted.requests) == 2


async def test_what_was_asked_before_an_event_is_not_kept_after_it(
    scripted: ScriptedServer, impatient: Client, aggregated: Callable[..., None]
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        started.set()
        await go_on.wait()
        return await says({"kind": "APIGroupDiscoveryList", "items": None})(request)

    scripted.answer(late)
    discovered = Discovery(impatient)
    before = asyncio.create_task(discovered.resources())
    await started.wait()
    discovered.forget()
    aggregated("Widget")
    assert await discovered.find("example.com", "Widget")
    go_on.set()
    assert await before == []
    scripted.answer(refuses(500))
    assert await discovered.find("example.com", "Widget")


async def test_a_stale_version_is_used_but_not_taken_for_complete(
    impatient: Client, aggregated: Callable[..., None]
) -> None:
    aggregated("Widget", freshness="Stale")
    discovered = Discovery(impatient)
    assert await discovered.find("example.com", "Widget", "v1")
    assert not (await refusal(discovered, "example.com", "Gadget", "v1")).certain


async def test_a_document_that_is_not_there_is_not_found(scripted: ScriptedServer, impatient: Client) -> None:
    scripted.answer(refuses(404))
    with pytest.raises(NotFound, match="cannot get discovery: 404"):
        await impatient.document("/apis/example.com")
