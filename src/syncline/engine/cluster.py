"""One cluster: its client, its namespaces, and an informer for each kind that syncs read or write."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from syncline.core.digest import DigestKey
from syncline.core.group_kind import GroupKind
from syncline.core.objects import PLAIN, Observed, Target
from syncline.core.ownership import OWNER_LABEL, Owner
from syncline.core.remedies import unwatched
from syncline.core.scope import Namespace
from syncline.core.wire import DataWire, ObjectWire
from syncline.engine.cache_sizes import namespace_size
from syncline.engine.kind_informer import KindInformer, MetaWire
from syncline.engine.markkeys import MarkRing
from syncline.engine.watch_filter import WatchFilter
from syncline.kube.cache import Key
from syncline.kube.cache_budget import ClusterShare
from syncline.kube.client import Client
from syncline.kube.discovery import Discovery
from syncline.kube.errors import KindNotServed, KubeError
from syncline.kube.identity import Landmark, identify
from syncline.kube.openapi import OpenAPI
from syncline.kube.reflector import AnyReflector, Reflector, ReflectorStatus
from syncline.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS, Resource

NamespaceListener = Callable[["Cluster", Namespace | None, Namespace | None], None]
ManagedListener = Callable[["Cluster", Observed | None, Observed | None, str], None]
UnmanagedListener = Callable[["Cluster", Target, str], None]
"""Both get the sync whose own request brought the change, as `Kind/namespace/name`; empty where a watch brought it."""
InformerListener = Callable[["Cluster", str], None]
"""Called with a kind when its informer is synced, becomes unhealthy, or recovers."""

RunWatch = Callable[[Callable[[], Coroutine[Any, Any, None]]], Coroutine[Any, Any, None]]
"""Runs a watch until the stop."""

# Every server has these; nothing needs to be asked.
BUILT_IN = {"ConfigMap": CONFIGMAPS, "Secret": SECRETS}
_POLL = 0.02
# How soon it is noticed that a kind can no longer be watched.
_RECHECK = 2.0
# A watch that fails for this long, while another one works as long, is reported: changes are not noticed. Watches come
# back one after the other after an outage of the server; that takes less.
UNNOTICED_AFTER = 60.0
# A kind that no sync needs is watched this much longer: a sync that returns finds the cache complete, and a late write
# of a deleted sync is noticed.
INFORMER_GRACE = 900.0


class NotWatchedError(KubeError):
    """A kind cannot be watched. Its managed objects are not known, so nothing is written.

    `forbidden`: a right to the `resource`, such as `deployments.apps`, is missing; `full`: there
    are more objects than there is room for.
    """

    def __init__(self, resource: str, failure: str, *, forbidden: bool = False, full: bool = False) -> None:
        super().__init__(unwatched(resource, failure))
        self.resource = resource
        self.forbidden = forbidden
        self.full = full


class Cluster:
    """A cache of one cluster: the namespaces, and the managed objects of each kind.

    `start` begins the watches; `open_kind` adds a kind. Targets that listeners get name no cluster: each sync has its
    own name for it. `name` distinguishes clusters; it is empty for the cluster that the syncs are in.
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
        share: ClusterShare | None = None,
    ) -> None:
        """`share` limits the caches of the cluster; None: no limit."""
        self.client = client
        self._share = share
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
        self._status_for: dict[str, set[str]] = {}
        """By kind: the syncs whose managed objects are cached with their status."""
        self._informers: dict[str, KindInformer] = {}
        self._opened: dict[str, float] = {}
        self._needed: dict[str, float] = {}
        """When each kind was last needed."""
        self._listeners: list[tuple[NamespaceListener, ManagedListener, UnmanagedListener, InformerListener]] = []
        self._tasks: dict[object, asyncio.Task[None]] | None = None
        self._blind: dict[str, NotWatchedError] = {}
        self.namespaces: Reflector[MetaWire, Namespace] = Reflector(
            client,
            NAMESPACES,
            decode=MetaWire,
            project=_namespace,
            metadata_only=True,
            on_change=self._namespace_changed,
            share=share,
            weigh=namespace_size,
        )

    @property
    def uid(self) -> str:
        """Name the cluster over all clusters and times; empty until it was identified."""
        return self._uid() if self._uid is not None else self._found_uid

    async def identify(self) -> None:
        """Find out the UID of the cluster, once; before that nothing can be written. Raises the errors of a read."""

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

        Other kinds concern only the syncs that name them; those report a kind that cannot be watched for
        lack of rights.
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
        self._tasks["blind"] = asyncio.create_task(self._report_blind())

    async def stop(self) -> None:
        """End all watches."""
        tasks, self._tasks = self._tasks or {}, None
        for task in tasks.values():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        for reflector in self.reflectors:
            reflector.release()

    def listen(
        self,
        on_namespace: NamespaceListener,
        on_managed: ManagedListener,
        on_unmanaged: UnmanagedListener,
        on_informer: InformerListener,
    ) -> None:
        """Add listeners for changes; a listener must only enqueue work."""
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

    async def open_kind(self, kind: GroupKind, version: str | None = None) -> KindInformer:
        """Return the informer of a kind, and start it if there is none.

        Raises `KindNotServed`, and the errors of a read.
        """
        name = str(kind)
        informer = self._informers.get(name)
        if informer is None:
            self._add(name, BUILT_IN.get(name) or await self.discovery.find(*kind, version))
        elif informer.failure and name not in BUILT_IN:
            await self._renew(informer)
        self._needed[name] = self._clock()
        return self._informers[name]

    async def check_served(self, informer: KindInformer, version: str) -> None:
        """Discover a kind again that the server does not know; raises `KindNotServed`."""
        self.discovery.forget()
        await self.discovery.find(informer.resource.group, informer.resource.kind, version)

    async def _renew(self, informer: KindInformer) -> None:
        """Watch a kind in another version if the watched version is no longer served."""
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
        """Wait until an informer is synced. Raises `NotWatchedError` if it is refused, full or takes too long.

        It also waits if a server cannot list a kind yet, such as a new CRD. Listeners are called when the informer is
        synced later.
        """
        deadline = asyncio.get_running_loop().time() + patience
        while not informer.synced or informer.full:
            if asyncio.get_running_loop().time() > deadline or informer.refused or informer.full:
                resource = str(informer.resource.group_resource)
                forbidden, full = informer.forbidden, informer.full
                raise NotWatchedError(resource, informer.failure, forbidden=forbidden, full=full)
            with suppress(TimeoutError):  # a refusal sets no event
                async with asyncio.timeout(_POLL):
                    await informer.wait_listed()

    async def wait_namespaces(self, patience: float) -> None:
        """Wait until the namespaces are known. Raises `NotWatchedError` if that takes too long."""
        await wait_listed(self.namespaces, patience)

    def resource_name(self, kind: str) -> str | None:
        """Return the resource name of an open kind, such as `deployments.apps`; None for other kinds."""
        informer = self._informers.get(kind)
        return str(informer.resource.group_resource) if informer is not None else None

    def informer(self, kind: str) -> KindInformer:
        """Return the informer of an open kind."""
        return self._informers[kind]

    def informers(self) -> Iterator[KindInformer]:
        """Yield all informers. The caller must not await during the iteration."""
        yield from self._informers.values()

    def is_open(self, kind: str) -> bool:
        """Whether a kind has an informer, synced or not."""
        return kind in self._informers

    def watched_for(self, kind: str) -> float:
        """Return for how many seconds a kind has been watched; 0 if its informer was never synced."""
        informer = self._informers.get(kind)
        return self._clock() - self._opened[kind] if informer is not None and informer.synced else 0.0

    @property
    def blind(self) -> Mapping[str, NotWatchedError]:
        """The kinds whose changes have not been noticed for long: they were listed once, and the watch fails.

        Empty if no watch works: then the server is away, and nothing can be reported either.
        """
        return self._blind

    def close_unneeded(self) -> None:
        """Stop watching the kinds that no sync has needed for a while, and of which no object carries our label."""
        now = self._clock()
        for kind, informer in list(self._informers.items()):
            if self.watch_filter.has_kind(kind) or len(informer.managed.reflector):
                self._needed[kind] = now
            elif now - self._needed.get(kind, now) >= self.grace:
                self._close(informer)

    def managed_at(self, target: Target) -> Observed | None:
        """Return the object with our label at this target."""
        informer = self._informers.get(target.kind)
        return informer.managed.at(target) if informer is not None else None

    def managed_by(self, sync: str, kind: str | None = None) -> list[Observed]:
        """Return the objects whose marker names this sync; `ownership.ownership_of` checks whether they are its own."""
        if kind is None:
            informers = list(self._informers.values())
        else:
            informers = [self._informers[kind]] if kind in self._informers else []
        return [observed for informer in informers for observed in informer.managed.of(sync)]

    def owners_in(self, namespace: str) -> set[str]:
        """Return the syncs that markers of objects in a namespace name."""
        return {
            observed.marker.sync
            for informer in self._informers.values()
            for observed in informer.managed.reflector.values()
            if observed.target.namespace == namespace and observed.marker is not None
        }

    def keep_status(self, kind: str, sync: str) -> None:
        """Cache the managed objects of a sync with their status from now on; its changes enqueue the sync.

        What is cached already has none until it changes or `read_statuses` has run.
        """
        self._status_for.setdefault(kind, set()).add(sync)

    def drop_status(self, kind: str, sync: str) -> None:
        """Cache the managed objects of a sync without their status again."""
        if sync in self._status_for.get(kind, ()):
            self._status_for[kind].discard(sync)
            if (informer := self._informers.get(kind)) is not None:
                informer.managed.drop_statuses(sync)

    async def read_statuses(self, kind: str, owner: Owner) -> None:
        """Read the managed objects of a sync that were cached before their status was to be kept, in one list."""
        informer = self._informers[kind]
        pages = self.client.bounded_pages(
            informer.resource,
            self._namespace_of(kind),
            labels=f"{OWNER_LABEL}={owner.label}",
            type=informer.wire,
        )
        async for page in pages:
            for wire in page.items:
                informer.managed.project_again(wire)

    async def read(self, target: Target, client: Client) -> DataWire | ObjectWire:
        """Read an object live, as `client`."""
        informer = self._informers[target.kind]
        return await client.get(informer.resource, target.name, target.namespace or None, type=informer.wire)

    def _add(self, name: str, resource: Resource) -> None:
        if name in self._informers:  # a concurrent call was faster
            return
        informer = KindInformer(
            self.client,
            name,
            resource,
            key=self.key,
            marks=self.marks,
            watch_filter=self.watch_filter,
            status_for=self._status_for.setdefault(name, set()),
            namespace=self._namespace_of(name),
            share=self._share,
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
        informer.release()
        for known in (self._informers, self._opened, self._needed):
            known.pop(informer.kind, None)
        if not self._status_for.get(informer.kind):
            self._status_for.pop(informer.kind, None)

    async def _sweep(self) -> None:
        """Stop informers that no sync needs, for good."""
        while True:
            await asyncio.sleep(self.grace / 4)
            self.close_unneeded()

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()

    async def _report_changes(self, informer: KindInformer) -> None:
        """Call listeners when an informer is synced, becomes unhealthy, or recovers."""
        for reflector in informer.reflectors:
            await reflector.synced.wait()
        usable = False
        while True:
            if usable != (not informer.refused and not informer.full):
                usable = not usable
                for *_rest, listener in self._listeners:
                    listener(self, informer.kind)
            await asyncio.sleep(_RECHECK)

    async def _report_blind(self) -> None:
        """Call listeners when changes of a kind are no longer noticed, or are noticed again."""
        while True:
            await asyncio.sleep(_RECHECK)
            before, self._blind = self._blind, self._find_blind()
            changed = before.keys() ^ self._blind.keys()
            for kind in list(self._informers) if NAMESPACES.kind in changed else changed:
                for *_rest, listener in self._listeners:
                    listener(self, kind)

    def _find_blind(self) -> dict[str, NotWatchedError]:
        statuses = {NAMESPACES.kind: [self.namespaces.status()]}
        for kind, informer in self._informers.items():
            statuses.setdefault(kind, []).extend(reflector.status() for reflector in informer.reflectors)
        if not any(_is_reached(one) for found in statuses.values() for one in found):
            return {}
        failing = {kind: next(filter(_is_blind, found), None) for kind, found in statuses.items()}
        return {
            kind: NotWatchedError(one.resource, one.failure, forbidden=one.forbidden)
            for kind, one in failing.items()
            if one is not None
        }

    def _run(self, *reflectors: AnyReflector) -> None:
        if self._tasks is not None:
            # A watch serves all syncs: its log lines do not name the sync that opened the kind.
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


async def wait_listed(reflector: AnyReflector, patience: float) -> None:
    """Wait until a watch has listed all objects once. Raises `NotWatchedError` if it takes too long, or is full."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await reflector.synced.wait()
    status = reflector.status()
    if not status.synced or status.full:
        resource = str(reflector.resource.group_resource)
        raise NotWatchedError(resource, status.failure, forbidden=status.forbidden, full=status.full)


def _is_reached(status: ReflectorStatus) -> bool:
    """Whether the server answers, so that it is not the cluster that is unreachable."""
    return status.working >= UNNOTICED_AFTER or not status.delivers


def _is_blind(status: ReflectorStatus) -> bool:
    """Whether objects were listed once, and changes have not been noticed for long; not of a kind that is gone."""
    is_gone = status.refused and not status.forbidden
    return status.synced and status.unwatched >= UNNOTICED_AFTER and not is_gone


async def _run_watch(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await run()


def _namespace(wire: MetaWire) -> Namespace:
    meta = wire.metadata
    return Namespace(meta.name, meta.uid, meta.labels, meta.deletion_timestamp is not None)
