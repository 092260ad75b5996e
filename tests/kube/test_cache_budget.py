"""Clusters that tenants name can list any number of objects: what is remembered of them is limited, and told."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec import Struct, field
from tests.kube.conftest import Until
from tests.kube.scripted import ScriptedServer, Step, bookmark, config_map, event, listing, streams

from syncline.api.common import ObjectMeta
from syncline.kube import CONFIGMAPS, Client, Key, Reflector, Retry, Timing
from syncline.kube.cache import Cache, CacheEntry
from syncline.kube.cache_budget import CacheBudget, texts_size
from syncline.kube.errors import CacheFull
from syncline.kube.reflector import entry_size

QUICK = Timing(watch_min=1, watch_max=1, grace=1, settled=0.1, full=0.05, backoff_min=0.01, backoff_max=0.05)
HELD = streams(end="hold")
ENTRY = 700
"""More than a small entry takes, less than two."""


class Meta(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class LimitedCache:
    """A reflector with room for some entries, in a scripted world."""

    def __init__(self, client: Client, server: ScriptedServer, entries: int) -> None:
        self.budget = CacheBudget(4 * entries * ENTRY)
        self.server = server
        self.told: list[tuple[str, bool]] = []
        self.reflector: Reflector[Meta, str] = Reflector(
            client,
            CONFIGMAPS,
            decode=Meta,
            project=lambda wire: wire.metadata.resource_version,
            on_change=lambda key, _old, new, _by: self.told.append((key.name, new is not None)),
            timing=QUICK,
            share=self.budget.cluster("team"),
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> set[str]:
        return {key.name for key, _ in self.reflector.items()}

    @property
    def full(self) -> bool:
        return self.reflector.status().full

    def run(self, *steps: Step) -> None:
        self.server.answer(*steps)
        self._task = asyncio.create_task(self.reflector.run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def limited(scripted: ScriptedServer) -> AsyncIterator[Callable[[int], LimitedCache]]:
    made: list[LimitedCache] = []
    async with Client(scripted.connection, retry=Retry(tries=1)) as client:

        def make(entries: int) -> LimitedCache:
            made.append(LimitedCache(client, scripted, entries))
            return made[-1]

        yield make
        for one in made:
            await one.stop()


def initial(count: int) -> Step:
    """Answer a streamed list of so many objects, and end."""
    lines: list[Any] = [event("ADDED", f"n{number}", 5) for number in range(count)]
    return streams(*lines, bookmark(10, ends_list=True), end="hold")


Limited = Callable[[int], LimitedCache]


async def test_a_list_without_end_is_left_and_counts_for_nothing(limited: Limited, until: Until) -> None:
    cache = limited(10)
    cache.run(initial(1000))
    await until(lambda: cache.full)
    assert not cache.reflector.synced.is_set()
    assert cache.held == set()
    assert cache.told == []
    assert "take more than" in cache.reflector.status().failure
    assert cache.budget.used == 0


async def test_a_cluster_that_fits_again_is_followed_again(limited: Limited, until: Until) -> None:
    cache = limited(10)
    cache.run(initial(1000), initial(3), HELD)
    await until(lambda: cache.reflector.synced.is_set() and not cache.full)
    assert cache.held == {"n0", "n1", "n2"}


async def test_what_a_watch_adds_beyond_the_limit_is_told(limited: Limited, until: Until) -> None:
    cache = limited(10)
    many = streams(*(event("ADDED", f"late{number}", 11 + number) for number in range(1000)), end="hold")
    cache.run(initial(3), many, initial(1000))
    await until(lambda: cache.full)
    assert len(cache.held) < 20
    assert {"n0", "n1", "n2"} <= cache.held
    assert {name for name, there in cache.told if there} == cache.held, "everything that is cached was told"


async def test_a_list_of_what_is_known_already_takes_no_second_room(limited: Limited, until: Until) -> None:
    cache = limited(10)
    gone = streams({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    cache.run(initial(9), gone, initial(9), HELD)
    await until(lambda: len(cache.server.requests) >= 4)
    assert not cache.full
    assert len(cache.held) == 9


async def test_what_a_sync_reads_itself_is_limited_too(limited: Limited, until: Until) -> None:
    cache = limited(10)
    cache.run(initial(3), HELD)
    await until(cache.reflector.synced.is_set)
    for number in range(1000):
        made = config_map(f"read{number}", 20)["metadata"]
        meta = ObjectMeta(name=made["name"], namespace="team", uid=made["uid"], resource_version="20")
        cache.reflector.observe(Meta(meta), "sync")
    assert cache.full
    assert len(cache.held) < 20


async def test_pages_are_left_as_a_stream_is(limited: Limited, until: Until, scripted: ScriptedServer) -> None:
    cache = limited(10)
    cache.reflector._lister.streams = False
    cache.run(listing(10, *(config_map(f"n{number}", 5) for number in range(100)), more="next"))
    await until(lambda: cache.full)
    assert cache.held == set()
    assert all("continue" not in request.query for request in scripted.requests)


async def test_a_name_that_no_object_has_is_not_remembered(limited: Limited, until: Until) -> None:
    """The ends of objects are remembered too: a server could send any number of long names."""
    cache = limited(10)
    cache.run(initial(1), streams(event("DELETED", "x" * 10_000, 11), end="hold"), HELD)
    await until(lambda: "too long" in cache.reflector.status().failure)
    assert cache.held == {"n0"}


async def test_what_is_released_takes_no_room(limited: Limited, until: Until) -> None:
    cache = limited(10)
    cache.run(initial(3), HELD)
    await until(cache.reflector.synced.is_set)
    assert cache.budget.used > 0
    await cache.stop()
    cache.reflector.release()
    assert cache.budget.used == 0
    assert cache.budget.used_by("team") == 0


def test_one_cluster_and_one_namespace_leave_room_to_the_others() -> None:
    budget = CacheBudget(400)
    one, two, other = budget.cluster("mallory"), budget.cluster("mallory"), budget.cluster("fleet")
    first, second, third, fourth = (share.account() for share in (one, two, budget.cluster("mallory"), other))
    first.set(101)
    with pytest.raises(CacheFull, match="this cluster"):
        first.check()
    second.set(100)
    with pytest.raises(CacheFull, match="namespace mallory"):
        third.check()
    fourth.set(99)
    fourth.check()
    first.set(100)
    third.check()


def test_entries_take_no_more_memory_than_is_counted() -> None:
    cache: Cache[str] = Cache(entry_size)
    tracemalloc.start()
    try:
        for number in range(20_000):
            # As a decoder makes them: texts of their own.
            key = Key(f"namespace-{number:08}", f"name-{number:08}")
            cache.observe(key, f"2f8a7f5e-0000-4000-8000-{number:012}", f"{number + 10_000_000}", f"{number}")
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < cache.size
    assert entry_size(Key("", "n"), CacheEntry("", "", "")) < ENTRY
    assert texts_size({"label": "x" * 1000}) > 1000
