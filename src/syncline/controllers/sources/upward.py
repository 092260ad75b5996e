"""Upward: writes the status of copies and the addresses of Services from targets to the upstream."""

from collections.abc import Mapping

from msgspec import structs

from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.controllers.lowered import Destination, key_of, spec_of
from syncline.controllers.sources.desired import DesiredSet
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_identity import UpstreamIdentity
from syncline.controllers.state import SyncState, requested_by_user
from syncline.controllers.targets.apply import WriterOf
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.endpoints_upward import SERVICE, EndpointsPass, EndpointsResult, EndpointsUpward
from syncline.controllers.targets.layout import WorkspaceLowered
from syncline.controllers.targets.status_upward import StatusUpward, UpwardPass, UpwardResult
from syncline.controllers.triggers import Triggers
from syncline.core.durations import seconds
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.fanout import FanOut
from syncline.engine.write_loops import WriteLoops

UPSTREAM = "upstream"
"""The name of the upstream in messages."""


class UpwardReporter:
    """Writes to the upstreams of the syncs of one kind."""

    def __init__(self, hub: Cluster, triggers: Triggers, claims: Claims, loops: WriteLoops, writer: WriterOf) -> None:
        self._hub = hub
        self._triggers = triggers
        self._writer = writer
        self._statuses = StatusUpward(claims, loops)
        self._endpoints = EndpointsUpward()
        self._clearing: set[str] = set()
        """Syncs that may have unwanted addresses upstream."""

    def forget(self, sync: str) -> None:
        """Forget a sync that is gone."""
        self._statuses.forget(sync)
        self._endpoints.forget(sync)
        self._clearing.discard(sync)

    async def report(
        self, lowered: WorkspaceLowered, desired: DesiredSet, state: SyncState, upstreams: Mapping[str, SourceCluster]
    ) -> UpwardResult | None:
        """Write as the spec requests; None if it requests no status and there is no problem.

        `upstreams` are by workspace; a sync with one upstream has one, under the empty name.
        """
        spec, report = spec_of(lowered.sync), desired.workspace
        if report is not None and not report.identity.trusted:
            return None  # it may not be the upstream of the copies
        status: UpwardResult | None = None
        at = next(iter(upstreams.values()), None)
        if at is not None and report is not None and writes_status(spec, report.identity):
            one = UpwardPass(
                sync=lowered.sync.owner.sync,
                created=lowered.sync.metadata.creation_timestamp,
                upstream=at.cluster,
                client=at.client,
                fan_out=state.upward,
                mode=spec.placement.replicas,
                retries=spec.retry.max_retries,
                delay=seconds(spec.retry.delay),
                requested=requested_by_user(lowered.sync),
                workspaces={name: (one.cluster, one.client) for name, one in upstreams.items()},
            )
            status = await self._statuses.run(report.reports, one, whole=desired.rest is None)
        else:
            self._statuses.forget(lowered.sync.owner.sync)
        if (only := upstreams.get("")) is None:
            return status  # addresses are for a single upstream
        addresses = await self._report_endpoints(lowered, desired, state, only)
        if not addresses.failed:
            return status
        status = status or UpwardResult()
        return structs.replace(
            status, failed=(*status.failed, *addresses.failed), requeue=status.requeue | addresses.requeue
        )

    async def finalize(self, lowered: WorkspaceLowered, at: SourceCluster, fan_out: FanOut) -> str:
        """Remove the addresses that a sync has written; return a message about the rest."""
        if not has_endpoints(lowered):
            return ""
        result = await self._endpoints.remove(self._pass(lowered, at, fan_out, sites=()))
        return "; ".join(f"{outcome.target}: {outcome.message}" for outcome in result.failed[:3])

    async def _report_endpoints(
        self, lowered: WorkspaceLowered, desired: DesiredSet, state: SyncState, at: SourceCluster
    ) -> EndpointsResult:
        sync, spec, report = lowered.sync, spec_of(lowered.sync), desired.workspace
        ref, seen = sync.owner.sync, sync.status.observed_generation
        if spec.endpoints and report is not None:
            self._clearing.add(ref)
            one = self._pass(lowered, at, state.upward, sites=desired.clusters.sites)
            one = structs.replace(
                one,
                unreachable=frozenset(lost.name for lost in desired.clusters.lost),
                certain=desired.keep.certain and SERVICE not in desired.keep.unread_kinds,
            )
            result = await self._endpoints.run(report.reports, one)
            self._triggers.follow(key_of(sync), result.follows)
            return result
        self._triggers.follow(key_of(sync), ())
        # Only an edit can have disabled it, possibly while no operator ran.
        if ref not in self._clearing and not (has_endpoints(lowered) and 0 < seen < sync.metadata.generation):
            return EndpointsResult()
        self._clearing.add(ref)
        result = await self._endpoints.remove(self._pass(lowered, at, state.upward, sites=()))
        if not result.failed:
            self._clearing.discard(ref)
        return result

    def _pass(
        self, lowered: WorkspaceLowered, at: SourceCluster, fan_out: FanOut, *, sites: tuple[TargetCluster, ...]
    ) -> EndpointsPass:
        sync, downstream = lowered.sync, spec_of(lowered.sync).downstream
        hub_uid = self._hub.uid if at.cluster is not self._hub else ""
        upstream = TargetCluster(
            destination=Destination(cluster=UPSTREAM),
            cluster=at.cluster,
            client=at.client,
            owner=structs.replace(sync.owner, hub_uid=hub_uid, keys=self._hub.marks.keys),
        )
        return EndpointsPass(
            sync=sync.owner.sync,
            upstream=upstream,
            writer=self._writer(upstream, None),
            fan_out=fan_out,
            sites=sites,
            several=downstream.selector is not None or len(downstream.sync_targets) > 1,
            only=downstream.writer or "",
        )


def has_endpoints(lowered: WorkspaceLowered) -> bool:
    """Whether a sync may have addresses upstream. This is recorded before the first write."""
    upstream = lowered.sync.status.upstream
    return upstream is not None and upstream.endpoints


def writes_status(spec: WorkspaceSyncSpec, identity: UpstreamIdentity) -> bool:
    """Whether the status of copies is written upstream. By default only to workspaces, which have no controllers."""
    return spec.status_sync if spec.status_sync is not None else bool(identity.workspace.path)
