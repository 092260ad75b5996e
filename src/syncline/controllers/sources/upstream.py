"""Upstream source: desired objects are copies of objects that a sync selects in an upstream."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from syncline.api.workspace_status import WorkspaceSyncStatus
from syncline.api.workspacesync import KIND, WorkspaceSyncSpec
from syncline.controllers.errors import QuotaError, SyncError
from syncline.controllers.lowered import key_of, spec_of
from syncline.controllers.sources.api_export import ExportReader, known_workspaces
from syncline.controllers.sources.desired import DesiredSet, UnitResult
from syncline.controllers.sources.held_objects import HeldObjects
from syncline.controllers.sources.last_selection import LastSelection
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_context import UpstreamContext
from syncline.controllers.sources.upstream_identity import UpstreamIdentity, check_identity, refuse_unfinished
from syncline.controllers.sources.upstream_parts import UpstreamPart, UpstreamSet
from syncline.controllers.sources.upstream_reader import UPSTREAM_AGAIN
from syncline.controllers.sources.upstream_reading import UpstreamReading
from syncline.controllers.sources.upstream_versions import (
    with_shard_versions,
    with_version,
)
from syncline.controllers.sources.upward import UpwardReporter, has_endpoints
from syncline.controllers.state import SyncState
from syncline.controllers.targets.apply import WriterOf
from syncline.controllers.targets.cascade_guard import NAMESPACE
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.controllers.targets.export_clusters import ExportClusters
from syncline.controllers.targets.fleet_clusters import FleetClusters
from syncline.controllers.targets.layout import WorkspaceLowered
from syncline.controllers.targets.open_kind import unwatched_reason
from syncline.controllers.targets.status_upward import UpwardResult
from syncline.controllers.triggers import Triggers
from syncline.core.namespace_mapping import server_workspace
from syncline.core.outcome import Outcome
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.pair_memory import PairMemory
from syncline.engine.sync_object import Sync
from syncline.engine.write_loops import WriteLoops
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError

WorkspaceSyncObject = Sync[WorkspaceSyncSpec, WorkspaceSyncStatus]
_NO_CONNECTION = (
    "upstream.workspace needs upstream.connection, because this cluster has no workspaces: write a kubeconfig of kcp,"
    " or remove workspace"
)


class UpstreamSource:
    """Reads upstreams for the syncs of one kind."""

    def __init__(
        self,
        hub: Cluster,
        clusters: FleetClusters,
        triggers: Triggers,
        *,
        claims: Claims,
        write_loops: WriteLoops,
        allowed_kinds: frozenset[str],
        writer: WriterOf,
        pairs: PairMemory,
    ) -> None:
        self._hub = hub
        self._upstreams = clusters.upstreams
        self._triggers = triggers
        self._claims = claims
        self._context = UpstreamContext(
            hub, clusters, triggers, claims=claims, allowed_kinds=allowed_kinds, writer=writer, pairs=pairs
        )
        self._upward = UpwardReporter(hub, triggers, claims, write_loops, writer)
        self._exports = ExportClusters(clusters.upstreams)
        self._held: dict[Key, dict[str, HeldObjects]] = {}
        """By workspace."""
        self._readings: dict[Key, UpstreamReading] = {}
        """The readings of the present reconciles."""
        self._last: dict[Key, LastSelection] = {}
        """The selections of the last reconciles, if these were complete."""
        self._at: dict[Key, dict[str, SourceCluster]] = {}
        """The upstreams of each sync in the present reconcile, by workspace."""

    async def read(self, lowered: WorkspaceLowered, state: SyncState, *, preview: bool = False) -> UpstreamReading:  # noqa: ARG002 - see the protocol
        """Connect to the upstream and watch its resources. Raises `SyncError` if it cannot be reached."""
        spec, key = spec_of(lowered.sync), key_of(lowered.sync)
        last = self._last.pop(key, None) if not preview else None
        held = defaultdict(lambda: HeldObjects(key.namespace), {} if preview else self._held.get(key, {}))
        upstreams = await (self._read_export if spec.upstream.api_export else self._read_one)(lowered, spec, held)
        versioned = with_shard_versions if upstreams.is_export else with_version
        upstreams = await versioned(lowered.sync, lowered.sync.status.upstream, upstreams)
        if preview:
            return UpstreamReading(self._context, lowered, upstreams)
        self._at[key] = {part.at.workspace: part.at for part in upstreams.parts}
        self._hold(key, {part.at.workspace: part.held for part in upstreams.parts})
        reading = self._readings[key] = UpstreamReading(self._context, lowered, upstreams, last)
        return reading

    def _hold(self, key: Key, held: dict[str, HeldObjects]) -> None:
        """Keep the held objects of these workspaces, and stop reading others."""
        before = self._held.pop(key, {})
        for workspace in before.keys() - held.keys():
            before[workspace].cancel_reading()
        if held:
            self._held[key] = held

    async def _read_one(
        self, lowered: WorkspaceLowered, spec: WorkspaceSyncSpec, held: Mapping[str, HeldObjects]
    ) -> UpstreamSet:
        """Open the only upstream."""
        at, identity = await self._connect(lowered, spec)
        kept = held[""]
        kept.begin(f"{at.cluster.uid} {at.cluster.name} {lowered.user or ''}", lowered.sync.metadata.generation)
        resources = await self._context.reader.open(lowered, spec, at, kept)
        kept.keep_kinds(one.kind for one in resources if one.kind)
        part = UpstreamPart(at=at, identity=identity, resources=resources, held=kept)
        return UpstreamSet(identity=identity, parts=(part,))

    async def _read_export(
        self, lowered: WorkspaceLowered, spec: WorkspaceSyncSpec, held: Mapping[str, HeldObjects]
    ) -> UpstreamSet:
        """Open all workspaces that are bound to the APIExport."""
        connection, export = spec.upstream.connection, spec.upstream.api_export
        assert export is not None  # noqa: S101 - the caller looked
        if connection is None:
            message = "upstream.apiExport needs upstream.connection: write a kubeconfig of kcp"
            raise SyncError("InvalidSpec", message, stalled=True)
        known = known_workspaces(lowered.sync.status.recorded_namespaces)
        found = await self._exports.connect(lowered, self._triggers, connection, export, known)
        return await ExportReader(self._context.reader, lowered, spec).open(export, found, held)

    async def _connect(
        self, lowered: WorkspaceLowered, spec: WorkspaceSyncSpec
    ) -> tuple[SourceCluster, UpstreamIdentity]:
        status, upstream = lowered.sync.status, spec.upstream
        if upstream.connection is None:
            if upstream.workspace:
                raise SyncError("InvalidWorkspace", _NO_CONNECTION, stalled=True)
            at = SourceCluster(self._hub, self._hub.acting_as(lowered.user))
            return at, check_identity(lowered.sync, at, status.upstream, "")
        workspace = upstream.workspace or ""
        cluster, member = await self._upstreams.connect(lowered, self._triggers, upstream.connection, workspace)
        await _wait_namespaces(cluster)
        at = SourceCluster(cluster, member.client)
        server = member.credentials.connection.server if member.is_workspace else ""
        if member.is_workspace and not (status.upstream and status.upstream.identity):
            await refuse_unfinished(member.client, workspace or server_workspace(server) or member.logical_cluster)
        return at, check_identity(
            lowered.sync, at, status.upstream, workspace, server=server, logical_cluster=member.logical_cluster
        )

    async def unknown_targets(
        self, lowered: WorkspaceLowered, clusters: ConnectedClusters, error: SyncError
    ) -> Sequence[Outcome] | None:
        """Return the copies of a sync whose upstream cannot be read as Unknown."""
        if (claim := lowered.claim()) is not None:
            self._claims.replace_extended(claim)
        # A sync that cannot read an upstream cannot write there, so no other sync waits for it.
        self._claims.spec_writers.drop(lowered.sync.owner.sync)
        self._claims.status_writers.drop(lowered.sync.owner.sync)
        if lowered.suspended or isinstance(error, QuotaError):
            return None
        owner = lowered.sync.owner.ref
        why = "not read: see the Ready condition of the sync"
        return [
            Outcome(
                target=observed.target._replace(cluster=site.destination.cluster),
                state="Unknown",
                reason=error.reason,
                message=why,
            )
            for site in clusters.sites
            for observed in site.cluster.managed_by(owner)
            if observed.target.kind != NAMESPACE
        ] or None

    def begin(self, key: Key) -> None:
        """Do nothing."""

    def end(self, key: Key) -> None:
        """Release the reading. Upstream objects are cached for the next reconcile, within their own budget."""
        self._readings.pop(key, None)

    def finished(self, lowered: WorkspaceLowered, units: Sequence[UnitResult], *, settled: bool) -> None:  # noqa: ARG002 - see the protocol
        """Keep the selection for the next reconcile."""
        key = key_of(lowered.sync)
        reading, is_renewed = self._readings.get(key), self._hub.marks.is_finished(lowered.sync.owner.sync)
        last = reading.remember(units[0]) if reading is not None and is_renewed else None
        if last is not None:
            self._last[key] = last

    async def report_upward(
        self, lowered: WorkspaceLowered, desired: DesiredSet, state: SyncState
    ) -> UpwardResult | None:
        """Write the status of the copies and the addresses to the upstream, if the spec requests it."""
        key = key_of(lowered.sync)
        if (upstreams := self._at.get(key)) is None:
            return None
        result = await self._upward.report(lowered, desired, state, upstreams)
        if result is not None:
            for name, held in self._held.get(key, {}).items():
                held.take(source for source in result.updated if source.target.cluster == name)
        return result

    async def finalize(self, lowered: WorkspaceLowered, state: SyncState) -> str:
        """Remove objects that were written upstream; return a message about the rest."""
        if not has_endpoints(lowered) or spec_of(lowered.sync).upstream.api_export is not None:
            return ""
        try:
            at, _ = await self._connect(lowered, spec_of(lowered.sync))
        except (SyncError, KubeError) as error:
            return f"addresses of Services may be left upstream: {error}"
        return await self._upward.finalize(lowered, at, state.upward)

    def observe_health(self, lowered: WorkspaceLowered, state: SyncState, result: UnitResult) -> bool:  # noqa: ARG002 - see the protocol
        """Choose nothing: an upstream has no earlier revisions."""
        return False

    def sync_changed(self, key: Key, old: WorkspaceSyncObject | None, new: WorkspaceSyncObject | None) -> None:
        """Do nothing."""

    def forget(self, key: Key) -> None:
        """Release the state of a sync."""
        self._hold(key, {})
        self._last.pop(key, None)
        self._at.pop(key, None)
        self._context.rights.forget(f"{KIND}/{key.namespace}/{key.name}")
        self._upward.forget(f"{KIND}/{key.namespace}/{key.name}")


async def _wait_namespaces(cluster: Cluster) -> None:
    try:
        await cluster.wait_namespaces(2.0)
    except NotWatchedError as error:
        message = f"the namespaces of the upstream cannot be read: {error}"
        raise SyncError(unwatched_reason(error), message, again=UPSTREAM_AGAIN) from error
