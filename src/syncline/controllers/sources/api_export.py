"""The workspaces of an APIExport as upstreams: those that can be read, and the copies of those that cannot.

An invisible object is not a deleted object: a workspace that ends its binding, or withdraws a claim, keeps its objects.
So the copies of such a workspace stay, and are reported.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from syncline.api.common import CONFIRM_DELETION, LabelSelector
from syncline.api.workspace_status import UpstreamStatus
from syncline.api.workspacesync import ApiExportRef, WorkspaceSyncSpec
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.controllers.sources.held_objects import HeldObjects
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_identity import REPLACED, UpstreamIdentity, confirmation
from syncline.controllers.sources.upstream_parts import ReadResource, UpstreamPart, UpstreamSet
from syncline.controllers.sources.upstream_reader import UpstreamReader
from syncline.controllers.sources.upstream_selection import SelectedTargets
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.controllers.targets.export_clusters import SLICES, BoundUpstream, ConnectedExport
from syncline.controllers.targets.layout import WorkspaceLowered, read_record
from syncline.controllers.targets.managed_objects import object_key
from syncline.controllers.targets.open_kind import unwatched_reason
from syncline.core.api_exports import MAX_WORKSPACES, NAMESPACES
from syncline.core.namespace_mapping import Workspace
from syncline.core.objects import Observed
from syncline.core.outcome import Outcome
from syncline.core.scope import Scope
from syncline.core.source_names import SourceName, read_source_name
from syncline.engine.cluster import NotWatchedError
from syncline.engine.watch_filter import LabelQuery
from syncline.engine.watch_index import UpstreamWatch
from syncline.kube.resources import Resource

UNBOUND = "WorkspaceUnbound"
NOT_ACCEPTED = "ClaimNotAccepted"
TOO_MANY = "TooManyWorkspaces"
CLUSTER_SCOPED = "ClusterScoped"
_NAMESPACE_PATIENCE = 2.0


def recorded_bindings(status: UpstreamStatus | None) -> dict[str, str]:
    """Return the recorded APIBindings: their UIDs by logical cluster."""
    entries = (entry.partition("=") for entry in (status.bindings if status is not None else ()))
    return {cluster: uid for cluster, _, uid in entries if cluster and uid}


def known_workspaces(entries: Iterable[str]) -> frozenset[str]:
    """Return the logical clusters whose namespaces are recorded."""
    return frozenset(key.partition("/")[0] for key in read_record(entries) if "/" in key)


class ExportReader:
    """Opens the workspaces of an APIExport for one sync."""

    def __init__(self, reader: UpstreamReader, lowered: WorkspaceLowered, spec: WorkspaceSyncSpec) -> None:
        self._reader = reader
        self._lowered = lowered
        self._spec = spec
        self._recorded = recorded_bindings(lowered.sync.status.upstream)

    async def open(self, export: ApiExportRef, found: ConnectedExport, held: Mapping[str, HeldObjects]) -> UpstreamSet:
        """Open all workspaces. A workspace that cannot be read is reported, and blocks no other."""
        parts: list[UpstreamPart] = []
        lost: dict[str, SyncError] = {}
        opened = await asyncio.gather(*(self._open_or_tell(one, held) for one in found.bound))
        for one, result in zip(found.bound, opened, strict=True):
            if isinstance(result, SyncError):
                lost[one.workspace.cluster] = result
            else:
                parts.append(result)
        identity = _export_identity(self._lowered.sync, export, found.uid)
        first = next(iter(lost.values()), None)
        return UpstreamSet(
            identity=identity,
            parts=tuple(parts),
            is_export=True,
            lost=lost,
            problem=_too_many(found.left_out) or found.unreached or first,
            unreached=found.unreached,
            bindings=self._bindings(parts, found.bound),
            watched=found.watched | {found.provider.name},
            watches=(_slices(found.provider.name),),
        )

    async def _open_or_tell(self, one: BoundUpstream, held: Mapping[str, HeldObjects]) -> UpstreamPart | SyncError:
        try:
            return await self._open(one, held)
        except SyncError as error:
            return error

    async def _open(self, one: BoundUpstream, held: Mapping[str, HeldObjects]) -> UpstreamPart:
        where = one.workspace.path or one.workspace.cluster
        if one.problem is not None:
            raise one.problem
        assert one.cluster is not None  # noqa: S101 - it can be read
        assert one.client is not None  # noqa: S101 - it can be read
        if NAMESPACES not in one.binding.granted:
            raise SyncError(NOT_ACCEPTED, _not_accepted(where, "namespaces"))
        try:
            await one.cluster.wait_namespaces(_NAMESPACE_PATIENCE)
        except NotWatchedError as error:
            message = f"the namespaces of workspace {where} cannot be read: {error}"
            raise SyncError(unwatched_reason(error), message, status="Unknown", retry=True) from error

        def refusal(resource: Resource) -> tuple[str, str] | None:
            if not resource.namespaced:
                message = (
                    f"{resource.group_resource} are not in namespaces, so those of several workspaces would have the"
                    " same names: remove the resource, or write upstream.workspace"
                )
                return CLUSTER_SCOPED, message
            if resource.group_resource not in one.binding.granted:
                return NOT_ACCEPTED, _not_accepted(where, str(resource.group_resource))
            return None

        at = SourceCluster(one.cluster, one.client, one.workspace.cluster)
        kept = held[one.workspace.cluster]
        kept.begin(
            f"{at.cluster.uid} {at.cluster.name} {self._lowered.user or ''}", self._lowered.sync.metadata.generation
        )
        resources = await self._reader.open(self._lowered, self._spec, at, kept, refusal)
        kept.keep_kinds(each.kind for each in resources if each.kind)
        return UpstreamPart(at=at, identity=self._identity(one, where), resources=resources, held=kept, bound=one)

    def _identity(self, one: BoundUpstream, where: str) -> UpstreamIdentity:
        """Compare a binding with the recorded one of the copies."""
        uid = one.binding.uid
        before = self._recorded.get(one.workspace.cluster, "")
        if not before or before == uid or _is_confirmed(self._lowered.sync, confirmation(uid)):
            return UpstreamIdentity(uid=uid, workspace=one.workspace)
        message = (
            f"workspace {where} was bound again, with which its objects may have been deleted, so nothing of it is"
            f" removed; if its present state is right, annotate the sync with {CONFIRM_DELETION}={confirmation(uid)}"
        )
        problem = SyncError(REPLACED, message)
        return UpstreamIdentity(uid=before, workspace=one.workspace, trusted=False, problem=problem)

    def _bindings(self, parts: Iterable[UpstreamPart], bound: Iterable[BoundUpstream]) -> dict[str, str]:
        """Return the bindings to record: the present ones, and those of workspaces that may still have copies."""
        known = known_workspaces(self._lowered.sync.status.recorded_namespaces)
        known |= {one.workspace.cluster for one in bound}
        kept = {cluster: uid for cluster, uid in self._recorded.items() if cluster in known}
        return kept | {part.at.workspace: part.identity.uid for part in parts}


class UnseenCopies(Struct, frozen=True, kw_only=True):
    """Finds the copies whose sources are invisible, but may exist."""

    sync: AnySync
    upstreams: UpstreamSet

    def keep(self, found: Sequence[ReadResource], selected: SelectedTargets, clusters: ConnectedClusters) -> str:
        """Keep such copies and their namespaces, and report them; return the problem of unbound workspaces."""
        unread: dict[str, dict[str, SyncError]] = {part.at.workspace: {} for part in self.upstreams.parts}
        for one in found:
            if one.problem is not None:
                unread[one.part.at.workspace][one.resource.served_kind] = one.problem
        copies = [
            (site, observed, name)
            for site in (*clusters.sites, *clusters.former)
            for observed in site.cluster.managed_by(self.sync.owner.ref)
            if (name := _workspace_of(observed)) is not None
        ]
        bound, unreached = unread.keys() | self.upstreams.lost.keys(), self.upstreams.unreached
        # A workspace that is not found may be bound on a shard that cannot be read.
        unbound = sorted({name.workspace for _, _, name in copies} - bound) if unreached is None else []
        digest = confirmation(f"unbound {self.upstreams.identity.uid} {' '.join(unbound)}")
        ask = f"; to have the copies removed, annotate the sync with {CONFIRM_DELETION}={digest}"
        forgotten = frozenset(unbound if _is_confirmed(self.sync, digest) else ())
        for site, observed, name in copies:
            kinds = unread.get(name.workspace)
            if kinds is None:
                if name.workspace not in forgotten:
                    problem = self.upstreams.lost.get(name.workspace) or unreached
                    _keep(selected, site, observed, problem or SyncError(UNBOUND, _unbound([name.workspace]) + ask))
            elif name.kind == NAMESPACE and kinds:
                _keep(selected, site, observed, None)
            elif (problem := kinds.get(name.kind)) is not None:
                _keep(selected, site, observed, problem)
        if not unbound or forgotten:
            return ""
        return _unbound(unbound) + ask


def _keep(selected: SelectedTargets, site: TargetCluster, observed: Observed, problem: SyncError | None) -> None:
    key = object_key(site, observed.target)
    if key in selected.wanted:
        return
    selected.wanted.add(key)
    if problem is not None and observed.target.kind != NAMESPACE:
        target = observed.target._replace(cluster=site.destination.cluster)
        message = f"it stays as it is: {problem.message}"
        selected.outcomes.append(Outcome(target=target, state="Unknown", reason=problem.reason, message=message))


def _workspace_of(observed: Observed) -> SourceName | None:
    name = read_source_name(observed.marker.source) if observed.marker is not None else None
    return name if name is not None and name.workspace else None


def _unbound(clusters: Sequence[str]) -> str:
    what = f"logical cluster {clusters[0]}" + (f" and {len(clusters) - 1} more" if len(clusters) > 1 else "")
    return f"{what} is not bound to the APIExport any more, so its objects cannot be seen, and the copies stay"


def _not_accepted(workspace: str, resource: str) -> str:
    return (
        f"workspace {workspace} has not accepted the claim on {resource}, so they cannot be seen, and the copies stay:"
        " accept the claim in its APIBinding"
    )


def _too_many(left_out: int) -> SyncError | None:
    if not left_out:
        return None
    message = (
        f"a sync follows at most {MAX_WORKSPACES} workspaces, and {left_out} more are bound to the APIExport: split it,"
        " or write a sync for each of these workspaces"
    )
    return SyncError(TOO_MANY, message)


def _export_identity(sync: AnySync, export: ApiExportRef, uid: str) -> UpstreamIdentity:
    """Compare an APIExport with the recorded one of the copies."""
    place = Workspace(export.workspace, export.workspace.rpartition(":")[2])
    status = sync.status
    recorded = getattr(status, "upstream", None)
    before = recorded.identity if isinstance(recorded, UpstreamStatus) else ""
    if not before or before == uid or _is_confirmed(sync, confirmation(uid)):
        return UpstreamIdentity(uid=uid, workspace=place)
    message = (
        f"APIExport {export.name} of workspace {export.workspace} is not the upstream that the copies were made from,"
        f" so nothing is removed; if that is right, annotate the sync with {CONFIRM_DELETION}={confirmation(uid)}"
    )
    return UpstreamIdentity(uid=before, workspace=place, trusted=False, problem=SyncError(REPLACED, message))


def _is_confirmed(sync: AnySync, digest: str) -> bool:
    return sync.metadata.annotations.get(CONFIRM_DELETION) == digest


def _slices(provider: str) -> UpstreamWatch:
    """Watch the addresses of the APIExport."""
    query = LabelQuery("", LabelSelector())
    return UpstreamWatch(cluster=provider, kind=str(SLICES.group_kind), query=query, namespaces=Scope())
