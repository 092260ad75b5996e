"""Whatever the order of reads, writes, watch events and lists: every sync that cares has seen every change.

The real cache, view and triggers, without a server: a history of objects stands in for it. Whoever has not acted on the
newest state that the cache holds must be in the queue; otherwise that state was swallowed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.api.common import ObjectMeta
from syncline.controllers.triggers import Triggers
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Target
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.kind_informer import KindInformer
from syncline.engine.watch_index import WatchSet
from syncline.kube.cache import CacheEntry, Key
from syncline.kube.client import Client
from syncline.kube.config import Connection
from syncline.kube.queue import Queue

OBJECTS = [Key("home", name) for name in ("one", "two")]
SYNCS = [Key("team", name) for name in ("a", "b", "c")]
KIND = "ConfigMapSync"


class Play:
    """A server's history of objects, a watch that lags behind it, and syncs that read and write."""

    def __init__(self, informer: KindInformer, queue: Queue[Key]) -> None:
        self.informer = informer
        self.queue = queue
        self.version = 0
        self.live: dict[Key, tuple[str, int]] = {}
        self.lines: list[bytes] = []
        self.looked: dict[tuple[Key, Key], tuple[int, int]] = {}
        """By sync and object: the server's version when the sync last looked, and the object's then, or 0 for none."""
        self.ended: dict[Key, int] = dict.fromkeys(OBJECTS, 0)
        """By object: the version at which the cache knows that there is none."""

    def write(self, key: Key, *, delete: bool = False) -> None:
        """Change an object on the server; the watch will tell."""
        self.version += 1
        uid, _ = self.live.get(key, (f"uid-{self.version}", 0))
        if delete:
            if self.live.pop(key, None) is not None:
                self._tell("DELETED", key, uid)
            return
        self._tell("MODIFIED" if key in self.live else "ADDED", key, uid)
        self.live[key] = uid, self.version

    def watch(self, count: int) -> None:
        """Let the watch tell of the next changes."""
        for line in self.lines[:count]:
            reading = self.informer.unmanaged._reader.line(line)
            if reading.kind == "DELETED":
                key = Key(reading.metadata.namespace, reading.metadata.name)
                self.ended[key] = int(reading.metadata.resource_version)
            self.informer.unmanaged._follow(reading)
        del self.lines[:count]

    def read(self, sync: Key, key: Key) -> None:
        """Let a sync read an object, and act on what it sees."""
        found = self.live.get(key)
        self.looked[sync, key] = self.version, found[1] if found else 0
        if found:
            self.informer.observe_unmanaged(_meta(key, *found), f"{KIND}/team/{sync.name}")

    def update(self, sync: Key, key: Key) -> None:
        """Let a sync write an object, as a two-way sync writes its source."""
        if key in self.live:
            self.write(key)
            self.read(sync, key)

    def reconcile(self) -> None:
        """Serve one sync that is in the queue."""
        waiting = sorted(self.queue._waiting)
        if waiting:
            del self.queue._waiting[waiting[0]]
            for key in OBJECTS:
                self.read(waiting[0], key)

    async def relist(self, meanwhile: Callable[[], None]) -> None:
        """List all anew; things happen between the moment that the list shows and its arrival."""
        listed = {key: CacheEntry(uid, str(version), str(version)) for key, (uid, version) in self.live.items()}
        version = str(self.version)
        self.lines.clear()  # the watch goes on from the version of the list

        async def list_all() -> tuple[dict[Key, CacheEntry[str]], str]:
            meanwhile()
            return listed, version

        reflector: Any = self.informer.unmanaged
        reflector._lister._list_streamed = list_all
        await reflector._list()
        self.ended |= {key: int(version) for key in OBJECTS if key not in listed}

    def assert_nothing_swallowed(self) -> None:
        for key in OBJECTS:
            held = self.informer.unmanaged.get(key)
            state = int(held) if held is not None else 0
            for sync in SYNCS:
                when, seen = self.looked[sync, key]
                behind = state != seen and (state or self.ended[key]) > when
                assert sync in self.queue._waiting or not behind, f"{sync.name} was not told of {key.name} at {state}"

    def _tell(self, kind: str, key: Key, uid: str) -> None:
        meta = _meta(key, uid, self.version)
        self.lines.append(msgspec.json.encode({"type": kind, "object": {"metadata": meta}}))


def _meta(key: Key, uid: str, version: int) -> ObjectMeta:
    return ObjectMeta(namespace=key.namespace, name=key.name, uid=uid, resource_version=str(version))


async def play(steps: list[tuple[str, int, int]]) -> None:
    async with Client(Connection(name="nowhere", server="https://127.0.0.1:1")) as client:
        hub, queue = Cluster(client), Queue[Key]("test")
        triggers = Triggers(KIND, queue, hub, Claims(client, {}))
        for sync in SYNCS:
            objects = frozenset(Target(key.namespace, key.name, "ConfigMap") for key in OBJECTS)
            triggers.set_watches(sync, WatchSet(objects=objects), None)
        scene = Play(await hub.open_kind(GroupKind("", "ConfigMap")), queue)
        for sync in SYNCS:
            for key in OBJECTS:
                scene.read(sync, key)
        for what, which, who in steps:
            await _step(scene, what, OBJECTS[which % 2], SYNCS[who % 3])
            scene.assert_nothing_swallowed()
        scene.watch(len(scene.lines))
        scene.assert_nothing_swallowed()
        for _ in SYNCS:
            scene.reconcile()
        queue.close()


async def _step(scene: Play, what: str, key: Key, sync: Key) -> None:
    steps: dict[str, Callable[[], Awaitable[None] | None]] = {
        "edit": lambda: scene.write(key),
        "delete": lambda: scene.write(key, delete=True),
        "read": lambda: scene.read(sync, key),
        "update": lambda: scene.update(sync, key),
        "watch": lambda: scene.watch(1),
        "reconcile": scene.reconcile,
        "list": lambda: scene.relist(lambda: None),
        "edit during list": lambda: scene.relist(lambda: scene.write(key)),
        "read during list": lambda: scene.relist(lambda: (scene.write(key), scene.read(sync, key))[1]),
        "update during list": lambda: scene.relist(lambda: scene.update(sync, key)),
    }
    done = steps[what]()
    if done is not None:
        await done


STEPS = st.sampled_from(
    [
        *("edit", "edit", "delete", "read", "read", "update", "watch", "watch", "reconcile"),
        *("list", "edit during list", "read during list", "update during list"),
    ]
)


@settings(deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 1), st.integers(0, 2)), max_size=40))
def test_every_sync_that_cares_has_seen_every_change(steps: list[tuple[str, int, int]]) -> None:
    asyncio.run(play(steps))


async def test_a_change_that_one_sync_reads_is_told_to_the_others_at_once() -> None:
    await play([("edit", 0, 0), ("watch", 0, 0), ("edit", 0, 0), ("read", 0, 0), ("watch", 0, 0)])
