"""Lists all objects of one kind for a reflector: as a stream where the server has that, otherwise in pages."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec

from syncline.kube.cache import CacheEntry, Key, is_older
from syncline.kube.client import Client, Page
from syncline.kube.errors import BadAnswer, BadRequest, Invalid, Unreachable
from syncline.kube.resources import Resource
from syncline.kube.watch_health import Timing, whole
from syncline.kube.wire import DecodedObject, Metadata, ObjectDecoder, W, ends_initial_events

T = TypeVar("T")

Listed = dict[Key, CacheEntry[T]]

# Longer names and versions have no objects of Kubernetes.
_LONGEST_NAMES = 4096
_UNENDED_LIMIT = 2


class Lister(Generic[W, T]):
    """Reads complete lists. `reduce` makes the entry of an object, and `on_entry(key, new, old)` is called for each."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        reader: ObjectDecoder[W],
        selection: dict[str, Any],
        *,
        page: int,
        timing: Timing,
        reduce: Callable[[DecodedObject[W]], CacheEntry[T] | None],
        on_entry: Callable[[Key, CacheEntry[T] | None, CacheEntry[T] | None], None],
        on_answer: Callable[[], None],
    ) -> None:
        """`on_answer` is called whenever the server sends something."""
        self.streams = True
        """Whether the server streams lists, as far as it is known."""
        self._client = client
        self._resource = resource
        self._reader = reader
        self._selection = selection
        self._page = page
        self._timing = timing
        self._reduce = reduce
        self._on_entry = on_entry
        self._on_answer = on_answer
        self._unended = 0

    async def list(self, *, streamed: bool) -> tuple[Listed[T], str]:
        """Return all objects and the version of the list; as a stream only if that is allowed and possible."""
        return await (self._list_streamed() if streamed and self.streams else self._list_paged())

    async def version(self) -> str:
        """Return the current version of the server for this kind."""
        async with aclosing(self._pages(1)) as pages:
            page = await anext(pages)
        return page.version

    async def _list_streamed(self) -> tuple[Listed[T], str]:
        """Read the list as a stream (WatchList), which needs no page in memory on either side.

        Nothing is valid before the mark at its end: a stream that ends earlier is a failed list.
        """
        listed: Listed[T] = {}
        lines = self._client.watch(
            self._resource,
            initial=True,
            seconds=whole(self._timing.list_max),
            silence=self._timing.watch_max + self._timing.grace,
            **self._selection,
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    self._on_answer()
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
            self.streams = False
            return await self._list_paged()
        finally:
            # A server without WatchList starts a plain watch, and never sends the mark.
            self.streams = self.streams and self._unended < _UNENDED_LIMIT

    async def _list_paged(self) -> tuple[Listed[T], str]:
        listed: Listed[T] = {}
        version = ""
        async for page in self._pages(self._page):
            self._on_answer()
            version = page.version
            for item in page.items:
                self._collect(listed, self._reader.item(item))
        return listed, version

    def _pages(self, size: int) -> AsyncGenerator[Page[msgspec.Raw]]:
        return self._client.pages(self._resource, type=msgspec.Raw, page=size, **self._selection)

    def _collect(self, listed: Listed[T], reading: DecodedObject[W]) -> None:
        key = key_of(reading.metadata)
        known = listed.get(key)
        if known is not None and is_older(reading.metadata.resource_version, known.version):
            return  # a repetition: a stream may send an event twice
        entry = self._reduce(reading) if reading.kind != "DELETED" else None
        if entry:
            listed[key] = entry
        else:
            listed.pop(key, None)
        self._on_entry(key, entry, known)


def key_of(meta: Metadata) -> Key:
    """Return the key of an object. Raises `BadAnswer` if its names are too long."""
    if len(meta.namespace) + len(meta.name) + len(meta.uid) + len(meta.resource_version) > _LONGEST_NAMES:
        raise BadAnswer("an object has a name, UID or version that is too long")
    return Key(meta.namespace, meta.name)
