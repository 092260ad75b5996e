"""ConfigMapSync: its spec lowered, and the fields of status that only it has."""

from msgspec import Struct, structs

from syncline.api import configmapsync as api
from syncline.api.common import GROUP, VERSION
from syncline.api.configmapsync import ConfigMapSyncSpec, ConfigMapSyncStatus
from syncline.api.status import SyncStatus
from syncline.controllers.errors import refuse_suspended
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec, SourceQuery, copy_ref, objects_scope
from syncline.controllers.result import ReconcileResult
from syncline.controllers.tenancy import Tenancy
from syncline.core.keypolicies import KeyPolicies, KeyPolicy
from syncline.core.outcome import describe_changes
from syncline.core.plan import Policy
from syncline.core.scope import scope_of
from syncline.core.tenant_requests import configmapsync_request
from syncline.core.twoway import STRATEGIES
from syncline.engine.claims import Claim
from syncline.engine.sync_object import RawSync, read_sync
from syncline.engine.watch_index import WatchSet
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND)


class ConfigMapSyncKind(Struct, frozen=True):
    """The kind, as the operator's flags have it."""

    tenancy: Tenancy
    name: str = api.KIND
    resource: Resource = RESOURCE

    def read(self, wire: RawSync) -> AnySync:
        """Decode a sync."""
        return read_sync(api.KIND, ConfigMapSyncSpec, ConfigMapSyncStatus, wire)

    def lower(self, sync: AnySync) -> LoweredSpec:
        """Lower a spec that could be read."""
        spec = self._spec(sync)
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

    def admit(self, sync: AnySync) -> LoweredSpec:
        """Lower a spec that is to be carried out now; raises `SyncError` where it must not be."""
        lowered = self.lower(sync)
        refuse_suspended(suspended=lowered.suspended)
        namespace = sync.metadata.namespace
        self.tenancy.admit(namespace, configmapsync_request(self._spec(sync)))
        return lowered

    def watches(self, sync: AnySync) -> tuple[WatchSet, Claim | None]:
        """Return what enqueues a sync, and what it claims, by its spec alone."""
        lowered = self.lower(sync)
        return lowered.watches(), lowered.claim()

    def record_units(self, lowered: LoweredSpec, status: SyncStatus) -> SyncStatus:  # noqa: ARG002 - see the protocol
        """Nothing is to be noted: the sync itself owns its copies."""
        return status

    def _spec(self, sync: AnySync) -> ConfigMapSyncSpec:
        assert isinstance(sync.spec, ConfigMapSyncSpec)  # noqa: S101 - it was read as one
        return sync.spec

    def extend_status(self, report: ReconcileResult, status: SyncStatus, now: str) -> SyncStatus:
        """Note when a copy was last changed."""
        assert isinstance(status, ConfigMapSyncStatus)  # noqa: S101 - it was read as one
        if not describe_changes(report.outcomes or ()):
            return status
        return structs.replace(status, last_sync_time=now)
