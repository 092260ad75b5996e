"""A cache of all objects of one kind, kept current by lists and watches.

The way of a change: a line of the watch is decoded once into the caller's struct, `project` reduces that to what is
worth holding, the cache drops what is no news, and `on_change` hears of the rest. What our own requests learn goes
the same way (`observe`, `observe_deleted`): there is no way into the cache that tells nobody. Everything that can go
wrong with a list or a watch ends in one of two ways: resume from the last good version, or list anew; see
`_must_relist`.
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
from syncline.kube.client import Client
from syncline.kube.errors import (
    ApiError,
    BadAnswer,
    BadRequest,
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
from syncline.kube.wire import DecodedObject, Metadata, ObjectDecoder, W, ends_initial_events

__all__ = ["AnyReflector", "Key", "Reflector", "ReflectorStatus", "Timing"]

T = TypeVar("T")

_GARBLED_LIMIT = 3
_UNENDED_LIMIT = 2

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Timing(Struct, frozen=True, kw_only=True):
    """The timeouts of a reflector, in seconds. A silent connection is closed after `watch_max + grace`."""

    watch_min: float = 30.0
    watch_max: float = 45.0
    """The server is asked to end each watch after a time between these two."""
    grace: float = 5.0
    """How much longer to wait for a byte before the connection is taken for dead."""
    list_max: float = 300.0
    """How long a streamed list may take."""
    settled: float = 1.0
    """A watch that lasted this long, or brought anything, was a good one."""
    stale: float = 60.0
    """Without contact for longer, the cache is not healthy."""
    broken: float = 5.0
    """The same, where it is known that nothing can come."""
    relist: float = 900.0
    """After about so long all is listed anew: an event that was lost on its way is told by nobody."""
    backoff_min: float = 0.5
    backoff_max: float = 30.0


class ReflectorStatus(Struct, frozen=True):
    """The health of a reflector."""

    resource: str
    synced: bool
    healthy: bool
    objects: int
    age: float
    """Seconds since the server was last heard of."""
    failure: str
    """What stands in the way now, for a person; empty if nothing does."""
    refused: bool
    """Whether that is the server's no: the kind, or the right to it, is gone."""
    forbidden: bool = False
    """Whether it is the right that lacks."""


class Reflector(Generic[W, T]):
    """A cache of what `project` makes of each object. Start `run()`, wait for `synced`, read.

    `project` returns None for objects that are not to be held. `on_change(key, old, new, by)` is called, in order, for
    every difference; `by` names the one who learned it by a request of its own, and is empty for what a watch or a list
    told. It must be quick. What either of them raises is logged, and the object is passed over: it keeps the state that
    it had.
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
    ) -> None:
        self.resource = resource
        self._part = part
        self.synced = asyncio.Event()
        """Set after the first complete list, and from then on."""
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
        self._cache: Cache[T] = Cache()
        self._version: str | None = None
        self._streams = True
        self._unended = 0
        self._doubt = False
        self._streak = 0
        self._failure: Exception | None = None
        self._contact = float("-inf")
        self._broken = True
        self._relist_at = float("-inf")
        self._log = log.bind(resource=resource.plural)

    def get(self, key: Key) -> T | None:
        """Return what is held of an object."""
        return self._cache.get(key)

    def get_same(self, obj: W) -> T | None:
        """Return what is held of an object; None if it is of another version than this one."""
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
        """Take in an object that the server answered to a request by `by`, ahead of the watch, and pass it on."""
        meta, key = obj.metadata, _key(obj.metadata)
        if self._cache.holds(key, meta.uid, meta.resource_version):  # the watch was faster than the answer
            return
        self._pass_on(self._cache.observe(key, meta.uid, meta.resource_version, self._project(obj)), by)

    def observe_deleted(self, key: Key, uid: str, by: str, version: str | None = None) -> None:
        """Take in that `by` deleted this very object and that the server confirmed it gone, and pass it on.

        With a version: the object lives on, but left the selection of this reflector at that version.
        """
        self._pass_on(self._cache.vanish(key, uid, version), by)

    def age(self) -> float:
        """Return the seconds since the server was last heard of."""
        return asyncio.get_running_loop().time() - self._contact

    def healthy(self) -> bool:
        """Tell whether what is held can be relied on to be recent."""
        patience = self._timing.broken if self._broken else self._timing.stale
        return self.synced.is_set() and self.age() <= patience

    def status(self) -> ReflectorStatus:
        """Return how it is doing."""
        return ReflectorStatus(
            resource=self.resource.plural,
            synced=self.synced.is_set(),
            healthy=self.healthy(),
            objects=len(self),
            age=self.age(),
            failure=str(self._failure or ""),
            refused=isinstance(self._failure, Forbidden | NotFound),
            forbidden=isinstance(self._failure, Forbidden),
        )

    async def run(self) -> None:
        """List and watch until cancelled. Nothing else ends it: failures are logged, and retried ever more slowly."""
        while True:
            try:
                if self._version is None or asyncio.get_running_loop().time() >= self._relist_at:
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
        listed, version = await (self._list_streamed() if self._streams else self._list_paged())
        changes = self._cache.replace(listed, version)
        self._version, self._doubt = version, False
        metrics.relists.labels(self.resource.plural).inc()
        metrics.cached.labels(self.resource.plural, self._part).set(len(self))
        for change in changes:
            self._tell(change, "")
        self.synced.set()

    async def _list_streamed(self) -> tuple[dict[Key, CacheEntry[T]], str]:
        """Take the list as a stream (WatchList), which costs neither side a page in memory.

        Nothing counts before the mark at its end: a stream that breaks off earlier is a failed list.
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
            # A server that knows nothing of WatchList takes it for a plain watch, and never sends the mark.
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
            return  # told again, late: a stream may repeat itself
        entry = self._reduce(reading) if reading.kind != "DELETED" else None
        if entry:
            listed[key] = entry
        else:
            listed.pop(key, None)

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
            self._streak += 1  # closed at once, without a word: a proxy on its way down, perhaps
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

    def _reduce(self, reading: DecodedObject[W]) -> CacheEntry[T] | None:
        """Return what to hold of an object: what `project` says or, where that cannot be had, what is held already."""
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
        """After a broken connection: versions lower than ours mean that the server was restored from a backup.

        A watch from a version that lies in the server's future would wait for it in silence, and miss all until then.
        """
        async with aclosing(self._client.pages(self.resource, type=msgspec.Raw, page=1, **self._selection)) as pages:
            version = (await anext(pages)).version
        if is_older(version, self._version or ""):
            self._log.warning("versions went backwards, listing again", held=self._version, server=version)
            await self._list()
        self._doubt = False

    def _failed(self, error: Exception) -> None:
        self._streak = 1 if _is_back(error, self._failure) else self._streak + 1
        self._broken = True
        # Stays until the version was looked at: a server that comes back refuses everything at first.
        self._doubt = self._doubt or isinstance(error, Unreachable)
        if _must_relist(error, self._streak):
            self._version = None
        reason = type(error).__name__
        metrics.watch_restarts.labels(self.resource.plural, reason).inc()
        if self._failure is None or type(self._failure).__name__ != reason:
            trace = None if isinstance(error, KubeError) else error
            self._log.warning("cannot watch the cluster; the operator retries", error=str(error), exc_info=trace)
        self._failure = error

    def _recovered(self) -> None:
        if self._failure is not None:
            self._log.info("watching the cluster again", after=str(self._failure))
        self._streak, self._failure = 0, None

    def _heard(self) -> None:
        self._broken = False
        self._contact = asyncio.get_running_loop().time()

    def _pass_on(self, change: CacheChange[T] | None, by: str) -> None:
        if change:
            metrics.cached.labels(self.resource.plural, self._part).set(len(self))
            self._tell(change, by)

    def _tell(self, change: CacheChange[T], by: str) -> None:
        try:
            self._on_change(*change, by)
        except Exception as error:  # noqa: BLE001  # as above
            self._log_mistake("a callback for a change failed", change.key, error)

    def _log_mistake(self, what: str, key: Key, error: Exception) -> None:
        shown = self.resource != SECRETS  # what an exception says may be what it stumbled over
        self._log.error(what, key="/".join(key), error=type(error).__name__, exc_info=error if shown else None)


AnyReflector = Reflector[Any, Any]
"""For those who only run one, wait for it, or ask for its health."""


def _must_relist(error: Exception, streak: int) -> bool:
    """Tell whether the version in hand is of no more use.

    Kept: where the server could not be asked for a moment, or could not or would not answer now. Given up: where it
    says that the version is too old or too new, where it says something unknown, where the same place stays unreadable,
    and where the server stays away: it may come back restored from a backup, with other news under the same versions.
    """
    if isinstance(error, BadAnswer):
        return streak >= _GARBLED_LIMIT
    if isinstance(error, Unreachable):
        return streak > 1
    if isinstance(error, ServerError):
        return "ResourceVersionTooLarge" in error.causes or "too large resource version" in error.message.lower()
    return not isinstance(error, Unauthorized | Forbidden | TooManyRequests)


def _is_back(error: Exception, before: Exception | None) -> bool:
    """Tell whether the server works again, so that it need not be spared as while it was away.

    One that has just started refuses everybody for a while; one that calls the version too old can be asked for a list.
    """
    if isinstance(error, Gone):
        return not isinstance(before, Gone)
    return isinstance(error, Forbidden | Unauthorized) and isinstance(before, Unreachable)


def _backoff(streak: int, timing: Timing, failure: Exception | None) -> float:
    delay: float = min(timing.backoff_max, timing.backoff_min * 2 ** min(streak - 1, 16))
    delay *= random.uniform(0.5, 1.0)  # noqa: S311  # spreads load, keeps no secret
    asked = failure.retry_after if isinstance(failure, ApiError) else None
    return delay if asked is None else min(asked, timing.backoff_max) + delay


def _whole(seconds: float) -> int:
    return max(1, round(seconds))


def _key(meta: Metadata) -> Key:
    return Key(meta.namespace, meta.name)
