"""Cluster resolver: the clusters that a sync writes to, connected."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct, structs

from syncline.api.status import SyncStatus
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec, SourceObject, Status
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.open_kind import reopen_kind
from syncline.controllers.triggers import Triggers
from syncline.core.inventory import read_written, with_kinds
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import Owner
from syncline.core.scope import Scope
from syncline.core.spec_scope import ClusterSelector
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import KindNotServed

NO_NAMESPACES = Scope()
# Longer than any write can take: an API server gives up after a minute.
MAX_WRITE_SECONDS = 120.0


class TargetCluster(Struct, frozen=True, kw_only=True):
    """A cluster, as one sync connects to it."""

    destination: Destination
    cluster: Cluster
    client: Client
    """The client, with the identity that the sync writes with."""
    owner: Owner
    labels: Mapping[str, str] = {}
    """The labels of its SyncTarget."""
    unschedulable: bool = False
    """Whether its SyncTarget accepts nothing new (`unschedulable`)."""

    def is_source(self, target: Target, source: SourceObject) -> bool:
        """Whether a target here is the source itself."""
        in_namespace = target.namespace == source.target.namespace
        return in_namespace and self.cluster.uid == source.cluster_uid and target.local() == source.target

    def target(self, namespace: str, name: str, kind: str) -> Target:
        """Return a target in this cluster, with the name that the sync has for the cluster."""
        return Target(namespace, name, kind, self.destination.cluster)


class LostCluster(Struct, frozen=True, kw_only=True):
    """A cluster that the spec names and that cannot be reached now."""

    name: str
    labels: Mapping[str, str] = {}
    last_seen: datetime | None = None
    """For people. None: it was never seen."""
    since: datetime | None = None
    """The time from which on it counts as lost. None: it has just been lost, as far as anybody knows."""
    unschedulable: bool = False
    """Whether it is not reached because it takes no new syncs."""


class ConnectedClusters(Struct, frozen=True, kw_only=True):
    """The clusters of a sync: connected, and unreachable."""

    sites: tuple[TargetCluster, ...] = ()
    former: tuple[TargetCluster, ...] = ()
    """Clusters that the spec no longer names and that may still hold copies."""
    outcomes: tuple[Outcome, ...] = ()
    """The outcomes of targets in unreachable clusters."""
    incomplete: bool = False
    """Whether a destination could not be read: then the sync is not complete."""
    requeue: Requeue = NO_REQUEUE
    renamed: tuple[TargetCluster, ...] = ()
    """Clusters with a name that the spec no longer has, and that the spec has under another name."""
    clusters: frozenset[str] = frozenset()
    """All other clusters that were tried."""
    warnings: tuple[str, ...] = ()
    """Warnings about future problems, such as credentials that expire."""
    unmatched: tuple[str, ...] = ()
    """Descriptions of the selectors that match no cluster."""
    unseen_kinds: frozenset[str] = frozenset()
    """The kinds that the sync has written in its own cluster and that cannot be watched now."""
    lost: tuple[LostCluster, ...] = ()
    """Clusters that the spec names and that cannot be reached now."""


def for_unit(clusters: ConnectedClusters, unit: str, removed: tuple[str, ...] = ()) -> ConnectedClusters:
    """Return the clusters for one unit of a sync. The unit takes over the objects of `removed` units."""

    def named(site: TargetCluster) -> TargetCluster:
        heir_of = tuple(structs.replace(site.owner, environment=part).ref for part in removed)
        return structs.replace(site, owner=structs.replace(site.owner, environment=unit, inherits_from=heir_of))

    if not unit and not removed:
        return clusters
    return structs.replace(clusters, sites=tuple(map(named, clusters.sites)), former=tuple(map(named, clusters.former)))


def has_objects(clusters: ConnectedClusters) -> bool:
    """Whether an object names the unit that writes to these clusters."""
    return any(site.cluster.managed_by(site.owner.ref) for site in (*clusters.sites, *clusters.former))


class ClusterResolver(Protocol[Status]):
    """Finds the clusters of syncs."""

    async def connect(self, lowered: LoweredSpec, triggers: Triggers, *, former: bool = True) -> ConnectedClusters:
        """Return the clusters of a sync. Unreachable ones become outcomes."""

    def record(self, lowered: LoweredSpec, connected: ConnectedClusters, status: Status) -> Status:
        """Record the kinds and clusters in the status, before they are written to."""

    def selected(self, selector: ClusterSelector, namespace: str) -> frozenset[str]:
        """Return the connections to the SyncTargets that a selector matches now, for a sync of this namespace."""

    async def observe(self, sync: AnySync, outcomes: Sequence[Outcome] | None, *, complete: bool) -> None:
        """Record the outcomes of a reconcile in the clusters of a sync; None: they were not read."""

    def forget(self, kind: str, key: Key) -> None:
        """Release the memory of a deleted sync."""


class LocalClusters:
    """The clusters of syncs that write only to their own cluster."""

    def __init__(self, hub: Cluster) -> None:
        self._hub = hub

    async def connect(self, lowered: LoweredSpec, triggers: Triggers, *, former: bool = True) -> ConnectedClusters:  # noqa: ARG002 - see the protocol
        """Return this cluster, with the watches of all kinds that the sync has written.

        If the spec no longer has it, and the sync has written to it, it is a former cluster.
        """
        unseen = await self._open(local_kinds(lowered.sync.status))
        client = self._hub.acting_as(lowered.user)
        owner = structs.replace(lowered.sync.owner, keys=self._hub.marks.keys)
        sites = tuple(
            TargetCluster(destination=destination, cluster=self._hub, client=client, owner=owner)
            for destination in lowered.destinations
            if destination.local
        )
        left: tuple[TargetCluster, ...] = ()
        if former and not sites and local_kinds(lowered.sync.status):
            left = (
                TargetCluster(
                    destination=Destination(scope=NO_NAMESPACES), cluster=self._hub, client=client, owner=owner
                ),
            )
        return ConnectedClusters(sites=sites, former=left, incomplete=bool(unseen), unseen_kinds=unseen)

    def record(self, lowered: LoweredSpec, connected: ConnectedClusters, status: Status) -> Status:  # noqa: ARG002 - see the protocol
        """Note the kinds."""
        return with_kinds(status, {"": lowered.kinds_written})

    def selected(self, selector: ClusterSelector, namespace: str) -> frozenset[str]:  # noqa: ARG002 - see the protocol
        """Return nothing: there are no other clusters."""
        return frozenset()

    async def observe(self, sync: AnySync, outcomes: Sequence[Outcome] | None, *, complete: bool) -> None:
        """Record nothing: there are no SyncTargets."""

    def forget(self, kind: str, key: Key) -> None:
        """Release nothing: no memory is held."""

    async def _open(self, kinds: tuple[str, ...]) -> frozenset[str]:
        """Watch the kinds that were written earlier. Return those that cannot be watched."""
        unseen: set[str] = set()
        for name in kinds:
            try:
                await reopen_kind(self._hub, name)
            except (KindNotServed, NotWatchedError):
                unseen.add(name)
        return frozenset(unseen)


def emptied_kinds(lowered: LoweredSpec, connected: ConnectedClusters) -> dict[str, set[str]]:
    """Return the recorded kinds that the sync no longer writes and that have no object left, by cluster.

    A write from before a crash may still create an object, so a kind must have been watched for longer than any request
    takes.
    """
    wanted = lowered.kinds_written
    recorded = read_written(lowered.sync.status.written)
    refs = [structs.replace(lowered.sync.owner, environment=part).ref for part in lowered.owners]
    found: dict[str, set[str]] = {}
    for site in (*connected.sites, *connected.former):
        cluster, name = site.cluster, site.destination.cluster
        for kind in recorded.get(name, frozenset()) - wanted - (frozenset() if name else connected.unseen_kinds):
            is_gone = not cluster.is_open(kind) or cluster.watched_for(kind) >= MAX_WRITE_SECONDS
            if is_gone and not any(cluster.managed_by(ref, kind) for ref in refs):
                found.setdefault(name, set()).add(kind)
    return found


def local_kinds(status: SyncStatus) -> tuple[str, ...]:
    """Return the kinds that a sync has written in its own cluster."""
    return tuple(sorted(read_written(status.written).get("", ())))
