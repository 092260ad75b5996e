"""Upstream selection: the targets of upstream objects, the desired copy at each, and the causes for missing copies."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.controllers.lowered import SourceObject
from syncline.controllers.sources.copies import CopyMaker, ReplicaShare
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.copy_statuses import UpwardItem
from syncline.controllers.targets.endpoints_upward import SERVICE
from syncline.controllers.targets.layout import Layout, NamespacePlace
from syncline.controllers.targets.managed_objects import ObjectKey, object_key
from syncline.controllers.targets.namespaces import closed_namespace
from syncline.controllers.targets.own_namespaces import OwnNamespaces, foreign_namespace, own_namespace
from syncline.controllers.targets.stages import DesiredAt
from syncline.core.digest import DigestKey
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.placement import divide_replicas
from syncline.core.scope import Scope
from syncline.core.tenancy import NOT_ALLOWED, TenantLimits, Violation
from syncline.engine.claims import ClaimedTarget

DIVISIBLE = frozenset({"Deployment.apps", "StatefulSet.apps", "ReplicaSet.apps"})
_MOST_REPLICAS = 2**31
_WHOLE = ReplicaShare()
_LONGEST = 0.02
"""The seconds after which other tasks run."""


class SelectedTargets(Struct, kw_only=True):
    """Everything that one reconcile selects."""

    items: list[DesiredAt] = field(default_factory=list)
    wanted: set[ObjectKey] = field(default_factory=set)
    """All objects that stay, also those that are not written now."""
    sources: dict[Target, Target] = field(default_factory=dict)
    """The source of each target; of a namespace, one of the objects that need it."""
    outcomes: list[Outcome] = field(default_factory=list)
    """The targets that are not written."""
    claims: list[ClaimedTarget] = field(default_factory=list)
    namespaces: set[tuple[str, str]] = field(default_factory=set)
    """The namespaces of all targets, by cluster (`Cluster.name`), to watch them."""
    reports: list[UpwardItem] = field(default_factory=list)
    """The objects whose copies report a status, with the targets that have one or cannot be reached."""
    unreported: Violation | None = None
    """Why a TenantPolicy forbids a status or an address upstream."""

    @property
    def refused(self) -> bool:
        """Whether a TenantPolicy forbids a target: then nothing is removed either."""
        return self.unreported is not None or any(outcome.reason == NOT_ALLOWED for outcome in self.outcomes)


class UpstreamSelector:
    """Selects the targets of all objects of one reconcile."""

    def __init__(
        self,
        spec: WorkspaceSyncSpec,
        layout: Layout,
        clusters: ConnectedClusters,
        *,
        limits: TenantLimits,
        key: DigestKey,
        reports_status: bool,
    ) -> None:
        """`reports_status`: whether the status of copies is written upstream."""
        self._spec = spec
        self._reports_status = reports_status
        self._layout = layout
        self._limits = limits
        self._sites = {site.destination.cluster: site for site in clusters.sites}
        self._seen = {one.name: f"{one.last_seen:%Y-%m-%dT%H:%M:%SZ}" for one in clusters.lost if one.last_seen}
        self._former = {site.destination.cluster: site for site in clusters.former}
        self._key = key
        self._made: set[tuple[str, str]] = set()
        # Cached by namespace, which has many objects; nothing changes during a selection.
        self._own = OwnNamespaces()
        self._violations: dict[tuple[str, str], Violation | None] = {}
        self._scopes: dict[str, Scope] = {}
        self.selected = SelectedTargets(outcomes=list(layout.outcomes))

    async def select(
        self,
        sources: Sequence[SourceObject],
        copies: Mapping[str, CopyMaker],
        unserved: Mapping[str, frozenset[str]],
        *,
        whole: bool = True,
    ) -> SelectedTargets:
        """Find the targets of objects; `copies` are by workspace, `unserved` the kinds that a cluster lacks.

        Other tasks run meanwhile. `whole`: these are all objects of the sync.
        """
        began = time.monotonic()
        for source in sources:
            if time.monotonic() - began > _LONGEST:
                await asyncio.sleep(0)
                began = time.monotonic()
            place = self._layout.place_of(source)
            if place is None:
                continue  # its namespace has no name downstream, which is reported once
            if why := self._layout.refusal_of(source):
                self.selected.outcomes.append(_refused(source, place.namespace, why))
                continue
            replicas = self._replicas(place, source)
            copied: list[tuple[TargetCluster, Target]] = []
            away: list[tuple[str, str]] = []
            for name in place.targets:
                site = self._sites.get(name)
                if site is None:
                    away.append((name, self._seen.get(name, "")))
                    self.selected.outcomes.append(_lost(source, place.namespace, name))
                elif source.target.kind in unserved.get(name, ()):
                    target = _target(site, source, place.namespace)
                    self._want(site, target, source)
                    self.selected.outcomes.append(_incompatible(target))
                elif copies[source.target.cluster].is_source(site, source, _target(site, source, place.namespace)):
                    self.selected.outcomes.append(_itself(_target(site, source, place.namespace)))
                else:
                    target = _target(site, source, place.namespace)
                    copied.append((site, target))
                    self._select_namespace(site, source, place.namespace)
                    share = replicas.get(name, _WHOLE)
                    await copies[source.target.cluster].prepare(site, source, target, share)
                    self._select_copy(copies[source.target.cluster], site, source, target, share)
            self._select_report(UpwardItem(source=source, copies=tuple(copied), unreachable=tuple(away)))
        for one in copies.values():
            one.end(whole=whole)
        self._keep_leaving(sources)
        return self.selected

    def _select_report(self, item: UpwardItem) -> None:
        """Add an object whose status and addresses are written upstream, unless a TenantPolicy forbids it."""
        source = item.source.target
        violation = self._violation(source.kind, source.namespace)
        if violation is None:
            self.selected.reports.append(item)
        elif self._reports_status or (self._spec.endpoints and source.kind == SERVICE):
            self.selected.unreported = self.selected.unreported or violation

    def _want(self, site: TargetCluster, target: Target, source: SourceObject) -> None:
        self.selected.wanted.add(object_key(site, target))
        self.selected.sources[target] = source.target

    def _select_namespace(self, site: TargetCluster, source: SourceObject, namespace: str) -> None:
        """Add a namespace that is missing. A namespace of others is used only if the spec allows it."""
        if not source.target.namespace or (site.destination.cluster, namespace) in self._made:
            return
        self._made.add((site.destination.cluster, namespace))
        if self._limits.destination(namespace) is not None:
            return  # reported for its objects
        if site.cluster.namespace(namespace) is None or self._own.has(site, namespace):
            item = own_namespace(site, namespace, source.target, self._key)
            self.selected.items.append(item)
            self._want(site, item.desired.target, source)

    def _select_copy(
        self, copies: CopyMaker, site: TargetCluster, source: SourceObject, target: Target, replicas: ReplicaShare
    ) -> None:
        self._want(site, target, source)
        if target.namespace:
            self.selected.namespaces.add((site.cluster.name, target.namespace))
        own = bool(target.namespace) and self._spec.namespaces.existing == "Refuse"
        above = self._violation(source.target.kind, source.target.namespace)
        refused = _not_allowed(target, above) if above is not None and copies.writes_upward(site, source) else None
        refused = refused or self._refusal(site, target)
        made = refused or copies.make(site, source, target, replicas, own=own)
        if isinstance(made, Outcome):
            self.selected.outcomes.append(made)
            return
        scope = self._scope(target.namespace) if target.namespace else None
        claimed = ClaimedTarget((site.cluster.name, target.kind, target.name), scope, source.target)
        self.selected.claims.append(claimed)
        self.selected.items.append(made)

    def _scope(self, namespace: str) -> Scope:
        """Return one and the same scope for all objects of a namespace."""
        if namespace not in self._scopes:
            self._scopes[namespace] = Scope(names=frozenset({namespace}))
        return self._scopes[namespace]

    def _violation(self, kind: str, namespace: str) -> Violation | None:
        """Return why a TenantPolicy forbids objects of a kind in a namespace."""
        if (kind, namespace) not in self._violations:
            self._violations[kind, namespace] = self._limits.target(kind, namespace)
        return self._violations[kind, namespace]

    def _refusal(self, site: TargetCluster, target: Target) -> Outcome | None:
        """Return the outcome of a target that a TenantPolicy or its namespace forbids; None if it is allowed."""
        if (violation := self._violation(target.kind, target.namespace)) is not None:
            return _not_allowed(target, violation)
        present = site.cluster.namespace(target.namespace) if target.namespace else None
        if present is None:
            return None
        foreign = self._spec.namespaces.existing == "Refuse" and not self._own.has(site, target.namespace)
        return closed_namespace(present, target) or (foreign_namespace(target) if foreign else None)

    def _keep_leaving(self, sources: Sequence[SourceObject]) -> None:
        """Keep the copies of moving namespaces until the new clusters have all of them."""
        if not any(place.leaving for place in self._layout.places.values()):
            return
        waiting = {item.desired.target.namespace for item in self.selected.items if not _is_there(item)}
        waiting |= {outcome.target.namespace for outcome in self.selected.outcomes}
        for source in sources:
            place = self._layout.place_of(source)
            if place is None or not place.leaving or (place.targets and place.namespace not in waiting):
                continue
            for name in place.leaving:
                if (site := self._sites.get(name) or self._former.get(name)) is not None:
                    self.selected.wanted.add(object_key(site, _target(site, source, place.namespace)))
                    self.selected.wanted.add(object_key(site, Target("", place.namespace, NAMESPACE)))

    def _replicas(self, place: NamespacePlace, source: SourceObject) -> Mapping[str, ReplicaShare]:
        """Return the share of each cluster in the replicas of an object, if they are divided."""
        if self._spec.placement.replicas != "Divide" or source.target.kind not in DIVISIBLE or not place.targets:
            return {}
        spec = source.manifest.get("spec") or {}
        total = spec.get("replicas", 1) if isinstance(spec, dict) else None  # a CRD upstream may allow any shape
        if not isinstance(total, int) or not 0 <= total < _MOST_REPLICAS:
            return {}
        scaled: dict[str, int] = {}
        for name in place.targets:
            site = self._sites.get(name)
            observed = site.cluster.managed_at(_target(site, source, place.namespace)) if site is not None else None
            if observed is not None and observed.scaled is not None:
                scaled[name] = observed.scaled
        weights = {name: self._layout.weights.get(name, 1) for name in place.targets}
        divided = divide_replicas(total, weights, scaled).replicas
        return {name: ReplicaShare(number=number, scaled=name in scaled) for name, number in divided.items()}


def _target(site: TargetCluster, source: SourceObject, namespace: str) -> Target:
    return site.target(namespace if source.namespaced else "", source.target.name, source.target.kind)


def _is_there(item: DesiredAt) -> bool:
    """Whether an object is cached."""
    return item.site.cluster.managed_at(item.desired.target) is not None


def _not_allowed(target: Target, violation: Violation) -> Outcome:
    return Outcome(target=target, state="Failed", reason=NOT_ALLOWED, message=str(violation))


def _lost(source: SourceObject, namespace: str, cluster: str) -> Outcome:
    target = Target(namespace if source.namespaced else "", source.target.name, source.target.kind, cluster)
    return Outcome(target=target, state="Unknown", reason="Unreachable", message=f"cluster {cluster} cannot be reached")


def _refused(source: SourceObject, namespace: str, why: str) -> Outcome:
    target = Target(namespace, source.target.name, source.target.kind)
    return Outcome(target=target, state="Conflict", reason="SameTarget", message=why)


def _itself(target: Target) -> Outcome:
    message = (
        f"SyncTarget {target.cluster} is the upstream itself, and the object would be its own copy: write another"
        " SyncTarget, or a mapping that gives another name; a cluster-scoped resource has no other name, so remove it"
    )
    return Outcome(target=target, state="Failed", reason="SameCluster", message=message)


def _incompatible(target: Target) -> Outcome:
    message = f"cluster {target.cluster} does not serve {target.kind}: install its definition there"
    return Outcome(target=target, state="Failed", reason="KindNotServed", message=message, retry=True)
