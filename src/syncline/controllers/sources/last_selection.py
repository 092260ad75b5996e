"""Last selection: what the last complete reconcile of a sync selected, so that the next one handles only the changes.

A selection follows from its basis (the spec, the clusters, the namespaces, the layout) and from the objects. While the
basis is the same, the positions of the caches tell which objects have changed, whatever enqueued the sync: no event
needs to be understood, and none can be missed. Whatever this module cannot follow needs a reconcile of everything.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.controllers.lowered import spec_of
from syncline.controllers.sources.desired import DesiredSet, UnitResult
from syncline.controllers.sources.upstream_parts import UpstreamPart, UpstreamSet
from syncline.controllers.sources.upstream_selection import SelectedTargets
from syncline.controllers.sources.upward import has_endpoints
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.layout import Layout, WorkspaceLowered
from syncline.core.digest import DigestKey
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.engine.claims import Claim, Claims
from syncline.engine.kind_informer import KindInformer
from syncline.engine.watch_index import WatchSet
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.reflector import AnyReflector

# Rights change without an event: at least this often, everything is looked at.
MOST_SECONDS = 300.0
# For more objects, a reconcile of everything is not much more expensive.
MOST_OBJECTS = 24

Watches = tuple[WatchSet, Claim | None]


class Basis(Struct, frozen=True):
    """All inputs of a selection apart from the objects, to be compared with one another."""

    sync: tuple[object, ...]
    recorded: tuple[str, ...]
    """The record of the namespaces in the status."""
    upstreams: tuple[object, ...]
    sites: tuple[object, ...]
    caches: tuple[object, ...]
    names: Mapping[str, frozenset[str]]
    """The selected upstream namespaces, by workspace."""
    unserved: Mapping[str, frozenset[str]]
    """The kinds that a cluster does not serve."""
    older: tuple[object, ...]
    """The objects that older syncs write."""


class Inputs(NamedTuple):
    """The basis of a selection, and the positions of all caches that it depends on."""

    basis: Basis
    positions: Mapping[AnyReflector, int]

    def changed(self, reflector: AnyReflector) -> list[Key] | None:
        """Return the objects that have changed since; None if they are not known."""
        position = self.positions.get(reflector)
        return reflector.changed_since(position) if position is not None else None


def inputs_of(
    lowered: WorkspaceLowered,
    upstreams: UpstreamSet,
    clusters: ConnectedClusters,
    names: Mapping[str, frozenset[str]],
    unserved: Mapping[str, frozenset[str]],
    *,
    claims: Claims,
    key: DigestKey,
) -> Inputs:
    """Return the present inputs."""
    meta, owner = lowered.sync.metadata, lowered.sync.owner.sync
    informers = [*_upstream_informers(upstreams.parts), *(one for site in clusters.sites for one in _informers(site))]
    basis = Basis(
        sync=(
            *(meta.uid, meta.generation, meta.deletion_timestamp, meta.annotations),
            *(lowered.user, lowered.limits, lowered.guarded, key.id),
        ),
        recorded=tuple(lowered.sync.status.recorded_namespaces),
        upstreams=(
            *(structs.replace(upstreams.identity, version=""), upstreams.bindings, upstreams.watched),
            *map(_part, upstreams.parts),
        ),
        sites=tuple(map(_site, clusters.sites)),
        caches=tuple(map(_health, informers)),
        names=names,
        unserved=unserved,
        older=(claims.spec_writers.lost(owner), claims.status_writers.lost(owner)),
    )
    reflectors: list[AnyReflector] = [site.cluster.namespaces for site in clusters.sites]
    for informer in informers:
        reflectors += informer.reflectors
    return Inputs(basis, {reflector: reflector.position for reflector in reflectors})


def _part(part: UpstreamPart) -> tuple[object, ...]:
    bound = (part.bound.binding, part.bound.shard) if part.bound is not None else None
    identity = structs.replace(part.identity, version="")
    return part.at.cluster, _identity(part.at.client), part.at.workspace, identity, tuple(part.resources), bound


def _site(site: TargetCluster) -> tuple[object, ...]:
    owner = site.owner
    return site.destination, site.cluster, _identity(site.client), owner, owner.keys, site.labels, site.unschedulable


def _identity(client: Client) -> tuple[object, ...]:
    return client.user, client.connection


def _health(informer: KindInformer) -> tuple[object, ...]:
    statuses = [reflector.status() for reflector in informer.reflectors]
    health = tuple((one.synced, one.refused, one.full) for one in statuses)
    return informer, health, informer.unmanaged.gaps


def _upstream_informers(parts: Iterable[UpstreamPart]) -> Iterator[KindInformer]:
    return (one.informer for part in parts for one in part.resources if one.informer is not None)


def _informers(site: TargetCluster) -> list[KindInformer]:
    return list(site.cluster.informers())


class LastSelection:
    """The selection of the last complete reconcile, with the outcomes at its targets."""

    def __init__(
        self,
        sources: Mapping[Target, Target],
        watches: Watches | None,
        *,
        kinds: frozenset[str],
        older: Mapping[Target, str],
        owners: Mapping[str, bool],
    ) -> None:
        self.sources = sources
        """The source of each target."""
        self.watches = watches
        self.kinds = kinds
        """The kinds of all sources."""
        self.older = older
        """The upstream objects that older syncs write."""
        self.owners = owners
        """The syncs that upstream objects name as their owner, and whether they existed."""
        self.desired = DesiredSet()
        """The desired set, without items."""
        self.outcomes: dict[Target, Outcome] = {}
        """The outcomes of the targets that are written."""
        self._inputs: Inputs | None = None
        self._open: set[Target] = set()
        """The sources with a target that is not known to be in sync."""
        self._due = time.monotonic() + MOST_SECONDS

    def changed(self, inputs: Inputs, parts: Sequence[UpstreamPart], clusters: ConnectedClusters) -> set[Target] | None:
        """Return the sources of which the object, a copy or an outcome has changed; None if more may have changed."""
        before = self._inputs
        if before is None or inputs.basis != before.basis or time.monotonic() >= self._due or not is_certain(clusters):
            return None
        if any(part.held.reading for part in parts):
            return None
        found = set(self._open)
        for one in (self._above(before, parts), self._below(before, clusters)):
            for target in one:
                if target is None or len(found) > MOST_OBJECTS:
                    return None
                found.add(target)
        return found

    def _above(self, before: Inputs, parts: Sequence[UpstreamPart]) -> Iterator[Target | None]:
        """Yield the sources that have changed; None for anything that is no change of a source."""
        for part in parts:
            names = before.basis.names[part.at.workspace]
            for one in part.resources:
                if one.informer is None:
                    continue
                changed, copies = before.changed(one.informer.unmanaged), before.changed(one.informer.managed.reflector)
                if changed is None or copies is None or any(_is_in(key, names) for key in copies):
                    yield None
                    return
                held = part.held.by_kind.get(one.kind, {})
                for key in filter(lambda key: _is_in(key, names), changed):
                    entry, version = held.get(key), one.informer.unmanaged.get(key)
                    is_source = entry is not None and entry.source is not None
                    if entry is not None and not is_source and entry.version == version:
                        continue
                    is_known = is_source and version is not None
                    yield Target(key.namespace, key.name, one.kind, part.at.workspace) if is_known else None

    def _below(self, before: Inputs, clusters: ConnectedClusters) -> Iterator[Target | None]:
        """Yield the sources whose copies have changed; None for any other object of the sync."""
        for site in clusters.sites:
            name, ref = site.destination.cluster, site.owner.ref
            namespaces = before.changed(site.cluster.namespaces)
            if namespaces is None or any(self._is_used(site, key.name) for key in namespaces):
                yield None
                return
            for informer in site.cluster.informers():
                changed = before.changed(informer.managed.reflector)
                if changed is None:
                    yield None
                    return
                for key in changed:
                    source = self.sources.get(Target(key.namespace, key.name, informer.kind, name))
                    observed = informer.managed.reflector.get(key)
                    is_ours = observed is not None and observed.marker is not None and observed.marker.sync == ref
                    if source is not None or is_ours:
                        yield source

    def _is_used(self, site: TargetCluster, namespace: str) -> bool:
        """Whether the sync has or wants objects in a namespace of a cluster."""
        is_wanted = self.watches is None or any(
            name == site.cluster.name and namespace in scope.names for name, scope in self.watches[0].scopes
        )
        return is_wanted or site.owner.ref in site.cluster.owners_in(namespace)

    def refused_again(self, selected: SelectedTargets) -> tuple[Outcome, ...] | None:
        """Return the outcomes of all targets that are not written. None: a target is written that was not, or not now.

        Then the claims of the sync change too.
        """
        known = {outcome.target for outcome in self.desired.outcomes}
        found = {outcome.target: outcome for outcome in selected.outcomes}
        is_same = found.keys() <= known and not any(item.desired.target in known for item in selected.items)
        is_known = all(
            target in self.sources and (target.kind == NAMESPACE or self.sources[target] == source)
            for target, source in selected.sources.items()
        )
        if selected.unreported is not None or not is_same or not is_known:
            return None
        return tuple(found.get(outcome.target, outcome) for outcome in self.desired.outcomes)

    def take(self, inputs: Inputs, layout: Layout, result: UnitResult) -> bool:
        """Take the result of a reconcile. Return whether the next one can follow from it."""
        self._inputs = Inputs(structs.replace(inputs.basis, recorded=layout.recorded), inputs.positions)
        report = result.desired.workspace
        kept = structs.replace(report, reports=()) if report is not None else None
        self.desired = structs.replace(result.desired, items=(), rest=(), workspace=kept)
        self.outcomes.update((outcome.target, outcome) for outcome in result.attempted)
        upward = result.upward
        self._open = set(upward.open) if upward is not None else set()
        for outcome in result.attempted:
            if outcome.state != "Synced" or outcome.written is not None or outcome.retry:
                source = self.sources.get(outcome.target)
                if source is None or len(self._open) >= MOST_OBJECTS:
                    return False
                self._open.add(source)
        is_done = upward is None or not (upward.failed or upward.forbidden or upward.incomplete)
        return is_done and not result.removes and result.desired.problem is None and is_certain(result.desired.clusters)


def is_certain(clusters: ConnectedClusters) -> bool:
    """Whether all clusters of a sync can be read, and none holds copies that the spec no longer has."""
    return not (clusters.incomplete or clusters.outcomes or clusters.former or clusters.renamed or clusters.lost)


def may_be_followed(lowered: WorkspaceLowered, upstreams: UpstreamSet, layout: Layout, *, doubtful: bool) -> bool:
    """Whether a selection depends on nothing but its basis and single objects."""
    spec: WorkspaceSyncSpec = spec_of(lowered.sync)
    by_all = spec.delete_propagation == "Both" or spec.endpoints or has_endpoints(lowered)
    is_moving = layout.is_partial or bool(layout.shared) or any(place.leaving for place in layout.places.values())
    keeps = spec.resource_management_policy == "Keep"
    return is_whole(upstreams) and not (by_all or is_moving or keeps or doubtful)


def is_whole(upstreams: UpstreamSet) -> bool:
    """Whether all upstreams of a sync can be read, and are those of its copies."""
    return not (upstreams.lost or upstreams.problem or upstreams.unreached) and upstreams.identity.trusted


def _is_in(key: Key, namespaces: frozenset[str]) -> bool:
    return not key.namespace or key.namespace in namespaces
