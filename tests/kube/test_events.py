from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.kube.scripted import ScriptedServer, refuses

from syncline.kube import CONFIGMAPS, EVENTS, Client, EventRecorder, ObjectReference, events


def about(namespace: str, uid: str = "u-1") -> ObjectReference:
    return ObjectReference(api_version="v1", kind="ConfigMap", name="settings", namespace=namespace, uid=uid)


def dropped(reason: str) -> float:
    return REGISTRY.get_sample_value("syncline_events_dropped_total", {"reason": reason}) or 0.0


async def sent(client: Client, namespace: str) -> list[dict[str, Any]]:
    items, _ = await client.list(EVENTS, namespace)
    return sorted(items, key=lambda item: str(item["eventTime"]))


async def test_an_event_is_there_for_people_to_read(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, {"metadata": {"name": "settings"}}, namespace)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "settings",
        "namespace": namespace,
        "uid": made["metadata"]["uid"],
    }
    recorder = EventRecorder(client, "syncline", "pod-1")
    await recorder.emit(reference, "Warning", "TargetFailed", "team-b: not allowed", "Sync")
    (event,) = await sent(client, namespace)
    assert event["regarding"] == reference
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "TargetFailed", "team-b: not allowed")
    assert (event["reportingController"], event["reportingInstance"]) == ("syncline", "pod-1")
    assert event["action"] == "Sync"
    items, _ = await client.list(EVENTS, namespace, fields=f"regarding.uid={made['metadata']['uid']}")
    assert len(items) == 1


async def test_nothing_is_said_twice_within_ten_minutes(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, before = EventRecorder(client, "syncline", "pod-1"), dropped("repeated")
    for note in ("one", "one", "two", "one"):
        await recorder.emit(about(namespace), "Normal", "Synced", note, "Sync")
    await recorder.emit(about(namespace, uid="u-2"), "Normal", "Synced", "one", "Sync")
    assert [event["note"] for event in await sent(client, namespace)] == ["one", "two", "one"]
    assert dropped("repeated") == before + 2
    monkeypatch.setattr(events, "REPEAT_AFTER", 0.0)
    await recorder.emit(about(namespace), "Normal", "Synced", "one", "Sync")
    assert len(await sent(client, namespace)) == 4


async def test_one_object_cannot_flood_the_namespace(client: Client, namespace: str) -> None:
    recorder, before = EventRecorder(client, "syncline", "pod-1"), dropped("flood")
    for number in range(40):
        await recorder.emit(about(namespace), "Normal", "Synced", f"revision {number}", "Sync")
    await recorder.emit(about(namespace, uid="u-2"), "Normal", "Synced", "another may speak", "Sync")
    notes = [event["note"] for event in await sent(client, namespace)]
    assert notes == [*(f"revision {number}" for number in range(25)), "another may speak"]
    assert dropped("flood") == before + 15


async def test_a_long_note_is_cut_between_characters(client: Client, namespace: str) -> None:
    recorder = EventRecorder(client, "syncline", "pod-1")
    await recorder.emit(about(namespace), "Normal", "Synced", "ä" * 2000 + "; delete it", "Sync")
    (event,) = await sent(client, namespace)
    assert len(event["note"].encode()) <= 1024
    assert "ä...ä" in event["note"]
    assert event["note"].endswith("ä; delete it")


async def test_a_failure_is_not_the_callers_problem_and_may_be_repeated(scripted: ScriptedServer) -> None:
    scripted.answer(refuses(403, "Forbidden"))
    async with Client(scripted.connection) as client:
        recorder, before = EventRecorder(client, "syncline", "pod-1"), dropped("failed")
        for _ in range(2):
            await recorder.emit(about("team"), "Normal", "Synced", "one", "Sync")
    assert len(scripted.requests) == 2
    assert dropped("failed") == before + 2


async def test_an_event_about_an_object_without_a_namespace_goes_to_the_default_one(scripted: ScriptedServer) -> None:
    scripted.answer(refuses(403, "Forbidden"))
    async with Client(scripted.connection) as client:
        recorder = EventRecorder(client, "syncline", "pod-1")
        node = {"apiVersion": "v1", "kind": "Namespace", "name": "team"}
        await recorder.emit(node, "Normal", "Seen", "hello", "Watch")
    assert scripted.requests[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"
