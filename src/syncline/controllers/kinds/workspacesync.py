"""WorkspaceSync: lowers its spec. `sources/upstream.py` reads the upstream."""

import msgspec
from msgspec import structs

from syncline.api import workspacesync as api
from syncline.api.common import GROUP, VERSION, LabelSelector
from syncline.api.connection import ClusterConnection, NameRef
from syncline.api.workspace_status import MAX_BINDINGS, UpstreamStatus, WorkspaceSyncStatus
from syncline.api.workspacesync import WorkspaceSyncSpec, resources_of
from syncline.controllers.lowered import Destination, LoweredSpec, cluster_scope, spec_of
from syncline.controllers.result import ReconcileResult
from syncline.controllers.status.workspacesync import extend
from syncline.controllers.sync_kind import SyncKind
from syncline.controllers.tenancy import Tenancy
from syncline.core.digest import short_digest
from syncline.core.group_kind import GroupResource
from syncline.core.plan import Policy
from syncline.core.spec_scope import SourceScope, SpecScope
from syncline.core.tenancy import TenantRequest
from syncline.core.tenant_requests import workspacesync_request
from syncline.engine.sync_object import Sync
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class WorkspaceSyncKind(SyncKind[WorkspaceSyncSpec, WorkspaceSyncStatus]):
    """The kind, configured by the flags of the operator."""

    def __init__(self, tenancy: Tenancy) -> None:
        super().__init__(tenancy, RESOURCE, WorkspaceSyncSpec, WorkspaceSyncStatus)

    def request(self, spec: WorkspaceSyncSpec, namespace: str) -> TenantRequest:
        """Return the request of a sync to the TenantPolicies."""
        return workspacesync_request(spec, namespace)

    def lower(
        self, sync: Sync[WorkspaceSyncSpec, WorkspaceSyncStatus]
    ) -> LoweredSpec[WorkspaceSyncSpec, WorkspaceSyncStatus]:
        """Lower a spec. The upstream is read later."""
        spec, namespace = spec_of(sync), sync.metadata.namespace
        destinations = _destinations(spec)
        return LoweredSpec(
            sync=sync,
            destinations=destinations,
            guarded=self.tenancy.guarded,
            user=self.tenancy.user(namespace, spec.service_account_name),
            prune=spec.prune,
            suspended=spec.suspend,
            deletion_policy=spec.deletion_policy,
            scope=_scope(spec, destinations),
            limits=self.tenancy.limits(namespace),
            staged=True,
            independent=True,
            chooses_clusters=spec.placement.strategy != "All",
            upstream=spec.upstream.connection,
            prune_reason="no longer in the upstream, or no longer selected",
            shrink_reason="the upstream no longer has them, or they no longer match",
        )

    def record_units(
        self, lowered: LoweredSpec[WorkspaceSyncSpec, WorkspaceSyncStatus], status: WorkspaceSyncStatus
    ) -> WorkspaceSyncStatus:
        """Record the upstream, and the names and placement of its namespaces, before the first write."""
        record = lowered.record
        if record is None:
            return status
        before = status.upstream or UpstreamStatus()
        upstream = structs.replace(
            before,
            identity=record.identity,
            endpoints=before.endpoints or spec_of(lowered.sync).endpoints,
            bindings=list(record.bindings[:MAX_BINDINGS]),
            doubtful=before.doubtful if record.doubtful is None else record.doubtful,
        )
        names = status.recorded_namespaces if record.namespaces is None else list(record.namespaces)
        return structs.replace(status, upstream=upstream, recorded_namespaces=names)

    def extend_status(
        self, report: ReconcileResult[WorkspaceSyncSpec, WorkspaceSyncStatus], status: WorkspaceSyncStatus, now: str
    ) -> WorkspaceSyncStatus:
        """Add the upstream, its namespaces and resources, and the conflicts."""
        return extend(report, status, now)


def _destinations(spec: WorkspaceSyncSpec) -> tuple[Destination, ...]:
    """Return the clusters of a spec: each SyncTarget by name, or all that a selector matches."""
    downstream = spec.downstream
    policy = Policy(management=spec.resource_management_policy)
    home = downstream.sync_target_namespace
    if downstream.selector is not None:
        connection = ClusterConnection(type="SyncTarget", selector=downstream.selector, sync_target_namespace=home)
        return (Destination(connection=connection, policy=policy),)
    return tuple(
        Destination(
            cluster=name,
            connection=ClusterConnection(
                type="SyncTarget", sync_target_ref=NameRef(name=name), sync_target_namespace=home
            ),
            policy=policy,
        )
        for name in downstream.sync_targets
    )


def _scope(spec: WorkspaceSyncSpec, destinations: tuple[Destination, ...]) -> SpecScope:
    """Return the scope of a spec: resources, namespaces and placement."""
    layout = msgspec.json.encode([spec.namespaces.mapping, spec.placement, spec.upstream], order="deterministic")
    return SpecScope(
        clusters=tuple(map(cluster_scope, destinations)),
        sources=tuple(
            SourceScope(
                kind=str(GroupResource(one.group, one.resource)),
                namespace="",
                selector=one.selector or LabelSelector(),
                namespaces=spec.namespaces.selector,
            )
            for one in resources_of(spec)
        ),
        template=True,
        layout=short_digest(layout.decode()),
    )
