"""Search of a deleted sync: finds all objects that it has written, by the cache and by a live list.

A cache may lag behind the write of another leader. The recorded kinds limit the search; if the status is lost, as
after a restore, all kinds are searched.
"""

from contextlib import aclosing

from syncline.controllers.lowered import AnySync
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.managed_objects import Managed, managed_objects, with_cluster_name
from syncline.core.inventory import read_written
from syncline.core.objects import Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import OWNER_LABEL
from syncline.engine.kind_informer import KindInformer, MetaWire
from syncline.kube.errors import Forbidden, KubeError, NotFound
from syncline.kube.resources import Resource

CLEANUP_FAILED = "CleanupFailed"


async def find_written(sync: AnySync, connected: ConnectedClusters) -> tuple[list[Managed], list[Outcome]]:
    """Return the objects that a sync has written, and an outcome for each kind that could not be searched."""
    known: dict[Target, Managed] = {observed.target: (site, observed) for site, observed in managed_objects(connected)}
    failed: list[Outcome] = []
    # Of several names for one connection, one is enough: under each name the same objects would be found again.
    connections = {
        (id(site.cluster), site.owner.hub_uid): site for site in (*connected.former, *reversed(connected.sites))
    }
    for site in connections.values():
        kinds = await _written_kinds(sync, site)
        for informer in list(site.cluster.informers()):
            if informer.kind not in kinds:
                continue
            try:
                found = await _list(site, informer)
            except NotFound:
                continue  # the kind is no longer served: its objects went with it
            except KubeError as error:
                where = Target("", informer.kind, informer.kind, site.destination.cluster)
                failed.append(
                    Outcome(target=where, state="Failed", reason=CLEANUP_FAILED, message=str(error), gone=True)
                )
                continue
            known.update((observed.target, (site, observed)) for observed in found)
    return list(known.values()), failed


async def _written_kinds(sync: AnySync, site: TargetCluster) -> frozenset[str]:
    """Return the kinds that a sync may have written in a cluster. They are recorded before the first write."""
    written = read_written(sync.status.written)
    here, status_lost = not site.cluster.name, not sync.status.observed_generation
    if here:
        return written.get("", frozenset()) | (await _scan(site) if status_lost else frozenset())
    if status_lost:
        return frozenset(informer.kind for informer in site.cluster.informers())
    # The kinds of all names: the cluster may have had another name when it was written to.
    return frozenset().union(*(kinds for name, kinds in written.items() if name))


async def _scan(site: TargetCluster) -> frozenset[str]:
    """Search for copies of all kinds, because the status that records the written kinds is lost."""
    kinds = set()
    for served in await site.cluster.discovery.resources():
        resource = served.resource
        if not served.keeps_objects:
            continue
        label = f"{OWNER_LABEL}={site.owner.label}"
        try:
            is_written = await _has_any(site, resource, label)
        except (Forbidden, NotFound):
            continue  # what the operator may not read, it has not written
        if is_written:
            kinds.add((await site.cluster.open_kind(resource.group_kind)).kind)
    return frozenset(kinds)


async def _list(site: TargetCluster, informer: KindInformer) -> list[Observed]:
    """List the objects with the label of the owner. Only one page at a time is held with bodies.

    Any user can add the label to an object: objects without a marker are dropped.
    """
    label = f"{OWNER_LABEL}={site.owner.label}"
    pages = site.cluster.client.bounded_pages(informer.resource, labels=label, type=informer.wire)
    found: list[Observed] = []
    async for page in pages:
        observed = map(informer.to_observed, page.items)
        found += [one for one in observed if one.marker is not None or one.claim is not None]
    return [with_cluster_name(site, one) for one in found]


async def _has_any(site: TargetCluster, resource: Resource, label: str) -> bool:
    """Whether a cluster has an object with a label in any namespace."""
    pages = site.cluster.client.pages(resource, labels=label, type=MetaWire, page=1, metadata_only=True)
    async with aclosing(pages):
        async for page in pages:
            if page.items:
                return True
    return False
