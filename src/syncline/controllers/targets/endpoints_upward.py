"""Endpoints upward: the Endpoints and EndpointSlices of copied Services, written next to the Services upstream.

They are watched in the namespaces of the copies; a namespace in which something has changed is listed once. The written
objects carry our marks, are never copied down again, and are removed with their origin or with the copy of their
Service. Addresses of several targets do not mix: EndpointSlices are written for each target under names of their own,
Endpoints only for one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, structs

from syncline.api.common import LabelSelector, ObjectMeta
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.copy_statuses import UpwardItem
from syncline.controllers.targets.open_kind import describe_unwatched, open_kind
from syncline.core.endpoints_upward import (
    ENDPOINTS,
    SLICES,
    desired_upstream,
    origin_of,
    read_origin,
    service_of,
    upstream_name,
)
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import MARKER, OWNER_LABEL
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.fanout import FanOut
from syncline.engine.kind_informer import KindInformer
from syncline.engine.watch_filter import LabelQuery
from syncline.engine.writer import Writer
from syncline.kube.cache_budget import held_size
from syncline.kube.errors import BadAnswer, CacheFull, KindNotServed, KubeError, NotFound

KINDS = (SLICES, ENDPOINTS)
SERVICE = "Service"
# A user who creates EndpointSlices at a target must not fill the upstream with them.
MOST_SLICES = 100
# The memory limit for the endpoints of one namespace: the cluster may belong to a tenant.
MOST_BYTES = 32 * 1024 * 1024
PRUNED = "Pruned"
GONE_MESSAGE = "its origin at the target, or the copy of its Service, is gone"

Json = dict[str, Any]
FollowedPlace = tuple[str, str, str]
"""A cluster (`Cluster.name`), a kind and a namespace in it."""


class EndpointsPass(Struct, frozen=True, kw_only=True):
    """The endpoints of one sync in one reconcile."""

    sync: str
    """The sync, as `Owner.sync` names it."""
    upstream: TargetCluster
    """The upstream, as the sync writes to it."""
    writer: Writer
    """Writes to the upstream for the sync."""
    fan_out: FanOut
    """For these writes only."""
    sites: tuple[TargetCluster, ...] = ()
    """The targets that were reached."""
    unreachable: frozenset[str] = frozenset()
    """The other targets of the sync: their endpoints stay."""
    certain: bool = True
    """Whether all Services and their copies are known: else nothing is removed."""
    several: bool = False
    """Whether the sync may have several targets, reached or not: then names distinguish them."""
    only: str = ""
    """The target whose Endpoints are written, where there are several (`downstream.writer`)."""


class EndpointsResult(Struct, frozen=True, kw_only=True):
    """The result of a pass."""

    written: int = 0
    removed: int = 0
    failed: tuple[Outcome, ...] = ()
    not_served: frozenset[str] = frozenset()
    """The kinds that the upstream does not serve: nothing of them is written."""
    follows: frozenset[FollowedPlace] = frozenset()
    """The places where a change of such an object enqueues the sync (`Triggers.follow`)."""
    requeue: Requeue = NO_REQUEUE


class _Services(Struct, frozen=True):
    """The copies of Services, by target, namespace and name, with the place of each Service upstream."""

    sources: dict[tuple[str, str, str], Target]
    several: bool
    only: str

    def source_of(self, target: str, kind: str, namespace: str, service: str) -> Target | None:
        """Return the upstream Service of an object of a target; None if it is not written upstream."""
        if kind == ENDPOINTS and self.several and target != self.only:
            return None
        return self.sources.get((target, namespace, service))

    def namespaces(self, target: str) -> set[str]:
        """Return the namespaces of a target that hold copies."""
        return {namespace for name, namespace, _ in self.sources if name == target}


class _Origin(Struct, frozen=True):
    """An Endpoints or EndpointSlice of a target."""

    site: str
    place: Target
    version: str
    service: str
    manifest: Json | None = None
    """Only while it is written."""


class _Usable(Struct):
    """The kinds and targets that can be observed in one pass, and those that cannot."""

    kinds: list[str] = []
    """The kinds that the upstream serves."""
    not_served: set[str] = set()
    blind: set[tuple[str, str]] = set()
    """Targets and kinds that cannot be observed."""
    failed: list[Outcome] = []


class _EndpointMemory:
    """The memory about one sync."""

    def __init__(self) -> None:
        self.followed: dict[FollowedPlace, tuple[Cluster, LabelQuery]] = {}
        self.listed: dict[tuple[str, str, str], tuple[frozenset[tuple[str, str]], tuple[_Origin, ...]]] = {}
        """By target, kind and namespace: the cached versions at the last list, and the listed objects."""
        self.written: dict[Target, tuple[str, Observed | None]] = {}
        """By upstream name: the version of the origin, and the written content."""

    def follow(self, sites: Iterable[TargetCluster], kinds: Iterable[str], services: _Services) -> None:
        """Watch these kinds in the namespaces of the copies, and nowhere else."""
        wanted = {
            (site.cluster.name, kind, namespace): (site.cluster, LabelQuery(namespace, LabelSelector()))
            for site in sites
            for kind in kinds
            for namespace in services.namespaces(site.destination.cluster)
        }
        for place, (cluster, query) in wanted.items():
            if self.followed.get(place, (None,))[0] is not cluster:
                cluster.watch_filter.retain(place[1], (), (query,))
        for place, (cluster, query) in self.followed.items():
            if wanted.get(place, (None,))[0] is not cluster:
                cluster.watch_filter.release(place[1], (), (query,))
        self.followed = wanted
        names = {site.destination.cluster for site in sites}
        self.listed = {key: found for key, found in self.listed.items() if key[0] in names}


class _Look(Struct, frozen=True):
    """The inputs of one pass."""

    memory: _EndpointMemory
    one: EndpointsPass
    services: _Services
    usable: _Usable


class EndpointsUpward:
    """Writes endpoints upstream for the syncs of one kind."""

    def __init__(self) -> None:
        self._syncs: dict[str, _EndpointMemory] = {}
        self._cleared: set[str] = set()
        """Syncs that want no endpoints upstream, and have none."""

    def forget(self, sync: str) -> None:
        """Forget a sync that is gone."""
        memory = self._syncs.pop(sync, None)
        if memory is not None:
            memory.follow((), (), _Services({}, several=False, only=""))
        self._cleared.discard(sync)

    async def run(self, items: Sequence[UpwardItem], one: EndpointsPass) -> EndpointsResult:
        """Write the endpoints of these Services, and remove unwanted ones."""
        self._cleared.discard(one.sync)
        memory = self._syncs.setdefault(one.sync, _EndpointMemory())
        services, usable = _services(items, one), await _usable_upstream(one)
        memory.follow(one.sites, usable.kinds, services)
        await _open_at_targets(one, usable)
        wanted = await _wanted(_Look(memory, one, services, usable))
        due = {target: origin for target, origin in wanted.items() if not _is_written(memory, target, origin, one)}
        jobs = [(target, partial(_bring_up, memory, target, origin, one)) for target, origin in due.items()]
        outcomes = await one.fan_out.run(jobs, _no_progress) if jobs else []
        memory.written = {target: known for target, known in memory.written.items() if target in wanted}
        removed = await self._prune(wanted, services, usable, one) if one.certain else []
        result = _result([*outcomes, *removed, *usable.failed], usable)
        return structs.replace(result, follows=frozenset(memory.followed))

    async def remove(self, one: EndpointsPass) -> EndpointsResult:
        """Remove everything that was written upstream: the sync does not want it any more, or is being deleted.

        Once that is done, it costs nothing.
        """
        if one.sync in self._cleared:
            return EndpointsResult()
        self.forget(one.sync)
        usable = _Usable()
        outcomes: list[Outcome] = []
        for kind in KINDS:
            try:
                if await _has_own(kind, one):
                    await open_kind(one.upstream.cluster, GroupKind.parse(kind))
                    outcomes += await _remove(one.upstream.cluster.managed_by(one.upstream.owner.ref, kind), one)
            except KindNotServed as error:
                if not error.certain:
                    usable.failed.append(_unusable(kind, one.upstream, error))
            except KubeError as error:
                usable.failed.append(_unusable(kind, one.upstream, error))
        result = _result([*outcomes, *usable.failed], usable)
        if not result.failed:
            self._cleared.add(one.sync)
        return result

    async def _prune(
        self, wanted: dict[Target, _Origin], services: _Services, usable: _Usable, one: EndpointsPass
    ) -> list[Outcome]:
        """Remove objects without an origin. Nothing of an unobserved target is removed."""
        cluster, ref = one.upstream.cluster, one.upstream.owner.ref
        sites = {site.destination.cluster: site for site in one.sites}
        gone: list[Observed] = []
        for observed in [observed for kind in usable.kinds for observed in cluster.managed_by(ref, kind)]:
            target = observed.target._replace(cluster=one.upstream.destination.cluster)
            found = read_origin(observed.marker.source) if observed.marker is not None else None
            if target in wanted or found is None:
                continue
            name, place = found
            if name in one.unreachable or (name, place.kind) in usable.blind:
                continue
            if name not in sites or await _is_gone(sites[name], place, services, usable):
                gone.append(observed)
        return await _remove(gone, one)


async def _no_progress(_: list[Outcome]) -> None:
    """Do nothing: nobody follows this progress."""


async def _usable_upstream(one: EndpointsPass) -> _Usable:
    """Watch the kinds upstream, as far as they are served."""
    usable = _Usable()
    for kind in KINDS:
        try:
            await open_kind(one.upstream.cluster, GroupKind.parse(kind))
        except KindNotServed as error:
            if error.certain:
                usable.not_served.add(kind)
            else:
                usable.failed.append(_unusable(kind, one.upstream, error))
        except KubeError as error:
            usable.failed.append(_unusable(kind, one.upstream, error))
        else:
            usable.kinds.append(kind)
    return usable


async def _open_at_targets(one: EndpointsPass, usable: _Usable) -> None:
    """Watch the kinds at the targets."""
    for kind in usable.kinds:
        for site in one.sites:
            try:
                await open_kind(site.cluster, GroupKind.parse(kind))
            except KubeError as error:
                usable.blind.add((site.destination.cluster, kind))
                usable.failed.append(_unusable(kind, site, error))


def _unusable(kind: str, site: TargetCluster, error: KubeError) -> Outcome:
    name = site.destination.cluster
    target = Target("", "", kind, name)
    if isinstance(error, NotWatchedError):
        message = describe_unwatched(error, cluster=name, reads_as_account=site.client.user is not None)
        return Outcome(target=target, state="Failed", reason="KindNotWatched", message=message, retry=True)
    return Outcome(target=target, state="Unknown", reason="Unreachable", message=str(error), retry=True)


def _services(items: Sequence[UpwardItem], one: EndpointsPass) -> _Services:
    sources = {
        (site.destination.cluster, target.namespace, target.name): item.source.target
        for item in items
        if item.source.target.kind == SERVICE
        for site, target in item.copies
    }
    return _Services(sources, one.several, one.only)


def _target(origin: _Origin, source: Target, one: EndpointsPass) -> Target:
    called = upstream_name(origin.place.kind, origin.place.name, origin.site if one.several else "")
    return Target(source.namespace, called, origin.place.kind, one.upstream.destination.cluster)


async def _wanted(look: _Look) -> dict[Target, _Origin]:
    """Return the origins by their upstream names; those that must be written have their manifest."""
    found: dict[Target, _Origin] = {}
    taken: Counter[tuple[str, Target]] = Counter()
    one, services, blind = look.one, look.services, look.usable.blind
    for kind, site in [(kind, site) for kind in look.usable.kinds for site in one.sites]:
        name = site.destination.cluster
        for namespace in sorted(services.namespaces(name)) if (name, kind) not in blind else ():
            for origin in await _origins(look, site, kind, namespace):
                source = services.source_of(name, kind, namespace, origin.service)
                if source is None or taken[name, source] >= MOST_SLICES:
                    continue
                taken[name, source] += 1
                found[_target(origin, source, one)] = origin
    return found


async def _origins(look: _Look, site: TargetCluster, kind: str, namespace: str) -> Sequence[_Origin]:
    """Return the objects of one namespace of a target; listed where one has changed, or is to be written."""
    key, memory = (site.destination.cluster, kind, namespace), look.memory
    held, known = memory.listed.get(key, (None, ()))
    if held == _cached(site.cluster, kind, namespace) and not any(_is_due(look, origin) for origin in known):
        return known
    informer = site.cluster.informer(kind)
    try:
        found = await _list(site, informer, namespace)
    except KubeError as error:
        look.usable.blind.add((site.destination.cluster, kind))
        look.usable.failed.append(_unusable(kind, site, error))
        return ()
    origins: list[_Origin] = []
    for manifest in found:
        meta = msgspec.convert(manifest["metadata"], ObjectMeta)
        informer.observe_unmanaged(meta, look.one.sync)
        service = service_of(kind, meta.name, meta.labels)
        if service and MARKER not in meta.annotations and meta.deletion_timestamp is None:
            place = Target(namespace, meta.name, kind)
            origins.append(_Origin(site.destination.cluster, place, meta.resource_version, service, manifest))
    origins.sort(key=lambda origin: origin.place)
    kept = tuple(structs.replace(origin, manifest=None) for origin in origins)
    memory.listed[key] = _cached(site.cluster, kind, namespace), kept
    return origins


async def _list(site: TargetCluster, informer: KindInformer, namespace: str) -> list[dict[str, Any]]:
    """List the objects of a namespace. Raises `CacheFull` if there are too many."""
    found: list[dict[str, Any]] = []
    size = 0
    async for page in site.client.bounded_pages(informer.resource, namespace, type=msgspec.Raw):
        for raw in page.items:
            size += held_size(bytes(raw))
            if size > MOST_BYTES:
                raise CacheFull(f"the {informer.resource.plural} of namespace {namespace} are too many, or too large")
            try:
                found.append(msgspec.json.decode(raw))
            except (ValueError, RecursionError):  # not kept as the cause: their text quotes what was read
                raise BadAnswer(f"the {informer.resource.plural} do not have the expected shape") from None
    return found


def _cached(cluster: Cluster, kind: str, namespace: str) -> frozenset[tuple[str, str]]:
    """Return names and versions of the cached objects of a namespace."""
    informer = cluster.informer(kind)
    unmanaged = {(key.name, version) for key, version in informer.unmanaged.items() if key.namespace == namespace}
    managed = {(key.name, one.version) for key, one in informer.managed.reflector.items() if key.namespace == namespace}
    return frozenset(unmanaged | managed)


def _is_due(look: _Look, origin: _Origin) -> bool:
    place = origin.place
    source = look.services.source_of(origin.site, place.kind, place.namespace, origin.service)
    return source is not None and not _is_written(look.memory, _target(origin, source, look.one), origin, look.one)


def _is_written(memory: _EndpointMemory, target: Target, origin: _Origin, one: EndpointsPass) -> bool:
    version, written = memory.written.get(target, ("", None))
    return version == origin.version and written is one.upstream.cluster.managed_at(target.local())


async def _bring_up(memory: _EndpointMemory, target: Target, origin: _Origin, one: EndpointsPass) -> Outcome | None:
    """Write one object of a target upstream."""
    if origin.manifest is None:
        return None  # it was beyond the limit when its namespace was listed
    key = one.upstream.cluster.key
    desired = desired_upstream(origin.manifest, target, origin.service, origin_of(origin.site, origin.place), key)
    outcome = await one.writer.apply(desired)
    if outcome.state == "Synced":
        memory.written[target] = origin.version, one.upstream.cluster.managed_at(target.local())
    return outcome


async def _is_gone(site: TargetCluster, place: Target, services: _Services, usable: _Usable) -> bool:
    """Read whether an object is certainly gone, or no longer written upstream; the list may be too old."""
    try:
        resource = site.cluster.informer(place.kind).resource
        live: Json = await site.client.get(resource, place.name, place.namespace, metadata_only=True)
    except NotFound as error:
        return error.about in (place.name, place.namespace)
    except KubeError as error:
        usable.failed.append(_unusable(place.kind, site, error))
        return False
    service = service_of(place.kind, place.name, live["metadata"].get("labels") or {})
    return services.source_of(site.destination.cluster, place.kind, place.namespace, service) is None


async def _has_own(kind: str, one: EndpointsPass) -> bool:
    """Return whether the upstream has an object of this kind with the label of the sync."""
    resource = await one.upstream.cluster.discovery.find(*GroupKind.parse(kind))
    labels = f"{OWNER_LABEL}={one.upstream.owner.label}"
    async for page in one.upstream.client.pages(resource, labels=labels, page=1, metadata_only=True):
        return bool(page.items)
    return False


async def _remove(gone: Sequence[Observed], one: EndpointsPass) -> list[Outcome]:
    jobs = []
    for observed in gone:
        target = observed.target._replace(cluster=one.upstream.destination.cluster)
        jobs.append((target, partial(one.writer.remove, observed, PRUNED, GONE_MESSAGE)))
    return await one.fan_out.run(jobs, _no_progress) if jobs else []


def _result(outcomes: Sequence[Outcome], usable: _Usable) -> EndpointsResult:
    failed = tuple(outcome for outcome in outcomes if outcome.state not in ("Synced", "Skipped"))
    return EndpointsResult(
        written=sum(outcome.written is not None and not outcome.gone for outcome in outcomes),
        removed=sum(outcome.written is not None and outcome.gone for outcome in outcomes),
        failed=failed,
        not_served=frozenset(usable.not_served),
        requeue=Requeue(backoff=any(outcome.retry for outcome in failed)),
    )
