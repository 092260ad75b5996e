"""A copy that was changed wakes its sync; one that is the same to any plan does not."""

from typing import Any

import pytest
from msgspec import structs

from syncline.controllers.triggers import Triggers
from syncline.core.health import Health
from syncline.core.objects import Marker, Observed, Target
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.watch_index import WatchSet
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.queue import Queue

KEY = Key("team", "sync")
COPY = Observed(
    target=Target("team", "web", "Deployment.apps"),
    uid="1",
    version="10",
    digest="d",
    owner="o",
    marker=Marker(sync="ConfigSync/team/sync", object_id="here"),
    fields=b"f:spec",
    changed_by="syncline",
)


DEFINITION = structs.replace(COPY, target=Target("", "w.example.com", "CustomResourceDefinition.apiextensions.k8s.io"))


async def enqueues(new: Observed | None, old: Observed = COPY, watches: WatchSet | None = None) -> bool:
    """Return whether a sync is woken when its copy becomes this."""
    async with Client(Connection(name="nowhere", server="https://127.0.0.1:1")) as client:
        hub, queue = Cluster(client), Queue[Key]("test")
        listening = Triggers("ConfigSync", queue, hub, Claims(client, {}))
        listening.set_watches(KEY, watches or WatchSet(), None)
        hub._managed_changed(old, new, "")
        try:
            return queue.depth() > 0
        finally:
            queue.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "e"},
        {"fields": b"f:other"},
        {"labels": {"a": "b"}},
        {"deleting": True},
        {"uid": "2"},
        {"status": b"{}"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_change_that_a_plan_may_look_at_wakes(changes: dict[str, Any]) -> None:
    assert await enqueues(structs.replace(COPY, version="11", **changes))


async def test_health_wakes_a_sync_that_waits_for_it_and_no_other() -> None:
    changed = structs.replace(COPY, version="11", health=Health("InProgress"))
    assert await enqueues(changed, watches=WatchSet(health=True))
    assert not await enqueues(changed)


async def test_every_sync_waits_for_the_definition_of_a_kind() -> None:
    assert await enqueues(structs.replace(DEFINITION, version="11", health=Health("InProgress")), DEFINITION)


async def test_a_copy_that_is_gone_wakes() -> None:
    assert await enqueues(None)


async def test_what_a_controller_notes_in_a_status_wakes_nobody() -> None:
    assert not await enqueues(structs.replace(COPY, version="11", changed_by="kube-controller-manager"))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target("team", "web-x1", "EndpointSlice.discovery.k8s.io"), True),
        (Target("other", "web-x1", "EndpointSlice.discovery.k8s.io"), False),
        (Target("team", "web", "Pod"), False),
    ],
    ids=["its endpoints", "of another namespace", "of another kind"],
)
async def test_what_others_make_of_a_copy_wakes_the_sync_that_follows_it(target: Target, expected: bool) -> None:
    async with Client(Connection(name="nowhere", server="https://127.0.0.1:1")) as client:
        hub, queue = Cluster(client), Queue[Key]("test")
        listening = Triggers("WorkspaceSync", queue, hub, Claims(client, {}))
        listening.follow(KEY, {("", "EndpointSlice.discovery.k8s.io", "team")})
        hub._unmanaged_changed(target.kind, Key(target.namespace, target.name), "WorkspaceSync/team/sync")
        assert KEY not in queue._waiting  # what it has read itself is no news
        hub._unmanaged_changed(target.kind, Key(target.namespace, target.name), "")
        assert (KEY in queue._waiting) is expected
        listening.drop_watches(KEY)
        assert (listening._follows, listening._followers) == ({}, {})
        queue.close()
