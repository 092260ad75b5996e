"""The reconcilers of all syncs, wired together: kinds, sources, clusters, and the services that they share."""

from msgspec import Struct

from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.controllers.author_check import AuthorCheck
from syncline.controllers.base import AnySyncReconciler, SharedServices
from syncline.controllers.gateways.fleet import DepotAccess
from syncline.controllers.kinds.configmapsync import ConfigMapSyncKind
from syncline.controllers.kinds.configsync import ConfigSyncKind
from syncline.controllers.kinds.ignitionsync import IgnitionSyncKind, IgnitionSyncReconciler
from syncline.controllers.kinds.manifestsync import ManifestSyncKind
from syncline.controllers.kinds.workspacesync import WorkspaceSyncKind
from syncline.controllers.quotas import Quotas
from syncline.controllers.reconciler import AnyReconciler, Reconciler
from syncline.controllers.sources.built import BuiltSource
from syncline.controllers.sources.objects import ObjectSource
from syncline.controllers.sources.source_memory import SourceMemory
from syncline.controllers.sources.upstream import UpstreamSource
from syncline.controllers.targets.clusters import LocalClusters
from syncline.controllers.targets.fleet_clusters import FleetClusters
from syncline.controllers.tenant_policies import TenantPolicyInformer
from syncline.core.tenancy import NO_LIMITS
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.own_rights import OwnRights
from syncline.engine.unkept import UnkeptFields
from syncline.engine.write_loops import WriteLoops
from syncline.git import Mirrors
from syncline.kube.events import EventRecorder
from syncline.render.build_pool import BuildPool
from syncline.render.transform_pool import TransformPool
from syncline.settings import Settings
from syncline.telemetry.bind import OFF


class BuildTools(Struct, frozen=True):
    """The tools that read and build content: templates, builds, repositories."""

    renderer: TransformPool
    builder: BuildPool
    mirrors: Mirrors


BuildReconciler = Reconciler[ConfigSyncSpec, ConfigSyncStatus, BuiltSource]


class Reconcilers(Struct, frozen=True):
    """The reconcilers of all syncs."""

    objects: tuple[AnyReconciler, ...]
    """The reconcilers of kinds that copy objects."""
    builds: BuildReconciler
    """The reconciler of ConfigSyncs."""
    gateways: IgnitionSyncReconciler
    """The reconciler of IgnitionSyncs."""

    @property
    def planned(self) -> tuple[AnyReconciler, ...]:
        """The reconcilers of kinds that write objects by plan."""
        return (*self.objects, self.builds)

    @property
    def all(self) -> tuple[AnySyncReconciler, ...]:
        """All reconcilers."""
        return (*self.planned, self.gateways)


def new_reconcilers(
    hub: Cluster,
    tools: BuildTools,
    events: EventRecorder,
    settings: Settings,
    *,
    clusters: FleetClusters | None = None,
    rights: OwnRights | None = None,
    policies: TenantPolicyInformer | None = None,
    authors: AuthorCheck | None = None,
    depot: DepotAccess | None = None,
) -> Reconcilers:
    """Return new reconcilers of all syncs, with the services that they share."""
    tenancy = settings.tenancy(rights, policies)
    limits = policies.limits if policies is not None else lambda _: NO_LIMITS
    quotas = Quotas(limits)
    tools.builder.count(quotas.built)
    tools.mirrors.limit(quotas.mirror_bytes)
    configmaps, manifests, git = ConfigMapSyncKind(tenancy), ManifestSyncKind(tenancy), ConfigSyncKind(tenancy)
    workspaces = WorkspaceSyncKind(tenancy)
    shared = SharedServices(
        hub=hub,
        renderer=tools.renderer,
        events=events,
        claims=Claims(hub.client, {one.name: one.resource for one in (configmaps, manifests, git, workspaces)}, limits),
        write_loops=WriteLoops(),
        unkept=UnkeptFields(),
        quotas=quotas,
        source_memory=SourceMemory(),
        authors=authors,
        watch_namespaces=settings.watch_namespaces,
        allowed_kinds=frozenset(settings.allow_kinds),
        on_count=policies.syncs_changed if policies is not None else lambda _: None,
    )
    local = LocalClusters(hub)
    objects: tuple[AnyReconciler, ...] = (
        Reconciler(configmaps, local, shared, lambda _: _object_source(shared)),
        Reconciler(manifests, clusters or local, shared, lambda _: _object_source(shared)),
    )
    if clusters is not None:
        objects += (Reconciler(workspaces, clusters, shared, lambda host: _upstream_source(host, clusters, shared)),)
    builds: BuildReconciler = Reconciler(
        git, clusters or local, shared, lambda host: _built_source(host, git, shared, tools)
    )
    gateways = IgnitionSyncReconciler(
        IgnitionSyncKind(tenancy),
        shared,
        tools.mirrors,
        depot,
        takes_webhooks=settings.webhook_bind != OFF,
        global_secret=bool(settings.webhook_secret_file),
    )
    all_ = Reconcilers(objects, builds, gateways)
    by_kind = {one.queue.name: one for one in all_.all}
    quotas.connect(
        lambda name: by_kind[name[0]].recorded_targets(name[1]), lambda name: by_kind[name[0]].look_again(name[1])
    )
    return all_


def _object_source(shared: SharedServices) -> ObjectSource:
    return ObjectSource(shared.hub, shared.claims, shared.renderer, shared.allowed_kinds, shared.source_memory)


def _upstream_source(host: AnyReconciler, clusters: FleetClusters, shared: SharedServices) -> UpstreamSource:
    return UpstreamSource(
        shared.hub,
        clusters,
        host.triggers,
        claims=shared.claims,
        write_loops=shared.write_loops,
        allowed_kinds=shared.allowed_kinds,
        writer=host.writer,
        pairs=host.pairs,
    )


def _built_source(
    host: BuildReconciler, kind: ConfigSyncKind, shared: SharedServices, tools: BuildTools
) -> BuiltSource:
    return BuiltSource(
        host,
        shared.hub,
        kind.tenancy,
        shared.quotas,
        resource=kind.resource,
        mirrors=tools.mirrors,
        builder=tools.builder,
    )
