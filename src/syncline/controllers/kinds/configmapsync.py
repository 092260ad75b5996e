"""ConfigMapSync: its spec lowered, and the fields of status that only it has."""

from msgspec import structs

from syncline.api import configmapsync as api
from syncline.api.common import GROUP, VERSION
from syncline.api.configmapsync import ConfigMapSyncSpec, ConfigMapSyncStatus
from syncline.controllers.lowered import Destination, LoweredSpec, SourceQuery, copy_ref, objects_scope, spec_of
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sync_kind import SyncKind
from syncline.controllers.tenancy import Tenancy
from syncline.core.keypolicies import KeyPolicies, KeyPolicy
from syncline.core.outcome import describe_changes
from syncline.core.plan import Policy
from syncline.core.scope import scope_of
from syncline.core.tenancy import TenantRequest
from syncline.core.tenant_requests import configmapsync_request
from syncline.core.twoway import STRATEGIES
from syncline.engine.sync_object import Sync
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class ConfigMapSyncKind(SyncKind[ConfigMapSyncSpec, ConfigMapSyncStatus]):
    """The kind, configured by the flags of the operator."""

    def __init__(self, tenancy: Tenancy) -> None:
        super().__init__(tenancy, RESOURCE, ConfigMapSyncSpec, ConfigMapSyncStatus)

    def request(self, spec: ConfigMapSyncSpec, namespace: str) -> TenantRequest:  # noqa: ARG002 - see the base
        """Return the request of a sync to the TenantPolicies."""
        return configmapsync_request(spec)

    def lower(
        self, sync: Sync[ConfigMapSyncSpec, ConfigMapSyncStatus]
    ) -> LoweredSpec[ConfigMapSyncSpec, ConfigMapSyncStatus]:
        """Lower a spec. Raises `SyncError` if it is not valid."""
        spec = spec_of(sync)
        names = (spec.destination_namespace,) if spec.destination_namespace else ()
        scope = scope_of(
            names, tuple(spec.destination_namespaces), spec.destination_namespace_selector, self.tenancy.guarded
        )
        two_way = spec.direction == "Bidirectional"
        rules = tuple(KeyPolicy(tuple(rule.keys), rule.conflict_policy) for rule in spec.key_policies)
        strategies = KeyPolicies(
            STRATEGIES[spec.conflict_policy],
            tuple(KeyPolicy(rule.keys, STRATEGIES[rule.policy]) for rule in rules),
        )
        policy = Policy(
            management=spec.resource_management_policy,
            conflict="Merge" if two_way else spec.conflict_policy,  # a pair keeps a base
            key_policies=() if two_way else rules,
        )
        destinations = (Destination(scope=scope, policy=policy),)
        name = spec.destination_name or spec.config_map_name
        sources = (SourceQuery(namespace=spec.source_namespace, name=spec.config_map_name),)
        return LoweredSpec(
            sync=sync,
            reads=sources,
            writes=tuple(copy_ref(source, name) for source in sources),
            destinations=destinations,
            guarded=self.tenancy.guarded,
            target_name=name,
            keys=spec.keys,
            transforms=tuple(spec.transforms),
            user=self.tenancy.user(sync.metadata.namespace, spec.service_account_name),
            prune=spec.prune,
            suspended=spec.suspend,
            two_way=strategies if two_way else None,
            deletion_policy=spec.deletion_policy,
            source_deletion_policy=spec.source_deletion_policy,
            scope=objects_scope(destinations, sources, name),
            limits=self.tenancy.limits(sync.metadata.namespace),
        )

    def extend_status(
        self,
        report: ReconcileResult[ConfigMapSyncSpec, ConfigMapSyncStatus],
        status: ConfigMapSyncStatus,
        now: str,
    ) -> ConfigMapSyncStatus:
        """Note when a copy was last changed."""
        if not describe_changes(report.outcomes or ()):
            return status
        return structs.replace(status, last_sync_time=now)
