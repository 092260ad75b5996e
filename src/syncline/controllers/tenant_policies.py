"""TenantPolicy informer: finds the policies that govern a namespace, and the namespaces that a change affects.

One watch serves all syncs, without requests. A policy selects namespaces by labels, which only users with the right to
change namespaces can write.
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
    """A decoded policy. If its selector is not valid, `selector` is None, and the policy governs every namespace."""

    sync: PolicySync
    selector: LabelSelector | None

    @property
    def rules(self) -> PolicyRules:
        """The spec."""
        return PolicyRules(name=self.sync.metadata.name, spec=self.sync.spec, error=self.sync.error)

    def governs(self, namespace: Namespace) -> bool:
        """Whether it governs a namespace with its present labels."""
        return self.selector is None or selector_matches(self.selector, namespace.labels)


class TenantPolicyInformer:
    """All policies, for the syncs that they govern and for the reconciler that reports on them."""

    def __init__(self, hub: Cluster, on_change: Callable[[frozenset[str]], None] = lambda _: None) -> None:
        """`on_change` is called with the namespaces whose limits have changed."""
        self._hub = hub
        self._on_change = on_change
        self._listeners: list[Callable[[str], None]] = []
        self._loaded: tuple[ObservedPolicy, ...] = ()
        self.reflector: Reflector[RawSync, ObservedPolicy] = Reflector(
            hub.client, RESOURCE, decode=RawSync, project=_read, on_change=self._changed
        )

    def listen(self, listener: Callable[[str], None]) -> None:
        """Report to a listener the name of each policy that changed, or that governs other namespaces now."""
        self._listeners.append(listener)

    async def load(self, client: Client) -> None:
        """Read all policies once, for a command that does not watch. Raises the errors of a read."""
        wires, _ = await client.list(RESOURCE, type=RawSync)
        self._loaded = tuple(map(_read, wires))

    def limits(self, namespace: str) -> TenantLimits:
        """Return the limits of a namespace; they are not `known` before the namespace was observed."""
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
        """Handle the change of a namespace: its labels may select other policies."""
        seen = new or old
        # Before the first list is complete nothing is reconciled; afterwards all syncs are enqueued in any case.
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
        """Handle that the number of syncs of a namespace has changed."""
        found = self._hub.namespace(namespace)
        for policy in self._all():
            if found is not None and policy.governs(found):
                self._tell(policy.sync.metadata.name)

    def _all(self) -> Iterator[ObservedPolicy]:
        yield from self._loaded
        yield from self.reflector.values()

    def _changed(self, key: Key, old: ObservedPolicy | None, new: ObservedPolicy | None, _by: str) -> None:
        # Statuses are ours, and change no limit.
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
