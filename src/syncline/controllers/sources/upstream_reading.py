"""Upstream reading: one reconcile reads its upstreams, and makes the desired copies."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_

from msgspec import structs

from syncline.api.common import LabelSelector
from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import SourceObject, WorkspaceRecord, WriteRef, spec_of
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.sources.api_export import UNBOUND, UnseenCopies
from syncline.controllers.sources.copies import CopyMaker, CopyRules, copy_rules
from syncline.controllers.sources.desired import DesiredSet, UnitResult
from syncline.controllers.sources.edited_copies import EditedCopies
from syncline.controllers.sources.last_selection import (
    Inputs,
    LastSelection,
    Watches,
    inputs_of,
    is_certain,
    is_whole,
    may_be_followed,
)
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_context import UpstreamContext
from syncline.controllers.sources.upstream_evidence import Evidence
from syncline.controllers.sources.upstream_history import UpstreamHistory, compare_all, copied_sources
from syncline.controllers.sources.upstream_parts import ReadResource, UpstreamPart, UpstreamSet, resource_reports
from syncline.controllers.sources.upstream_reader import UpstreamResource
from syncline.controllers.sources.upstream_selection import SelectedTargets, UpstreamSelector
from syncline.controllers.sources.upstream_versions import (
    recorded_version,
    refuse_regressed,
)
from syncline.controllers.sources.upward import writes_status
from syncline.controllers.sources.workspace_report import WorkspaceReport
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.layout import Layout, WorkspaceLowered
from syncline.controllers.targets.prune import KeepSet, RemovalRequest
from syncline.controllers.targets.stages import begin_kinds
from syncline.controllers.targets.upward_memory import RightKey, right_of
from syncline.controllers.targets.upward_rights import UpwardRight
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.ownership import OWNER_LABEL
from syncline.core.scope import Scope, selected_scope
from syncline.core.source_history import read_range
from syncline.core.source_names import read_source_name
from syncline.core.spec_scope import SourceScope
from syncline.core.tenancy import NOT_ALLOWED
from syncline.engine.access import AccessRequest
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.status_writers import UpstreamObject, place_of
from syncline.engine.watch_filter import LabelQuery
from syncline.engine.watch_index import UpstreamWatch
from syncline.kube.cache import Key
from syncline.kube.errors import KindNotServed, KubeError

DEFINITIONS = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
# The delay of a retry for a resource that is not served: some servers announce new resources late.
LOOK_FOR_KINDS = 20.0


class UpstreamReading:
    """The upstreams of one reconcile."""

    def __init__(
        self,
        context: UpstreamContext,
        lowered: WorkspaceLowered,
        upstreams: UpstreamSet,
        last: LastSelection | None = None,
    ) -> None:
        """`last`: the selection of the last reconcile, if it was complete."""
        self._last = last
        self._inputs: Inputs | None = None
        """The inputs of the selection, if the next reconcile may follow from it."""
        self._watches: Watches | None = None
        self._selected = SelectedTargets()
        self._older: Mapping[Target, str] = {}
        """The upstream objects that older syncs write."""
        self._lost: Mapping[UpstreamObject, str] = {}
        """The same, as the index of writers has them."""
        self._owners: Mapping[str, bool] = {}
        """The syncs that upstream objects name as their owner, and whether they exist."""
        self._context = context
        self._lowered = lowered
        self._upstreams = upstreams
        self._parts = {part.at.workspace: part for part in upstreams.parts}
        self._identity = upstreams.identity
        self._spec = spec_of(lowered.sync)
        self._layout: Layout | None = None
        self._defines: list[str] = []
        """Clusters in which a kind is missing: its definition there enqueues the sync."""
        recorded = lowered.sync.status.upstream
        self._doubtful = read_range(recorded.doubtful) if recorded is not None else None
        self.sources: tuple[SourceObject, ...] = ()

    @property
    def lowered(self) -> WorkspaceLowered:
        """The lowered spec, with the written kinds, and with the record of the upstream."""
        kinds = dict.fromkeys(
            one.resource
            for part in self._upstreams.parts
            for one in part.resources
            if one.resource is not None and one.informer is not None
        )
        writes = [WriteRef(group=kind.group, version=kind.version, kind=kind.kind) for kind in kinds]
        record = WorkspaceRecord(
            identity=self._identity.uid,
            namespaces=self._layout.recorded if self._layout is not None else None,
            bindings=tuple(f"{cluster}={uid}" for cluster, uid in sorted(self._upstreams.bindings.items())),
            doubtful=str(self._doubtful or ""),
        )
        return structs.replace(self._lowered, writes=(*writes, WriteRef(kind=NAMESPACE, version="v1")), record=record)

    async def desired(self, unit: str, clusters: ConnectedClusters) -> DesiredSet:
        """Read the upstream, find where each object belongs, and render its copies."""
        for part in self._upstreams.parts:
            refuse_same_cluster(self._spec, part.at, clusters)
        # Before anything is read, so that no change is missed.
        self._context.watch(self._lowered, self.watches(clusters)[0])
        names = {workspace: self._namespaces(part) for workspace, part in self._parts.items()}
        if (again := await self._select_again(clusters, names)) is not None:
            return again
        inputs = self._inputs_of(clusters, names, {})
        found = await self._read_all(names, clusters)
        self.sources = tuple(source for one in found for source in one.sources)
        self._doubtful = compare_all(found, clusters, self._lowered.sync.owner.ref, self._doubtful)
        unserved = await self._unserved(clusters, {source.target.kind for source in self.sources})
        for part in self._upstreams.parts:
            if any(one.reason == "NotServed" for one in part.resources):
                self._defines.append(await _watch_definitions(part.at.cluster))
        self._layout = layout = await self._lay_out(clusters, unserved)
        yielded = await self._yielded()
        copies = self._copy_makers(yielded)
        self._selected = selected = await self._selector(layout, clusters).select(self.sources, copies, unserved)
        if await self._lose_regressed(copies):
            return await self.desired(unit, clusters)
        await begin_kinds(selected.items)  # their lists run while the inventory is recorded
        self._older = yielded
        self._follow(inputs, found, unserved)
        problem = self._problem(found, selected, clusters)
        resources = resource_reports(found, self._spec)
        absent = tuple(one.message for one in resources if one.reason == "NotServed")
        return DesiredSet(
            unit=unit,
            clusters=clusters,
            items=tuple(selected.items),
            keep=self._keep_set(found, layout, selected, clusters),
            problem=problem,
            outcomes=tuple(selected.outcomes),
            targets=len(selected.wanted),
            unmatched=(*absent, *_missing_writer(self._spec, clusters), *_yields(yielded), *_unverified(found)),
            workspace=WorkspaceReport(
                identity=self._identity,
                resources=resources,
                layout=layout,
                copies=sum(one.objects.copies for one in found),
                reports=tuple(selected.reports),
                sources=selected.sources,
                workspaces=len(self._parts) + len(self._upstreams.lost) if self._upstreams.is_export else 0,
                shards=self._upstreams.shards,
                problem=problem if self._upstreams.is_export else None,
            ),
            requeue=self._requeue(found) | layout.requeue,
        )

    def _follow(self, inputs: Inputs, found: Sequence[ReadResource], unserved: Mapping[str, frozenset[str]]) -> None:
        """Let the next reconcile follow from this one, if nothing else than its inputs decides about it."""
        assert self._layout is not None  # noqa: S101 - everything is selected
        self._owners = {name: exists for one in found for name, exists in one.objects.owners.items()}
        is_unsure = self._doubtful is not None or self._context.rights.is_unsure(self._lowered.sync.owner.sync)
        if may_be_followed(self._lowered, self._upstreams, self._layout, doubtful=is_unsure):
            # A status that an older sync writes fails, and then everything is selected again.
            basis = structs.replace(inputs.basis, unserved=unserved, older=(self._lost, {}))
            self._inputs = inputs._replace(basis=basis)

    async def _select_again(
        self, clusters: ConnectedClusters, names: Mapping[str, frozenset[str]]
    ) -> DesiredSet | None:
        """Select only what has changed since the last reconcile. None: everything must be selected."""
        last = self._last
        if last is None or not is_certain(clusters) or not is_whole(self._upstreams):
            return None
        for name, existed in last.owners.items():
            if await self._context.claims.owner_exists(name) != existed:
                return None
        unserved = await self._unserved(clusters, last.kinds)
        inputs = self._inputs_of(clusters, names, unserved)
        changed = last.changed(inputs, self._upstreams.parts, clusters)
        report = last.desired.workspace
        if changed is None or report is None or (sources := await self._read_again(changed, names)) is None:
            return None
        copies = self._copy_makers(last.older)
        selected = await self._selector(report.layout, clusters).select(sources, copies, unserved, whole=False)
        outcomes = last.refused_again(selected)
        if outcomes is None or await self._lose_regressed(copies):
            return None
        # Those of other targets, and those for the owners of copies upstream.
        self._context.claims.waiters.keep(self._lowered.sync.owner.sync)
        self._layout, self._inputs, self._watches = report.layout, inputs, last.watches
        rest = dict(last.outcomes)
        for item in selected.items:
            rest.pop(item.desired.target, None)
        return structs.replace(
            last.desired,
            clusters=clusters,
            items=tuple(selected.items),
            rest=tuple(rest.values()),
            outcomes=outcomes,
            workspace=structs.replace(
                report, identity=self._identity, shards=self._upstreams.shards, reports=tuple(selected.reports)
            ),
        )

    async def _read_again(
        self, changed: Collection[Target], names: Mapping[str, frozenset[str]]
    ) -> list[SourceObject] | None:
        """Return the present state of these objects; None if one of them is no source any more."""
        found: list[SourceObject] = []
        for workspace, part in self._parts.items():
            for one in part.resources:
                keys = {
                    Key(target.namespace, target.name)
                    for target in changed
                    if (target.kind, target.cluster) == (one.kind, workspace)
                }
                if not keys:
                    continue
                namespaces, held = names[workspace], part.held
                reader = self._context.reader
                if not await reader.read_again(self._lowered, part.at, one, namespaces, held, keys=keys):
                    return None
                entries = [held.by_kind[one.kind][key].source for key in sorted(keys)]
                found += [source for source in entries if source is not None]
        return found if len(found) == len(changed) else None

    def remember(self, result: UnitResult) -> LastSelection | None:
        """Return the selection for the next reconcile, after this one; None if that must look at everything."""
        if self._inputs is None or self._layout is None:
            return None
        last = self._last if result.desired.rest is not None else None
        if last is None:
            kinds = frozenset(source.target.kind for source in self.sources)
            last = LastSelection(
                self._selected.sources, self._watches, kinds=kinds, older=self._older, owners=self._owners
            )
        return last if last.take(self._inputs, self._layout, result) else None

    def _inputs_of(
        self,
        clusters: ConnectedClusters,
        names: Mapping[str, frozenset[str]],
        unserved: Mapping[str, frozenset[str]],
    ) -> Inputs:
        claims, key = self._context.claims, self._context.hub.key
        return inputs_of(self._lowered, self._upstreams, clusters, names, unserved, claims=claims, key=key)

    def _copy_makers(self, yielded: Mapping[Target, str]) -> dict[str, CopyMaker]:
        generation = self._lowered.sync.metadata.generation
        return {
            workspace: CopyMaker(structs.replace(self._rules(part), yielded=frozenset(yielded)), generation, part.held)
            for workspace, part in self._parts.items()
        }

    def _selector(self, layout: Layout, clusters: ConnectedClusters) -> UpstreamSelector:
        return UpstreamSelector(
            self._spec,
            layout,
            clusters,
            limits=self._lowered.limits,
            key=self._context.hub.key,
            reports_status=writes_status(self._spec, self._identity),
        )

    async def _lose_regressed(self, copies: Mapping[str, CopyMaker]) -> bool:
        """Mark workspaces of an APIExport that went back as lost. Raises `SyncError` for a single upstream."""
        sync, lost = self._lowered.sync, dict(self._upstreams.lost)
        for workspace, maker in copies.items():
            try:
                await refuse_regressed(
                    sync, sync.status.upstream, self._parts[workspace], self._context.reader, maker.regressed
                )
            except SyncError as error:
                if not self._upstreams.is_export:
                    raise
                lost[workspace] = error
        if len(lost) == len(self._upstreams.lost):
            return False
        parts = tuple(part for part in self._upstreams.parts if part.at.workspace not in lost)
        problem = self._upstreams.problem or next(iter(lost.values()))
        self._upstreams = structs.replace(self._upstreams, parts=parts, lost=lost, problem=problem)
        self._parts = {part.at.workspace: part for part in parts}
        return True

    async def _lay_out(self, clusters: ConnectedClusters, unserved: Mapping[str, frozenset[str]]) -> Layout:
        """Find the placement of each namespace. Raises `KubeError` if a SyncTarget has changed meanwhile."""
        layout = self._context.layouts.make(
            self._lowered,
            {workspace: part.identity.workspace for workspace, part in self._parts.items()},
            self.sources,
            clusters,
            frozenset(name for name, kinds in unserved.items() if kinds),
        )
        await self._context.verify(self._lowered, layout, clusters)
        return layout

    def _problem(
        self, found: Sequence[ReadResource], selected: SelectedTargets, clusters: ConnectedClusters
    ) -> SyncError | None:
        """Return the problem of the upstreams. The copies of invisible workspaces are kept."""
        problems = [self._identity.problem, self._upstreams.problem]
        if self._upstreams.is_export:
            unseen = UnseenCopies(sync=self._lowered.sync, upstreams=self._upstreams)
            if why := unseen.keep(found, selected, clusters):
                problems.append(SyncError(UNBOUND, why))
            problems += [part.identity.problem for part in self._upstreams.parts]
        problems += [one.problem for one in found]
        if selected.unreported is not None:
            problems.append(SyncError(NOT_ALLOWED, f"the upstream: {selected.unreported}"))
        return next((one for one in problems if one is not None), None)

    def _namespaces(self, part: UpstreamPart) -> frozenset[str]:
        scope = upstream_scope(self._spec, self._lowered.guarded)
        return frozenset(one.name for one in part.at.cluster.all_namespaces() if scope.matches(one) and not one.ignored)

    async def _read_all(
        self, names: Mapping[str, frozenset[str]], clusters: ConnectedClusters
    ) -> Sequence[ReadResource]:
        """Read all resources, and prepare the clusters meanwhile."""
        parts = self._upstreams.parts
        reads = (self._read(part, one, names[part.at.workspace]) for part in parts for one in part.resources)
        found, _ = await asyncio.gather(asyncio.gather(*reads), self._prepare(clusters))
        return found

    async def _read(self, part: UpstreamPart, one: UpstreamResource, namespaces: frozenset[str]) -> ReadResource:
        """Read one resource. A problem is reported, and blocks no other resource."""
        if one.informer is None:
            if one.reason == "NotServed":
                return ReadResource(part=part, resource=one)
            return ReadResource(part=part, resource=one, problem=SyncError(one.reason, one.problem, retry=one.retry))
        try:
            objects = await self._context.read_resource(self._lowered, part.at, one, namespaces, part.held)
        except SyncError as error:
            failed = structs.replace(one, reason=error.reason, problem=error.message)
            return ReadResource(part=part, resource=failed, problem=error)
        return ReadResource(part=part, resource=one, objects=objects)

    async def _prepare(self, clusters: ConnectedClusters) -> None:
        """Ask each cluster what it serves, and watch the namespaces that the sync has created there."""

        async def prepare(site: TargetCluster) -> None:
            with suppress(KindNotServed, NotWatchedError, KubeError):  # reported for its objects when they are applied
                informer = await site.cluster.open_kind(GroupKind("", NAMESPACE))
                await site.cluster.wait_synced(informer, 2.0)

        await asyncio.gather(*map(prepare, clusters.sites))

    def _rules(self, part: UpstreamPart) -> CopyRules:
        return copy_rules(
            self._spec,
            part.identity.workspace,
            part.at,
            part.resources,
            self._context.hub.key,
            reports_status=writes_status(self._spec, self._identity),
            limits=self._lowered.limits,
        )

    async def _yielded(self) -> dict[Target, str]:
        """Return the objects that this sync would write upstream, and the older syncs that write them."""
        writers, owner = self._context.claims.spec_writers, self._lowered.sync.owner.sync
        places = {workspace: place_of(part.at.cluster) for workspace, part in self._parts.items()}
        two_way = {
            (part.at.workspace, one.kind): (part.at, one.resource)
            for part in self._upstreams.parts
            for one in part.resources
            if one.kind and one.resource is not None and one.spec.direction == "Bidirectional"
        }
        targets = [one.target for one in self.sources if (one.target.cluster, one.target.kind) in two_way]
        rights: dict[RightKey, UpwardRight] = {}
        for right in {right_of(target) for target in targets}:
            at, resource = two_way[right[2], right[0]]
            access = AccessRequest(verb="patch", resource=resource, namespace=right[1])
            rights[right] = UpwardRight(upstream=at.cluster, client=at.client, access=access)
        granted = await self._context.rights.granted(owner, rights)
        mine = frozenset((places[target.cluster], target) for target in targets if right_of(target) in granted)
        writers.put(owner, self._lowered.sync.metadata.creation_timestamp, mine)
        self._lost = lost = writers.lost(owner)
        names = {older: await self._context.claims.name_for(older, by=owner) for older in set(lost.values())}
        return {target: names[older] for (_, target), older in lost.items()}

    async def _unserved(self, clusters: ConnectedClusters, kinds: Collection[str]) -> dict[str, frozenset[str]]:
        """Return the kinds of objects that a cluster does not serve, and watch its CRDs for them."""
        found: dict[str, frozenset[str]] = {}
        for site in clusters.sites:
            missing = frozenset([kind for kind in kinds if not await _is_served(site.cluster, GroupKind.parse(kind))])
            found[site.destination.cluster] = missing
            if missing:
                self._defines.append(await _watch_definitions(site.cluster))
        return found

    def _keep_set(
        self, found: Sequence[ReadResource], layout: Layout, selected: SelectedTargets, clusters: ConnectedClusters
    ) -> KeepSet:
        owner = self._lowered.sync.owner.ref
        unread = {one.resource.served_kind for one in found if one.problem is not None}
        recorded = self._lowered.sync.status.upstream
        evidence = {
            workspace: Evidence(
                reader=self._context.reader,
                sync=self._lowered.sync.owner.sync,
                at=part.at,
                identity=part.identity,
                resources=part.resources,
                bound=part.bound,
                spec=self._spec,
                layout=layout,
                namespaces=upstream_scope(self._spec, self._lowered.guarded),
                edited=EditedCopies(rules=self._rules(part), writer=self._context.writer, memory=self._context.pairs),
                history=UpstreamHistory(
                    reader=self._context.reader,
                    at=part.at,
                    recorded=recorded_version(recorded, part),
                    witnesses=part.held.witnesses,
                    doubtful=self._doubtful,
                    repeated=part.held.repeated,
                    copied=lambda: frozenset(one.seen.uid for one in copied_sources(clusters, owner)),
                ),
            )
            for workspace, part in self._parts.items()
        }

        async def confirm(site: TargetCluster, request: RemovalRequest) -> Outcome | None:
            marker = request.observed.marker
            source = read_source_name(marker.source) if marker is not None else None
            one = evidence.get(source.workspace if source is not None else "")
            # Without a workspace, it comes from a former upstream, whose change a person has confirmed.
            return await one.confirm(site, request) if one is not None else None

        return KeepSet(
            targets=frozenset(selected.wanted),
            certain=self._identity.trusted and not selected.refused,
            doubt=self._identity.problem if not (self._identity.trusted or selected.refused) else None,
            # Of several workspaces, the copies of those that cannot be read are kept one by one.
            unread_kinds=frozenset() if self._upstreams.is_export else frozenset(filter(None, unread)),
            confirm=confirm,
        )

    def _requeue(self, found: Sequence[ReadResource]) -> Requeue:
        absent = any(one.resource.reason == "NotServed" for one in found)
        look = Requeue(after=LOOK_FOR_KINDS) if absent else NO_REQUEUE
        problems = [*(one.problem for one in found), *self._upstreams.lost.values(), self._upstreams.unreached]
        return reduce(or_, (one.requeue for one in problems if one is not None), look)

    def watches(self, clusters: ConnectedClusters) -> Watches:
        """Watch the upstream and its namespaces, the clusters, and the places of the copies."""
        if self._watches is not None:
            return self._watches
        scope, parts = upstream_scope(self._spec, self._lowered.guarded), self._upstreams.parts
        basic = self._lowered.watches()
        # Also for kinds that cannot be watched yet: the sync is enqueued when they can.
        upstream = self._upstreams.watches + tuple(
            UpstreamWatch(
                cluster=part.at.cluster.name, kind=str(one.resource.group_kind), query=one.query, namespaces=scope
            )
            for part in parts
            for one in part.resources
            if one.resource is not None
        )
        names = frozenset(part.at.cluster.name for part in parts) | self._upstreams.watched
        placed: dict[str, set[str]] = {}
        for cluster, namespace in self._selected.namespaces:
            placed.setdefault(cluster, set()).add(namespace)
        places = tuple((name, Scope(names=frozenset(found))) for name, found in sorted(placed.items()))
        watches = structs.replace(
            basic,
            names=frozenset(claimed.name for claimed in self._selected.claims),
            scopes=(*((part.at.cluster.name, scope) for part in parts), *places),
            clusters=clusters.clusters | (names - {""}),
            upstream=(*upstream, *(_definitions(name) for name in self._defines)),
        )
        found = watches, self._lowered.claim(tuple(self._selected.claims))
        if self._inputs is not None:
            self._watches = found
        return found

    async def selected(self, scopes: Sequence[SourceScope]) -> Mapping[str, frozenset[str]]:
        """Return the objects that the resources of scopes select now, as marks name them, and their namespaces."""
        found: dict[str, frozenset[str]] = {}
        for scope in scopes:
            guarded = self._lowered.guarded
            each = [await self._context.reader.selected(scope, part.at, guarded) for part in self._upstreams.parts]
            found[scope.key] = frozenset().union(*each)
        return found


def upstream_scope(spec: WorkspaceSyncSpec, guarded: frozenset[str]) -> Scope:
    """Return the upstream namespaces that a spec selects; never `kube-*` and the guarded namespaces."""
    return selected_scope(spec.namespaces.selector, guarded)


def refuse_same_cluster(spec: WorkspaceSyncSpec, at: SourceCluster, clusters: ConnectedClusters) -> None:
    """Raise `SyncError` if objects would be copied onto themselves."""
    if spec.namespaces.mapping is not None:
        return
    for site in clusters.sites:
        if site.cluster.uid == at.cluster.uid:
            message = (
                f"SyncTarget {site.destination.cluster} is the upstream itself, with the same names: write another"
                " SyncTarget, or namespaces.mapping"
            )
            raise SyncError("SameCluster", message, stalled=True)


def _missing_writer(spec: WorkspaceSyncSpec, clusters: ConnectedClusters) -> tuple[str, ...]:
    """Return the problem of a writer that is none of the selected clusters."""
    names = {site.destination.cluster for site in clusters.sites} | {one.name for one in clusters.lost}
    writer = spec.downstream.writer
    return (f"downstream.writer {writer} is none of the SyncTargets",) if writer and writer not in names else ()


def _yields(yielded: Mapping[Target, str]) -> tuple[str, ...]:
    """Return a message about older syncs that write some of the upstream objects."""
    return tuple(
        f"{older} is older and writes {sum(one == older for one in yielded.values())} of the upstream objects, so this"
        " sync only takes them down"
        for older in sorted(set(yielded.values()))
    )


def _unverified(found: Sequence[ReadResource]) -> tuple[str, ...]:
    """Return a message about objects that are skipped because of unverified marks."""
    count = sum(one.objects.unverified for one in found)
    if not count:
        return ()
    message = (
        f"{count} upstream objects have marks of Syncline that cannot be verified, so they are not copied: if they are"
        f" no copies, remove the label {OWNER_LABEL} from them"
    )
    return (message,)


async def _watch_definitions(cluster: Cluster) -> str:
    """Watch the CRDs of a cluster, if that is allowed; return the name of the cluster."""
    with suppress(KubeError):
        await cluster.open_kind(DEFINITIONS)
    return cluster.name


def _definitions(cluster: str) -> UpstreamWatch:
    """Watch the CRDs of a cluster."""
    return UpstreamWatch(
        cluster=cluster, kind=str(DEFINITIONS), query=LabelQuery("", LabelSelector()), namespaces=Scope()
    )


async def _is_served(cluster: Cluster, kind: GroupKind) -> bool:
    """Whether a cluster serves a kind. True if it does not answer: then the write reports the problem."""
    try:
        await cluster.discovery.find(kind.group, kind.kind)
    except KindNotServed as error:
        return not error.certain
    except KubeError:
        return True
    return True
