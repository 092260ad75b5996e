"""Managed objects: the objects of a sync in the caches of its clusters, and the names that they have there."""

from collections.abc import Iterator

from msgspec import structs

from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.core.objects import Observed, Target
from syncline.core.ownership import Ownership, is_proven, object_id_of, ownership_of
from syncline.core.scope import Namespace
from syncline.core.scope_record import short_object_id

Managed = tuple[TargetCluster, Observed]
ObjectKey = tuple[str, Target]
"""The UID of a cluster, and a target in it. The name that a sync has for the cluster can later mean another one."""


def managed_objects(connected: ConnectedClusters) -> Iterator[Managed]:
    """Yield all copies of a sync, by the names that it has for its clusters."""
    for site, observed in observed_copies(connected):
        yield site, with_cluster_name(site, observed)


def observed_copies(connected: ConnectedClusters) -> Iterator[Managed]:
    """Yield all copies of a sync as they are cached, without the name of their cluster."""
    clusters: dict[tuple[str, str], list[TargetCluster]] = {}
    for site in (*connected.sites, *connected.former):
        clusters.setdefault((site.cluster.uid, site.owner.hub_uid), []).append(site)
    for sites in clusters.values():
        first = sites[0]
        for observed in first.cluster.managed_by(first.owner.ref):
            if _is_managed(first, observed):
                site = first if len(sites) == 1 else _owning_destination(sites, observed)
                yield site, observed


def _is_managed(site: TargetCluster, observed: Observed) -> bool:
    """Whether an object whose marker names the sync is its own: a forged mark or a clone counts for nothing."""
    marker = observed.marker
    return (
        marker is not None
        and marker.hub_uid == site.owner.hub_uid
        and marker.object_id == object_id_of(site.cluster.uid, observed.target)
        and is_proven(observed, site.owner)
    )


def is_unproven(site: TargetCluster, observed: Observed) -> bool:
    """Whether the mark of an object is signed with a key that is not known."""
    return ownership_of(observed, site.owner, object_id_of(site.cluster.uid, observed.target)) is Ownership.UNPROVEN


def _owning_destination(sites: list[TargetCluster], observed: Observed) -> TargetCluster:
    """Return the one of several names for a cluster that a copy belongs to; the first name if the copy is unwanted."""
    namespace = sites[0].cluster.namespace(observed.target.namespace)
    source = observed.marker.source.split("/") if observed.marker is not None else []
    at_source = source[1:2] == [observed.target.namespace]  # a destination without a scope writes there
    owning = (one for one in sites if matches_scope(one, namespace) or (one.destination.scope is None and at_source))
    return next(owning, sites[0])


def object_key(site: TargetCluster, target: Target) -> ObjectKey:
    """Name an object in its cluster."""
    return site.cluster.uid, target.local()


def with_cluster_name(site: TargetCluster, observed: Observed) -> Observed:
    """Return an observed object whose target names the cluster as the sync does."""
    if not site.destination.cluster:
        return observed
    return structs.replace(observed, target=observed.target._replace(cluster=site.destination.cluster))


def managed_id(site: TargetCluster, observed: Observed) -> bytes:
    """Return the identifier of exactly this object in the record of the scope."""
    target = observed.target
    return short_object_id(site.cluster.uid, target.kind, target.namespace, target.name, observed.uid)


def is_writable(site: TargetCluster, observed: Observed) -> bool:
    """Whether the namespace of a copy allows writes: it exists, is not being deleted, and is not ignored."""
    if not observed.target.namespace:
        return True
    namespace = site.cluster.namespace(observed.target.namespace)
    return namespace is not None and not namespace.terminating and not namespace.ignored


def matches_scope(site: TargetCluster, namespace: Namespace | None) -> bool:
    """Whether the scope of a destination includes a namespace."""
    scope = site.destination.scope
    return scope is not None and namespace is not None and scope.matches(namespace)
