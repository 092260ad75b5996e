"""Who owns what, as the real API server writes it down."""

import asyncio
import contextlib
import copy
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.core.managed import entries
from tests.core.samples import BY_KIND, SAMPLES, WIDGET_CRD, WIDGETS, Sample

from syncline.core.fields import (
    BUILT_IN_GROUPS,
    WHOLE_MAPS,
    lost_paths,
    manager_of,
    owned_fields,
    to_apply_patch,
    unkept,
)
from syncline.kube import NAMESPACES, Client, Conflict, PatchKind, Resource, load_kubeconfig
from syncline.kube.session import Request
from syncline.sandbox import Sandbox

APP = "spec.template.spec.containers[name=app]"
JSON_PATCH = "application/json-patch+json"


def managed(live: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = live["metadata"]["managedFields"]
    return found


class Place:
    """A namespace, in which objects are written by name of their manager."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def create(self, sample: Sample) -> dict[str, Any]:
        return await self.client.create(sample.resource, sample.object(), self.namespace)

    async def write(
        self, method: str, resource: Resource, body: Any, *, kind: str, query: str = "", part: str | None = None
    ) -> dict[str, Any]:
        path = f"{resource.path(self.namespace, 'sample', part)}?fieldManager=somebody{query}"
        request = Request(
            verb="patch",
            resource=resource.plural,
            method=method,
            path=path,
            body=json.dumps(body).encode(),
            content_type=kind,
        )
        answer: dict[str, Any] = json.loads(await self.client._session.send(request, None))
        return answer

    async def patch(self, resource: Resource, *operations: tuple[Any, ...], part: str | None = None) -> dict[str, Any]:
        body = [dict(zip(("op", "path", "value"), operation, strict=False)) for operation in operations]
        return await self.write("PATCH", resource, body, kind=JSON_PATCH, part=part)

    async def put(self, resource: Resource, *operations: tuple[Any, ...]) -> dict[str, Any]:
        sent: dict[str, Any] | None = None
        while True:
            live = await self.client.get(resource, "sample", self.namespace)
            if sent is not None and user_fields(live) == user_fields(sent):  # refused, and carried out all the same
                return live
            sent = copy.deepcopy(live)
            for operation in operations:
                change(sent, *operation)
            with contextlib.suppress(Conflict):  # controllers write too
                return await self.write("PUT", resource, sent, kind="application/json")

    async def rename(self, resource: Resource) -> dict[str, Any]:
        """Make what is ours ready for an apply."""
        while True:
            live = await self.client.get(resource, "sample", self.namespace)
            patch = to_apply_patch(managed(live), live["metadata"]["uid"], live["metadata"]["resourceVersion"])
            assert patch is not None
            with contextlib.suppress(Conflict):  # controllers write too
                return await self.client.patch(resource, "sample", self.namespace, patch, PatchKind.JSON)

    async def apply(self, resource: Resource, **body: Any) -> dict[str, Any]:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "sample"}, **body}
        return await self.write("PATCH", resource, whole, kind="application/apply-patch+yaml", query="&force=true")


def user_fields(live: dict[str, Any]) -> dict[str, Any]:
    """What controllers leave alone."""
    notes = {
        name: note for name, note in live["metadata"].get("annotations", {}).items() if "kubernetes.io" not in name
    }
    rest = {name: value for name, value in live.items() if name not in ("metadata", "status")}
    return {**rest, "labels": live["metadata"].get("labels", {}), "annotations": notes}


def change(live: Any, operation: str, pointer: str, value: Any = None) -> None:
    *way, last = (part.replace("~1", "/") for part in pointer[1:].split("/"))
    for part in way:
        live = live[int(part) if isinstance(live, list) else part]
    if operation == "remove":
        del live[int(last) if isinstance(live, list) else last]
    elif isinstance(live, list) and operation == "add":
        live.insert(int(last), value)
    else:
        live[int(last) if isinstance(live, list) else last] = value


def lost(sample: Sample, live: dict[str, Any], record: tuple[str, ...] = ()) -> tuple[str, ...]:
    return lost_paths(sample.object(), owned_fields(entries(live), sample.resource.group), record)


def record_of(sample: Sample, answer: dict[str, Any]) -> tuple[str, ...]:
    """What was not kept, by the answer to our own write."""
    return unkept(sample.object(), owned_fields(entries(answer), sample.resource.group))


@pytest.fixture
async def place(sandbox: Sandbox) -> AsyncIterator[Place]:
    async with Client(load_kubeconfig(sandbox.kubeconfig)) as client:
        name = f"fields-{secrets.token_hex(4)}"
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        await asyncio.to_thread(
            sandbox.request,
            "PATCH",
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{WIDGET_CRD['metadata']['name']}?fieldManager=tests",
            WIDGET_CRD,
        )
        async with asyncio.timeout(180):
            while not await served(client, name):  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.02)
        yield Place(client, name)


async def served(client: Client, namespace: str) -> bool:
    try:
        await client.list(WIDGETS, namespace)
    except Exception:  # noqa: BLE001 - any: it is not there yet
        return False
    return True


EDITS = [
    ("Deployment", ("replace", "/spec/replicas", 5), "spec.replicas"),
    ("Deployment", ("replace", "/spec/template/spec/containers/0/image", "evil:1"), f"{APP}.image"),
    ("Deployment", ("add", "/spec/template/spec/containers/0/command/0", "sh"), f"{APP}.command"),
    ("Deployment", ("add", "/spec/template/spec/containers/0/env/0/value", "full"), f"{APP}.env[name=EMPTY].value"),
    ("Deployment", ("remove", "/spec/template/spec/containers/0/env/1"), f"{APP}.env[name=LEVEL]"),
    (
        "Deployment",
        ("replace", "/spec/template/spec/containers/0/env/2/valueFrom/secretKeyRef/key", "x"),
        f"{APP}.env[name=KEY].valueFrom.secretKeyRef",
    ),
    ("Deployment", ("remove", "/spec/template/spec/containers/0/env"), f"{APP}.env"),
    ("Deployment", ("replace", "/spec/template/spec/containers/0/env", []), f"{APP}.env"),
    ("Deployment", ("replace", "/spec/template/spec/nodeSelector", {}), "spec.template.spec.nodeSelector.disk"),
    (
        "Deployment",
        ("remove", "/spec/template/spec/containers/0/ports/1"),
        f"{APP}.ports[containerPort=53]",
    ),
    ("Deployment", ("remove", "/spec/template/spec/containers/0/resources/limits"), f"{APP}.resources.limits.memory"),
    (
        "Deployment",
        ("remove", "/spec/template/spec/containers/0/securityContext/readOnlyRootFilesystem"),
        f"{APP}.securityContext.readOnlyRootFilesystem",
    ),
    (
        "Deployment",
        ("replace", "/spec/template/spec/containers/0/resources/limits/memory", "2Gi"),
        f"{APP}.resources.limits.memory",
    ),
    ("Deployment", ("remove", "/spec/template/spec/containers/1"), "spec.template.spec.containers[name=helper]"),
    ("Deployment", ("add", "/spec/template/spec/nodeSelector/disk", "slow"), "spec.template.spec.nodeSelector.disk"),
    ("Deployment", ("remove", "/spec/template/spec/nodeSelector"), "spec.template.spec.nodeSelector.disk"),
    (
        "Deployment",
        ("remove", "/spec/template/spec/securityContext/runAsNonRoot"),
        "spec.template.spec.securityContext.runAsNonRoot",
    ),
    (
        "Deployment",
        ("add", "/spec/template/spec/containers/0/volumeMounts/0/readOnly", True),
        f"{APP}.volumeMounts[mountPath=/scratch].readOnly",
    ),
    ("Deployment", ("replace", "/spec/template/metadata/labels/app", "shop"), ""),
    ("Deployment", ("add", "/spec/paused", True), "spec.paused"),
    ("Deployment", ("replace", "/metadata/labels/team", "blue"), "metadata.labels.team"),
    (
        "Deployment",
        ("remove", "/metadata/labels/app.kubernetes.io~1name"),
        "metadata.labels[app.kubernetes.io/name]",
    ),
    ("Deployment", ("remove", "/metadata/labels"), "metadata.labels"),
    ("Deployment", ("remove", "/metadata/annotations"), "metadata.annotations[example.com/note]"),
    ("Deployment", ("add", "/metadata/labels/extra", "1"), ""),
    ("Deployment", ("add", "/spec/template/spec/hostNetwork", True), "spec.template.spec.hostNetwork"),
    ("Deployment", ("add", "/spec/template/spec/hostPID", True), ""),
    (
        "Deployment",
        ("replace", "/spec/template/spec/volumes/0", {"name": "scratch", "hostPath": {"path": "/"}}),
        "spec.template.spec.volumes[name=scratch].emptyDir",
    ),
    ("Deployment", ("add", "/spec/template/spec/volumes/0/emptyDir/medium", "Memory"), ""),
    (
        "Deployment",
        ("remove", "/spec/template/spec/automountServiceAccountToken"),
        "spec.template.spec.automountServiceAccountToken",
    ),
    (
        "Deployment",
        ("add", "/spec/template/spec/tolerations", [{"operator": "Exists"}]),
        "spec.template.spec.tolerations",
    ),
    ("StatefulSet", ("replace", "/spec/replicas", 0), "spec.replicas"),
    ("Service", ("replace", "/spec/selector/app", "other"), "spec.selector.app"),
    ("Service", ("replace", "/spec/ports/1/name", "changed"), "spec.ports[port=53,protocol=TCP].name"),
    ("Service", ("remove", "/spec/ports/0"), "spec.ports[port=53,protocol=UDP]"),
    ("Service", ("replace", "/spec/sessionAffinity", "ClientIP"), ""),
    ("Ingress", ("replace", "/spec/rules/0/host", "evil.example.com"), "spec.rules"),
    ("Ingress", ("remove", "/spec/tls"), "spec.tls"),
    ("Role", ("add", "/rules/0/verbs/0", "delete"), "rules"),
    ("RoleBinding", ("replace", "/subjects/0/name", "evil"), "subjects"),
    ("RoleBinding", ("remove", "/subjects"), "subjects"),
    ("ServiceAccount", ("replace", "/imagePullSecrets/0/name", "other"), "imagePullSecrets"),
    ("ServiceAccount", ("replace", "/automountServiceAccountToken", True), "automountServiceAccountToken"),
    ("ServiceAccount", ("remove", "/automountServiceAccountToken"), "automountServiceAccountToken"),
    ("NetworkPolicy", ("add", "/spec/podSelector/matchLabels", {"a": "b"}), "spec.podSelector"),
    ("NetworkPolicy", ("remove", "/spec/ingress/0/from"), "spec.ingress"),
    ("Job", ("replace", "/spec/suspend", False), "spec.suspend"),
    ("CronJob", ("replace", "/spec/schedule", "1 * * * *"), "spec.schedule"),
    (
        "CronJob",
        ("replace", "/spec/jobTemplate/spec/template/spec/containers/0/image", "evil:1"),
        "spec.jobTemplate.spec.template.spec.containers[name=app].image",
    ),
    (
        "PersistentVolumeClaim",
        ("replace", "/metadata/annotations/example.com~1note", ""),
        "metadata.annotations[example.com/note]",
    ),
    ("HorizontalPodAutoscaler", ("replace", "/spec/maxReplicas", 50), "spec.maxReplicas"),
    ("HorizontalPodAutoscaler", ("replace", "/spec/scaleTargetRef/name", "other"), "spec.scaleTargetRef.name"),
    ("HorizontalPodAutoscaler", ("replace", "/spec/metrics/0/resource/target/averageUtilization", 9), "spec.metrics"),
    ("PodDisruptionBudget", ("replace", "/spec/minAvailable", "50%"), "spec.minAvailable"),
    ("LimitRange", ("replace", "/spec/limits/0/default/cpu", "2"), "spec.limits"),
    ("ResourceQuota", ("replace", "/spec/hard/pods", "11"), "spec.hard.pods"),
    ("ResourceQuota", ("remove", "/spec/hard/requests.cpu"), "spec.hard[requests.cpu]"),
    ("Widget", ("replace", "/spec/size", 4), "spec.size"),
    ("Widget", ("remove", "/spec/size"), "spec.size"),
    ("Widget", ("add", "/spec/empty/full", "1"), ""),
    ("Widget", ("remove", "/spec/empty"), "spec.empty"),
    ("Widget", ("remove", "/spec/options/shape"), "spec.options.shape"),
    ("Widget", ("replace", "/spec/options", {}), "spec.options"),
    ("Widget", ("replace", "/spec/anything", {}), "spec.anything.deep.list"),
    ("Widget", ("replace", "/spec/anything/deep", {}), "spec.anything.deep.list"),
    ("Widget", ("replace", "/spec/reference", {}), "spec.reference"),
    ("Widget", ("replace", "/spec/parts", []), "spec.parts"),
    ("Widget", ("replace", "/spec/tags", []), "spec.tags"),
    ("Widget", ("replace", "/spec/plain", []), "spec.plain"),
    ("Widget", ("replace", "/spec/parts/0/screws", []), "spec.parts[kind=Ordinary,name=left].screws"),
    ("Widget", ("replace", "/spec/reference/key", "other"), "spec.reference"),
    ("Widget", ("replace", "/spec/parts/0/weight", 9), "spec.parts[kind=Ordinary,name=left].weight"),
    ("Widget", ("remove", "/spec/parts/1"), "spec.parts[kind=Special,name=right]"),
    ("Widget", ("replace", "/spec/parts/0/screws/0/size", 9), "spec.parts[kind=Ordinary,name=left].screws"),
    ("Widget", ("replace", "/spec/plain/1/name", "c"), "spec.plain"),
    ("Widget", ("remove", "/spec/tags/1"), 'spec.tags["y<z"]'),
    ("Widget", ("replace", "/spec/anything/deep/list/0", 2), "spec.anything.deep.list"),
    ("Widget", ("replace", "/spec/grade", "bad"), ""),
]
# Inside a field without a schema, an emptied map stays ours after an apply too.
REMOVED_DEEP_IN_AN_UNTYPED_FIELD = ("Widget", ("remove", "/spec/anything/deep/list"), "spec.anything.deep.list")
NAMES = [f"{kind} {edit[0]} {edit[1]}" for kind, edit, _ in EDITS]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.resource.kind)
async def test_nothing_is_lost_of_what_was_just_sent(place: Place, sample: Sample) -> None:
    created = await place.create(sample)
    record = record_of(sample, created)
    assert lost(sample, created, record) == ()
    fields = msgspec.json.encode(created["metadata"]["managedFields"][0]["fieldsV1"])
    assert lost_paths(sample.object(), fields, record) == ()
    applied = await place.client.patch(
        sample.resource, "sample", place.namespace, sample.object(), PatchKind.APPLY, force=True
    )
    assert lost(sample, applied, record_of(sample, applied)) == ()


@pytest.mark.parametrize("way", ["patch", "put"])
@pytest.mark.parametrize(("kind", "edit", "path"), EDITS, ids=NAMES)
async def test_exactly_what_somebody_changed_is_lost(
    place: Place, kind: str, edit: tuple[Any, ...], path: str, way: str
) -> None:
    sample = BY_KIND[kind]
    record = record_of(sample, await place.create(sample))
    changed = await (place.put if way == "put" else place.patch)(sample.resource, edit)
    assert lost(sample, changed, record) == ((path,) if path else ())
    if path and edit[-1] and edit[0] != "remove":  # who takes things away may have nothing afterwards
        assert manager_of(entries(changed), path) == "somebody"


CUSTOM = [number for number, edit in enumerate(EDITS) if edit[0] == "Widget"]


@pytest.mark.parametrize(
    ("kind", "edit", "path"),
    [*EDITS[:30], *(EDITS[number] for number in CUSTOM), REMOVED_DEEP_IN_AN_UNTYPED_FIELD],
    ids=[*NAMES[:30], *(NAMES[number] for number in CUSTOM), "Widget remove deep"],
)
async def test_the_same_is_lost_after_an_apply_of_ours(
    place: Place, kind: str, edit: tuple[Any, ...], path: str
) -> None:
    sample = BY_KIND[kind]
    applied = await place.client.patch(
        sample.resource, "sample", place.namespace, sample.object(), PatchKind.APPLY, force=True
    )
    found = lost(sample, await place.patch(sample.resource, edit), record_of(sample, applied))
    assert bool(found) == bool(path)
    assert all(each.startswith(path) for each in found)


@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        ("Deployment", {"spec": {"replicas": 7}}, "spec.replicas"),
        (
            "Deployment",
            {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "evil:1"}]}}}},
            f"{APP}.image",
        ),
        ("Service", {"spec": {"selector": {"app": "other"}}}, "spec.selector.app"),
        (
            "Widget",
            {"spec": {"parts": [{"name": "left", "weight": 9}]}},
            "spec.parts[kind=Ordinary,name=left].weight",
        ),
        ("Widget", {"spec": {"tags": ["z"]}}, ""),
        ("Role", {"rules": []}, "rules"),
    ],
)
async def test_what_another_applies_by_force_is_lost_to_it(
    place: Place, kind: str, body: dict[str, Any], path: str
) -> None:
    sample = BY_KIND[kind]
    record = record_of(sample, await place.create(sample))
    changed = await place.apply(sample.resource, **body)
    assert lost(sample, changed, record) == ((path,) if path else ())
    if path:
        assert manager_of(entries(changed), path) == "somebody"


async def test_items_that_others_put_into_an_empty_list_of_ours_are_theirs(place: Place) -> None:
    sample = BY_KIND["Deployment"]
    created = await place.create(sample)
    theirs = [{"name": "init", "image": "registry.example/init:1"}]
    changed = await place.put(sample.resource, ("add", "/spec/template/spec/initContainers", theirs))
    # Of a list with keys the server does not say whether an empty one is ours: once it is applied, it is known.
    assert lost(sample, changed, record_of(sample, created)) == ("spec.template.spec.initContainers",)
    await place.rename(sample.resource)
    applied = await place.client.patch(
        sample.resource, "sample", place.namespace, sample.object(), PatchKind.APPLY, force=True
    )
    assert applied["spec"]["template"]["spec"]["initContainers"][0]["name"] == "init"
    record = record_of(sample, applied)
    assert lost(sample, applied, record) == ()
    without = await place.put(sample.resource, ("remove", "/spec/template/spec/initContainers"))
    assert lost(sample, without, record) == ()


async def test_what_another_applies_with_our_value_is_shared(place: Place) -> None:
    sample = BY_KIND["Deployment"]
    record = record_of(sample, await place.create(sample))
    assert lost(sample, await place.apply(sample.resource, spec={"replicas": 2}), record) == ()


async def test_several_losses_are_all_told(place: Place) -> None:
    sample = BY_KIND["Deployment"]
    record = record_of(sample, await place.create(sample))
    changed = await place.patch(
        sample.resource, ("replace", "/spec/replicas", 5), ("replace", "/metadata/labels/team", "blue")
    )
    assert set(lost(sample, changed, record)) == {"spec.replicas", "metadata.labels.team"}


async def test_status_and_scaling_are_told_apart(place: Place) -> None:
    sample = BY_KIND["Deployment"]
    record = record_of(sample, await place.create(sample))
    # More than its controller ever counts: what it writes at the same time stays valid.
    status = await place.patch(sample.resource, ("add", "/status/replicas", 20), part="status")
    assert lost(sample, status, record) == ()
    assert manager_of(entries(status), "spec.replicas") == ""
    await place.patch(sample.resource, ("replace", "/spec/replicas", 9), part="scale")
    scaled = await place.client.get(sample.resource, "sample", place.namespace)
    assert lost(sample, scaled, record) == ("spec.replicas",)
    assert manager_of(entries(scaled), "spec.replicas") == "somebody"


async def test_a_change_back_to_our_value_is_still_theirs(place: Place) -> None:
    """The server says who wrote last, not what: an apply makes it ours again."""
    sample = BY_KIND["Deployment"]
    record = record_of(sample, await place.create(sample))
    await place.patch(sample.resource, ("replace", "/spec/replicas", 5))
    assert lost(sample, await place.patch(sample.resource, ("replace", "/spec/replicas", 2)), record) == (
        "spec.replicas",
    )
    again = await place.client.patch(
        sample.resource, "sample", place.namespace, sample.object(), PatchKind.APPLY, force=True
    )
    assert lost(sample, again, record) == ()


async def test_who_removed_a_field_is_the_last_to_have_written(place: Place) -> None:
    sample = BY_KIND["Deployment"]
    record = record_of(sample, await place.create(sample))
    changed = await place.patch(
        sample.resource, ("remove", "/spec/template/spec/nodeSelector"), ("add", "/metadata/labels/extra", "1")
    )
    (path,) = lost(sample, changed, record)
    assert manager_of(entries(changed), path) == "somebody"


async def test_an_object_whose_managers_were_wiped_is_lost_whole(place: Place) -> None:
    sample = BY_KIND["Service"]
    await place.create(sample)
    wiped = await place.patch(sample.resource, ("replace", "/metadata/managedFields", [{}]))
    wiped["metadata"].setdefault("managedFields", [])
    assert lost(sample, wiped) == ("spec", "metadata")


async def test_a_field_that_the_server_does_not_keep_is_lost_at_once(place: Place) -> None:
    sample = Sample(BY_KIND["Widget"].resource, {"spec": {"size": 1, "unknown": {"a": 1}}})
    assert lost(sample, await place.create(sample)) == ("spec.unknown.a",)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.resource.kind)
async def test_after_the_rename_an_apply_takes_away_what_it_no_longer_has(place: Place, sample: Sample) -> None:
    created = await place.create(sample)
    renamed = await place.rename(sample.resource)
    assert [entry.operation for entry in entries(renamed) if entry.manager == "syncline"] == ["Apply"]
    assert to_apply_patch(managed(renamed), "", "") is None
    assert renamed["metadata"].get("generation") == created["metadata"].get("generation")

    less = sample.object()
    del less["metadata"]["annotations"]
    if sample.resource.kind == "Deployment":
        del less["spec"]["template"]["spec"]["containers"][0]["resources"]
    applied = await place.client.patch(sample.resource, "sample", place.namespace, less, PatchKind.APPLY, force=True)
    assert "example.com/note" not in applied["metadata"].get("annotations", {})
    ours = owned_fields(entries(applied), sample.resource.group)
    assert lost_paths(less, ours, unkept(less, ours)) == ()
    if sample.resource.kind == "Deployment":
        assert applied["spec"]["template"]["spec"]["containers"][0]["resources"] == {}
    else:
        assert applied["metadata"].get("generation") == created["metadata"].get("generation")
        assert applied.get("spec") == created.get("spec")


async def test_without_the_rename_it_would_stay_behind(place: Place) -> None:
    sample = BY_KIND["Widget"]
    await place.create(sample)
    less = sample.object()
    del less["metadata"]["annotations"]
    applied = await place.client.patch(sample.resource, "sample", place.namespace, less, PatchKind.APPLY, force=True)
    assert "annotations" in applied["metadata"]
    # Now there are two entries of ours: they become one.
    renamed = await place.rename(sample.resource)
    assert [(entry.manager, entry.operation) for entry in entries(renamed)] == [("syncline", "Apply")]
    again = await place.client.patch(sample.resource, "sample", place.namespace, less, PatchKind.APPLY, force=True)
    assert "annotations" not in again["metadata"]


async def test_the_rename_hits_only_the_object_that_was_seen(place: Place) -> None:
    sample = BY_KIND["Service"]
    created = await place.create(sample)
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    await place.patch(sample.resource, ("add", "/metadata/labels/extra", "1"))
    for wrong in ((uid, version), ("another", version)):
        patch = to_apply_patch(managed(created), *wrong)
        assert patch is not None
        with pytest.raises(Exception, match=r"409|422"):
            await place.client.patch(sample.resource, "sample", place.namespace, patch, PatchKind.JSON)


async def test_the_maps_that_are_owned_whole_are_those_of_the_server(sandbox: Sandbox) -> None:
    schema = await asyncio.to_thread(sandbox.request, "GET", "/openapi/v2")
    kinds = schema["definitions"]
    whole = set()
    for kind in kinds.values():
        for name, field in kind.get("properties", {}).items():
            target = kinds[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
            if "atomic" in (field.get("x-kubernetes-map-type"), target.get("x-kubernetes-map-type")):
                whole.add(name)
    assert whole - {"reference"} <= WHOLE_MAPS, "and a name too few would cost one needless write an object"
    served = await asyncio.to_thread(sandbox.request, "GET", "/apis")
    assert {group["name"] for group in served["groups"]} | {""} >= BUILT_IN_GROUPS
