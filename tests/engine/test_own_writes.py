"""Whatever the order of writes, their answers, watch events and lists: every sync has seen every change of a copy.

The real index of managed objects, without a server: a history of one object stands in for it. While a write of ours is
under way its events are held back; once none is, whoever has not seen the newest cached state must have been told.
"""

import asyncio
from contextlib import ExitStack
from typing import Any, cast

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.core.objects import Observed, Target
from syncline.core.ownership import OWNER_LABEL
from syncline.core.wire import DataWire, to_observed
from syncline.engine.managed_index import ManagedIndex
from syncline.kube.cache import CacheEntry, Key
from syncline.kube.client import Client
from syncline.kube.resources import CONFIGMAPS

PLACE = Target("team", "settings")
KEY = Key(PLACE.namespace, PLACE.name)
SYNCS = ("a", "b")
GONE = 0


class OwnWrite:
    """A write of a sync that is under way: not sent yet, or carried out and not answered yet."""

    def __init__(self, copies: ManagedIndex) -> None:
        self.held = ExitStack()
        self.held.enter_context(copies.suppress_events(PLACE))
        self.answer: bytes | None = None
        """The object as the server answers; None before it was sent."""
        self.deleted: Observed | None = None


class Play:
    """A server's history of one object, a watch that lags behind it, and two syncs that write."""

    def __init__(self) -> None:
        self.copies = ManagedIndex(cast("Client", None), CONFIGMAPS, DataWire, to_observed, self._told)
        self.version = 0
        self.uid = ""
        self.present = 0
        """The version of the object; 0 where there is none."""
        self.lines: list[bytes] = []
        self.looked: dict[str, int] = dict.fromkeys(SYNCS, GONE)
        self.waiting: set[str] = set()
        self.writes: dict[str, OwnWrite] = {}

    def edit(self, _: str) -> None:
        """Somebody else writes the object, or creates it."""
        self._change(delete=False)

    def delete(self, _: str) -> None:
        """Somebody else deletes the object."""
        if self.present:
            self._change(delete=True)

    def begin(self, sync: str) -> None:
        """Let a sync begin a write."""
        if sync not in self.writes:
            self.writes[sync] = OwnWrite(self.copies)

    def send(self, sync: str) -> None:
        """Let the server carry out a write."""
        write = self.writes.get(sync)
        if write is not None and write.answer is None and write.deleted is None:
            write.answer = self._change(delete=False)

    def remove(self, sync: str) -> None:
        """Let the server carry out a delete of the very state that is cached."""
        write, observed = self.writes.get(sync), self.copies.at(PLACE)
        if write is None or write.answer is not None or write.deleted is not None or observed is None:
            return
        if int(observed.version) == self.present:  # otherwise it is refused
            self._change(delete=True)
            write.deleted = observed

    def answer(self, sync: str) -> None:
        """Let the answer arrive; the sync has seen what it says."""
        write = self.writes.pop(sync, None)
        if write is None:
            return
        if write.answer is not None:
            wire = msgspec.json.decode(write.answer, type=DataWire)
            self.copies.observe(wire, sync)
            self.looked[sync] = int(wire.metadata.resource_version)
        elif write.deleted is not None:
            self.copies.observe_gone(write.deleted, sync)
            self.looked[sync] = GONE
        write.held.close()

    def lose(self, sync: str) -> None:
        """Let the answer be lost."""
        write = self.writes.pop(sync, None)
        if write is not None:
            write.held.close()

    def watch(self, _: str) -> None:
        """Let the watch tell of the next change."""
        if self.lines:
            self.copies.reflector._follow(self.copies.reflector._reader.line(self.lines.pop(0)))

    def list_all(self, _: str) -> None:
        """List anew; the watch goes on from there."""
        asyncio.run(self._list())

    def reconcile(self, sync: str) -> None:
        """Let a sync that was told look at the cache."""
        if sync in self.waiting and sync not in self.writes:
            self.waiting.discard(sync)
            self.looked[sync] = self._cached()

    def assert_nothing_swallowed(self) -> None:
        if not self.writes:
            behind = {sync for sync in SYNCS if self.looked[sync] != self._cached()}
            assert behind <= self.waiting, f"{behind - self.waiting} not told of version {self._cached()}"

    def _cached(self) -> int:
        observed = self.copies.at(PLACE)
        return int(observed.version) if observed is not None else GONE

    def _told(self, _old: Observed | None, _new: Observed | None, by: str) -> None:
        self.waiting |= set(SYNCS) - {by}

    def _change(self, *, delete: bool) -> bytes:
        self.version += 1
        if not self.present:
            self.uid = f"uid-{self.version}"
        body = _config_map(self.uid, self.version)
        kind = "DELETED" if delete else "MODIFIED" if self.present else "ADDED"
        self.lines.append(msgspec.json.encode({"type": kind, "object": body}))
        self.present = GONE if delete else self.version
        return msgspec.json.encode(body)

    async def _list(self) -> None:
        wire = msgspec.convert(_config_map(self.uid, self.present), DataWire)
        listed = {KEY: CacheEntry(self.uid, str(self.present), to_observed(wire))} if self.present else {}
        self.lines.clear()

        async def streamed() -> tuple[dict[Key, CacheEntry[Observed]], str]:
            return listed, str(self.version)

        reflector: Any = self.copies.reflector
        reflector._lister._list_streamed = streamed
        await reflector._list()


def _config_map(uid: str, version: int) -> dict[str, Any]:
    meta = {"namespace": KEY.namespace, "name": KEY.name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": {**meta, "labels": {OWNER_LABEL: "owner"}}, "data": {"version": str(version)}}


STEPS = st.sampled_from(
    [
        *("edit", "edit", "delete", "begin", "begin", "send", "send", "remove", "answer", "answer", "lose"),
        *("watch", "watch", "watch", "list_all", "reconcile"),
    ]
)


@settings(deadline=None)
@given(st.lists(st.tuples(STEPS, st.sampled_from(SYNCS)), max_size=60))
def test_every_sync_has_seen_every_change_of_a_copy(steps: list[tuple[str, str]]) -> None:
    play = Play()
    for step, sync in steps:
        getattr(play, step)(sync)
        play.assert_nothing_swallowed()
    for sync in SYNCS:
        play.answer(sync)
    while play.lines:
        play.watch("")
    play.assert_nothing_swallowed()
    assert play._cached() == play.present
