"""Something true is stored as the status whatever the API server refuses, and what must not be lost is in it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given, settings
from tests.api.hostile import hostile
from tests.api.trial import stored as stored_object
from tests.kube.scripted import ScriptedServer, refuses, says, scripted_server
from tests.sampling import quick

from syncline.api.common import GROUP, VERSION, Condition, ObjectMeta, TargetStatus
from syncline.api.kinds import KINDS, MANIFEST_SYNC, SYNC_TARGET, Kind
from syncline.api.manifestsync import ManifestSyncSpec, ManifestSyncStatus
from syncline.api.synctarget import SyncTargetStatus
from syncline.core.author_policies import AUTHOR_UNCHECKED
from syncline.engine.statuses import store
from syncline.engine.sync_object import RawSync, SyncObjectWriter, read_sync
from syncline.kube import Client, load_kubeconfig
from syncline.kube.errors import Conflict, ServerError
from syncline.kube.resources import Resource
from syncline.sandbox import Sandbox

NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T04:00:00Z"
SYNCS = Resource(GROUP, VERSION, MANIFEST_SYNC.plural, MANIFEST_SYNC.kind)
TARGETS = Resource(GROUP, VERSION, SYNC_TARGET.plural, SYNC_TARGET.kind)
META = ObjectMeta(name="sync", namespace="team", uid="u-1", resource_version="7", generation=3)
DENIED = refuses(403, "Forbidden", "denied by a policy")


def ready(reason: str, *, status: Any = "True", message: str = "") -> Condition:
    return Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=NOW)


STATUS = ManifestSyncStatus(
    conditions=[ready("Synced")],
    target_statuses=[TargetStatus(type="InCluster", namespace="a", name="b", status="Synced")],
    written=["ConfigMap"],
    scope="s",
)


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as server:
        yield server


def sent(server: ScriptedServer, at: int) -> dict[str, Any]:
    """Return the status that a request carried."""
    value: dict[str, Any] = msgspec.json.decode(server.requests[at].body)[-1]["value"]
    return value


async def test_the_essential_is_stored_where_the_status_is_refused(scripted: ScriptedServer) -> None:
    scripted.answer(DENIED, says({"metadata": {"name": "sync", "resourceVersion": "8"}}))
    async with Client(scripted.connection) as client:
        stored = await store(SyncObjectWriter(client, SYNCS), META, ManifestSyncStatus(), STATUS, LATER)
    assert "targetStatuses" in sent(scripted, 0)
    told = sent(scripted, 1)
    assert set(told) == {"observedGeneration", "conditions", "written", "scope"}
    (condition,) = told["conditions"]
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == ("False", "StatusRefused", 3)
    assert "denied by a policy" in condition["message"]
    assert stored.wire is not None
    assert stored.refusal is not None
    assert stored.status == msgspec.convert(told, ManifestSyncStatus)


async def test_whoever_makes_the_status_too_large_is_not_taken_for_checked(scripted: ScriptedServer) -> None:
    scripted.answer(refuses(413, "RequestEntityTooLarge", "limit is 3145728"), says({}))
    status = ManifestSyncStatus(conditions=[ready(AUTHOR_UNCHECKED, status="False", message="write the spec again")])
    async with Client(scripted.connection) as client:
        await store(SyncObjectWriter(client, SYNCS), META, ManifestSyncStatus(), status, NOW)
    (condition,) = sent(scripted, 1)["conditions"]
    assert (condition["reason"], condition["message"]) == (AUTHOR_UNCHECKED, "write the spec again")


async def test_the_same_refusal_once_more_writes_nothing(scripted: ScriptedServer) -> None:
    scripted.answer(DENIED, says({}))
    async with Client(scripted.connection) as client:
        first = await store(SyncObjectWriter(client, SYNCS), META, ManifestSyncStatus(), STATUS, NOW)
        scripted.answer(DENIED)
        again = await store(SyncObjectWriter(client, SYNCS), META, first.status, STATUS, LATER)
    assert again.status == first.status
    assert len(scripted.requests) == 3


async def test_what_is_refused_altogether_is_told_to_the_caller(scripted: ScriptedServer) -> None:
    scripted.answer(DENIED)
    async with Client(scripted.connection) as client:
        stored = await store(SyncObjectWriter(client, SYNCS), META, ManifestSyncStatus(), STATUS, NOW)
    assert stored.wire is None
    assert [one.reason for one in stored.status.conditions] == ["StatusRefused"]


@pytest.mark.parametrize("failure", [refuses(500, "InternalError", "ouch"), refuses(409, "Conflict", "changed")])
async def test_what_may_pass_is_no_refusal(scripted: ScriptedServer, failure: Any) -> None:
    live = says({"metadata": {"name": "sync", "uid": "u-1", "resourceVersion": "7"}})
    scripted.answer(failure, live, failure, live, failure, live, failure, live, failure, live)
    async with Client(scripted.connection) as client:
        with pytest.raises((ServerError, Conflict)):
            await store(SyncObjectWriter(client, SYNCS), META, ManifestSyncStatus(), STATUS, NOW)


async def test_a_sync_target_is_told_alike(scripted: ScriptedServer) -> None:
    scripted.answer(refuses(413, "RequestEntityTooLarge", "limit is 3145728"), says({}))
    status = SyncTargetStatus(conditions=[ready("Reachable")], version="v1.34.1")
    async with Client(scripted.connection) as client:
        await store(SyncObjectWriter(client, TARGETS), META, SyncTargetStatus(), status, NOW)
    (condition,) = sent(scripted, 1)["conditions"]
    assert condition["reason"] == "StatusRefused"
    assert condition["message"].startswith(
        "the API server refuses the status; make the spec and the annotations smaller"
    )
    assert "version" not in sent(scripted, 1)


def test_a_status_that_an_earlier_version_wrote_otherwise_keeps_its_inventory() -> None:
    status = {
        "written": ["ConfigMap", "edge/Secret"],
        "conditions": [{"type": "Ready", "status": "Maybe", "reason": "a sentence", "lastTransitionTime": NOW}],
    }
    wire = RawSync(status=msgspec.Raw(msgspec.json.encode(status)))
    read = read_sync(SYNCS.kind, ManifestSyncSpec, ManifestSyncStatus, wire).status
    assert read.written == ["ConfigMap", "edge/Secret"]
    assert [(one.status, one.reason) for one in read.conditions] == [("Unknown", "ASentence")]


@pytest.mark.usefixtures("arena_kubeconfig")
async def test_an_object_that_has_no_room_for_its_status_has_room_for_the_essential(arena: Sandbox) -> None:
    patch = {"patchContent": "a" * 262144}
    clusters = [
        {
            "clusterName": f"c{number}",
            "connection": {"type": "SyncTarget", "syncTargetRef": {"name": "edge"}},
            "patch": patch,
        }
        for number in range(5)
    ]
    body = {
        "metadata": {"name": f"large-{uuid4().hex[:6]}", "namespace": "default"},
        "apiVersion": SYNCS.api_version,
        "kind": SYNCS.kind,
        "spec": {
            "sourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "x"},
            "targets": {"remoteClusters": clusters},
        },
    }
    status = ManifestSyncStatus(
        conditions=[ready("Forbidden", status="False", message="m" * 4000)],
        target_statuses=[
            TargetStatus(type="InCluster", namespace="a", name=f"t{n}", status="Failed", message="<" * 1024)
            for n in range(100)
        ],
        written=["ConfigMap", "c0/Secret"],
    )
    async with Client(load_kubeconfig(Path(arena.kubeconfig))) as client:
        made = msgspec.convert(arena.request("POST", SYNCS.path("default"), body)["metadata"], ObjectMeta)
        try:
            stored = await store(SyncObjectWriter(client, SYNCS), made, ManifestSyncStatus(), status, NOW)
            wire = await client.get(SYNCS, made.name, "default", type=RawSync)
        finally:
            await client.delete(SYNCS, made.name, "default")
    assert stored.refusal is not None
    read = read_sync(SYNCS.kind, ManifestSyncSpec, ManifestSyncStatus, wire)
    assert read.status.written == status.written
    (condition,) = read.status.conditions
    assert condition.reason == "StatusRefused"
    assert "smaller" in condition.message


SPECS: dict[str, Any] = {
    "ConfigMapSync": {"sourceNamespace": "a", "configMapName": "b", "destinationNamespace": "c"},
    "ManifestSync": {
        "sourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "a"},
        "targets": {"inCluster": {"namespaces": ["b"]}},
    },
    "ConfigSync": {"source": {"git": {"repo": "https://git.example.com/a.git"}}},
    "WorkspaceSync": {"downstream": {"syncTargets": ["a"]}},
    "IgnitionSync": {
        "git": {"repo": "https://git.example.com/a.git", "ref": "main"},
        "gateway": {"apiKeySecretRef": {"name": "a", "key": "b"}},
    },
    "SyncTarget": {"connection": {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "a"}}},
}


@pytest.mark.usefixtures("arena_kubeconfig")
@pytest.mark.filterwarnings("ignore:Sending a large body")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_the_api_server_takes_any_status_that_was_made_to_fit(arena: Sandbox, kind: Kind) -> None:
    resource = Resource(GROUP, VERSION, kind.plural, kind.kind)

    async def stores(name: str, status: Any) -> None:
        async with Client(load_kubeconfig(Path(arena.kubeconfig))) as client:
            wire = await client.get(resource, name, "default", type=RawSync)
            old = read_sync(kind.kind, kind.spec, kind.status, wire).status
            stored = await store(SyncObjectWriter(client, resource), wire.metadata, old, status, NOW)
        assert stored.refusal is None

    with stored_object(arena, kind, SPECS[kind.kind]) as address:

        @settings(quick, max_examples=10)
        @given(hostile(kind.status))
        def takes(status: Any) -> None:
            asyncio.run(stores(address.rpartition("/")[2], status))

        takes()


def test_of_the_labels_and_annotations_of_a_sync_no_more_is_held_than_the_operator_needs() -> None:
    """Whoever may create syncs could fill the memory of the operator with them."""
    ours = {f"syncline.dev/x{number:03}": "v" * 10_000 for number in range(100)}
    metadata = ObjectMeta(
        name="a", labels={f"l{number}": "v" for number in range(10_000)}, annotations={"note": "v" * 200_000, **ours}
    )
    read = read_sync(SYNCS.kind, ManifestSyncSpec, ManifestSyncStatus, RawSync(metadata=metadata)).metadata
    assert read.labels == {}
    assert sum(len(name) + len(value) for name, value in read.annotations.items()) < 25_000
    assert set(read.annotations) < set(ours)
