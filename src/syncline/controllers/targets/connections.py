"""Connections: the results of connecting to the clusters of a sync, and their records in the status."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct, structs

from syncline.api.common import ABANDON, GROUP, TargetState
from syncline.api.connection import WrittenCluster
from syncline.api.status import RemoteSyncStatus, SyncStatus
from syncline.api.synctarget import KIND as SYNC_TARGET
from syncline.api.synctarget import SyncTarget
from syncline.api.workspacesync import KIND as WORKSPACE_SYNC
from syncline.controllers.lowered import AnySync, Destination, LoweredSpec
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import LostCluster, TargetCluster
from syncline.core.conditions import find
from syncline.core.inventory import FULL, read_written, room_for
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.scope import Scope
from syncline.engine.cluster import Cluster
from syncline.fleet import MemberKey, NotResolved
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError

_UNUSABLE = frozenset({"SyncTargetNotFound", "SyncTargetNotAllowed"})


class ClusterVisit(Struct, frozen=True, kw_only=True):
    """The result of connecting to one destination."""

    site: TargetCluster | None = None
    key: MemberKey | None = None
    cluster: str = ""
    target: tuple[str, Key] | None = None
    """The SyncTarget, if it is one, and its name for the sync."""
    outcomes: tuple[Outcome, ...] = ()
    requeue: Requeue = NO_REQUEUE
    warning: str | None = None
    unmatched: str = ""
    """Why the destination means no cluster."""
    lost: LostCluster | None = None


def with_room(lowered: LoweredSpec, connections: Sequence[ClusterVisit]) -> list[ClusterVisit]:
    """Return the outcomes of clusters that the inventory has no room for. Known clusters go first."""
    status = lowered.sync.status
    known = written_clusters(status)
    connected = [(one, inventory_entry(one.site.destination)) for one in connections if one.site is not None]
    if (
        lowered.sync.deleting
        or not isinstance(status, RemoteSyncStatus)
        or all(entry in known for _, entry in connected)
    ):
        return list(connections)
    connected.sort(key=lambda pair: pair[1] not in known)
    room = room_for(status, [entry for _, entry in connected], lowered.kinds_written)
    full = {id(one) for one, _ in connected[room:]}
    return [_without_room(lowered, one) if id(one) in full else one for one in connections]


def _without_room(lowered: LoweredSpec, one: ClusterVisit) -> ClusterVisit:
    assert one.site is not None  # noqa: S101 - the caller looked
    destination = one.site.destination
    message = (
        f"split the sync: its status has no room for cluster {destination.cluster}, and nothing is written that is not"
        " recorded there first"
    )
    return structs.replace(one, site=None, outcomes=place_outcomes(lowered, destination, ("Failed", FULL, message)))


def cluster_name(destination: Destination) -> str:
    """Return the name of a destination: a SyncTarget already has one."""
    ref = destination.connection.sync_target_ref if destination.connection is not None else None
    return destination.cluster or (ref.name if ref is not None else "")


def target_key(destination: Destination, namespace: str) -> tuple[str, Key] | None:
    """Return the name of a SyncTarget for a sync of this namespace, and its key; None for another destination."""
    connection = destination.connection
    if connection is None or connection.sync_target_ref is None:
        return None
    return cluster_name(destination), Key(
        connection.sync_target_namespace or namespace, connection.sync_target_ref.name
    )


def written_kinds(sync: AnySync) -> dict[Key, frozenset[str]]:
    """Return the kinds that a sync has written to SyncTargets, as its status has them."""
    found: dict[Key, frozenset[str]] = {}
    written = read_written(sync.status.written)
    # A namespace that only holds the copies of a WorkspaceSync is no target.
    means = frozenset({NAMESPACE}) if sync.kind == WORKSPACE_SYNC else frozenset[str]()
    for entry in written_clusters(sync.status):
        named = target_key(Destination(cluster=entry.name, connection=entry.connection), sync.metadata.namespace)
        if named is not None:
            found[named[1]] = written.get(entry.name, frozenset()) - means
    return found


def inventory_entry(destination: Destination) -> WrittenCluster:
    """Return the record of a cluster in the status."""
    assert destination.connection is not None  # noqa: S101 - it is another cluster
    return WrittenCluster(name=destination.cluster, connection=destination.connection)


def written_clusters(status: SyncStatus) -> list[WrittenCluster]:
    """Return the clusters that a sync has written to."""
    return status.clusters if isinstance(status, RemoteSyncStatus) else []


def is_empty(site: TargetCluster, lowered: LoweredSpec) -> bool:
    """Whether the watched kinds of a cluster have no object of the sync left."""
    owners = (structs.replace(site.owner, environment=part) for part in lowered.owners)
    copies = (observed for owner in owners for observed in site.cluster.managed_by(owner.ref))
    return not any(observed.marker is not None and observed.marker.hub_uid == site.owner.hub_uid for observed in copies)


def is_abandoned_spec(lowered: LoweredSpec) -> bool:
    """Whether the user has abandoned the objects in clusters that the spec no longer names."""
    return lowered.sync.metadata.annotations.get(ABANDON) == "true"


def lost_cluster(name: str, target: SyncTarget | None, last_seen: datetime | None = None) -> LostCluster:
    """Return a cluster that cannot be reached. If this process has never seen it, its status has the time since when.

    Without an answer, it has just been lost: a restart of the operator must not end the patience with a cluster.
    """
    if target is None:
        return LostCluster(name=name, last_seen=last_seen, since=last_seen)
    ready = find(target.status.conditions, "Ready")
    turned = ready.last_transition_time if ready is not None and ready.status != "True" else None
    return LostCluster(
        name=name,
        labels=target.metadata.labels,
        last_seen=last_seen or _time(target.status.last_seen),
        since=last_seen or _time(turned),
    )


def _time(text: str | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def unresolvable(
    lowered: LoweredSpec, destination: Destination, error: KubeError, target: SyncTarget | None = None
) -> ClusterVisit:
    """Return the outcomes of all targets of a place that cannot be resolved."""
    reason = error.reason if isinstance(error, NotResolved) else "CredentialUnreadable"
    named = structs.replace(destination, cluster=cluster_name(destination))
    lost = place_outcomes(lowered, named, ("Failed", reason, f"cluster {named.cluster}: {error}"))
    if reason in _UNUSABLE:  # a place that is forbidden or absent is not written to
        return ClusterVisit(outcomes=lost)
    # Other problems are temporary, such as a Secret that is being replaced: what is there stays there.
    key = target_key(named, lowered.sync.metadata.namespace)
    return ClusterVisit(outcomes=lost, target=key, lost=lost_cluster(named.cluster, target))


def place_outcomes(
    lowered: LoweredSpec, destination: Destination, why: tuple[TargetState, str, str], cluster: Cluster | None = None
) -> tuple[Outcome, ...]:
    """Return the same outcome for all known targets of a destination, or for the destination itself."""
    state, reason, message = why
    targets: list[Target] = []
    if lowered.independent:
        targets.append(Target("", destination.cluster, f"{SYNC_TARGET}.{GROUP}", destination.cluster))
    for ref in lowered.writes if not lowered.independent else ():
        scope = destination.scope if destination.scope is not None else Scope(names=frozenset({ref.namespace}))
        namespaces = set(scope.names)
        if cluster is not None:
            namespaces |= {one.name for one in cluster.namespaces.values() if scope.matches(one)}
        targets += [
            Target(namespace, ref.name, ref.kind_name, destination.cluster) for namespace in sorted(namespaces or {""})
        ]
    return tuple(
        Outcome(target=target, state=state, reason=reason, message=message, retry=state == "Failed")
        for target in targets
    )
