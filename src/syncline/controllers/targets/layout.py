"""Layout: the downstream namespace of each upstream namespace, and the clusters that receive it.

The layout is recorded in the status of the sync before the first write, so that a namespace keeps its name and place.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from syncline.api.workspace_status import WorkspaceSyncStatus
from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.controllers.lowered import LoweredSpec, SourceObject, spec_of
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.core.api_exports import DEFAULT_TEMPLATE
from syncline.core.durations import seconds
from syncline.core.namespace_mapping import (
    NamespaceRule,
    SharedObject,
    UpstreamNamespace,
    Workspace,
    resolve_namespaces,
    resolve_objects,
)
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.placement import PlacementTarget, place_namespace, target_weights
from syncline.core.source_names import read_source_name

REFUSED = "NamespaceRefused"
_TOO_FEW = frozenset({"NoTarget", "TooFewTargets"})
# A cluster that cannot be reached is lost for at least this many seconds.
_LEAST = 0.1
WorkspaceLowered = LoweredSpec[WorkspaceSyncSpec, WorkspaceSyncStatus]


class NamespacePlace(Struct, frozen=True, kw_only=True):
    """The placement of one upstream namespace."""

    namespace: str = ""
    """The downstream namespace; empty for objects that are in none."""
    targets: tuple[str, ...] = ()
    """The clusters that receive it, by the names of their SyncTargets."""
    leaving: tuple[str, ...] = ()
    """The clusters that it leaves once the others have it."""
    reason: str = ""
    message: str = ""
    """Why it is there."""


class Layout(Struct, frozen=True, kw_only=True):
    """The placement of all upstream namespaces."""

    places: Mapping[str, NamespacePlace] = {}
    """By upstream namespace (`namespace_key`); empty for objects that are in none."""
    refused: Mapping[str, str] = {}
    """Why an upstream namespace (`namespace_key`) has no name downstream."""
    shared: Mapping[tuple[SharedObject, str], str] = {}
    """Why an object is not copied to a namespace that several share."""
    recorded: tuple[str, ...] = ()
    """The record for the status."""
    weights: Mapping[str, int] = {}
    """The share of each cluster in replicas that are divided."""
    chosen_anew: frozenset[str] = frozenset()
    """The clusters that were chosen for a namespace that they do not hold yet."""
    is_partial: bool = False
    """Whether a cluster could not be reached: a later reconcile may place more."""
    requeue: Requeue = NO_REQUEUE

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcomes of namespaces that are refused, or that have too few clusters."""
        refused = [
            Outcome(target=Target("", name, NAMESPACE), state="Conflict", reason=REFUSED, message=why)
            for name, why in sorted(self.refused.items())
        ]
        homeless = [
            Outcome(
                target=Target("", name, NAMESPACE),
                state="Unknown" if self.is_partial else "Failed",
                reason=place.reason,
                message=place.message,
            )
            for name, place in sorted(self.places.items())
            if place.reason in _TOO_FEW
        ]
        return (*refused, *homeless)

    def place_of(self, source: SourceObject) -> NamespacePlace | None:
        """Return the placement of an object; None if its namespace is refused."""
        return self.places.get(namespace_key(source.target) if source.namespaced else "")

    def refusal_of(self, source: SourceObject) -> str:
        """Return why an object is not copied although its namespace is; empty if it is copied."""
        target = source.target
        return (
            self.shared.get((SharedObject(target.kind, target.name), namespace_key(target)), "") if self.shared else ""
        )

    def holds(self, upstream: str, downstream: str, cluster: str) -> bool:
        """Whether objects of an upstream namespace belong to this namespace of this cluster."""
        place = self.places.get(upstream)
        return place is not None and place.namespace == downstream and cluster in place.targets


class RecordedNamespace(Struct, frozen=True, kw_only=True):
    """What the status records of one upstream namespace: `web=team-web@east,west`."""

    downstream: str
    targets: tuple[str, ...] = ()


def read_record(entries: Iterable[str]) -> dict[str, RecordedNamespace]:
    """Return the recorded names and placements by upstream namespace; invalid entries are left out."""
    found: dict[str, RecordedNamespace] = {}
    for entry in entries:
        upstream, named, rest = entry.partition("=")
        downstream, _, targets = rest.partition("@")
        if named and upstream and downstream:
            found[upstream] = RecordedNamespace(downstream=downstream, targets=tuple(filter(None, targets.split(","))))
    return found


def write_record(record: Mapping[str, RecordedNamespace]) -> tuple[str, ...]:
    """Return the entries of the status."""
    return tuple(
        f"{upstream}={one.downstream}{'@' if one.targets else ''}{','.join(one.targets)}"
        for upstream, one in sorted(record.items())
    )


def namespace_rule(spec: WorkspaceSyncSpec) -> NamespaceRule:
    """Return how a spec names downstream namespaces."""
    mapping, several = spec.namespaces.mapping, spec.upstream.api_export is not None
    if mapping is None:
        return NamespaceRule(template=DEFAULT_TEMPLATE) if several else NamespaceRule()
    if several and mapping.prefix:
        return NamespaceRule(template=mapping.prefix + DEFAULT_TEMPLATE)
    return NamespaceRule(prefix=mapping.prefix or "", template=mapping.template or "", fixed=mapping.fixed or "")


def namespace_key(target: Target) -> str:
    """Name the namespace of a source, over all workspaces of the sync."""
    if not target.cluster:
        return target.namespace
    return UpstreamNamespace(target.namespace, Workspace(cluster=target.cluster)).key


class LayoutMaker:
    """Decides the placement of all upstream namespaces."""

    def make(
        self,
        lowered: WorkspaceLowered,
        workspaces: Mapping[str, Workspace],
        sources: Sequence[SourceObject],
        clusters: ConnectedClusters,
        incompatible: Container[str] = (),
    ) -> Layout:
        """Name the namespaces of all sources, and place them; nothing new goes to `incompatible` targets.

        `workspaces` are by logical cluster; a sync with one upstream has one, under the empty name.
        """
        spec, status = spec_of(lowered.sync), lowered.sync.status
        known = read_record(status.recorded_namespaces)
        rule = namespace_rule(spec)
        used = [UpstreamNamespace(name, workspaces[cluster]) for cluster, name in sorted(_namespaces(sources))]
        holders, present = _holders(lowered, clusters), {one.key for one in used}
        # A namespace without objects keeps its name until its copies are gone. Then another one can have it.
        recorded = {
            upstream: one.downstream
            for upstream, one in known.items()
            if upstream in present or clusters.incomplete or one.downstream in holders
        }
        decision = resolve_namespaces(rule, used, recorded, lowered.guarded)
        # If every cluster gets everything, a missing kind in a cluster blocks no other kind there.
        targets = list(_targets(clusters, incompatible if spec.placement.strategy != "All" else ()))
        places = {"": _everywhere(targets)}
        chosen_anew: set[str] = set()
        for key, name in decision.names.items():
            # The record decides: a cluster that a namespace has left may still hold copies.
            held = holders.get(name, set())
            current = {*known[key].targets} if key in known else held
            placed = place_namespace(spec.placement, targets, key, current)
            chosen_anew.update({*placed.targets} - current)
            places[key] = NamespacePlace(
                namespace=name,
                targets=placed.targets,
                leaving=tuple(sorted({*placed.leaving, *held} - {*placed.targets})),
                reason=placed.reason,
                message=placed.message,
            )
        kept = {
            upstream: one
            for upstream, one in known.items()
            if upstream not in decision.names and (clusters.incomplete or one.downstream in holders)
        }
        return Layout(
            places=places,
            refused=dict(decision.refused),
            shared=_shared(sources, clusters, lowered) if rule.fixed else {},
            recorded=write_record(kept | {key: _recorded(places[key]) for key in decision.names}),
            weights=target_weights(spec.placement, targets),
            chosen_anew=frozenset(chosen_anew),
            is_partial=any(one.lost_for > 0 for one in targets),
            requeue=_eviction(spec, targets),
        )


def _namespaces(sources: Iterable[SourceObject]) -> set[tuple[str, str]]:
    return {(source.target.cluster, source.target.namespace) for source in sources if source.target.namespace}


def _recorded(place: NamespacePlace) -> RecordedNamespace:
    return RecordedNamespace(downstream=place.namespace, targets=place.targets)


def _targets(clusters: ConnectedClusters, incompatible: Container[str]) -> Iterator[PlacementTarget]:
    """Yield the clusters that the spec names, as placement sees them."""
    for site in clusters.sites:
        name = site.destination.cluster
        yield PlacementTarget(
            name=name, labels=site.labels, schedulable=not site.unschedulable, compatible=name not in incompatible
        )
    now = datetime.now(UTC)
    for one in clusters.lost:
        away = (now - one.since).total_seconds() if one.since is not None else _LEAST
        lost_for = 0.0 if one.unschedulable else max(away, _LEAST)
        yield PlacementTarget(name=one.name, labels=one.labels, schedulable=not one.unschedulable, lost_for=lost_for)


def _everywhere(targets: Iterable[PlacementTarget]) -> NamespacePlace:
    """Return the place of objects that are in no namespace: all clusters that take something."""
    return NamespacePlace(targets=tuple(sorted(one.name for one in targets if one.schedulable)))


def _eviction(spec: WorkspaceSyncSpec, targets: Iterable[PlacementTarget]) -> Requeue:
    """Return when the namespaces of a lost target are due to move."""
    if spec.placement.evict_after is None:
        return NO_REQUEUE
    limit = seconds(spec.placement.evict_after)
    left = [limit - one.lost_for for one in targets if 0 < one.lost_for < limit]
    return Requeue(after=max(min(left), _LEAST)) if left else NO_REQUEUE


def _holders(lowered: WorkspaceLowered, clusters: ConnectedClusters) -> dict[str, set[str]]:
    """Return the downstream namespaces that hold something of the sync, with the clusters where they do."""
    found: dict[str, set[str]] = {}
    for site in (*clusters.sites, *clusters.former):
        for observed in site.cluster.managed_by(lowered.sync.owner.ref):
            name = observed.target.namespace or observed.target.name
            found.setdefault(name, set()).add(site.destination.cluster)
    return found


def _shared(
    sources: Sequence[SourceObject], clusters: ConnectedClusters, lowered: WorkspaceLowered
) -> Mapping[tuple[SharedObject, str], str]:
    """Return the objects of one fixed namespace that yield to others of the same name. An existing copy stays."""
    recorded: dict[SharedObject, str] = {}
    for site in clusters.sites:
        for observed in site.cluster.managed_by(lowered.sync.owner.ref):
            made_from = read_source_name(observed.marker.source) if observed.marker is not None else None
            if made_from is not None and made_from.namespace:
                source = Target(made_from.namespace, made_from.name, made_from.kind, made_from.workspace)
                recorded[SharedObject(source.kind, source.name)] = namespace_key(source)
    wanted = [
        (SharedObject(source.target.kind, source.target.name), namespace_key(source.target))
        for source in sources
        if source.target.namespace
    ]
    present = set(wanted)
    recorded = {shared: namespace for shared, namespace in recorded.items() if (shared, namespace) in present}
    return resolve_objects(wanted, recorded).refused
