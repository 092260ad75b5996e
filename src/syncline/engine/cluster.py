"""One cluster as the engine sees it: its client, its namespaces, and a view of each kind that syncs work with."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import Any

from syncline.core.digest import DigestKey
from syncline.core.objects import PLAIN, Observed, Target
from syncline.core.remedies import unwatched
from syncline.core.scope import Namespace
from syncline.core.wire import DataWire, ObjectWire
from syncline.engine.kind_informer import KindInformer, MetaWire
from syncline.engine.markkeys import MarkRing
from syncline.engine.watch_filter import WatchFilter
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.discovery import Discovery
from syncline.kube.errors import KindNotServed, KubeError
from syncline.kube.identity import Landmark, identify
from syncline.kube.metrics import forget_cached
from syncline.kube.openapi import OpenAPI
from syncline.kube.reflector import AnyReflector, Reflector
from syncline.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS, Resource

NamespaceListener = Callable[["Cluster", Namespace | None, Namespace | None], None]
ManagedListener = Callable[["Cluster", Observed | None, Observed | None, str], None]
UnmanagedListener = Callable[["Cluster", Target, str], None]
"""Both are told who learned it by a request of its own, as `Kind/namespace/name`; nobody, where a watch told it."""
InformerListener = Callable[["Cluster", str], None]
"""Told of a kind, once it is completely known, and when it can no longer be watched, or can again."""

RunWatch = Callable[[Callable[[], Coroutine[Any, Any, None]]], Coroutine[Any, Any, None]]
"""Runs a watch for good."""

# Every server has these; nothing needs to be asked.
BUILT_IN = {"ConfigMap": CONFIGMAPS, "Secret": SECRETS}
_POLL = 0.02
# How soon it is noticed that a kind can no longer be watched.
_RECHECK = 2.0
# A kind that no sync needs any more is watched for so long: one that comes back finds it complete, and a late write of
# a sync that is gone is noticed.
INFORMER_GRACE = 900.0


class NotWatchedError(KubeError):
    """A kind cannot be watched, so nothing is known of its copies, and nothing is written.

    `forbidden` tells that a right to the `resource`, such as `deployments.apps`, lacks.
    """

    def __init__(self, resource: str, failure: str, *, forbidden: bool = False) -> None:
        super().__init__(unwatched(resource, failure))
        self.resource = resource
        self.forbidden = forbidden


def kind_name(group: str, kind: str) -> str:
    """Name a kind over all groups: `Secret`, `Deployment.apps`."""
    return f"{kind}.{group}" if group else kind


class Cluster:
    """A live, partial view of one cluster: the namespaces, and what we manage of each kind.

    Start it; a kind is watched from the first `open` of it on. Targets that it tells of name no cluster: what a sync
    calls it is the sync's matter, `name` only tells it from the others (empty: the one that the syncs are in).
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str = "",
        key: DigestKey = PLAIN,
        marks: MarkRing | None = None,
        run_watch: RunWatch | None = None,
        uid: Callable[[], str] | None = None,
        grace: float = INFORMER_GRACE,
    ) -> None:
        self.client = client
        self.name = name
        self.key = key
        self.marks = marks or MarkRing()
        self._run_watch = run_watch or _run_watch
        self._uid = uid
        self._found_uid = ""
        self.watch_filter = WatchFilter()
        self.discovery = Discovery(client)
        self.openapi = OpenAPI(client)
        self.grace = grace
        self._informers: dict[str, KindInformer] = {}
        self._opened: dict[str, float] = {}
        self._needed: dict[str, float] = {}
        """When each kind was last needed."""
        self._listeners: list[tuple[NamespaceListener, ManagedListener, UnmanagedListener, InformerListener]] = []
        self._tasks: dict[object, asyncio.Task[None]] | None = None
        self.namespaces: Reflector[MetaWire, Namespace] = Reflector(
            client,
            NAMESPACES,
            decode=MetaWire,
            project=_namespace,
            metadata_only=True,
            on_change=self._namespace_changed,
        )

    @property
    def uid(self) -> str:
        """Name the cluster over all clusters and times; empty until it was identified."""
        return self._uid() if self._uid is not None else self._found_uid

    async def identify(self) -> None:
        """Find out the UID of the cluster, once; before that nothing can be written. Raises what any read raises."""

        async def ask(landmark: Landmark) -> str:
            found = await self.client.get(landmark.resource, landmark.name, type=MetaWire, metadata_only=True)
            return found.metadata.uid

        if not self._found_uid:
            self._found_uid, _ = await identify(ask)

    @property
    def reflectors(self) -> tuple[AnyReflector, ...]:
        """All watches, to be asked for their health."""
        return (
            self.namespaces,
            *(reflector for informer in self._informers.values() for reflector in informer.reflectors),
        )

    @property
    def vital(self) -> tuple[AnyReflector, ...]:
        """The watches that must not be lost.

        Other kinds concern only the syncs that name them; and one that could never be had, for want of rights, is
        reported there.
        """
        built_in = (
            self._informers[name] for name in BUILT_IN if name in self._informers and self._informers[name].synced
        )
        return (self.namespaces, *(reflector for informer in built_in for reflector in informer.reflectors))

    def start(self) -> None:
        """Watch from now on."""
        self._tasks = {}
        self._run(*self.reflectors)
        self._tasks[self] = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        """End all watches."""
        tasks, self._tasks = self._tasks or {}, None
        for task in tasks.values():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def listen(
        self,
        on_namespace: NamespaceListener,
        on_managed: ManagedListener,
        on_unmanaged: UnmanagedListener,
        on_informer: InformerListener,
    ) -> None:
        """Be told of changes; what is called must only mark work."""
        self._listeners.append((on_namespace, on_managed, on_unmanaged, on_informer))

    def acting_as(self, user: str | None) -> Client:
        """Return the client that asks with a user's rights; None: with the operator's own."""
        return self.client if user is None else self.client.impersonating(user)

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace by name."""
        return self.namespaces.get(Key("", name))

    def all_namespaces(self) -> Iterable[Namespace]:
        """Return all namespaces, for globs and selectors."""
        return self.namespaces.values()

    async def open_kind(self, group: str, kind: str, version: str | None = None) -> KindInformer:
        """Return the view of a kind, and begin to watch it if nobody did.

        Raises `KindNotServed`, and what any read raises.
        """
        name = kind_name(group, kind)
        informer = self._informers.get(name)
        if informer is None:
            self._add(name, BUILT_IN.get(name) or await self.discovery.find(group, kind, version))
        elif informer.failure and name not in BUILT_IN:
            await self._renew(informer)
        self._needed[name] = self._clock()
        return self._informers[name]

    async def check_served(self, informer: KindInformer, version: str) -> None:
        """Ask again for a kind of which the server says that it does not know it; raises `KindNotServed`."""
        self.discovery.forget()
        await self.discovery.find(informer.resource.group, informer.resource.kind, version)

    async def _renew(self, informer: KindInformer) -> None:
        """Watch a kind in another version where the one that was watched is no longer served."""
        resource = informer.resource
        if informer.refused:
            self.discovery.forget()
        served = await self.discovery.find(resource.group, resource.kind)
        try:
            await self.discovery.find(resource.group, resource.kind, resource.version)
        except KindNotServed as error:
            if not error.certain or self._informers[informer.kind] is not informer:
                return
            self._close(informer)
            self._add(informer.kind, served)

    async def wait_synced(self, informer: KindInformer, patience: float) -> None:
        """Wait until a view is complete; raises `NotWatchedError` where it is refused or takes too long, and why.

        What the server cannot do just now, such as listing a kind that was defined a moment ago, is waited for; when it
        is complete after all, listeners are told.
        """
        deadline = asyncio.get_running_loop().time() + patience
        while not informer.synced:
            if asyncio.get_running_loop().time() > deadline or informer.refused:
                resource = kind_name(informer.resource.group, informer.resource.plural)
                raise NotWatchedError(resource, informer.failure, forbidden=informer.forbidden)
            await asyncio.sleep(_POLL)

    async def wait_namespaces(self, patience: float) -> None:
        """Wait until the namespaces are known; raises `NotWatchedError` where that takes too long."""
        try:
            async with asyncio.timeout(patience):
                await self.namespaces.synced.wait()
        except TimeoutError:
            status = self.namespaces.status()
            raise NotWatchedError("namespaces", status.failure, forbidden=status.forbidden) from None

    def resource_name(self, kind: str) -> str | None:
        """Return how the server calls a kind that was opened, such as `deployments.apps`; None for others."""
        informer = self._informers.get(kind)
        return kind_name(informer.resource.group, informer.resource.plural) if informer is not None else None

    def informer(self, kind: str) -> KindInformer:
        """Return the view of a kind that was opened."""
        return self._informers[kind]

    def informers(self) -> Iterator[KindInformer]:
        """Yield all views; do not await meanwhile."""
        yield from self._informers.values()

    def is_open(self, kind: str) -> bool:
        """Whether a kind is watched, or it is tried to watch it."""
        return kind in self._informers

    def watched_for(self, kind: str) -> float:
        """Return for how many seconds a kind has been watched; 0 for one that was never complete."""
        informer = self._informers.get(kind)
        return self._clock() - self._opened[kind] if informer is not None and informer.synced else 0.0

    def close_unneeded(self) -> None:
        """Stop watching the kinds that no sync has needed for a while, and of which no object carries our label."""
        now = self._clock()
        for kind, informer in list(self._informers.items()):
            if self.watch_filter.has_kind(kind) or len(informer.managed.reflector):
                self._needed[kind] = now
            elif now - self._needed.get(kind, now) >= self.grace:
                self._close(informer)

    def managed_at(self, target: Target) -> Observed | None:
        """Return what carries our label at this place."""
        informer = self._informers.get(target.kind)
        return informer.managed.at(target) if informer is not None else None

    def managed_by(self, sync: str, kind: str | None = None) -> list[Observed]:
        """Return the objects whose marker names this sync; `ownership.ownership_of` tells whether they are its own."""
        views = self._informers.values() if kind is None else [self._informers[kind]] if kind in self._informers else []
        return [observed for informer in views for observed in informer.managed.of(sync)]

    def owners_in(self, namespace: str) -> set[str]:
        """Return the syncs that markers of objects in a namespace name."""
        return {
            observed.marker.sync
            for informer in self._informers.values()
            for observed in informer.managed.reflector.values()
            if observed.target.namespace == namespace and observed.marker is not None
        }

    async def read(self, target: Target, client: Client) -> DataWire | ObjectWire:
        """Read an object live, as `client`."""
        informer = self._informers[target.kind]
        return await client.get(informer.resource, target.name, target.namespace or None, type=informer.wire)

    def _add(self, name: str, resource: Resource) -> None:
        if name in self._informers:  # somebody was faster
            return
        informer = KindInformer(
            self.client,
            name,
            resource,
            key=self.key,
            marks=self.marks,
            watch_filter=self.watch_filter,
            namespace=self._namespace_of(name),
            on_managed=self._managed_changed,
            on_unmanaged=self._unmanaged_changed,
        )
        self._informers[name] = informer
        self._opened[name] = self._needed[name] = self._clock()
        self._begin(informer)

    def _namespace_of(self, _name: str) -> str | None:
        """Return the only namespace in which a kind is watched; None: all."""
        return None

    def _begin(self, informer: KindInformer) -> None:
        """Begin to watch a kind."""
        self._run(*informer.reflectors)
        if self._tasks is not None:
            self._tasks[informer] = asyncio.create_task(self._report_changes(informer), context=contextvars.Context())

    def _close(self, informer: KindInformer) -> None:
        for running in (informer, *informer.reflectors):
            if self._tasks is not None and (task := self._tasks.pop(running, None)) is not None:
                task.cancel()
        for known in (self._informers, self._opened, self._needed):
            known.pop(informer.kind, None)
        forget_cached(informer.resource.plural, "copies", "others")

    async def _sweep(self) -> None:
        """Close what is not needed, for good."""
        while True:
            await asyncio.sleep(self.grace / 4)
            self.close_unneeded()

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()

    async def _report_changes(self, informer: KindInformer) -> None:
        """Tell when a view is complete, and whenever its kind, or the right to it, goes or comes back."""
        for reflector in informer.reflectors:
            await reflector.synced.wait()
        refused = True
        while True:
            if informer.refused != refused:
                refused = not refused
                for *_rest, listener in self._listeners:
                    listener(self, informer.kind)
            await asyncio.sleep(_RECHECK)

    def _run(self, *reflectors: AnyReflector) -> None:
        if self._tasks is not None:
            # A watch is for all: what it logs is not about the sync that happened to open it.
            self._tasks |= {
                reflector: asyncio.create_task(self._run_watch(reflector.run), context=contextvars.Context())
                for reflector in reflectors
            }

    def _namespace_changed(self, _: Key, old: Namespace | None, new: Namespace | None, _by: str) -> None:
        for listener, *_rest in self._listeners:
            listener(self, old, new)

    def _managed_changed(self, old: Observed | None, new: Observed | None, by: str) -> None:
        for _namespace, listener, *_rest in self._listeners:
            listener(self, old, new, by)

    def _unmanaged_changed(self, kind: str, key: Key, by: str) -> None:
        target = Target(key.namespace, key.name, kind)
        for _namespace, _copy, listener, _view in self._listeners:
            listener(self, target, by)


async def _run_watch(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await run()


def _namespace(wire: MetaWire) -> Namespace:
    meta = wire.metadata
    return Namespace(meta.name, meta.uid, meta.labels, meta.deletion_timestamp is not None)
