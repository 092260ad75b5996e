"""Object reader: reads source objects, and the patches that a sync names, live."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.common import ObjectMeta
from syncline.api.manifestsync import PatchContentRef
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, SourceObject, SourceObjects, SourceQuery
from syncline.controllers.sources.references import fetch_data
from syncline.controllers.targets.open_kind import describe_unwatched, open_kind
from syncline.core.marks import UNSIGNED
from syncline.core.objects import Target
from syncline.core.ownership import OWNER_LABEL, Marks, object_id_of, read_marks
from syncline.core.remedies import grant, with_cause
from syncline.core.secrets import decoded
from syncline.core.selectors import selector_words
from syncline.core.spec_scope import SourceScope
from syncline.core.strip import needs_service_account, protected
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.kind_informer import KindInformer, MetaWire
from syncline.kube.client import Client
from syncline.kube.errors import ApiError, Forbidden, KindNotServed, KubeError, NotFound
from syncline.kube.resources import Resource


class SourceCluster(Struct, frozen=True):
    """The cluster that source objects are read from, with the identity that reads them."""

    cluster: Cluster
    client: Client


class ObjectReader:
    """Reads source objects for one sync after the other; remembers nothing."""

    def __init__(self, hub: Cluster, claims: Claims, allowed_kinds: frozenset[str]) -> None:
        self._hub = hub
        self._claims = claims
        self._allowed_kinds = allowed_kinds

    def here(self, lowered: LoweredSpec) -> SourceCluster:
        """Return the cluster of the sync, read with the identity of the sync."""
        return SourceCluster(self._hub, self._hub.acting_as(lowered.user))

    async def read_sources(self, lowered: LoweredSpec, at: SourceCluster) -> SourceObjects:
        """Read all sources of a sync from a cluster. Raises `SyncError` where something cannot be read."""
        sources: list[SourceObject] = []
        absent: list[Target] = []
        for ref in lowered.reads:
            self._refuse(lowered, ref)
            informer = await self._open(lowered, ref, at)
            found = await self._read(lowered, ref, at, informer)
            sources += found
            if ref.name and not found:
                absent.append(_source_target(ref, informer))
        patches = {ref: await self._patch(lowered, ref) for ref in _patch_refs(lowered)}
        problem = None
        if absent:
            words = ", ".join(f"{target.kind} {target._replace(kind='ConfigMap')}" for target in absent)
            stays = "; its copies stay (sourceDeletionPolicy Orphan)"
            orphan = lowered.source_deletion_policy == "Orphan"
            problem = SyncError("SourceNotFound", f"the source {words} does not exist{stays if orphan else ''}")
        return SourceObjects(sources=_dedupe(sources), absent=tuple(absent), patches=patches, problem=problem)

    async def deleted_sources(self, lowered: LoweredSpec, at: SourceCluster, sources: Iterable[str]) -> frozenset[str]:
        """Return which former sources, as markers name them, were selected by labels and are not known to exist."""
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
        """Return the sources that a selector means, as markers name them; none where that cannot be read."""
        kind, _, group = scope.kind.partition(".")
        try:
            resource = (await at.cluster.open_kind(group, kind)).resource
            found, _ = await at.client.list(
                resource,
                scope.namespace if resource.namespaced else None,
                labels=selector_words(scope.selector),
                type=MetaWire,
                metadata_only=True,
            )
        except KubeError:
            return frozenset()
        return frozenset(f"{scope.kind}/{one.metadata.namespace}/{one.metadata.name}" for one in found)

    def placeholders(self, lowered: LoweredSpec, at: SourceCluster) -> Iterator[SourceObject]:
        """Yield the named sources as if they had been read, to know where their copies belong."""
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
        """Refuse kinds whose copies would break a cluster, or give away rights."""
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
            return await open_kind(at.cluster, ref.group, ref.kind, ref.version)
        except KindNotServed as error:
            raise SyncError("KindNotServed", str(error), retry=True) from error
        except NotWatchedError as error:
            message = describe_unwatched(error, reads_as_account=lowered.user is not None)
            raise SyncError("KindNotWatched", message, retry=True) from error

    async def _read(
        self, lowered: LoweredSpec, ref: SourceQuery, at: SourceCluster, informer: KindInformer
    ) -> list[SourceObject]:
        resource = informer.resource
        if ref.version != resource.version:
            resource = structs.replace(resource, version=ref.version)
        try:
            manifests = await _fetch(at.client, resource, ref)
        except NotFound as error:  # not of the object, but of its kind
            try:
                await at.cluster.check_served(informer, ref.version)
            except KindNotServed as why:
                raise SyncError("KindNotServed", str(why), retry=True) from error
            raise SyncError("SourceUnreadable", str(error), retry=True) from error
        except Forbidden as error:
            raise SyncError("SourceForbidden", _forbidden(lowered, error), retry=True) from error
        except ApiError as error:
            raise SyncError("SourceUnreadable", str(error), retry=True) from error
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
        """Name the living sync that made an object, or nothing: a copy is never a source."""
        keys = self._hub.marks.keys
        marker, claim = read_marks(meta.annotations, keys) if OWNER_LABEL in meta.labels else Marks()
        # What may be a copy of another hub, or of an earlier version, is no source either; what is made up may be one.
        if claim is not None and (claim.proof != UNSIGNED or claim.hub_uid or UNSIGNED in keys.takeovers):
            marker = claim
        if marker is None or marker.object_id != object_id_of(at.cluster.uid, target):
            return ""
        self._claims.wait(lowered.sync.owner.sync, at.cluster.name, target, marker.sync)
        return marker.sync if marker.hub_uid or await self._claims.owner_exists(marker.sync) else ""

    async def _patch(self, lowered: LoweredSpec, ref: PatchContentRef) -> str:
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
        return text


async def _fetch(client: Client, resource: Resource, ref: SourceQuery) -> list[dict[str, Any]]:
    """Read one object, or all that match; none only where the server says so of this very object."""
    namespace = ref.namespace if resource.namespaced else None
    if not ref.name:
        found, _ = await client.list(resource, namespace, labels=selector_words(ref.selector))
        return found
    try:
        return [await client.get(resource, ref.name, namespace)]
    except NotFound as error:
        if error.about != ref.name:  # not the object is unknown, but its kind: or something else answers
            raise
        return []


def _missing_right(lowered: LoweredSpec, error: Forbidden) -> str:
    """Say who lacks which right: of Secrets the server's own words are not told."""
    return grant(lowered.user, error.verb, error.resource)


def _forbidden(lowered: LoweredSpec, error: Forbidden) -> str:
    return with_cause(_missing_right(lowered, error), error)


def _source_target(ref: SourceQuery, informer: KindInformer) -> Target:
    return Target(ref.namespace if informer.resource.namespaced else "", ref.name, ref.kind_name)


def _patch_refs(lowered: LoweredSpec) -> set[PatchContentRef]:
    patches = (place.patch.patch_content_ref for place in lowered.destinations if place.patch is not None)
    return {ref for ref in patches if ref is not None}


def _dedupe(sources: list[SourceObject]) -> tuple[SourceObject, ...]:
    """Drop what two references both name."""
    return tuple({source.target: source for source in sources}.values())
