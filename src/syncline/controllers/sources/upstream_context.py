"""Upstream context: the dependencies that the readings of all syncs of an upstream share."""

import asyncio

from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import key_of
from syncline.controllers.sources.held_objects import HeldObjects, ReadObjects
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_reader import READ_PATIENCE, UpstreamReader, UpstreamResource
from syncline.controllers.targets.apply import WriterOf
from syncline.controllers.targets.clusters import ConnectedClusters
from syncline.controllers.targets.fleet_clusters import FleetClusters
from syncline.controllers.targets.layout import Layout, LayoutMaker, WorkspaceLowered
from syncline.controllers.targets.upward_rights import UpwardRights
from syncline.controllers.triggers import Triggers
from syncline.engine.claims import Claims
from syncline.engine.cluster import Cluster
from syncline.engine.pair_memory import PairMemory
from syncline.engine.watch_index import WatchSet


class UpstreamContext:
    """The dependencies that the readings of all syncs share."""

    def __init__(
        self,
        hub: Cluster,
        clusters: FleetClusters,
        triggers: Triggers,
        *,
        claims: Claims,
        allowed_kinds: frozenset[str],
        writer: WriterOf,
        pairs: PairMemory,
    ) -> None:
        self.hub = hub
        self.claims = claims
        self.writer = writer
        self.pairs = pairs
        self.reader = UpstreamReader(hub, claims, allowed_kinds)
        self.layouts = LayoutMaker()
        self.rights = UpwardRights()
        self._clusters = clusters
        self._triggers = triggers

    async def read_resource(
        self,
        lowered: WorkspaceLowered,
        at: SourceCluster,
        one: UpstreamResource,
        namespaces: frozenset[str],
        held: HeldObjects,
    ) -> ReadObjects:
        """Read one resource. A slow resource is read in the background, so that it blocks no other.

        Raises `SyncError` if it cannot be read, or not yet: then the sync is enqueued later.
        """
        begun = held.reading.pop(one.kind, None)
        if begun is not None and begun.done():
            begun = None  # it was started before the last changes
        task = begun or asyncio.create_task(self.reader.read(lowered, at, one, namespaces, held))
        done, _ = await asyncio.wait([task], timeout=READ_PATIENCE)
        if done:
            return await task
        held.reading[one.kind] = task
        if begun is None:
            key = key_of(lowered.sync)
            task.add_done_callback(lambda _: self._triggers.look_again(key))
        message = f"the upstream has not answered yet about {one.spec.resource}"
        raise SyncError("UpstreamSlow", message, status="Unknown")

    async def verify(self, lowered: WorkspaceLowered, layout: Layout, clusters: ConnectedClusters) -> None:
        """Check that newly chosen clusters of a layout still accept new namespaces. Raises `KubeError`."""
        chosen = [site for site in clusters.sites if site.destination.cluster in layout.chosen_anew]
        await self._clusters.verify(lowered, chosen)

    def watch(self, lowered: WorkspaceLowered, watches: WatchSet) -> None:
        """Set the watches of a reading before it reads, and keep the present claims until then."""
        self._triggers.extend_watches(key_of(lowered.sync), watches.upstream, watches.clusters)
