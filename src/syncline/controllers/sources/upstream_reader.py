"""Upstream reader: the objects of an upstream that a sync selects, and the evidence that one of them is gone.

A shared metadata watch reports changes. Bodies are read with the identity of the sync, each version once, and are
cached for the sync.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.common import LabelSelector, ObjectMeta
from syncline.api.workspacesync import WorkspaceResource, WorkspaceSyncSpec, resources_of
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import SourceObject, SourceQuery
from syncline.controllers.sources.copy_marks import is_copy
from syncline.controllers.sources.held_budget import HeldBudget
from syncline.controllers.sources.held_objects import HeldObject, HeldObjects, ReadObjects
from syncline.controllers.sources.object_reader import MOST_NAMES, SourceCluster
from syncline.controllers.targets.layout import WorkspaceLowered, read_record
from syncline.controllers.targets.open_kind import LIST_PATIENCE, describe_unwatched, open_kind, unwatched_reason
from syncline.core.group_kind import GroupKind, GroupResource
from syncline.core.objects import Target
from syncline.core.ownership import OWNER_LABEL, Marks, read_marks
from syncline.core.remedies import grant, grant_upstream, with_cause
from syncline.core.scope import selected_scope
from syncline.core.selectors import selector_matches, selector_words
from syncline.core.source_names import SourceName
from syncline.core.spec_scope import SourceScope
from syncline.core.strip import needs_service_account, protected
from syncline.core.upstream_objects import why_left
from syncline.engine.access import AccessRequest
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.kind_informer import KindInformer, MetaWire
from syncline.engine.watch_filter import LabelQuery
from syncline.kube.cache import Key
from syncline.kube.cache_budget import held_size
from syncline.kube.discovery import KEPT, Served
from syncline.kube.errors import BadAnswer, Forbidden, KindNotServed, KubeError, NotFound
from syncline.kube.resources import NAMESPACES, Resource

# Up to this number, changed objects are read one by one; for more, one list is cheaper.
SINGLE_READS = 24
_AT_ONCE = 8
_SHORT = 0.2
# The delay of a retry after a bad answer, because no event reports the recovery.
UPSTREAM_AGAIN = 3.0
# The interval of discovery for a resource that is not served: it may be defined later.
DISCOVERY_AGE = 10.0
# The time that a reconcile waits for the objects of one resource.
READ_PATIENCE = 5.0
# The timeout of reading one resource: an upstream may send pages without end.
_READ_SECONDS = 300.0
EVERYTHING = LabelSelector()
Refusal = Callable[[Resource], tuple[str, str] | None]
"""Returns why a resource is not read, as a reason and a message; None if it is."""


class UpstreamResource(Struct, frozen=True, kw_only=True):
    """A resource of the spec, as the upstream serves it."""

    spec: WorkspaceResource
    resource: Resource | None = None
    """None: the upstream does not serve it."""
    informer: KindInformer | None = None
    """None: it cannot be watched."""
    reason: str = ""
    problem: str = ""
    """Why its objects are not known; empty if they are."""
    retry: bool = False

    @property
    def kind(self) -> str:
        """The kind as targets name it; empty if it is not known."""
        return self.informer.kind if self.informer is not None else ""

    @property
    def served_kind(self) -> str:
        """The kind, also of a resource that cannot be watched; empty if it is not served."""
        return self.kind or (str(self.resource.group_kind) if self.resource is not None else "")

    @property
    def query(self) -> LabelQuery:
        """Return the query of its watch."""
        return LabelQuery("", self.spec.selector or EVERYTHING)


class UpstreamReader:
    """Reads upstream objects for one sync after the other."""

    def __init__(self, hub: Cluster, claims: Claims, allowed_kinds: frozenset[str]) -> None:
        self._hub = hub
        self._claims = claims
        self._allowed_kinds = allowed_kinds
        self.budget = HeldBudget()

    async def open(
        self,
        lowered: WorkspaceLowered,
        spec: WorkspaceSyncSpec,
        at: SourceCluster,
        held: HeldObjects,
        refusal: "Refusal | None" = None,
    ) -> list[UpstreamResource]:
        """Find and watch the resources of a spec at the upstream. Each is independent, so that none blocks the others.

        `refusal` returns why the upstream does not grant a resource.
        """
        wanted = resources_of(spec)
        served = _by_name(await _served(at))
        if any((one.group, one.resource) not in served for one in wanted):
            served = _by_name(await _served(at, DISCOVERY_AGE))

        async def open_one(one: WorkspaceResource) -> UpstreamResource:
            resource = served.get((one.group, one.resource))
            refused = refusal(resource) if refusal is not None and resource is not None else None
            if refused is not None:
                return UpstreamResource(spec=one, resource=resource, reason=refused[0], problem=refused[1])
            return await self._open(lowered, one, resource, at, held)

        return list(await asyncio.gather(*map(open_one, wanted)))

    async def _open(
        self,
        lowered: WorkspaceLowered,
        spec: WorkspaceResource,
        resource: Resource | None,
        at: SourceCluster,
        held: HeldObjects,
    ) -> UpstreamResource:
        name = GroupResource(spec.group, spec.resource)
        if resource is None:
            return UpstreamResource(spec=spec, reason="NotServed", problem=f"the upstream does not serve {name}")
        if why := self._refusal(lowered, resource):
            return UpstreamResource(spec=spec, resource=resource, reason="KindProtected", problem=why)
        try:
            informer = await _watched(at, GroupKind(resource.group, resource.kind), spec.version, held)
        except KindNotServed as error:
            return UpstreamResource(spec=spec, reason="NotServed", problem=f"the upstream: {error}")
        except NotWatchedError as error:
            is_remote = bool(at.cluster.name)
            message = describe_unwatched(error, upstream=is_remote, reads_as_account=lowered.user is not None)
            if error.full:
                message = f"{message}; write a selector for the resource, so that fewer objects are followed"
            return UpstreamResource(
                spec=spec,
                resource=resource,
                reason=unwatched_reason(error) if is_remote or error.full else "KindNotWatched",
                problem=message,
                retry=not error.forbidden,
            )
        except KubeError as error:  # it no longer answers: a problem of the sync, not of the operator's own cluster
            return UpstreamResource(
                spec=spec, resource=resource, reason="UpstreamUnreadable", problem=f"the upstream: {error}", retry=True
            )
        return UpstreamResource(spec=spec, resource=structs.replace(resource, version=spec.version), informer=informer)

    def _refusal(self, lowered: WorkspaceLowered, resource: Resource) -> str:
        """Return why a kind is not copied: its copies would break a cluster, or grant rights."""
        kind = str(GroupKind(resource.group, resource.kind))
        if needs_service_account(resource.group, resource.kind) and lowered.user is None:
            return f"{kind} grants rights, so it is copied only as a service account: set serviceAccountName"
        why = protected(resource.group, resource.kind)
        if why and kind not in self._allowed_kinds:
            return f"{kind} is not copied: {why}; an operator with --allow-kinds={kind} does it"
        return ""

    async def read(
        self,
        lowered: WorkspaceLowered,
        at: SourceCluster,
        one: UpstreamResource,
        namespaces: frozenset[str],
        held: HeldObjects,
    ) -> ReadObjects:
        """Return the objects of a resource that the sync selects. Raises `SyncError` if they cannot be read."""
        informer, resource = one.informer, one.resource
        assert informer is not None  # noqa: S101 - the caller looked
        assert resource is not None  # noqa: S101 - the caller looked
        known = held.by_kind.setdefault(informer.kind, {})
        namespaces = await self._visible(lowered, at, resource, namespaces)
        kind = self._kind(lowered, at, one, namespaces, held)
        listing = (f"{at.cluster.name} {resource.version}", one.query)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                if held.listed.get(informer.kind) != listing:
                    await _list(kind, known)
                    held.listed[informer.kind] = listing
                else:
                    await _follow(kind, known)
        except _TooMuch:
            held.forget_kind(informer.kind)
            message = (
                f"the upstream has more of {resource.plural} than there is room for: select fewer objects or namespaces"
                " with a selector, or split the upstream over syncs of several namespaces"
            )
            raise SyncError("UpstreamTooLarge", message, retry=True) from None
        except TimeoutError:
            message = f"the upstream took more than {_READ_SECONDS:.0f} s to tell its {resource.plural}"
            raise SyncError("UpstreamUnreadable", message, retry=True) from None
        except Forbidden as error:
            who = grant(lowered.user, error.verb, error.resource) if not at.cluster.name else ""
            remedy = who or grant_upstream(error.resource)
            raise SyncError("UpstreamForbidden", with_cause(remedy, error), retry=True) from error
        except KubeError as error:
            raise SyncError("UpstreamUnreadable", f"the upstream: {error}", retry=True) from error
        held.sizes[informer.kind] = sum(one.size for one in known.values())
        copies, owners = await self._copies(lowered, at, informer, namespaces)
        sources = [
            entry.source for key, entry in sorted(known.items()) if entry.source is not None and key not in copies
        ]
        proven = sum(copies.values())
        return ReadObjects(tuple(sources), proven, len(copies) - proven, owners)

    async def _visible(
        self, lowered: WorkspaceLowered, at: SourceCluster, resource: Resource, namespaces: frozenset[str]
    ) -> frozenset[str]:
        """Return the selected namespaces that the account of a sync may know, so that no message names another one.

        In this cluster, it may know those whose objects it may list, those that the sync has read before, and all if
        it may list namespaces. Raises `SyncError` if the API server does not answer.
        """
        user, sync = lowered.user, lowered.sync.owner.sync
        if user is None or at.cluster is not self._hub or not resource.namespaced:
            return namespaces
        access = self._claims.access
        try:
            if await access.may(user, AccessRequest(verb="list", resource=NAMESPACES), by=sync):
                return namespaces
            unknown = sorted(namespaces - read_record(lowered.sync.status.recorded_namespaces).keys())
            asked = [AccessRequest(verb="list", resource=resource, namespace=one) for one in unknown]
            answers = await asyncio.gather(*(access.may(user, one, by=sync) for one in asked))
        except KubeError as error:
            raise SyncError("UpstreamUnreadable", f"the upstream: {error}", retry=True) from error
        return namespaces - {name for name, answer in zip(unknown, answers, strict=True) if not answer}

    async def read_again(
        self,
        lowered: WorkspaceLowered,
        at: SourceCluster,
        one: UpstreamResource,
        namespaces: frozenset[str],
        held: HeldObjects,
        *,
        keys: Collection[Key],
    ) -> bool:
        """Read objects again whose version has changed. Return whether all of them are known; the others are as before.

        A failure is left to `read`, which reports it.
        """
        assert one.informer is not None  # noqa: S101 - the caller looked
        kind, known = self._kind(lowered, at, one, namespaces, held), held.by_kind.get(one.kind, {})
        changed = [key for key in keys if key in known and known[key].version != one.informer.unmanaged.get(key)]
        try:
            async with asyncio.timeout(READ_PATIENCE):
                await _read_each(kind, known, changed)
        except (_TooMuch, TimeoutError, KubeError):
            return False
        return all(key in known for key in keys)

    def _kind(
        self,
        lowered: WorkspaceLowered,
        at: SourceCluster,
        one: UpstreamResource,
        namespaces: frozenset[str],
        held: HeldObjects,
    ) -> "_WatchedKind":
        assert one.informer is not None  # noqa: S101 - the caller looked
        assert one.resource is not None  # noqa: S101 - the caller looked
        return _WatchedKind(
            lowered=lowered,
            at=at,
            spec=one.spec,
            resource=one.resource,
            informer=one.informer,
            namespaces=namespaces,
            held=held,
            budget=self.budget,
        )

    async def _copies(
        self, lowered: WorkspaceLowered, at: SourceCluster, informer: KindInformer, namespaces: frozenset[str]
    ) -> tuple[dict[Key, bool], dict[str, bool]]:
        """Return the objects that a sync has written, and whether that is verified. A copy is never a source.

        The other value are the named syncs, and whether they exist.
        """
        sync = lowered.sync.owner.sync
        found: dict[Key, bool] = {}
        exists: dict[str, bool] = {}
        for key, observed in list(informer.managed.reflector.items()):
            marks = Marks(observed.marker, observed.claim)
            if not _is_in(key, namespaces) or not self._is_copy(sync, at, observed.target, marks):
                continue
            if (marker := observed.marker) is None:
                # The existence of the named sync is not checked: the author of the mark would learn it.
                found[key] = False
                continue
            if marker.sync not in exists:
                exists[marker.sync] = await self._claims.owner_exists(marker.sync)
            if exists[marker.sync]:
                self._claims.wait(sync, at.cluster.name, observed.target, marker.sync)
                found[key] = True
        return found, exists

    def is_copy(self, sync: str, at: SourceCluster, kind: str, meta: ObjectMeta) -> bool:
        """Whether the marks of an object say that a sync has written it, so that it is no source."""
        marks = read_marks(meta.annotations, self._hub.marks.keys)
        target = Target(meta.namespace, meta.name, kind)
        return OWNER_LABEL in meta.labels and self._is_copy(sync, at, target, marks)

    def _is_copy(self, sync: str, at: SourceCluster, target: Target, marks: Marks) -> bool:
        # A workspace has another UID through an APIExport than directly. There a mark of the sync itself is enough, so
        # that a sync never feeds on its own copies.
        return is_copy(self._hub, at.cluster, target, marks, own=sync if at.workspace else "")

    async def selected(self, scope: SourceScope, at: SourceCluster, guarded: frozenset[str]) -> frozenset[str]:
        """Return the objects that a resource of a scope selects now, and their namespaces, as marks name them."""
        resource = next(
            (
                one.resource
                for one in await _served(at)
                if str(GroupResource(one.resource.group, one.resource.plural)) == scope.kind
            ),
            None,
        )
        if resource is None:
            return frozenset()
        chosen = selected_scope(scope.namespaces, guarded)
        names = {one.name for one in at.cluster.all_namespaces() if chosen.matches(one)}
        try:
            kind = GroupKind(resource.group, resource.kind)
            pages = at.client.bounded_pages(
                resource,
                labels=selector_words(scope.selector),
                type=MetaWire,
                most=MOST_NAMES,
                metadata_only=True,
            )
            objects = {
                str(SourceName(str(kind), one.metadata.namespace, one.metadata.name, at.workspace))
                async for page in pages
                for one in page.items
                if not one.metadata.namespace or one.metadata.namespace in names
            }
        except KubeError:
            return frozenset()
        return frozenset(objects | {str(SourceName("Namespace", "", name, at.workspace)) for name in names})

    async def find(self, at: SourceCluster, resource: Resource, key: Key) -> ObjectMeta | None:
        """Return the metadata of an upstream object, or None if the server confirms its absence. Raises `KubeError`."""
        try:
            found = await at.client.get(resource, key.name, key.namespace or None, metadata_only=True)
        except NotFound as error:
            if error.about != key.name:  # its kind, its namespace or its workspace is absent, not the object
                raise
            return None
        return msgspec.convert(found["metadata"], ObjectMeta)


async def _watched(at: SourceCluster, kind: GroupKind, version: str, held: HeldObjects) -> KindInformer:
    """Return the informer of a kind, complete and up to date. Raises `KindNotServed` or `NotWatchedError`.

    It does not wait again for a kind that took too long before: the sync is enqueued when it is synced.
    """
    patience = _SHORT if str(kind) in held.slow else LIST_PATIENCE
    try:
        informer = await open_kind(at.cluster, kind, version, patience=patience)
    except NotWatchedError:
        held.slow.add(str(kind))
        raise
    held.slow.discard(str(kind))
    if informer.refused:  # the cache is outdated
        if not informer.forbidden:
            await at.cluster.check_served(informer, version)
        name = str(GroupResource(informer.resource.group, informer.resource.plural))
        raise NotWatchedError(name, informer.failure, forbidden=informer.forbidden)
    return informer


def _by_name(served: Iterable[Served]) -> dict[tuple[str, str], Resource]:
    return {(one.resource.group, one.resource.plural): one.resource for one in served}


async def _served(at: SourceCluster, age: float = KEPT) -> list[Served]:
    try:
        return await at.cluster.discovery.resources(age)
    except KubeError as error:
        message = f"the upstream does not say what it serves: {error}"
        raise SyncError("UpstreamUnreadable", message, again=UPSTREAM_AGAIN) from error


def _present(informer: KindInformer, namespaces: frozenset[str]) -> Mapping[Key, str]:
    """Return the cached objects with their versions, including those with our label."""
    found = {key: version for key, version in informer.unmanaged.items() if _is_in(key, namespaces)}
    found |= {key: observed.version for key, observed in informer.managed.reflector.items() if _is_in(key, namespaces)}
    return found


def _is_in(key: Key, namespaces: frozenset[str]) -> bool:
    return not key.namespace or key.namespace in namespaces


class _WatchedKind(Struct, frozen=True, kw_only=True):
    """A resource, and its reader."""

    lowered: WorkspaceLowered
    at: SourceCluster
    spec: WorkspaceResource
    resource: Resource
    informer: KindInformer
    namespaces: frozenset[str]
    held: HeldObjects
    budget: HeldBudget


class _TooMuch(Exception):  # noqa: N818 - a state
    """The objects exceed the budget."""


async def _list(kind: _WatchedKind, known: dict[Key, HeldObject]) -> None:
    """Read all objects, and drop absent ones."""
    labels = selector_words(kind.spec.selector)
    reported = _present(kind.informer, kind.namespaces)  # before the list, which is never older
    found: dict[Key, HeldObject] = {}
    size = replaced = sum(one.size for one in known.values())
    try:
        async for page in kind.at.client.pages(kind.resource, None, labels=labels, type=msgspec.Raw):
            size = _take(kind, page.items, found, size)
    except Forbidden:
        if not kind.resource.namespaced or kind.lowered.user is None or not kind.namespaces:
            raise
        size = replaced
        found.clear()  # the account may be allowed to read some namespaces only
        for namespace in sorted(kind.namespaces):
            async for page in kind.at.client.pages(kind.resource, namespace, labels=labels, type=msgspec.Raw):
                size = _take(kind, page.items, found, size)
    known.clear()
    known.update(found)
    if labels:  # the watch also reports objects that only other syncs select: this version of them is not read
        left = HeldObject("", None, held_size(b""))
        known.update((key, left._replace(version=reported[key])) for key in reported.keys() - found.keys())


async def _follow(kind: _WatchedKind, known: dict[Key, HeldObject]) -> None:
    """Read the objects that have another version in the watch, and drop absent ones."""
    present = _present(kind.informer, kind.namespaces)
    for key in known.keys() - present.keys():
        del known[key]
    changed = [key for key, version in present.items() if key not in known or known[key].version != version]
    if len(changed) > SINGLE_READS:
        await _list(kind, known)
        return
    await _read_each(kind, known, changed)


async def _read_each(kind: _WatchedKind, known: dict[Key, HeldObject], changed: Iterable[Key]) -> None:
    """Read objects one by one."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(key: Key) -> None:
        async with limit:
            try:
                raw = await kind.at.client.get(kind.resource, key.name, key.namespace or None, type=msgspec.Raw)
            except NotFound as error:
                if error.about != key.name:
                    raise
                known.pop(key, None)
                return
        _take(kind, [raw], known, kind.held.sizes.get(kind.informer.kind, 0))

    await asyncio.gather(*map(read, changed))


def _take(kind: _WatchedKind, objects: Iterable[msgspec.Raw], known: dict[Key, HeldObject], size: int) -> int:
    """Cache objects, and add them to the watch: its first list may lack them.

    `size`: the bytes that are held. Return them with the new objects. Raises `_TooMuch` if there is no room.
    """
    room = kind.budget.room(kind.held, kind.informer.kind)
    for raw in objects:
        try:
            manifest = msgspec.json.decode(raw, type=dict[str, Any])
            meta = msgspec.convert(manifest.get("metadata"), ObjectMeta)
        except (msgspec.MsgspecError, RecursionError):  # not kept as the cause: their text quotes what was read
            raise BadAnswer(f"it sends {kind.resource.plural} that are no objects of Kubernetes") from None
        kind.informer.observe_unmanaged(meta, kind.lowered.sync.owner.sync)
        key = Key(meta.namespace, meta.name)
        if not _is_in(key, kind.namespaces):
            continue
        before = known.get(key)
        known[key] = _held(kind, meta, manifest, raw)
        size += known[key].size - (before.size if before is not None else 0)
        if size > room:
            raise _TooMuch
    kind.held.sizes[kind.informer.kind] = size
    return size


def _held(kind: _WatchedKind, meta: ObjectMeta, manifest: dict[str, Any], raw: msgspec.Raw) -> HeldObject:
    resource, selector = kind.resource, kind.spec.selector
    full = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
    if why_left(full) or (selector is not None and not selector_matches(selector, meta.labels)):
        return HeldObject(meta.resource_version, None, held_size(b""))
    query = SourceQuery(
        group=resource.group, version=resource.version, kind=resource.kind, namespace=meta.namespace, name=meta.name
    )
    return HeldObject(
        meta.resource_version,
        SourceObject(
            ref=query,
            target=Target(meta.namespace, meta.name, kind.informer.kind, kind.at.workspace),
            cluster_uid=kind.at.cluster.uid,
            namespaced=resource.namespaced,
            meta=meta,
            manifest=full,
        ),
        held_size(bytes(raw)),
    )
