"""ConfigSync: its spec lowered, and the fields of status that only it has."""

from collections.abc import Iterable

from msgspec import Struct

from syncline.api import configsync as api
from syncline.api.common import GROUP, VERSION
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.api.status import SyncStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec, SourceQuery, cluster_scope
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sources.environments import spec_of
from syncline.controllers.sources.prepared import ConfigSyncResult
from syncline.controllers.status.configsync import compose_configsync
from syncline.controllers.tenancy import Tenancy
from syncline.core.environments import build_inputs, environments_of, removed_environments
from syncline.core.objects import Desired
from syncline.core.plan import Policy
from syncline.core.spec_scope import ListedTarget, SpecScope
from syncline.engine.record import SyncWire, read_sync
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class ConfigSyncKind(Struct, frozen=True):
    """The kind, as the operator's flags have it."""

    tenancy: Tenancy
    name: str = api.KIND
    resource: Resource = RESOURCE

    def read(self, wire: SyncWire) -> AnySync:
        """Decode a sync."""
        return read_sync(api.KIND, ConfigSyncSpec, ConfigSyncStatus, wire)

    def extend_status(self, report: ReconcileResult, status: SyncStatus, now: str) -> SyncStatus:
        """Note revisions, histories and what only this kind reports."""
        assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
        if not isinstance(report, ConfigSyncResult):
            return compose_configsync(report, status, now)
        return compose_configsync(report, status, now, results=report.results, former=report.former, plan=report.plan)

    def check_identity(self, sync: AnySync, spec: ConfigSyncSpec) -> None:
        """Raise `Problem` where objects of the cluster would decide what is written with the operator's own rights.

        Their author's rights were checked when the sync was written, those of whoever edits such an object never are.
        """
        namespace = sync.metadata.namespace
        if self.tenancy.user(namespace, spec.service_account_name) is not None:
            return
        for one in build_inputs(spec, namespace):
            message = (
                f"set serviceAccountName: whoever may edit the {one.kind} {one.namespace}/{one.name} decides what is "
                "written, and without an account that would be with the operator's rights"
            )
            raise SyncError("AccountRequired", message, stalled=True)

    def lower(self, sync: AnySync, desired: Iterable[Desired] = ()) -> LoweredSpec:
        """Lower a spec, with what its sources come to; raises `Problem` for one that cannot be carried out."""
        spec = spec_of(sync)
        status = sync.status
        assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
        environments = environments_of(spec, sync.metadata.namespace)
        refs = {one.target: _query_of(one) for one in desired}
        conflict = "SourceWins" if spec.drift_policy == "Correct" else "Report"
        policy = Policy(management=spec.resource_management_policy, conflict=conflict)
        destinations = tuple(
            Destination(cluster=remote.cluster_name or "", connection=remote.connection, policy=policy)
            for remote in spec.remote_clusters
        )
        destinations = destinations or (Destination(policy=policy),)
        return LoweredSpec(
            sync=sync,
            sources=tuple(refs.values()),
            destinations=destinations,
            guarded=self.tenancy.guarded,
            user=self.tenancy.user(sync.metadata.namespace, spec.service_account_name),
            prune=spec.prune,
            suspended=spec.suspend,
            deletion_policy=spec.deletion_policy,
            scope=SpecScope(
                clusters=tuple(map(cluster_scope, destinations)),
                environments=tuple(environment.scope() for environment in environments),
                targets=tuple(_listed(one) for one in spec.targets),
            ),
            parts=tuple(
                sorted({*(environment.name for environment in environments), *removed_environments(spec, status)})
            ),
            staged=True,
            prune_reason="no longer in the source",
            shrink_reason="the source no longer has them",
        )


def _listed(target: api.Target) -> ListedTarget:
    return ListedTarget(kind=target.type, name=target.name, namespace=target.namespace or "")


def _query_of(desired: Desired) -> SourceQuery:
    target = desired.target
    kind, _, group = target.kind.partition(".")
    version = desired.body.api_version.rpartition("/")[2] if desired.body is not None else "v1"
    return SourceQuery(group=group, version=version, kind=kind, namespace=target.namespace, name=target.name)
