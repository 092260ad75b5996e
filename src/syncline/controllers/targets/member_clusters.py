"""Member clusters: the caches of each remote cluster of the fleet, shared by all syncs that use it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable

from syncline.api.common import REQUESTED_AT
from syncline.controllers.lowered import AnySync, LoweredSpec
from syncline.controllers.triggers import Triggers
from syncline.engine.cluster import Cluster
from syncline.fleet import Fleet, RemoteCluster
from syncline.kube.cache import Key

# The interval of retries while a cluster is being connected for the first time.
CONNECTING = 1.0
# How long syncs wait for the probe of a cluster that has just failed to answer.
VERIFY_PATIENCE = 0.5


class MemberClusters:
    """One `Cluster` for each member of the fleet; a change of a member enqueues the syncs that use it."""

    def __init__(self, hub: Cluster, fleet: Fleet) -> None:
        self._hub = hub
        self._fleet = fleet
        self._clusters: dict[RemoteCluster, Cluster] = {}
        self._numbers = itertools.count(1)
        self._ending: set[asyncio.Task[None]] = set()
        self._triggers: set[Triggers] = set()
        self._stops: list[Callable[[], Awaitable[None]]] = []
        fleet.listen(self._member_changed)

    def add(self, triggers: Triggers) -> None:
        """Enqueue the syncs of a kind when a cluster that they use changes."""
        self._triggers.add(triggers)

    def follow(self, on_change: Callable[[RemoteCluster], None], stop: Callable[[], Awaitable[None]]) -> None:
        """Call `on_change` when a cluster changes, and `stop` at the end."""
        self._fleet.listen(on_change)
        self._stops.append(stop)

    def changed(self, name: str) -> None:
        """Enqueue the syncs that use a cluster."""
        for triggers in self._triggers:
            triggers.cluster_changed(name)

    def open(self, member: RemoteCluster, triggers: Triggers) -> Cluster:
        """Return the caches of a cluster."""
        if member not in self._clusters:
            name = f"{member.namespace}/{member.name}#{next(self._numbers)}"  # never the name of an earlier one
            cluster = Cluster(
                member.client,
                name=name,
                key=self._hub.key,
                marks=self._hub.marks,
                run_watch=member.run_watch,
                uid=lambda: member.uid,
                grace=self._hub.grace,
                share=member.cache_share,
            )
            cluster.start()
            self._clusters[member] = cluster
        triggers.attach(self._clusters[member])
        return self._clusters[member]

    def resource_names(self, kinds: Iterable[str]) -> dict[str, str]:
        """Return the resource names of kinds, from any cluster that has opened them."""
        found: dict[str, str] = {}
        for cluster in (self._hub, *self._clusters.values()):
            for kind in kinds:
                if kind not in found and (name := cluster.resource_name(kind)) is not None:
                    found[kind] = name
        return found

    async def stop(self) -> None:
        """End all watches of other clusters."""
        ends = [cluster.stop() for cluster in self._clusters.values()]
        await asyncio.gather(*ends, *(stop() for stop in self._stops), *self._ending)

    def _member_changed(self, member: RemoteCluster) -> None:
        cluster = self._clusters.get(member)
        if cluster is None:
            return
        for triggers in self._triggers:
            triggers.cluster_changed(cluster.name)
        if member.closed:
            for triggers in self._triggers:
                triggers.detach(cluster)
            del self._clusters[member]
            task = asyncio.get_running_loop().create_task(cluster.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def is_usable(member: RemoteCluster) -> bool:
    """Whether a cluster can be used. A doubtful one is not waited for, because it would delay the other clusters."""
    try:
        async with asyncio.timeout(VERIFY_PATIENCE if member.up else None):
            return await member.wait_probed()
    except TimeoutError:
        return False


def is_requested(sync: AnySync) -> bool:
    """Whether a user has requested a reconcile that has not run yet."""
    requested = sync.metadata.annotations.get(REQUESTED_AT)
    return requested is not None and requested != sync.status.last_handled_request


def sync_user(lowered: LoweredSpec) -> Key:
    """Return the unique name of the sync of a spec among all kinds."""
    return user_key(lowered.sync.kind, Key(lowered.sync.metadata.namespace, lowered.sync.metadata.name))


def user_key(kind: str, key: Key) -> Key:
    """Return the unique name of a sync among all kinds."""
    return Key(key.namespace, f"{kind}/{key.name}")
