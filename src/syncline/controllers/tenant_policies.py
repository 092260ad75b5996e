"""TenantPolicy informer: which policies govern a namespace, and whom a change of one concerns.

One watch, and none of it costs a request. Policies are told from namespaces by labels, which only those can write who
may change namespaces.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from syncline.api import tenantpolicy as api
from syncline.api.common import GROUP, VERSION, LabelSelector
from syncline.api.tenantpolicy import TenantPolicySpec, TenantPolicyStatus
from syncline.core.scope import Namespace
from syncline.core.selectors import selector_matches
from syncline.core.tenancy import NO_LIMITS, PolicyRules, TenantLimits
from syncline.engine.cluster import Cluster
from syncline.engine.sync_object import RawSync, Sync, read_sync
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.reflector import Reflector
from syncline.kube.resources import Resource

RESOURCE = Resource(GROUP, VERSION, api.PLURAL, api.KIND, namespaced=False)

PolicySync = Sync[TenantPolicySpec, TenantPolicyStatus]


class ObservedPolicy(Struct, frozen=True, kw_only=True):
    """A policy as read; `selector` is None where not even that can be read: then it governs every namespace."""

    sync: PolicySync
    selector: LabelSelector | None

    @property
    def rules(self) -> PolicyRules:
        """What it says."""
        return PolicyRules(name=self.sync.metadata.name, spec=self.sync.spec, error=self.sync.error)

    def governs(self, namespace: Namespace) -> bool:
        """Whether it governs a namespace as it is labelled now."""
        return self.selector is None or selector_matches(self.selector, namespace.labels)


class TenantPolicyInformer:
    """All policies, for those who obey them and for the one who reports on them."""

    def __init__(self, hub: Cluster, on_change: Callable[[frozenset[str]], None] = lambda _: None) -> None:
        """`on_change` is reported the namespaces whose syncs may or may not do other things now."""
        self._hub = hub
        self._on_change = on_change
        self._listeners: list[Callable[[str], None]] = []
        self._loaded: tuple[ObservedPolicy, ...] = ()
        self.reflector: Reflector[RawSync, ObservedPolicy] = Reflector(
            hub.client, RESOURCE, decode=RawSync, project=_read, on_change=self._changed
        )

    def listen(self, listener: Callable[[str], None]) -> None:
        """Tell the name of each policy that came, changed or went, or that governs something else now."""
        self._listeners.append(listener)

    async def load(self, client: Client) -> None:
        """Read all policies once, for a command that only looks. Raises what any read raises."""
        wires, _ = await client.list(RESOURCE, type=RawSync)
        self._loaded = tuple(map(_read, wires))

    def limits(self, namespace: str) -> TenantLimits:
        """Return what governs a namespace; of one that was not observed yet, that is not known."""
        policies = tuple(self._all())
        if not policies:
            return NO_LIMITS
        found = self._hub.namespace(namespace)
        if found is None:
            return TenantLimits(namespace=namespace, known=False)
        governing = sorted((one.rules for one in policies if one.governs(found)), key=lambda rules: rules.name)
        return TenantLimits(namespace=namespace, policies=tuple(governing)) if governing else NO_LIMITS

    def governed(self, policy: ObservedPolicy) -> frozenset[str]:
        """Return the namespaces that a policy governs now."""
        return frozenset(one.name for one in self._hub.namespaces.values() if policy.governs(one))

    def namespace_changed(self, cluster: Cluster, old: Namespace | None, new: Namespace | None) -> None:
        """Take the change of a namespace: its labels may put it under other policies."""
        seen = new or old
        # Before the first list is complete nobody reconciles, and all are asked for in any case.
        if cluster is not self._hub or seen is None or not self._hub.namespaces.synced.is_set():
            return
        before, after = (
            {policy.sync.metadata.name for policy in self._all() if one is not None and policy.governs(one)}
            for one in (old, new)
        )
        for name in before ^ after:
            self._tell(name)
        if before != after or (old is None and any(self._all())):
            self._on_change(frozenset({seen.name}))

    def syncs_changed(self, namespace: str) -> None:
        """Take it that a namespace has another number of syncs."""
        found = self._hub.namespace(namespace)
        for policy in self._all():
            if found is not None and policy.governs(found):
                self._tell(policy.sync.metadata.name)

    def _all(self) -> Iterator[ObservedPolicy]:
        yield from self._loaded
        yield from self.reflector.values()

    def _changed(self, key: Key, old: ObservedPolicy | None, new: ObservedPolicy | None, _by: str) -> None:
        # Statuses are ours, and allow nothing.
        if old is None or new is None or old.sync.metadata.generation != new.sync.metadata.generation:
            self._on_change(frozenset().union(*(self.governed(one) for one in (old, new) if one is not None)))
        self._tell(key.name)

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)


class _Selector(Struct, rename="camel"):
    namespace_selector: LabelSelector


def _read(wire: RawSync) -> ObservedPolicy:
    sync = read_sync(api.KIND, TenantPolicySpec, TenantPolicyStatus, wire)
    if sync.spec is not None:
        return ObservedPolicy(sync=sync, selector=sync.spec.namespace_selector)
    try:
        selector = msgspec.json.decode(wire.spec, type=_Selector).namespace_selector
    except msgspec.MsgspecError:
        selector = None
    return ObservedPolicy(sync=sync, selector=selector)
