"""A cache of all objects of one kind, kept current by lists and watches.

The way of a change: a line of the watch is decoded once into the caller's struct, `project` reduces it to the cached
fields, the cache drops states that are not new, and `on_change` is called for the others. The answers to our own
requests go the same way (`observe`, `observe_deleted`): no change enters the cache without a call. Every failure of a
list or a watch ends in one of two ways: resume from the last good version, or list again; see `_must_relist`.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec
import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from syncline.kube import metrics
from syncline.kube.cache import Cache, CacheChange, CacheEntry, Key, is_older
from syncline.kube.cache_budget import ClusterShare, text_size
from syncline.kube.client import Client
from syncline.kube.errors import (
    ApiError,
    BadAnswer,
    BadRequest,
    CacheFull,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from syncline.kube.resources import SECRETS, Resource
from syncline.kube.wire import BareObject, DecodedObject, Metadata, ObjectDecoder, W, ends_initial_events

__all__ = ["AnyReflector", "Key", "Reflector", "ReflectorStatus", "Timing"]

T = TypeVar("T")

# The objects of Python around the texts of an entry.
_ENTRY_BYTES = 250
# Longer names and versions have no objects of Kubernetes.
_LONGEST_NAMES = 4096
_GARBLED_LIMIT = 3
_UNENDED_LIMIT = 2

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Timing(Struct, frozen=True, kw_only=True):
    """The timeouts of a reflector, in seconds. A silent connection is closed after `watch_max + grace`."""

    watch_min: float = 30.0
    watch_max: float = 45.0
    """The server ends each watch after a random time between these two."""
    grace: float = 5.0
    """The extra time without a byte before the connection counts as dead."""
    list_max: float = 300.0
    """The timeout of a streamed list."""
    settled: float = 1.0
    """A watch that lasted this long, or sent an event, counts as successful."""
    stale: float = 60.0
    """The maximum time without contact for a healthy cache."""
    broken: float = 5.0
    """The same, if the watch is known to have failed."""
    relist: float = 900.0
    """The approximate time between two full lists: they repair a lost event."""
    full: float = 60.0
    """The time until the next list of a cluster with more objects than there is room for."""
    backoff_min: float = 0.5
    backoff_max: float = 30.0


class ReflectorStatus(Struct, frozen=True):
    """The health of a reflector."""

    resource: str
    synced: bool
    healthy: bool
    objects: int
    age: float
    """Seconds since the last contact with the server."""
    failure: str
    """The current failure, for people; empty if there is none."""
    refused: bool
    """Whether the server refuses: the kind, or the right to it, is missing."""
    forbidden: bool = False
    """Whether the right is missing."""
    full: bool = False
    """Whether there are more objects than there is room for, so that some are not cached."""
    failing: float = 0.0
    """Seconds since the current failure began; a failure of another kind begins anew."""
    unwatched: float = 0.0
    """Seconds since the watch began to fail, whatever the failures; 0.0 while it works."""
    working: float = 0.0
    """Seconds since the watch began to work; 0.0 while it does not."""


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
        self._page = page
        self._timing = timing or Timing()
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
        self._streams = True
        self._unended = 0
        self._doubt = False
        self._streak = 0
        self._failure: Exception | None = None
        self._failing_since = 0.0
        self._working_since: float | None = None
        self._unwatched_since: float | None = None
        self._contact = float("-inf")
        self._broken = True
        self._relist_at = float("-inf")
        self._log = log.bind(resource=resource.plural)

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
        meta, key = obj.metadata, _key(obj.metadata)
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
        meta, key = obj.metadata, _key(obj.metadata)
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
        if value is None or not self._cache.amend(_key(meta), meta.uid, meta.resource_version, value):
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
        return asyncio.get_running_loop().time() - self._contact

    def healthy(self) -> bool:
        """Whether the cache is current."""
        patience = self._timing.broken if self._broken else self._timing.stale
        return self.synced.is_set() and self.age() <= patience

    def status(self) -> ReflectorStatus:
        """Return the health."""
        now = asyncio.get_running_loop().time()
        return ReflectorStatus(
            resource=self.resource.plural,
            synced=self.synced.is_set(),
            healthy=self.healthy(),
            objects=len(self),
            age=self.age(),
            failure=str(self._failure or ""),
            refused=isinstance(self._failure, Forbidden | NotFound),
            forbidden=isinstance(self._failure, Forbidden),
            full=self._overflowed or isinstance(self._failure, CacheFull),
            failing=now - self._failing_since if self._failure else 0.0,
            unwatched=now - self._unwatched_since if self._unwatched_since is not None else 0.0,
            working=now - self._working_since if self._working_since is not None else 0.0,
        )

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
        if self._streak:
            await asyncio.sleep(_backoff(self._streak, self._timing, self._failure))

    async def _list(self) -> None:
        spread = random.uniform(0.8, 1.0)  # noqa: S311  # not all kinds at once
        self._relist_at = asyncio.get_running_loop().time() + self._timing.relist * spread
        self._cache.begin_list()
        self._listed_size = 0
        try:
            listed, version = await (self._list_streamed() if self._streams else self._list_paged())
            changes = self._cache.replace(listed, version)
        finally:
            self._charge()
        self.gaps += self._version is None or self._doubt or self._overflowed
        self._former = self._version or self._former
        self._version, self._doubt, self._overflowed = version, False, False
        metrics.relists.labels(self.resource.plural).inc()
        self._count()
        for change in changes:
            self._tell(change, "")
        self.synced.set()

    async def _list_streamed(self) -> tuple[dict[Key, CacheEntry[T]], str]:
        """Read the list as a stream (WatchList), which needs no page in memory on either side.

        Nothing is valid before the mark at its end: a stream that ends earlier is a failed list.
        """
        listed: dict[Key, CacheEntry[T]] = {}
        lines = self._client.watch(
            self.resource,
            initial=True,
            seconds=_whole(self._timing.list_max),
            silence=self._timing.watch_max + self._timing.grace,
            **self._selection,
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    self._heard()
                    if not line:
                        self._unended += 1
                        continue
                    reading = self._reader.line(line)
                    if reading.kind != "BOOKMARK":
                        self._collect(listed, reading)
                    elif ends_initial_events(line):
                        self._unended = 0
                        return listed, reading.metadata.resource_version
            raise Unreachable("the list ended early")
        except (BadRequest, Invalid):
            self._streams = False
            return await self._list_paged()
        finally:
            # A server without WatchList starts a plain watch, and never sends the mark.
            self._streams = self._streams and self._unended < _UNENDED_LIMIT

    async def _list_paged(self) -> tuple[dict[Key, CacheEntry[T]], str]:
        listed: dict[Key, CacheEntry[T]] = {}
        version = ""
        async for page in self._client.pages(self.resource, type=msgspec.Raw, page=self._page, **self._selection):
            self._heard()
            version = page.version
            for item in page.items:
                self._collect(listed, self._reader.item(item))
        return listed, version

    def _collect(self, listed: dict[Key, CacheEntry[T]], reading: DecodedObject[W]) -> None:
        key = _key(reading.metadata)
        known = listed.get(key)
        if known is not None and is_older(reading.metadata.resource_version, known.version):
            return  # a repetition: a stream may send an event twice
        entry = self._reduce(reading) if reading.kind != "DELETED" else None
        if entry:
            listed[key] = entry
        else:
            listed.pop(key, None)
        if self._account is not None:
            self._listed_size += self._cache.weight(key, entry) - self._cache.weight(key, known)
            # What it lists again is not counted twice.
            if self._account.set(max(self._cache.size, self._listed_size)):
                self._account.check()

    async def _watch(self) -> None:
        """Follow one watch to its end."""
        loop = asyncio.get_running_loop()
        began, settled = loop.time(), None
        seconds = _whole(random.uniform(self._timing.watch_min, self._timing.watch_max))  # noqa: S311  # spreads load
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
                    self._heard()
                    if line:
                        self._follow(self._reader.line(line))
                        self._recovered()
                    else:
                        settled = loop.call_later(self._timing.settled, self._recovered)
        finally:
            if settled is not None:
                settled.cancel()
        if loop.time() - began < self._timing.settled:
            self._streak += 1  # closed at once without an event: perhaps by a proxy that stops
            metrics.watch_restarts.labels(self.resource.plural, "Closed").inc()

    def _follow(self, reading: DecodedObject[W]) -> None:
        meta = reading.metadata
        key, version = _key(meta), meta.resource_version
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
        held = self._cache.entry(_key(meta))
        known = held if held and held.uid == meta.uid else None
        if reading.object is None:
            self._log.error("an object does not have the expected type and is skipped", key="/".join(_key(meta)))
            return known
        try:
            value = self._project(reading.object)
        except Exception as error:  # noqa: BLE001  # a mistake with one object must not hide all the others
            self._log_mistake("an object cannot be processed and is skipped", _key(meta), error)
            return known
        return CacheEntry(meta.uid, meta.resource_version, value) if value is not None else None

    async def _check_version(self) -> None:
        """After a broken connection: list again if the server may have been restored from a backup.

        A watch from a version in the server's future would stay silent until then, and miss all events. A server that
        reached our version again has other objects there, and lacks our newest cached object.
        """
        async with aclosing(self._client.pages(self.resource, type=msgspec.Raw, page=1, **self._selection)) as pages:
            version = (await anext(pages)).version
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
        if self._unwatched_since is None:
            self._unwatched_since = asyncio.get_running_loop().time()
        self._working_since = None
        self._streak = 1 if _is_back(error, self._failure) else self._streak + 1
        self._broken = True
        # It stays until the version was checked: a server that starts refuses all requests at first.
        self._doubt = self._doubt or isinstance(error, Unreachable)
        if _must_relist(error, self._streak):
            self._former, self._version = self._version or self._former, None
        reason = type(error).__name__
        metrics.watch_restarts.labels(self.resource.plural, reason).inc()
        if self._failure is None or type(self._failure).__name__ != reason:
            trace = None if isinstance(error, KubeError) else error
            self._log.warning("cannot watch the cluster; the operator retries", error=str(error), exc_info=trace)
            self._failing_since = asyncio.get_running_loop().time()
        self._failure = error

    def _recovered(self) -> None:
        if self._failure is not None:
            self._log.info("watching the cluster again", after=str(self._failure))
        if self._working_since is None:
            self._working_since = asyncio.get_running_loop().time()
        self._streak, self._failure, self._unwatched_since = 0, None, None

    def _heard(self) -> None:
        self._broken = False
        self._contact = asyncio.get_running_loop().time()

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


def _must_relist(error: Exception, streak: int) -> bool:
    """Whether the current version cannot be used any more.

    It is kept if the server is unreachable for a moment, or refuses for now. It is dropped if the server says that it
    is too old or too new, after an unknown error, if the same event stays unreadable, and if the server stays away: it
    may be restored from a backup, and have other events with the same versions.
    """
    if isinstance(error, BadAnswer):
        return streak >= _GARBLED_LIMIT
    if isinstance(error, Unreachable):
        return streak > 1
    if isinstance(error, ServerError):
        return "ResourceVersionTooLarge" in error.causes or "too large resource version" in error.message.lower()
    return not isinstance(error, Unauthorized | Forbidden | TooManyRequests)


def _is_back(error: Exception, before: Exception | None) -> bool:
    """Whether the server works again, so that the next attempt needs no long delay.

    A server that has just started refuses all requests for a while. A server that calls the version too old can list.
    """
    if isinstance(error, Gone):
        return not isinstance(before, Gone)
    return isinstance(error, Forbidden | Unauthorized) and isinstance(before, Unreachable)


def entry_size(key: Key, entry: CacheEntry[Any]) -> int:
    """Estimate the bytes that an object takes in a cache, without its value."""
    return _ENTRY_BYTES + sum(map(text_size, (key.namespace, key.name, entry.uid, entry.version)))


def _backoff(streak: int, timing: Timing, failure: Exception | None) -> float:
    if isinstance(failure, CacheFull):
        return timing.full
    delay: float = min(timing.backoff_max, timing.backoff_min * 2 ** min(streak - 1, 16))
    delay *= random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secret
    asked = failure.retry_after if isinstance(failure, ApiError) else None
    return delay if asked is None else min(asked, timing.backoff_max) + delay


def _whole(seconds: float) -> int:
    return max(1, round(seconds))


def _key(meta: Metadata) -> Key:
    """Return the key of an object. Raises `BadAnswer` if its names are too long."""
    if len(meta.namespace) + len(meta.name) + len(meta.uid) + len(meta.resource_version) > _LONGEST_NAMES:
        raise BadAnswer("an object has a name, UID or version that is too long")
    return Key(meta.namespace, meta.name)
