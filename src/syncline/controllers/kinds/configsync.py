"""ConfigSync: its spec lowered, and the fields of status that only it has."""

from contextlib import suppress

from msgspec import structs

from syncline.api import configsync as api
from syncline.api.common import GROUP, VERSION
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus, EnvironmentStatus
from syncline.controllers.errors import SyncError, refuse_suspended
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec, cluster_scope, spec_of
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sources.built import BuiltSpec
from syncline.controllers.sources.environments import BuiltSync, spec_claim, spec_watches
from syncline.controllers.status.configsync import compose_configsync
from syncline.controllers.sync_kind import SyncKind
from syncline.controllers.tenancy import Tenancy
from syncline.core.durations import seconds
from syncline.core.environments import build_inputs, environments_of, removed_environments
from syncline.core.plan import Policy
from syncline.core.spec_scope import ListedTarget, SpecScope
from syncline.core.tenancy import TenantRequest
from syncline.core.tenant_requests import configsync_request
from syncline.engine.claims import Claim
from syncline.engine.watch_index import WatchSet
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class ConfigSyncKind(SyncKind[ConfigSyncSpec, ConfigSyncStatus]):
    """The kind, configured by the flags of the operator."""

    def __init__(self, tenancy: Tenancy) -> None:
        super().__init__(tenancy, RESOURCE, ConfigSyncSpec, ConfigSyncStatus)

    def request(self, spec: ConfigSyncSpec, namespace: str) -> TenantRequest:
        """Return the request of a sync to the TenantPolicies."""
        return configsync_request(spec, namespace)

    def extend_status(
        self, report: ReconcileResult[ConfigSyncSpec, ConfigSyncStatus], status: ConfigSyncStatus, now: str
    ) -> ConfigSyncStatus:
        """Add revisions, histories and the conditions of this kind."""
        return compose_configsync(report, status, now)

    def admit(self, sync: BuiltSync) -> BuiltSpec:
        """Lower the spec of a sync for a reconcile. Raises `SyncError` if the sync is not admitted."""
        spec, namespace = spec_of(sync), sync.metadata.namespace
        refuse_suspended(suspended=spec.suspend)
        self.tenancy.admit(namespace, self.request(spec, namespace))
        self.check_identity(sync, spec)
        self.tenancy.interval(spec.refresh_interval)
        return structs.replace(self.lower(sync), limits=self.tenancy.limits(namespace))

    def watches(self, sync: BuiltSync) -> tuple[WatchSet, Claim | None]:
        """Return the watches and the claim that follow from the spec alone; without an identity there is no claim."""
        spec = spec_of(sync)
        claim = None
        if not spec.suspend and not sync.deleting:
            with suppress(SyncError):
                user = self.tenancy.user(sync.metadata.namespace, spec.service_account_name)
                claim = spec_claim(sync, spec, user)
        return spec_watches(sync, spec), claim

    def record_units(self, lowered: BuiltSpec, status: ConfigSyncStatus) -> ConfigSyncStatus:
        """Record the environments, so that none is ever lost."""
        known = {entry.name for entry in status.environments}
        new = [EnvironmentStatus(name=unit) for unit in lowered.owners if unit and unit not in known]
        return structs.replace(status, environments=[*status.environments, *new]) if new else status

    def check_identity(self, sync: AnySync, spec: ConfigSyncSpec) -> None:
        """Raise `SyncError` if objects of the cluster would decide what is written with the operator's own rights.

        The rights of the author of the sync were checked. The rights of a user who edits such an object are not.
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

    def lower(self, sync: BuiltSync) -> BuiltSpec:
        """Lower a spec. Raises `SyncError` if it is not valid."""
        spec = spec_of(sync)
        environments = environments_of(spec, sync.metadata.namespace)
        conflict = "SourceWins" if spec.drift_policy == "Correct" else "Report"
        policy = Policy(management=spec.resource_management_policy, conflict=conflict)
        destinations = tuple(
            Destination(cluster=remote.cluster_name or "", connection=remote.connection, policy=policy)
            for remote in spec.remote_clusters
        )
        destinations = destinations or (Destination(policy=policy),)
        return LoweredSpec(
            sync=sync,
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
            units=tuple(environment.name for environment in environments),
            removed_units=removed_environments(spec, sync.status),
            staged=True,
            dry_run=spec.dry_run,
            unvalidated=spec.validation == "None",
            health_timeout=seconds(spec.timeout) if spec.wait else None,
            prune_reason="no longer in the source",
            shrink_reason="the source no longer has them",
        )


def _listed(target: api.ConfigSyncTarget) -> ListedTarget:
    return ListedTarget(kind=target.type, name=target.name, namespace=target.namespace or "")
