"""Requests of refs that come at the same time, to two replicas: the newer event wins, whichever is written last."""

import json
from typing import Any

import pytest
from tests.kube.scripted import ScriptedServer, refuses, says, scripted_server

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import NEWEST_EVENT, REQUESTED_REF
from syncline.api.ignition_git import IgnitionGit
from syncline.api.ignition_status import IgnitionSyncStatus
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.controllers.gateways.ref_requests import RefRequests
from syncline.controllers.kinds.ignitionsync import RESOURCE
from syncline.core.pushes import Push
from syncline.engine.sync_object import Sync
from syncline.kube.client import Client
from syncline.kube.retry import Retry
from syncline.receiver import OutdatedRequestError

SYNC = Sync(
    kind="IgnitionSync",
    metadata=ObjectMeta(name="plant", namespace="site", uid="u"),
    spec=IgnitionSyncSpec(git=IgnitionGit(repo="https://git.example.com/plant.git", ref="main")),
    status=IgnitionSyncStatus(),
)
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def release(tag: str, time: str) -> Push:
    return Push(host="GitHub", kind="Release", refs=(f"refs/tags/{tag}",), time=time)


def live(version: str, **annotations: str) -> Any:
    meta = {"name": "plant", "namespace": "site", "uid": "u", "resourceVersion": version}
    return says({"metadata": {**meta, "annotations": annotations}})


async def take(server: ScriptedServer, push: Push) -> bool:
    async with Client(server.connection, retry=Retry(tries=1)) as client:
        return await RefRequests(client, RESOURCE).take(SYNC, push)


def written(server: ScriptedServer) -> dict[str, Any]:
    meta = json.loads(server.requests[-1].body)["metadata"]
    assert (server.requests[-1].method, meta["uid"]) == ("PATCH", "u")
    return dict(meta)


async def test_a_request_is_written_for_the_version_that_was_read_with_the_time_of_its_event() -> None:
    async with scripted_server() as server:
        server.answer(live("7"), says({}))
        assert await take(server, release("v2", NEW))
        meta = written(server)
        assert meta["resourceVersion"] == "7"
        assert (meta["annotations"][REQUESTED_REF], meta["annotations"][NEWEST_EVENT]) == ("refs/tags/v2", NEW)


async def test_a_newer_event_of_another_replica_wins() -> None:
    taken = live("8", **{REQUESTED_REF: "refs/tags/v2", NEWEST_EVENT: NEW})
    async with scripted_server() as server:
        server.answer(live("7"), refuses(409, "Conflict"), taken)
        with pytest.raises(OutdatedRequestError, match="not newer"):
            await take(server, release("v1", OLD))
        assert [one.method for one in server.requests] == ["GET", "PATCH", "GET"]


async def test_the_same_event_again_is_no_error_and_writes_nothing() -> None:
    async with scripted_server() as server:
        server.answer(live("8", **{REQUESTED_REF: "refs/tags/v2", NEWEST_EVENT: NEW}))
        assert not await take(server, release("v2", NEW))
        assert [one.method for one in server.requests] == ["GET"]


async def test_an_event_that_a_person_has_ended_is_not_taken_again() -> None:
    async with scripted_server() as server:
        server.answer(live("9", **{NEWEST_EVENT: NEW}))
        with pytest.raises(OutdatedRequestError):
            await take(server, release("v2", NEW))


async def test_an_event_for_the_ref_of_the_spec_is_recorded_and_requests_nothing() -> None:
    async with scripted_server() as server:
        server.answer(live("7"), says({}))
        assert not await take(server, Push(host="Generic", refs=("main",), time=NEW))
        assert written(server)["annotations"] == {NEWEST_EVENT: NEW}


async def test_an_event_of_the_far_future_does_not_shut_out_all_later_ones() -> None:
    async with scripted_server() as server:
        server.answer(live("7"), says({}))
        assert await take(server, release("v2", "9999-01-01T00:00:00Z"))
        assert NEWEST_EVENT not in written(server)["annotations"]
