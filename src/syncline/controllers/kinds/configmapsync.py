"""ConfigMapSync: its spec lowered, and the fields of status that only it has."""

from msgspec import Struct, structs

from syncline.api import configmapsync as api
from syncline.api.common import GROUP, VERSION
from syncline.api.configmapsync import ConfigMapSyncSpec, ConfigMapSyncStatus
from syncline.api.status import SyncStatus
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec, SourceQuery, objects_scope
from syncline.controllers.result import ReconcileResult
from syncline.controllers.tenancy import Tenancy
from syncline.core.keypolicies import KeyPolicies, KeyPolicy
from syncline.core.outcome import describe_changes
from syncline.core.plan import Policy
from syncline.core.scope import scope_of
from syncline.core.tenant_requests import configmapsync_request
from syncline.core.twoway import STRATEGIES
from syncline.engine.record import SyncWire, read_sync
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class ConfigMapSyncKind(Struct, frozen=True):
    """The kind, as the operator's flags have it."""

    tenancy: Tenancy
    name: str = api.KIND
    resource: Resource = RESOURCE

    def read(self, wire: SyncWire) -> AnySync:
        """Decode a sync."""
        return read_sync(api.KIND, ConfigMapSyncSpec, ConfigMapSyncStatus, wire)

    def lower(self, sync: AnySync) -> LoweredSpec:
        """Lower a spec that could be read."""
        spec = sync.spec
        assert isinstance(spec, ConfigMapSyncSpec)  # noqa: S101 - it was read as one
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
            sources=sources,
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

    def admit(self, sync: AnySync) -> None:
        """Raise `Problem` where a TenantPolicy does not allow what the spec asks for."""
        assert isinstance(sync.spec, ConfigMapSyncSpec)  # noqa: S101 - it was read as one
        self.tenancy.admit(sync.metadata.namespace, configmapsync_request(sync.spec))

    def extend_status(self, report: ReconcileResult, status: SyncStatus, now: str) -> SyncStatus:
        """Note when a copy was last changed."""
        assert isinstance(status, ConfigMapSyncStatus)  # noqa: S101 - it was read as one
        if not describe_changes(report.outcomes or ()):
            return status
        return structs.replace(status, last_sync_time=now)
