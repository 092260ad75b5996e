"""Object reader: reads source objects, and the patches that a sync names, live."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.common import ObjectMeta
from syncline.api.manifestsync import PatchContentRef
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, SourceObject, SourceObjects, SourceQuery
from syncline.controllers.sources.copy_marks import UNVERIFIED, is_copy
from syncline.controllers.sources.references import fetch_data
from syncline.controllers.sources.source_memory import NoRoomError, SourceAccount
from syncline.controllers.targets.open_kind import describe_unwatched, open_kind
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Target
from syncline.core.ownership import OWNER_LABEL, Marks, read_marks
from syncline.core.remedies import grant, with_cause
from syncline.core.secrets import decoded
from syncline.core.selectors import selector_words
from syncline.core.spec_scope import SourceScope
from syncline.core.strip import needs_service_account, protected
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.kind_informer import KindInformer, MetaWire
from syncline.kube.client import Client
from syncline.kube.errors import ApiError, BadAnswer, Forbidden, Gone, KindNotServed, KubeError, NotFound
from syncline.kube.resources import Resource

# The first page is small. The number of objects in later pages depends on their size.
FIRST_PAGE = 8
PAGE_BYTES = 2 * 1024 * 1024
# A larger page of several objects is requested again with fewer: large objects may follow small ones.
MAX_PAGE_BYTES = 4 * 1024 * 1024
LARGEST_PAGE = 500
# The maximum number of objects that a selector may match.
MOST_NAMES = 100_000


class SourceCluster(Struct, frozen=True):
    """The cluster that source objects are read from, with the identity that reads them."""

    cluster: Cluster
    client: Client
    workspace: str = ""
    """The logical cluster, if the sync has several upstreams."""


class ObjectReader:
    """Reads source objects for one sync after the other. It has no state."""

    def __init__(self, hub: Cluster, claims: Claims, allowed_kinds: frozenset[str]) -> None:
        self._hub = hub
        self._claims = claims
        self._allowed_kinds = allowed_kinds

    def here(self, lowered: LoweredSpec) -> SourceCluster:
        """Return the cluster of the sync, read with the identity of the sync."""
        return SourceCluster(self._hub, self._hub.acting_as(lowered.user))

    async def read_sources(self, lowered: LoweredSpec, at: SourceCluster, account: SourceAccount) -> SourceObjects:
        """Read all sources of a sync from a cluster. Raises `SyncError` if one cannot be read.

        They count in the account. If there is no room, it waits, and reads them all again.
        """
        while True:
            with suppress(NoRoomError):  # it must end before the wait, because it holds the objects
                return await self._read_all(lowered, at, account)
            await account.wait_for_room()

    async def _read_all(self, lowered: LoweredSpec, at: SourceCluster, account: SourceAccount) -> SourceObjects:
        sources: list[SourceObject] = []
        absent: list[Target] = []
        for ref in lowered.reads:
            self._refuse(lowered, ref)
            informer = await self._open(lowered, ref, at)
            found = await self._read(lowered, ref, at, informer, account)
            sources += found
            if ref.name and not found:
                absent.append(_source_target(ref, informer))
        patches = {ref: await self._patch(lowered, ref, account) for ref in _patch_refs(lowered)}
        problem = None
        if absent:
            words = ", ".join(f"{target.kind} {target._replace(kind='ConfigMap')}" for target in absent)
            stays = "; its copies stay (sourceDeletionPolicy Orphan)"
            orphan = lowered.source_deletion_policy == "Orphan"
            problem = SyncError("SourceNotFound", f"the source {words} does not exist{stays if orphan else ''}")
        return SourceObjects(sources=_dedupe(sources), absent=tuple(absent), patches=patches, problem=problem)

    async def deleted_sources(self, lowered: LoweredSpec, at: SourceCluster, sources: Iterable[str]) -> frozenset[str]:
        """Return the former sources of selectors that are not known to exist, as markers name them."""
        selected = {(ref.kind_name, ref.namespace) for ref in lowered.reads if ref.selector is not None}
        gone = set()
        for source in sources:
            kind, _, place = source.partition("/")
            namespace, _, name = place.partition("/")
            informer = next((informer for informer in at.cluster.informers() if informer.kind == kind), None)
            if informer is None or not any(kind == one and namespace in ("", where) for one, where in selected):
                continue
            try:
                await at.client.get(informer.resource, name, namespace or None, metadata_only=True)
            except KubeError:
                gone.add(source)
        return frozenset(gone)

    async def selected(self, at: SourceCluster, scope: SourceScope) -> frozenset[str]:
        """Return the sources that a selector matches, as markers name them; empty if they cannot be read."""
        try:
            resource = (await at.cluster.open_kind(GroupKind.parse(scope.kind))).resource
            pages = at.client.bounded_pages(
                resource,
                scope.namespace if resource.namespaced else None,
                labels=selector_words(scope.selector),
                type=MetaWire,
                most=MOST_NAMES,
                metadata_only=True,
            )
            found = [
                f"{scope.kind}/{one.metadata.namespace}/{one.metadata.name}"
                async for page in pages
                for one in page.items
            ]
        except KubeError:
            return frozenset()
        return frozenset(found)

    def placeholders(self, lowered: LoweredSpec, at: SourceCluster) -> Iterator[SourceObject]:
        """Yield placeholders of the named sources, to find the targets of their copies."""
        for ref in lowered.reads:
            informer = next((informer for informer in at.cluster.informers() if informer.kind == ref.kind_name), None)
            if ref.name and informer is not None:
                target = _source_target(ref, informer)
                yield SourceObject(
                    ref=ref,
                    target=target,
                    cluster_uid=at.cluster.uid,
                    namespaced=informer.resource.namespaced,
                    meta=ObjectMeta(),
                    manifest={},
                )

    def _refuse(self, lowered: LoweredSpec, ref: SourceQuery) -> None:
        """Refuse kinds whose copies would break a cluster, or grant rights."""
        if needs_service_account(ref.group, ref.kind) and lowered.user is None:
            message = (
                f"{ref.kind_name} grants rights, so it is copied only as a service account, with its rights: "
                "set serviceAccountName"
            )
            raise SyncError("KindProtected", message, stalled=True)
        why = protected(ref.group, ref.kind)
        if why and ref.kind_name not in self._allowed_kinds:
            message = f"{ref.kind_name} is not copied: {why}; an operator with --allow-kinds={ref.kind_name} does it"
            raise SyncError("KindProtected", message, stalled=True)

    async def _open(self, lowered: LoweredSpec, ref: SourceQuery, at: SourceCluster) -> KindInformer:
        try:
            return await open_kind(at.cluster, ref.group_kind, ref.version)
        except KindNotServed as error:
            raise SyncError("KindNotServed", str(error), retry=True) from error
        except NotWatchedError as error:
            message = describe_unwatched(error, reads_as_account=lowered.user is not None)
            raise SyncError("KindNotWatched", message, retry=True) from error

    async def _read(
        self,
        lowered: LoweredSpec,
        ref: SourceQuery,
        at: SourceCluster,
        informer: KindInformer,
        account: SourceAccount,
    ) -> list[SourceObject]:
        resource = informer.resource
        if ref.version != resource.version:
            resource = structs.replace(resource, version=ref.version)
        try:
            manifests = await _fetch(at.client, resource, ref, account)
        except NotFound as error:  # its kind is absent, not the object
            try:
                await at.cluster.check_served(informer, ref.version)
            except KindNotServed as why:
                raise SyncError("KindNotServed", str(why), retry=True) from error
            raise SyncError("SourceUnreadable", str(error), retry=True) from error
        except Forbidden as error:
            raise SyncError("SourceForbidden", _forbidden(lowered, error), retry=True) from error
        except ApiError as error:
            raise SyncError("SourceUnreadable", str(error), retry=True) from error
        except SyncError:  # too much is selected: the deletion of an object may reduce it
            await _observe(lowered, ref, at, informer)
            raise
        sources = []
        for manifest in manifests:
            meta = msgspec.convert(manifest["metadata"], ObjectMeta)
            target = Target(meta.namespace, meta.name, ref.kind_name)
            informer.observe_unmanaged(meta, lowered.sync.owner.sync)
            if copied_by := await self._copied_by(lowered, at, meta, target):
                if ref.name:
                    message = f"the source {target} is itself a copy, made by {copied_by}; name the original instead"
                    raise SyncError("SourceIsCopy", message, stalled=True)
                continue
            full = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
            sources.append(
                SourceObject(
                    ref=ref,
                    target=target,
                    cluster_uid=at.cluster.uid,
                    namespaced=resource.namespaced,
                    meta=meta,
                    manifest=full,
                )
            )
        return sources

    async def _copied_by(self, lowered: LoweredSpec, at: SourceCluster, meta: ObjectMeta, target: Target) -> str:
        """Return the existing sync that wrote an object, or an empty text: a copy is never a source."""
        marks = read_marks(meta.annotations, self._hub.marks.keys) if OWNER_LABEL in meta.labels else Marks()
        if not is_copy(self._hub, at.cluster, target, marks):
            return ""
        marker = marks.marker
        if marker is None:
            # The existence of the named sync is not checked: the author of the mark would learn it.
            return UNVERIFIED
        self._claims.wait(lowered.sync.owner.sync, at.cluster.name, target, marker.sync)
        return marker.sync if marker.hub_uid or await self._claims.owner_exists(marker.sync) else ""

    async def _patch(self, lowered: LoweredSpec, ref: PatchContentRef, account: SourceAccount) -> str:
        namespace = lowered.sync.metadata.namespace
        where = f"{ref.kind} {namespace}/{ref.name}, which patchContentRef names,"
        try:
            informer, wire = await fetch_data(self._hub, lowered.user, Target(namespace, ref.name, ref.kind))
        except NotFound:
            raise SyncError("PatchNotFound", f"the {where} does not exist: create it") from None
        except Forbidden as error:
            message = with_cause(f"{_missing_right(lowered, error)} for the {where.rstrip(',')}", error)
            raise SyncError("PatchUnreadable", message, retry=True) from error
        except KubeError as error:
            raise SyncError("PatchUnreadable", f"the {where} cannot be read: {error}", retry=True) from error
        informer.observe_unmanaged(wire.metadata, lowered.sync.owner.sync)
        value = (wire.data or {}).get(ref.key)
        text = decoded(value) if ref.kind == "Secret" and value is not None else value
        if text is None:
            raise SyncError(
                "PatchNotFound", f"the {where} has no key {ref.key!r} that holds text: add it, or name another"
            )
        account.take(text.encode(errors="replace"))
        return text


def _open_object(raw: msgspec.Raw, account: SourceAccount) -> dict[str, Any]:
    """Decode an object. Raises `SyncError` and `NoRoomError`, and `BadAnswer` if it is not valid."""
    account.take(bytes(raw))
    try:
        manifest: dict[str, Any] = msgspec.json.decode(raw)
    except (ValueError, RecursionError):  # not kept as the cause: their text quotes what was read
        raise BadAnswer("a source does not have the expected shape") from None
    return manifest


async def _observe(lowered: LoweredSpec, ref: SourceQuery, at: SourceCluster, informer: KindInformer) -> None:
    """Let the watch follow the selected objects, which may be older than the watch."""
    namespace = ref.namespace if informer.resource.namespaced else None
    labels = selector_words(ref.selector)
    try:
        async for page in at.client.pages(
            informer.resource, namespace, labels=labels, type=MetaWire, metadata_only=True
        ):
            for wire in page.items:
                informer.observe_unmanaged(wire.metadata, lowered.sync.owner.sync)
    except KubeError as error:
        raise SyncError("SourceUnreadable", str(error), retry=True) from error


async def _fetch(client: Client, resource: Resource, ref: SourceQuery, account: SourceAccount) -> list[dict[str, Any]]:
    """Read one object, or all that match. Empty only if the server answers that exactly this object is absent."""
    namespace = ref.namespace if resource.namespaced else None
    if not ref.name:
        return await _select(client, resource, namespace, selector_words(ref.selector), account)
    try:
        return [_open_object(await client.get(resource, ref.name, namespace, type=msgspec.Raw), account)]
    except NotFound as error:
        if error.about != ref.name:  # its kind is unknown, not the object; or another server answers
            raise
        return []


async def _select(
    client: Client, resource: Resource, namespace: str | None, labels: str, account: SourceAccount
) -> list[dict[str, Any]]:
    """Read all objects that match, page by page. Only the objects that the account allows and one page are held."""
    for last_chance in (False, True):
        before = account.balance()
        found: list[dict[str, Any]] = []
        try:
            pages = client.pages(
                resource,
                namespace,
                labels=labels,
                type=msgspec.Raw,
                page=FIRST_PAGE,
                pace=_next_page,
                page_bytes=MAX_PAGE_BYTES,
            )
            async for page in pages:
                found += [_open_object(raw, account) for raw in page.items]
        except Gone:  # the pages took longer than the server keeps old versions: restart once
            if last_chance:
                raise
            account.go_back_to(before)
        else:
            break
    return found


def _next_page(last: Sequence[msgspec.Raw]) -> int:
    size = sum(map(len, last)) // len(last)
    return max(1, min(LARGEST_PAGE, PAGE_BYTES // max(1, size)))


def _missing_right(lowered: LoweredSpec, error: Forbidden) -> str:
    """Describe the missing right. For Secrets, the message of the server is not repeated."""
    return grant(lowered.user, error.verb, error.resource)


def _forbidden(lowered: LoweredSpec, error: Forbidden) -> str:
    return with_cause(_missing_right(lowered, error), error)


def _source_target(ref: SourceQuery, informer: KindInformer) -> Target:
    return Target(ref.namespace if informer.resource.namespaced else "", ref.name, ref.kind_name)


def _patch_refs(lowered: LoweredSpec) -> set[PatchContentRef]:
    patches = (place.patch.patch_content_ref for place in lowered.destinations if place.patch is not None)
    return {ref for ref in patches if ref is not None}


def _dedupe(sources: list[SourceObject]) -> tuple[SourceObject, ...]:
    """Drop the duplicates of objects that two references name."""
    return tuple({source.target: source for source in sources}.values())
