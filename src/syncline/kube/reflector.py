"""A cache of all objects of one kind, kept current by lists and watches.

The way of a change: a line of the watch is decoded once into the caller's struct, `project` reduces it to the cached
fields, the cache drops states that are not new, and `on_change` is called for the others. The answers to our own
requests go the same way (`observe`, `observe_deleted`): no change enters the cache without a call. Every failure of a
list or a watch ends in one of two ways: resume from the last good version, or list again; see `must_relist`.

`listing` reads the lists, `watch_health` keeps failures and contact, and `watch_trust` decides when a watch that
brings nothing is probed.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from syncline.kube import metrics
from syncline.kube.cache import Cache, CacheChange, CacheEntry, Key, is_older
from syncline.kube.cache_budget import ClusterShare, text_size
from syncline.kube.client import Client
from syncline.kube.errors import ApiError, CacheFull, Gone, KubeError, NothingDelivered, Unreachable
from syncline.kube.listing import Lister, key_of
from syncline.kube.resources import SECRETS, Resource
from syncline.kube.watch_health import ReflectorStatus, Timing, WatchHealth, must_relist, whole
from syncline.kube.wire import BareObject, DecodedObject, ObjectDecoder, W

__all__ = ["AnyReflector", "Key", "Reflector", "ReflectorStatus", "Timing"]

T = TypeVar("T")

# The objects of Python around the texts of an entry.
_ENTRY_BYTES = 250
# Hardly any server has kept the events since then: it says so. One that has them sends them, or a bookmark.
_OLDEST_VERSION = "1"
# A watch from here begins with all objects. Without its watch cache, the API server sends no bookmarks, and it has all
# events until etcd is compacted for the first time: it says nothing of a kind without events.
_ANY_VERSION = "0"

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Reflector(Generic[W, T]):
    """A cache of what `project` makes of each object. Start `run()`, wait for `synced`, read.

    `project` returns None for objects that are not cached. `on_change(key, old, new, by)` is called, in order, for
    every difference. `by` names the caller whose request returned the state, and is empty for a watch or a list. It
    must be fast. An exception of either is logged, and the object keeps its former state.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        decode: type[W],
        project: Callable[[W], T | None],
        on_change: Callable[[Key, T | None, T | None, str], None],
        labels: str | None = None,
        fields: str | None = None,
        namespace: str | None = None,
        metadata_only: bool = False,
        page: int = 500,
        timing: Timing | None = None,
        part: str = "all",
        share: ClusterShare | None = None,
        weigh: Callable[[T], int] = lambda _: 0,
    ) -> None:
        """`share` limits what the cache takes; `weigh` estimates the bytes of a value."""
        self.resource = resource
        self._counted = metrics.CachedCount(resource.plural, part)
        self._running = False
        self.synced = asyncio.Event()
        """Set after the first complete list."""
        self._client = client
        self._reader = ObjectDecoder(resource.plural, decode)
        self._project = project
        self._on_change = on_change
        self._selection: dict[str, Any] = {
            "namespace": namespace,
            "labels": labels,
            "fields": fields,
            "metadata_only": metadata_only,
        }
        self._timing = timing or Timing()
        self._health = WatchHealth(resource.plural, self._timing)
        self._account = share.account() if share is not None else None
        self._cache: Cache[T] = Cache(
            None if share is None else lambda key, entry: entry_size(key, entry) + weigh(entry.value)
        )
        self._listed_size = 0
        self._overflowed = False
        self._version: str | None = None
        self._former = ""
        self.gaps = 0
        """The number of lists after possibly missed events, including the first list."""
        self._doubt = False
        self._relist_at = float("-inf")
        self._log = log.bind(resource=resource.plural)
        self._lister = self._new_lister(page)

    @property
    def version(self) -> str:
        """The resourceVersion up to which all events are known; empty before the first list."""
        return self._version or ""

    @property
    def former_version(self) -> str:
        """The resourceVersion up to which all events were known before the last list; empty if there is none.

        Objects that were cached then and are missing from the list existed at this version.
        """
        return self._former

    @property
    def position(self) -> int:
        """The number of changes of the cache so far; see `changed_since`."""
        return self._cache.changes.position

    def changed_since(self, position: int) -> list[Key] | None:
        """Return the objects whose cached state has changed since a position; None if there are too many to know."""
        return self._cache.changes.since(position)

    def get(self, key: Key) -> T | None:
        """Return the cached state of an object."""
        return self._cache.get(key)

    def get_same(self, obj: W) -> T | None:
        """Return the cached state of an object; None if it has another version."""
        meta, key = obj.metadata, key_of(obj.metadata)
        return self._cache.get(key) if self._cache.holds(key, meta.uid, meta.resource_version) else None

    def items(self) -> Iterator[tuple[Key, T]]:
        """Iterate over all that is held; do not await meanwhile."""
        return self._cache.items()

    def values(self) -> Iterator[T]:
        """Iterate over all that is held; do not await meanwhile."""
        return (value for _, value in self._cache.items())

    def __len__(self) -> int:
        return len(self._cache)

    def observe(self, obj: W, by: str) -> None:
        """Add an object from the answer to a request of `by`, before the watch has it, and report the change."""
        meta, key = obj.metadata, key_of(obj.metadata)
        if self._cache.holds(key, meta.uid, meta.resource_version):  # the watch was faster than the answer
            return
        value = self._project(obj)
        if value is not None and self._cache.entry(key) is None and not self._has_room():
            self._overflowed = True
            return
        self._pass_on(self._cache.observe(key, meta.uid, meta.resource_version, value), by)
        self._charge()

    def project_again(self, obj: W) -> None:
        """Cache an object again from a read, because `project` may keep more of it now."""
        meta = obj.metadata
        value = self._project(obj)
        if value is None or not self._cache.amend(key_of(meta), meta.uid, meta.resource_version, value):
            self.observe(obj, "")

    def amend(self, key: Key, value: T) -> None:
        """Replace the cached value of an object, without a call of `on_change`."""
        held = self._cache.entry(key)
        if held is not None:
            self._cache.amend(key, held.uid, held.version, value)
            self._charge()

    def observe_deleted(self, key: Key, uid: str, by: str, version: str | None = None) -> None:
        """Note that `by` deleted this object and that the server confirmed it, and report the change.

        With a version: the object still exists, but no longer matches the selector of this reflector at that version.
        """
        self._pass_on(self._cache.vanish(key, uid, version), by)
        self._charge()

    def has_told_end(self, key: Key, uid: str) -> bool:
        """Whether a watch event reported the deletion of this object: stronger than absence from a list."""
        return self._cache.has_told_end(key, uid)

    def age(self) -> float:
        """Return the seconds since the last contact with the server."""
        return self._health.age()

    def healthy(self) -> bool:
        """Whether the cache is current."""
        return self.synced.is_set() and self._health.is_current()

    def status(self) -> ReflectorStatus:
        """Return the health."""
        return self._health.status(synced=self.synced.is_set(), objects=len(self), overflowed=self._overflowed)

    def release(self) -> None:
        """Release the cache budget, after the end of `run`."""
        if self._account is not None:
            self._account.set(0)
            self._account = None

    async def run(self) -> None:
        """List and watch until cancelled. Failures do not end it: they are logged, and retried with a growing delay."""
        self._running = True
        try:
            while True:
                await self._list_and_watch()
        finally:
            self._running = False
            self._counted.end()

    async def _list_and_watch(self) -> None:
        """List if necessary, and follow one watch to its end."""
        try:
            is_old = asyncio.get_running_loop().time() >= self._relist_at
            if self._version is None or self._overflowed or is_old:
                await self._list()
            elif self._doubt:
                await self._check_version()
            await self._watch()
        except Exception as error:  # noqa: BLE001  # a cache that stops updating is worse than any of them
            self._failed(error)
        if self._health.streak:
            await asyncio.sleep(self._health.delay())

    async def _list(self) -> None:
        spread = random.uniform(0.8, 1.0)  # noqa: S311  # not all kinds at once
        self._relist_at = asyncio.get_running_loop().time() + self._timing.relist * spread
        self._cache.begin_list()
        self._listed_size = 0
        try:
            # A streamed list is a watch.
            listed, version = await self._lister.list(streamed=self._health.trust.is_clear)
            changes = self._cache.replace(listed, version)
        finally:
            self._charge()
        self.gaps += self._version is None or self._doubt or self._overflowed or not self._health.trust.is_clear
        self._former = self._version or self._former
        self._version, self._doubt, self._overflowed = version, False, False
        self._health.trust.listed(asyncio.get_running_loop().time())
        metrics.relists.labels(self.resource.plural).inc()
        self._count()
        for change in changes:
            self._tell(change, "")
        self.synced.set()

    def _new_lister(self, page: int) -> Lister[W, T]:
        return Lister(
            self._client,
            self.resource,
            self._reader,
            self._selection,
            page=page,
            timing=self._timing,
            reduce=self._reduce,
            on_entry=self._charge_listed,
            on_answer=self._health.heard,
        )

    def _charge_listed(self, key: Key, entry: CacheEntry[T] | None, known: CacheEntry[T] | None) -> None:
        """Charge an entry of a list in progress. Raises `CacheFull`."""
        if self._account is not None:
            self._listed_size += self._cache.weight(key, entry) - self._cache.weight(key, known)
            # What it lists again is not counted twice.
            if self._account.set(max(self._cache.size, self._listed_size)):
                self._account.check()

    async def _watch(self) -> None:
        """Follow one watch to its end. Meanwhile, probe the server if nothing has come for long."""
        if not self._health.trust.needs_probe(asyncio.get_running_loop().time()):
            await self._follow_watch()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._probe())
                await self._follow_watch()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _probe(self) -> None:
        """Raise `NothingDelivered` if watches open, but bring nothing."""
        answered = await self._is_probe_answered(_OLDEST_VERSION)
        if answered is False:
            answered = await self._is_probe_answered(_ANY_VERSION)
        now, trust = asyncio.get_running_loop().time(), self._health.trust
        if answered is None:
            trust.put_off(now)
        elif answered:
            self._health.probed(answered=True)
        elif trust.needs_probe(now):  # otherwise the watch has brought something meanwhile
            self._probed_in_vain(now)

    def _probed_in_vain(self, now: float) -> None:
        """Raise `NothingDelivered` if the server must have had something to say; otherwise list again soon."""
        if len(self) or not self._health.trust.delivers:
            self._health.probed(answered=False)
            raise NothingDelivered(self.resource.plural)
        self._health.trust.probed_in_vain(now)
        self._relist_at = now

    async def _is_probe_answered(self, version: str) -> bool | None:
        """Whether a watch from a version brings anything; None if it does not open.

        A server sends an error at once, or the events since then, or a bookmark before the end of the watch.
        """
        patience = self._timing.probe + self._timing.grace
        lines = self._client.watch(
            self.resource,
            version=version,
            seconds=whole(self._timing.probe),
            silence=2 * patience,
            **self._selection,
        )
        try:
            async with asyncio.timeout(None) as limit, aclosing(lines):
                async for line in lines:
                    if line:
                        return True
                    limit.reschedule(asyncio.get_running_loop().time() + patience)
        except TimeoutError:
            return False
        except Gone:
            return True
        except KubeError:
            return None
        return False

    async def _follow_watch(self) -> None:
        loop = asyncio.get_running_loop()
        began, settled = loop.time(), None
        seconds = whole(random.uniform(self._timing.watch_min, self._timing.watch_max))  # noqa: S311  # spreads load
        lines = self._client.watch(
            self.resource,
            version=self._version,
            seconds=seconds,
            silence=seconds + self._timing.grace,
            **self._selection,
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    self._health.heard()
                    if line:
                        self._health.trust.heard(loop.time())
                        self._follow(self._reader.line(line))
                        self._health.recovered()
                    else:
                        settled = loop.call_later(self._timing.settled, self._health.settled)
        finally:
            if settled is not None:
                settled.cancel()
        if loop.time() - began < self._timing.settled:
            self._health.closed_at_once()

    def _follow(self, reading: DecodedObject[W]) -> None:
        meta = reading.metadata
        key, version = key_of(meta), meta.resource_version
        change = None
        if reading.kind == "DELETED":
            change = self._cache.vanish(key, meta.uid, version)
        elif reading.kind in {"ADDED", "MODIFIED"} and not self._cache.holds(key, meta.uid, version):
            entry = self._reduce(reading)
            if entry:
                change = self._cache.observe(key, entry.uid, entry.version, entry.value)
            else:
                change = self._cache.observe(key, meta.uid, version, None)
        if self._version is None or not is_older(version, self._version):
            self._version = version
        self._pass_on(change, "")
        if self._charge() and self._account is not None:
            self._account.check()

    def _charge(self) -> bool:
        """Update the size of the cache; return whether it grew."""
        return self._account is not None and self._account.set(self._cache.size)

    def _has_room(self) -> bool:
        try:
            if self._account is not None:
                self._account.check()
        except CacheFull:
            return False
        return True

    def _reduce(self, reading: DecodedObject[W]) -> CacheEntry[T] | None:
        """Return the state to cache: the result of `project` or, if that fails, the cached state."""
        meta = reading.metadata
        held = self._cache.entry(key_of(meta))
        known = held if held and held.uid == meta.uid else None
        if reading.object is None:
            self._log.error("an object does not have the expected type and is skipped", key="/".join(key_of(meta)))
            return known
        try:
            value = self._project(reading.object)
        except Exception as error:  # noqa: BLE001  # a mistake with one object must not hide all the others
            self._log_mistake("an object cannot be processed and is skipped", key_of(meta), error)
            return known
        return CacheEntry(meta.uid, meta.resource_version, value) if value is not None else None

    async def _check_version(self) -> None:
        """After a broken connection: list again if the server may have been restored from a backup.

        A watch from a version in the server's future would stay silent until then, and miss all events. A server that
        reached our version again has other objects there, and lacks our newest cached object.
        """
        version = await self._lister.version()
        if is_older(version, self._version or ""):
            self._log.warning("versions went backwards, listing again", held=self._version, server=version)
            await self._list()
        elif not await self._has_newest():
            self._log.warning("the server does not have what it had, listing again", held=self._version, server=version)
            await self._list()
        self._doubt = False

    async def _has_newest(self) -> bool:
        """Whether the server has the newest cached object at our version, exactly as it is cached."""
        newest = self._cache.newest()
        if newest is None or not self._version:
            return True
        key, held = newest
        if is_older(self._version, held.version):  # the answer to our own write, which the watch has not reported yet
            return False
        try:
            found = await self._client.get_at(
                self.resource, key.name, key.namespace or None, self._version, type=BareObject, metadata_only=True
            )
        except ApiError:
            return False  # the version is too old, or not reached yet
        return found is not None and (found.metadata.uid, found.metadata.resource_version) == (held.uid, held.version)

    def _failed(self, error: Exception) -> None:
        self._health.failed(error)
        # It stays until the version was checked: a server that starts refuses all requests at first.
        self._doubt = self._doubt or isinstance(error, Unreachable)
        if must_relist(error, self._health.streak):
            self._former, self._version = self._version or self._former, None

    def _pass_on(self, change: CacheChange[T] | None, by: str) -> None:
        if change:
            self._count()
            self._tell(change, by)

    def _count(self) -> None:
        if self._running:  # the answer to a late write must not count for a cache that has ended
            self._counted.set(len(self))

    def _tell(self, change: CacheChange[T], by: str) -> None:
        try:
            self._on_change(*change, by)
        except Exception as error:  # noqa: BLE001  # as above
            self._log_mistake("a callback for a change failed", change.key, error)

    def _log_mistake(self, what: str, key: Key, error: Exception) -> None:
        shown = self.resource != SECRETS  # the text of an exception may contain the object
        self._log.error(what, key="/".join(key), error=type(error).__name__, exc_info=error if shown else None)


AnyReflector = Reflector[Any, Any]
"""The interface to run it, wait for it, or ask for its health."""


def entry_size(key: Key, entry: CacheEntry[Any]) -> int:
    """Estimate the bytes that an object takes in a cache, without its value."""
    return _ENTRY_BYTES + sum(map(text_size, (key.namespace, key.name, entry.uid, entry.version)))
