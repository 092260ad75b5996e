"""The workspaces of an APIExport: found through its virtual workspace, and connected each by itself.

provider workspace -> APIExportEndpointSlice -> APIBindings of all workspaces -> one upstream for each of them
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct, structs

from syncline.api.connection import ClusterConnection
from syncline.api.workspacesync import ApiExportRef
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import LoweredSpec, key_of
from syncline.controllers.targets.open_kind import unwatched_reason
from syncline.controllers.targets.upstream_clusters import UpstreamAddress, UpstreamClusters
from syncline.controllers.triggers import Triggers
from syncline.core.api_exports import (
    CLUSTER,
    MAX_ENDPOINTS,
    Binding,
    BindingWire,
    ExportEndpoint,
    choose_bindings,
    read_binding,
    read_endpoint,
)
from syncline.core.namespace_mapping import Workspace, WorkspaceError
from syncline.core.remedies import grant_upstream, with_cause
from syncline.engine.bound_workspaces import APIBINDINGS, BoundWorkspaces
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.fleet import IdentityProbe, MemberKey, RemoteCluster, Resolved
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, KindNotServed, KubeError, NotFound
from syncline.kube.identity import Landmark
from syncline.kube.resources import Resource

EXPORTS = Resource("apis.kcp.io", "v1alpha2", "apiexports", "APIExport", namespaced=False)
SLICES = Resource("apis.kcp.io", "v1alpha1", "apiexportendpointslices", "APIExportEndpointSlice", namespaced=False)
EVERYWHERE = "*"
# The time that a reconcile waits for the first list of bindings.
_PATIENCE = 5.0


class _ExportMeta(Struct):
    uid: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Export(Struct):
    metadata: _ExportMeta


class _SliceEndpoint(Struct):
    url: str = ""


class _SliceStatus(Struct):
    endpoints: list[_SliceEndpoint] = []


class _Slice(Struct):
    status: _SliceStatus = msgspec.field(default_factory=_SliceStatus)


class BoundUpstream(Struct, frozen=True, kw_only=True):
    """A workspace that is bound to the APIExport, and whether it can be read."""

    binding: Binding
    shard: str
    """The address of the virtual workspace that shows it."""
    cluster: Cluster | None = None
    client: Client | None = None
    problem: SyncError | None = None
    """Why it cannot be read."""

    @property
    def workspace(self) -> Workspace:
        """The workspace."""
        return self.binding.workspace

    async def current(self) -> Binding:
        """Read the binding live. Raises the errors of a read."""
        assert self.client is not None  # noqa: S101 - it can be read
        wire: BindingWire = await self.client.get(APIBINDINGS, self.binding.name, type=BindingWire)
        return read_binding(wire)


class ConnectedExport(Struct, frozen=True, kw_only=True):
    """The workspaces of an APIExport."""

    uid: str
    """The UID of the APIExport."""
    provider: Cluster
    """Its workspace."""
    bound: tuple[BoundUpstream, ...] = ()
    left_out: int = 0
    """The number of workspaces above the limit."""
    unreached: SyncError | None = None
    """Why some addresses of the APIExport cannot be followed."""
    watched: frozenset[str] = frozenset()
    """The names that changes of the bindings, or of their clusters, are reported for."""


class ExportClusters:
    """Connects the workspaces of APIExports, for the syncs of one kind."""

    def __init__(self, clusters: UpstreamClusters) -> None:
        self._clusters = clusters
        self._watches: dict[RemoteCluster, BoundWorkspaces] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._count = 0
        clusters.members.follow(self._member_changed, self.stop)

    async def connect(
        self,
        lowered: LoweredSpec,
        triggers: Triggers,
        connection: ClusterConnection,
        export: ApiExportRef,
        known: frozenset[str],
    ) -> ConnectedExport:
        """Return the workspaces that are bound to an APIExport, at all its addresses: it has one for each shard of kcp.

        An unreachable workspace or address blocks no other. `known` are the logical clusters that the
        sync has copies of. Raises `SyncError` where the APIExport itself, or the workspaces of none of its addresses,
        can be read.
        """
        found = await self._clusters.resolve_upstream(lowered, triggers, connection)
        one = _Connecting(self._clusters, lowered, triggers, connection, found)
        provider, member = await one.provider(export.workspace)
        uid, endpoints = await _read_export(member.client, export)
        await _watch_slices(provider)
        followed = endpoints[:MAX_ENDPOINTS]
        read = await asyncio.gather(*(self._read(one, endpoint, export) for endpoint in followed))
        failed = [found for found in read if isinstance(found, SyncError)]
        if failed and len(failed) == len(read):
            raise failed[0]
        places: dict[Binding, ExportEndpoint] = {}
        for endpoint, bindings in zip(followed, read, strict=True):
            places |= dict.fromkeys(() if isinstance(bindings, SyncError) else bindings, endpoint)
        chosen = choose_bindings(places, [(endpoint.cluster, export.name) for endpoint in followed], known)
        bound = await asyncio.gather(*(one.bound(places[binding], binding) for binding in chosen.bindings))
        self._clusters.keep_upstreams(lowered, one.keys)
        return ConnectedExport(
            uid=uid,
            provider=provider,
            bound=tuple(bound),
            left_out=chosen.left_out,
            unreached=next(iter(failed), None) or _too_many(len(endpoints)),
            watched=frozenset(one.watched),
        )

    async def stop(self) -> None:
        """End all watches."""
        await asyncio.gather(*(watch.stop() for watch in self._watches.values()), *self._ending)

    async def _read(
        self, one: "_Connecting", endpoint: ExportEndpoint, export: ApiExportRef
    ) -> list[Binding] | SyncError:
        """Return the bindings at an endpoint, or why they are not known."""
        try:
            member = one.everywhere(endpoint)
            watch = self._watch(member)
            one.watch(watch.name)
            await one.reach(member, endpoint.url)
            return await _bindings(watch, export)
        except SyncError as error:
            return error

    def _watch(self, member: RemoteCluster) -> BoundWorkspaces:
        """Return the watch of all bindings at an endpoint, which all syncs with the credential share."""
        if member not in self._watches:
            self._count += 1
            name = f"{member.namespace}/{member.name}#bindings-{self._count}"
            watch = BoundWorkspaces(
                member.client, name, member.run_watch, self._clusters.members.changed, member.cache_share
            )
            watch.start()
            self._watches[member] = watch
        return self._watches[member]

    def _member_changed(self, member: RemoteCluster) -> None:
        watch = self._watches.get(member)
        if watch is None:
            return
        self._clusters.members.changed(watch.name)
        if member.closed:
            del self._watches[member]
            task = asyncio.get_running_loop().create_task(watch.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


class _Connecting:
    """One sync that connects to the workspaces of an APIExport."""

    def __init__(
        self,
        clusters: UpstreamClusters,
        lowered: LoweredSpec,
        triggers: Triggers,
        connection: ClusterConnection,
        found: Resolved,
    ) -> None:
        self._clusters = clusters
        self._lowered = lowered
        self._triggers = triggers
        self._connection = connection
        self._found = found
        self.keys: set[MemberKey] = set()
        self.watched: set[str] = set()

    async def provider(self, workspace: str) -> tuple[Cluster, RemoteCluster]:
        """Connect to the workspace of the APIExport."""
        locate = partial(self._clusters.in_workspace, self._lowered, workspace)
        member = self._open(UpstreamAddress(self._connection, locate, workspace))
        cluster = self._clusters.members.open(member, self._triggers)
        self.watch(cluster.name)
        await self.reach(member, workspace)
        return cluster, member

    def everywhere(self, endpoint: ExportEndpoint) -> RemoteCluster:
        """Return all bound workspaces of an endpoint as one cluster, to find them."""
        probe = IdentityProbe(Landmark(APIBINDINGS, ""), uid=endpoint.url)
        locate = partial(self._clusters.at_endpoint, self._lowered, endpoint, EVERYWHERE)
        return self._open(UpstreamAddress(self._connection, locate, endpoint.url, probe))

    async def reach(self, member: RemoteCluster, name: str) -> None:
        """Raise `SyncError` if a cluster cannot be reached."""
        await self._clusters.reach_upstream(self._lowered, member, name)

    def watch(self, cluster: str) -> None:
        """Enqueue the sync when a cluster becomes unreachable, or reachable."""
        self.watched.add(cluster)
        self._triggers.watch_cluster(key_of(self._lowered.sync), cluster)

    async def bound(self, endpoint: ExportEndpoint, binding: Binding) -> BoundUpstream:
        """Connect to one bound workspace. A problem is reported, and blocks no other."""
        workspace = binding.workspace
        probe = IdentityProbe(Landmark(APIBINDINGS, binding.name), expected=binding.uid)
        address = UpstreamAddress(
            self._connection, partial(self._locate_bound, endpoint, binding), workspace.path, probe
        )
        try:
            member = self._open(address)
            cluster = self._clusters.members.open(member, self._triggers)
            self.watch(cluster.name)
            await self.reach(member, workspace.path or workspace.cluster)
        except SyncError as error:
            return BoundUpstream(binding=binding, shard=endpoint.url, problem=error)
        return BoundUpstream(binding=binding, shard=endpoint.url, cluster=cluster, client=member.client)

    def _locate_bound(self, endpoint: ExportEndpoint, binding: Binding, found: Resolved) -> Resolved:
        """Return the credential for a bound workspace. A workspace that is bound again is another cluster."""
        moved = self._clusters.at_endpoint(self._lowered, endpoint, binding.workspace.cluster, found)
        part = f"{moved.key.part} {binding.uid}"
        return structs.replace(moved, key=structs.replace(moved.key, part=part))

    def _open(self, address: UpstreamAddress) -> RemoteCluster:
        member = self._clusters.open_upstream(self._lowered, self._found, address)
        self.keys.add(address.locate(self._found).key)
        return member


async def _read_export(client: Client, export: ApiExportRef) -> tuple[str, Sequence[ExportEndpoint]]:
    """Return the UID of an APIExport, and its addresses: none before the first workspace is bound."""
    try:
        found: _Export = await client.get(EXPORTS, export.name, type=_Export)
        slice_: _Slice = await client.get(SLICES, export.name, type=_Slice)
        urls = dict.fromkeys(one.url for one in slice_.status.endpoints)
        home = found.metadata.annotations.get(CLUSTER, "")
        return found.metadata.uid, [read_endpoint(url, export.name, home) for url in urls]
    except NotFound as error:
        message = (
            f"there is no APIExport {export.name} in workspace {export.workspace}, or no APIExportEndpointSlice of its"
            f" name: create it, or correct upstream.apiExport ({error})"
        )
        raise SyncError("ApiExportNotFound", message, retry=True) from error
    except Forbidden as error:
        remedy = grant_upstream(error.resource)
        raise SyncError("UpstreamForbidden", with_cause(remedy, error), retry=True) from error
    except KubeError as error:
        raise SyncError("UpstreamUnreadable", f"the upstream: {error}", retry=True) from error
    except WorkspaceError as error:
        raise SyncError("EndpointNotAllowed", str(error), retry=True) from error


def _too_many(endpoints: int) -> SyncError | None:
    """Return the problem of an APIExport with too many addresses."""
    if endpoints <= MAX_ENDPOINTS:
        return None
    message = (
        f"the APIExport has {endpoints} addresses, and a sync follows at most {MAX_ENDPOINTS}: the workspaces at the"
        " others are not read, and their copies stay"
    )
    return SyncError("TooManyEndpoints", message)


async def _watch_slices(provider: Cluster) -> None:
    """Watch the addresses. If they cannot be watched, the next reconcile reads them."""
    try:
        await provider.open_kind(SLICES.group_kind, SLICES.version)
    except (KindNotServed, NotWatchedError, KubeError):
        return


async def _bindings(watch: BoundWorkspaces, export: ApiExportRef) -> list[Binding]:
    try:
        return await watch.bindings(_PATIENCE)
    except NotWatchedError as error:
        right = "; the credential needs the right to all verbs of apiexports/content" if not error.full else ""
        message = f"the workspaces that are bound to APIExport {export.name} are not known: {error}{right}"
        raise SyncError(unwatched_reason(error), message, status="Unknown", retry=True) from error
