"""ManifestSync: its spec lowered, and the fields of status that only it has."""

from msgspec import structs

from syncline.api import manifestsync as api
from syncline.api.common import GROUP, VERSION, Condition
from syncline.api.manifestsync import ManifestSourceRef as SpecRef
from syncline.api.manifestsync import ManifestSyncSpec, ManifestSyncStatus
from syncline.controllers.lowered import Destination, LoweredSpec, SourceQuery, copy_ref, objects_scope, spec_of
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sync_kind import SyncKind
from syncline.controllers.tenancy import Tenancy
from syncline.core.conditions import Finding, find, update_conditions
from syncline.core.outcome import count, describe_changes
from syncline.core.plan import Policy
from syncline.core.scope import scope_of
from syncline.core.tenancy import TenantRequest
from syncline.core.tenant_requests import manifestsync_request
from syncline.engine.sync_object import Sync
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class ManifestSyncKind(SyncKind[ManifestSyncSpec, ManifestSyncStatus]):
    """The kind, configured by the flags of the operator."""

    def __init__(self, tenancy: Tenancy) -> None:
        super().__init__(tenancy, RESOURCE, ManifestSyncSpec, ManifestSyncStatus)

    def request(self, spec: ManifestSyncSpec, namespace: str) -> TenantRequest:
        """Return the request of a sync to the TenantPolicies."""
        return manifestsync_request(spec, namespace)

    def lower(
        self, sync: Sync[ManifestSyncSpec, ManifestSyncStatus]
    ) -> LoweredSpec[ManifestSyncSpec, ManifestSyncStatus]:
        """Lower a spec. Raises `SyncError` if it is not valid."""
        spec = spec_of(sync)
        namespace = sync.metadata.namespace
        refs = [spec.source_ref] if spec.source_ref is not None else spec.source_refs
        sources = tuple(_query_of(ref, namespace) for ref in refs)
        destinations = _destinations(spec, self.tenancy.guarded)
        interval = spec.sync_policy.interval if spec.sync_policy.mode == "Interval" else None
        return LoweredSpec(
            sync=sync,
            reads=sources,
            writes=tuple(copy_ref(source, spec.target_name or "") for source in sources),
            destinations=destinations,
            guarded=self.tenancy.guarded,
            target_name=spec.target_name or "",
            keys=spec.keys,
            transforms=tuple(spec.transforms),
            options=spec.replication_options,
            user=self.tenancy.user(namespace, spec.service_account_name),
            prune=spec.prune,
            suspended=spec.suspend,
            interval=self.tenancy.interval(interval) if interval is not None else None,
            deletion_policy=spec.deletion_policy,
            source_deletion_policy=spec.source_deletion_policy,
            scope=objects_scope(destinations, sources, spec.target_name or ""),
            limits=self.tenancy.limits(namespace),
        )

    def extend_status(
        self, report: ReconcileResult[ManifestSyncSpec, ManifestSyncStatus], status: ManifestSyncStatus, now: str
    ) -> ManifestSyncStatus:
        """Add the time of the last success, the observed source, and the condition Degraded."""
        ready = find(status.conditions, "Ready")
        conditions = [*status.conditions, _degraded(report, status, ready, now)]
        status = structs.replace(
            status,
            conditions=conditions,
            source_observed_state=report.observed or status.source_observed_state,
            target_statuses=[structs.replace(one, kind=one.kind or "ConfigMap") for one in status.target_statuses],
        )
        succeeded = ready is not None and ready.status == "True"
        if succeeded and (status.last_successful_sync_time is None or describe_changes(report.outcomes or ())):
            return structs.replace(status, last_successful_sync_time=now)
        return status


def _query_of(ref: SpecRef, namespace: str) -> SourceQuery:
    group, _, version = ref.api_version.rpartition("/")
    return SourceQuery(
        group=group,
        version=version,
        kind=ref.kind,
        namespace=ref.namespace or namespace,
        name=ref.name or "",
        selector=ref.selector,
    )


def _destinations(spec: ManifestSyncSpec, guarded: frozenset[str]) -> tuple[Destination, ...]:
    destinations: list[Destination] = []
    inside = spec.targets.in_cluster
    if inside is not None:
        destinations.append(
            Destination(
                scope=scope_of((), tuple(inside.namespaces), inside.namespace_selector, guarded),
                policy=Policy(management=inside.resource_management_policy or spec.resource_management_policy),
                patch=inside.patch or spec.patch,
            )
        )
    for remote in spec.targets.remote_clusters:
        named = remote.namespaces or remote.namespace_selector is not None
        destinations.append(
            Destination(
                cluster=remote.cluster_name or "",
                connection=remote.connection,
                scope=scope_of((), tuple(remote.namespaces), remote.namespace_selector, guarded) if named else None,
                policy=Policy(management=remote.resource_management_policy or spec.resource_management_policy),
                patch=remote.patch or spec.patch,
            )
        )
    return tuple(destinations)


def _degraded(report: ReconcileResult, status: ManifestSyncStatus, ready: Condition | None, now: str) -> Condition:
    """Return the condition Degraded: whether there is a problem that does not end by itself."""
    counts = count(report.outcomes or ())
    bad = counts.failed + counts.conflicted + counts.unknown
    if ready is not None and (bad or (report.problem is not None and report.problem.status == "False")):
        finding = Finding("Degraded", "True", ready.reason, ready.message)
    else:
        finding = Finding("Degraded", "False", "AsExpected", "nothing is wrong")
    known = report.sync.status.conditions
    return update_conditions(known, [finding], status.observed_generation, now)[0]
