"""The pods of gateways, by their syncs.

A pod names its sync by an annotation, and servers do not select by annotations. So all pods of each namespace with
syncs are watched, and only those with the annotation are cached, reduced to the fields for plans and status. Users of
the namespace write these fields, so their size is limited.
"""

from collections.abc import Callable

from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.api.ignition_annotations import CR_NAME, INJECT, PREFIX
from syncline.controllers.gateways.namespace_watches import NamespaceWatches
from syncline.core.gateway_profiles import GatewayFacts, facts_of
from syncline.kube.cache import Key
from syncline.kube.cache_budget import CacheBudget, texts_size
from syncline.kube.client import Client
from syncline.kube.reflector import Reflector
from syncline.kube.resources import PODS

AGENT_CONTAINER = "syncline-agent"
"""The name of the agent's container in a pod."""
MAX_METADATA = 16 * 1024
"""The maximum number of characters of the cached labels and annotations of a pod."""
GATEWAYS_BYTES = 64 * 1024 * 1024
"""The memory for the pods and reports of all gateways; one namespace has at most half of it."""
_POD_BYTES = 1000
_LONGEST_NAME = 254  # longer than any name, so it names no object
_ENDED = frozenset({"Succeeded", "Failed"})


class _GatewayContainer(Struct):
    name: str = ""


class _GatewayPodSpec(Struct, rename="camel"):
    service_account_name: str = ""
    init_containers: list[_GatewayContainer] | None = None
    containers: list[_GatewayContainer] | None = None
    share_process_namespace: bool | None = None
    host_pid: bool | None = field(default=None, name="hostPID")


class _GatewayPodStatus(Struct):
    phase: str = ""


class PodWire(Struct):
    """The fields of a pod that are read."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _GatewayPodSpec = field(default_factory=_GatewayPodSpec)
    status: _GatewayPodStatus = field(default_factory=_GatewayPodStatus)


class GatewayPod(Struct, frozen=True, kw_only=True):
    """A pod that names a sync."""

    uid: str
    facts: GatewayFacts
    phase: str
    service_account: str
    has_agent: bool
    wants_agent: bool
    oversized: bool = False
    """Whether the labels and annotations are too large: then none of them are cached."""

    @property
    def sync(self) -> Key:
        """The sync that the pod names."""
        return Key(self.facts.namespace, self.facts.sync)

    @property
    def running(self) -> bool:
        """Whether the pod counts as a gateway."""
        return self.phase == "Running"

    @property
    def ended(self) -> bool:
        """Whether the pod has ended, and gets no plan any more."""
        return self.phase in _ENDED


def to_gateway_pod(wire: PodWire) -> GatewayPod | None:
    """Reduce a pod to its cached fields; None for a pod that names no sync."""
    meta = wire.metadata
    if not meta.annotations.get(CR_NAME):
        return None
    containers = (*(wire.spec.init_containers or ()), *(wire.spec.containers or ()))
    own = {name: value for name, value in meta.annotations.items() if name.startswith(f"{PREFIX}/")}
    size = sum(len(name) + len(value) for texts in (own, meta.labels) for name, value in texts.items())
    oversized = size > MAX_METADATA
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        labels={} if oversized else meta.labels,
        annotations={CR_NAME: meta.annotations[CR_NAME][:_LONGEST_NAME]} if oversized else own,
    )
    return GatewayPod(
        uid=meta.uid,
        facts=facts_of(kept, shares_processes=bool(wire.spec.share_process_namespace) and not wire.spec.host_pid),
        phase=wire.status.phase,
        service_account=wire.spec.service_account_name or "default",
        has_agent=any(container.name == AGENT_CONTAINER for container in containers),
        wants_agent=meta.annotations.get(INJECT) == "true",
        oversized=oversized,
    )


def gateway_budget() -> CacheBudget:
    """Return the budget of the pods and reports of all gateways. Users of their namespaces write most of them."""
    return CacheBudget(GATEWAYS_BYTES, one="its gateways and their reports", all_of="all gateways and their reports")


def _weight(pod: GatewayPod) -> int:
    return _POD_BYTES + texts_size(pod.facts.labels) + texts_size(pod.facts.annotations)


PodListener = Callable[[GatewayPod | None, GatewayPod | None], None]
"""Called with the old and the new state of a pod."""


class GatewayPods:
    """The pods of all gateways, in the namespaces that are followed."""

    def __init__(self, client: Client, on_change: PodListener, budget: CacheBudget) -> None:
        self._client = client
        self._budget = budget
        self._on_change = on_change
        self._by_sync: dict[Key, dict[str, GatewayPod]] = {}
        self.watches: NamespaceWatches[PodWire, GatewayPod] = NamespaceWatches(self._new)

    def of_sync(self, sync: Key) -> list[GatewayPod]:
        """Return the pods of a sync that have not ended, by name."""
        return [pod for _, pod in sorted(self._by_sync.get(sync, {}).items()) if not pod.ended]

    async def get(self, namespace: str, name: str, uid: str) -> GatewayPod | None:
        """Return the present state of a pod: from the cache, or else live. Raises `KubeError`."""
        known = self.watches.get(Key(namespace, name))
        if known is not None and known.uid == uid:
            return known
        wire = await self._client.get(PODS, name, namespace, type=PodWire)
        return to_gateway_pod(wire) if wire.metadata.uid == uid else None

    def unfollow(self, namespace: str) -> None:
        """Stop watching a namespace."""
        self.watches.unfollow(namespace)
        for sync in [sync for sync in self._by_sync if sync.namespace == namespace]:
            del self._by_sync[sync]

    def _new(self, namespace: str) -> Reflector[PodWire, GatewayPod]:
        return Reflector(
            self._client,
            PODS,
            decode=PodWire,
            project=to_gateway_pod,
            namespace=namespace,
            on_change=self._changed,
            part="gateways",
            share=self._budget.cluster(namespace),
            weigh=_weight,
        )

    def _changed(self, key: Key, old: GatewayPod | None, new: GatewayPod | None, _by: str) -> None:
        if self.watches.reflector(key.namespace) is None:
            return  # a watch that is ending
        if old is not None:
            pods = self._by_sync.get(old.sync, {})
            pods.pop(key.name, None)
            if not pods:
                self._by_sync.pop(old.sync, None)
        if new is not None:
            self._by_sync.setdefault(new.sync, {})[key.name] = new
        if old != new:
            self._on_change(old, new)
