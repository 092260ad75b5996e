"""The lowered spec: what a sync reads, where it writes, and by which policies. All kinds are lowered to it."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from msgspec import Struct

from syncline.api.common import DeletionPolicy, LabelSelector, ObjectMeta
from syncline.api.connection import ClusterConnection
from syncline.api.content import Keys, Transform
from syncline.api.manifestsync import Patch, PatchContentRef, ReplicationOptions, SourceObservedState
from syncline.api.status import SyncStatus
from syncline.controllers.errors import SyncError
from syncline.core.digest import short_digest
from syncline.core.group_kind import GroupKind
from syncline.core.keypolicies import KeyPolicies
from syncline.core.objects import Target
from syncline.core.plan import Policy
from syncline.core.scope import Scope
from syncline.core.selectors import selector_words
from syncline.core.source_names import SourceName
from syncline.core.spec_scope import OWN_CLUSTER, ClusterScope, ClusterSelector, NamespaceScope, SourceScope, SpecScope
from syncline.core.tenancy import NO_LIMITS, TenantLimits
from syncline.engine.claims import Claim, ClaimedTarget
from syncline.engine.sync_object import Sync
from syncline.engine.watch_filter import LabelQuery
from syncline.engine.watch_index import WatchSet
from syncline.kube.cache import Key
from syncline.render.transform_pool import is_template

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Spec_co = TypeVar("Spec_co", bound=Struct, default=Struct, covariant=True)
    Status_co = TypeVar("Status_co", bound=SyncStatus, default=SyncStatus, covariant=True)
else:  # before Python 3.13, a type variable's default is for the type checker only
    from typing import TypeVar

    Spec_co = TypeVar("Spec_co", bound=Struct, covariant=True)
    Status_co = TypeVar("Status_co", bound=SyncStatus, covariant=True)

Spec = TypeVar("Spec", bound=Struct)
Status = TypeVar("Status", bound=SyncStatus)

AnySync = Sync[Struct, SyncStatus]


class SourceQuery(Struct, frozen=True, kw_only=True):
    """One source that a spec names: an object, or all objects of a namespace with some labels."""

    group: str = ""
    version: str = "v1"
    kind: str = "ConfigMap"
    namespace: str = ""
    name: str = ""
    selector: LabelSelector | None = None

    @property
    def group_kind(self) -> GroupKind:
        """The kind and its group."""
        return GroupKind(self.group, self.kind)

    @property
    def kind_name(self) -> str:
        """The kind as targets name it."""
        return str(self.group_kind)

    def __str__(self) -> str:
        what = self.name or f"with labels {selector_words(self.selector)}"
        return f"{self.kind} {self.namespace}/{what}" if self.namespace else f"{self.kind} {what}"


class WriteRef(Struct, frozen=True, kw_only=True):
    """One object that a sync writes. Without a name: any object of the kind."""

    group: str = ""
    version: str | None = None
    kind: str
    namespace: str = ""
    name: str = ""

    @property
    def group_kind(self) -> GroupKind:
        """The kind and its group."""
        return GroupKind(self.group, self.kind)

    @property
    def kind_name(self) -> str:
        """The kind as targets name it."""
        return str(self.group_kind)


class Destination(Struct, frozen=True, kw_only=True):
    """A cluster, and the namespaces there that copies are written to."""

    cluster: str = ""
    """The name that the sync has for the cluster; empty for its own cluster."""
    connection: ClusterConnection | None = None
    scope: Scope | None = None
    """None: the namespace of each source."""
    policy: Policy = Policy()
    patch: Patch | None = None

    @property
    def local(self) -> bool:
        """Whether it is in the cluster of the sync."""
        return self.connection is None

    def scope_of(self, source: Target, guarded: frozenset[str]) -> Scope:
        """Return the namespaces for copies of a source."""
        if self.scope is not None:
            return self.scope
        return Scope(names=frozenset({source.namespace} if source.namespace else ()), guarded=guarded)


class SourceObject(Struct, frozen=True, kw_only=True):
    """A source object that was read."""

    ref: SourceQuery
    target: Target
    """Its kind, namespace and name. The cluster is its workspace, if the sync reads several."""
    cluster_uid: str
    """The UID of its cluster."""
    namespaced: bool
    meta: ObjectMeta
    manifest: Mapping[str, Any]

    def __str__(self) -> str:
        target = self.target
        return str(SourceName(target.kind, target.namespace, target.name, target.cluster))


class WorkspaceRecord(Struct, frozen=True, kw_only=True):
    """The record of an upstream before the first write."""

    identity: str
    namespaces: tuple[str, ...] | None = None
    """None: they were not read."""
    bindings: tuple[str, ...] = ()
    """The workspaces of an APIExport, each with the UID of its APIBinding."""
    doubtful: str | None = None
    """The versions that the upstream may have lost; None: it was not read."""


class LoweredSpec(Struct, Generic[Spec_co, Status_co], frozen=True, kw_only=True):
    """The spec of a sync, lowered for one reconcile, as far as it follows from the spec alone."""

    sync: Sync[Spec_co, Status_co]
    reads: tuple[SourceQuery, ...] = ()
    """The source objects."""
    writes: tuple[WriteRef, ...] = ()
    """The objects that are written, as far as they are known. Without a name: any objects of the kind."""
    destinations: tuple[Destination, ...]
    guarded: frozenset[str] = frozenset()
    target_name: str = ""
    """The name of the copies, as a template; empty: the name of the source."""
    keys: Keys | None = None
    transforms: tuple[Transform, ...] = ()
    options: ReplicationOptions = ReplicationOptions()
    user: str | None = None
    """The user that reads and writes in this cluster; None: the operator itself."""
    prune: bool = True
    suspended: bool = False
    two_way: KeyPolicies | None = None
    """The strategies of a two-way sync; None: one way."""
    interval: float | None = None
    deletion_policy: DeletionPolicy = "Delete"
    source_deletion_policy: DeletionPolicy = "Delete"
    scope: SpecScope = SpecScope()
    """The scope of the spec: where managed objects belong."""
    limits: TenantLimits = NO_LIMITS
    """The TenantPolicies that govern the sync."""
    units: tuple[str, ...] = ("",)
    """The units that own objects: the sync, or each of its environments."""
    removed_units: tuple[str, ...] = ()
    """Units that the spec no longer has, and that may have written objects."""
    staged: bool = False
    """Whether objects depend on each other. Then they are applied in stages, and nothing is pruned before all are
    applied. A kind is watched when its stage begins.
    """
    independent: bool = False
    """Whether staged objects need only their namespaces: a failure blocks no other object, and no pruning."""
    chooses_clusters: bool = False
    """Whether a placement chooses among the clusters, so that not all of them are needed."""
    upstream: ClusterConnection | None = None
    """The cluster that objects are read from; None: the cluster of the sync."""
    record: WorkspaceRecord | None = None
    """The record of the upstream before the first write."""
    dry_run: bool = False
    unvalidated: bool = False
    """Whether manifests are written without a validation, so that a preview has to ask the servers about them."""
    health_timeout: float | None = None
    """The seconds in which objects must become healthy; None: their health is not checked."""
    prune_reason: str = "no longer a destination of this sync"
    """Why an unwanted copy is removed."""
    shrink_reason: str = "their namespaces no longer match"
    """Why many copies are no longer wanted, as far as it is known."""

    @property
    def prunes_after_all(self) -> bool:
        """Whether pruning waits until all objects are applied."""
        return self.staged and not self.independent

    @property
    def is_single(self) -> bool:
        """Whether the spec names exactly one source."""
        return len(self.reads) == 1 and bool(self.reads[0].name)

    @property
    def owners(self) -> tuple[str, ...]:
        """All units that may own objects."""
        return tuple(sorted({*self.units, *self.removed_units}))

    @property
    def kinds_written(self) -> frozenset[str]:
        """The kinds that are written."""
        return frozenset(ref.kind_name for ref in self.writes)

    def patch_refs(self) -> Iterator[Target]:
        """Yield the objects that hold patches."""
        for destination in self.destinations:
            if destination.patch is not None and (ref := destination.patch.patch_content_ref) is not None:
                yield Target(self.sync.metadata.namespace, ref.name, ref.kind)

    def secret_refs(self) -> Iterator[Target]:
        """Yield the Secrets that hold credentials of other clusters."""
        for connection in self._connections():
            for ref in (connection.kubeconfig_secret_ref, connection.service_account_token_ref):
                if ref is not None:
                    yield Target(self.sync.metadata.namespace, ref.name, "Secret")

    def _connections(self) -> Iterator[ClusterConnection]:
        places = (destination.connection for destination in self.destinations)
        return (connection for connection in (self.upstream, *places) if connection is not None)

    def watches(self) -> WatchSet:
        """Return the watches that follow from the spec alone, before any cluster is connected."""
        # Only the server knows whether a kind is namespaced: before discovery, both are watched.
        named = {
            Target(namespace, ref.name, ref.kind_name)
            for ref in self.reads
            if ref.name
            for namespace in (ref.namespace, "")
        }
        selected = (ref for ref in self.reads if ref.selector is not None)
        return WatchSet(
            objects=frozenset(named | set(self.patch_refs()) | set(self.secret_refs())),
            queries=tuple(
                (ref.kind_name, LabelQuery(ref.namespace, ref.selector)) for ref in selected if ref.selector is not None
            ),
            names=frozenset(claimed.name for claimed in self.wants()),
            targets=any(connection.type == "SyncTarget" for connection in self._connections()),
            scopes=tuple(
                ("", destination.scope)
                for destination in self.destinations
                if destination.local and destination.scope is not None
            ),
        )

    def wants(self) -> Iterator[ClaimedTarget]:
        """Yield the targets in this cluster whose names are known from the spec alone."""
        for destination in self.destinations:
            for ref in self.reads:
                name = self.target_name or ref.name
                if not destination.local or destination.scope is None or not name or is_template(name):
                    continue
                source = Target(ref.namespace, ref.name, ref.kind_name)
                yield ClaimedTarget(("", ref.kind_name, name), destination.scope if ref.namespace else None, source)

    def claim(self, more: tuple[ClaimedTarget, ...] = ()) -> Claim | None:
        """Return the claim of the sync. A sync that is suspended or being deleted claims nothing."""
        if self.suspended or self.sync.deleting:
            return None
        return Claim(
            ref=self.sync.owner.ref,
            created=self.sync.metadata.creation_timestamp,
            targets=(*self.wants(), *more),
            user=self.user,
        )


def copy_ref(source: SourceQuery, target_name: str) -> WriteRef:
    """Return the copy of a source, as far as the spec names it."""
    name = target_name if target_name and not is_template(target_name) else source.name
    return WriteRef(group=source.group, version=source.version, kind=source.kind, namespace=source.namespace, name=name)


def objects_scope(
    destinations: tuple[Destination, ...], sources: tuple[SourceQuery, ...], target_name: str
) -> SpecScope:
    """Return the scope of a spec that copies objects."""
    return SpecScope(
        clusters=tuple(map(cluster_scope, destinations)),
        sources=tuple(map(source_scope, sources)),
        name=target_name,
        template=is_template(target_name),
    )


def cluster_scope(destination: Destination) -> ClusterScope:
    """Return the scope of one destination: a cluster, or the clusters of a selector."""
    namespaces = NamespaceScope.of(destination.scope) if destination.scope is not None else None
    connection = destination.connection
    if connection is not None and connection.selector is not None:
        selector = ClusterSelector(labels=connection.selector, namespace=connection.sync_target_namespace or "")
        return ClusterScope(selector=selector, namespaces=namespaces)
    return ClusterScope(name=destination.cluster, connection=connection_id(connection), namespaces=namespaces)


def source_scope(ref: SourceQuery) -> SourceScope:
    """Return the scope of one source: an object, or the objects of a selector."""
    return SourceScope(kind=ref.kind_name, namespace=ref.namespace, name=ref.name, selector=ref.selector)


def connection_id(connection: ClusterConnection | None) -> str:
    """Return the identifier of a connection."""
    if connection is None:
        return OWN_CLUSTER
    return short_digest(msgspec.json.encode(connection, order="deterministic").decode())


class SourceObjects(Struct, frozen=True, kw_only=True):
    """The objects that a sync reads."""

    sources: tuple[SourceObject, ...] = ()
    absent: tuple[Target, ...] = ()
    """Named sources that the server says do not exist."""
    patches: Mapping[PatchContentRef, str] = {}
    problem: SyncError | None = None
    """A problem with some sources. The others can be copied."""

    @property
    def revision(self) -> str:
        """Return the revision of all sources together."""
        versions = [f"{source} {source.meta.resource_version}" for source in self.sources]
        return self.sources[0].meta.resource_version if len(versions) == 1 else short_digest(*versions)

    @property
    def observed(self) -> SourceObservedState | None:
        """Return the observed state of the first source."""
        if not self.sources:
            return None
        meta = self.sources[0].meta
        return SourceObservedState(uid=meta.uid, generation=meta.generation, resource_version=meta.resource_version)


def spec_of(sync: Sync[Spec, SyncStatus]) -> Spec:
    """Return the spec of a sync. Raises `SyncError` if it could not be decoded."""
    if sync.spec is None:
        raise SyncError("InvalidSpec", sync.error, stalled=True)
    return sync.spec


def key_of(sync: AnySync) -> Key:
    """Return the key of a sync."""
    return Key(sync.metadata.namespace, sync.metadata.name)
