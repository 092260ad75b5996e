"""TenantPolicy: reports the namespaces that a policy governs. `core.tenancy` decides what it allows.

The status is written when a number in it has changed. Changes at the same time are written once.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import structs

from syncline.api import tenantpolicy as api
from syncline.api.tenantpolicy import TenantPolicyStatus
from syncline.controllers.object_reconciler import ObjectReconciler
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.tenant_policies import RESOURCE, ObservedPolicy, TenantPolicyInformer
from syncline.core.conditions import Finding, update_conditions
from syncline.engine.sync_object import RawSync
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.events import EventRecorder

# Many syncs that a tenant creates at once cause one status write.
REPORT_DELAY = 1.0


class TenantPolicyReconciler(ObjectReconciler):
    """Reports on all TenantPolicies."""

    def __init__(
        self,
        client: Client,
        policies: TenantPolicyInformer,
        count_syncs: Callable[[frozenset[str]], int],
        *,
        events: EventRecorder,
    ) -> None:
        super().__init__(RESOURCE, client, events)
        self._policies = policies
        self._count_syncs = count_syncs
        policies.listen(lambda name: self.queue.add(Key("", name), delay=REPORT_DELAY))

    async def _reconcile(self, key: Key) -> Requeue:
        """Write the status of one policy if it changed."""
        policy = self._policies.reflector.get(key)
        if policy is None or policy.sync.deleting:
            return NO_REQUEUE
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        governed = self._policies.governed(policy)
        status = compose(policy, len(governed), self._count_syncs(governed), now)
        stored = await self._store(policy.sync.metadata, policy.sync.status, status, now)
        return Requeue(backoff=stored.refusal is not None)

    def _observe(self, wire: RawSync) -> None:
        self._policies.reflector.observe(wire, api.KIND)


def compose(policy: ObservedPolicy, namespaces: int, syncs: int, now: str) -> TenantPolicyStatus:
    """Compose the new status of a policy. Pure."""
    meta, old = policy.sync.metadata, policy.sync.status
    if policy.sync.spec is None:
        message = (
            f"correct the spec: it is not valid, so no sync of its namespaces may do anything: {policy.sync.error}"
        )
        ready = Finding("Ready", "False", "InvalidSpec", message)
    elif namespaces:
        ready = Finding("Ready", "True", "InForce", "the syncs of these namespaces do what the policy allows")
    else:
        ready = Finding("Ready", "True", "NoNamespaces", "no namespace has the labels of namespaceSelector")
    return structs.replace(
        old,
        observed_generation=meta.generation,
        conditions=update_conditions(old.conditions, [ready], meta.generation, now),
        namespaces=namespaces,
        syncs=syncs,
    )
