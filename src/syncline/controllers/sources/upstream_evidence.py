"""Upstream evidence: whether an upstream object is really deleted, so that its copies can be removed.

Absence from a cache is no reason for a removal. A removal needs a live answer about exactly this object, from the
upstream of the copies.
"""

from collections.abc import Sequence

from msgspec import Struct

from syncline.api.common import CONFIRM_DELETION, ObjectMeta
from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.controllers.sources.edited_copies import EditedCopies
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_history import UpstreamHistory
from syncline.controllers.sources.upstream_identity import REPLACED, UpstreamIdentity
from syncline.controllers.sources.upstream_reader import UpstreamReader, UpstreamResource
from syncline.controllers.targets.clusters import TargetCluster
from syncline.controllers.targets.export_clusters import BoundUpstream
from syncline.controllers.targets.layout import REFUSED, Layout, namespace_key
from syncline.controllers.targets.prune import RemovalRequest
from syncline.core.group_kind import GroupResource
from syncline.core.objects import Observed, Target
from syncline.core.outcome import ORPHANED, SOURCE_MOVED, UNPROVEN, Outcome
from syncline.core.scope import Namespace, Scope
from syncline.core.selectors import selector_matches
from syncline.core.source_history import read_source_version
from syncline.core.source_names import read_source_name
from syncline.engine.kind_informer import MetaWire
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError
from syncline.kube.identity import LOGICAL_CLUSTERS
from syncline.kube.resources import NAMESPACES, Resource

IS_COPY = "UpstreamIsCopy"


class Evidence(Struct, frozen=True, kw_only=True):
    """Asks the upstream about objects whose copies are to be removed."""

    reader: UpstreamReader
    sync: str
    """The name of the sync in marks."""
    at: SourceCluster
    identity: UpstreamIdentity
    resources: Sequence[UpstreamResource]
    bound: BoundUpstream | None = None
    """The binding, where the upstream is a workspace of an APIExport."""
    spec: WorkspaceSyncSpec
    layout: Layout
    namespaces: Scope
    edited: EditedCopies
    history: UpstreamHistory

    async def confirm(self, site: TargetCluster, request: RemovalRequest) -> Outcome | None:
        """Return the outcome of a copy that stays, or None if the upstream confirms that it is no longer wanted."""
        observed = request.observed
        source = read_source_name(observed.marker.source) if observed.marker is not None else None
        one = next((one for one in self.resources if source is not None and one.served_kind == source.kind), None)
        if source is None or one is None or one.resource is None:
            return self._is_unserved(site, observed)
        if self.bound is not None and (why := _why_unproven(self.identity, one)):
            return Outcome(target=observed.target, state="Unknown", reason=UNPROVEN, message=why, gone=True)
        try:
            return await self._ask(site, request, one, one.resource, Key(source.namespace, source.name))
        except KubeError as error:
            place = f"{source.kind} {source.namespace}/{source.name}"
            message = f"it is no longer wanted, but stays until the upstream answers about {place}: {error}"
            return Outcome(
                target=observed.target, state="Unknown", reason=UNPROVEN, message=message, retry=True, gone=True
            )

    async def _ask(
        self, site: TargetCluster, request: RemovalRequest, one: UpstreamResource, resource: Resource, key: Key
    ) -> Outcome | None:
        observed = request.observed
        meta = await self.reader.find(self.at, resource, key)
        if meta is None:
            ending = await self._is_ending(observed, resource) or await self._is_forgotten(request, one, resource, key)
            return ending or self._is_orphan(observed) or await self.edited.outcome(site, observed, one, key)
        upstream = namespace_key(Target(key.namespace, key.name, one.kind, self.at.workspace))
        if upstream in self.layout.refused:
            message = "it stays: its namespace has no name downstream any more, so it is not known where it belongs"
            return Outcome(target=observed.target, state="Conflict", reason=REFUSED, message=message, gone=True)
        # A namespace without any read object has no placement: this is no evidence about its objects.
        belongs = upstream not in self.layout.places or self.layout.holds(
            upstream, observed.target.namespace, site.destination.cluster
        )
        if not belongs or not await self._is_selected(one, key, meta):
            return None
        if self.reader.is_copy(self.sync, self.at, one.kind, meta):
            message = "it stays as it is: its source has the marks of another sync now, and a copy is never a source"
            return Outcome(target=observed.target, state="Skipped", reason=IS_COPY, message=message, gone=True)
        message = "its source is there after all; it is planned again"
        return Outcome(
            target=observed.target, state="Pending", reason=SOURCE_MOVED, message=message, retry=True, gone=True
        )

    def _is_unserved(self, site: TargetCluster, observed: Observed) -> Outcome | None:
        """Return the outcome of a copy that stays because the upstream does not serve its resource now; else None."""
        below = site.cluster.informer(observed.target.kind).resource
        if not any((one.spec.group, one.spec.resource) == (below.group, below.plural) for one in self.resources):
            return None
        message = f"it stays: the upstream does not serve {below.plural} now, so nobody can say that its source is gone"
        return Outcome(target=observed.target, state="Unknown", reason=UNPROVEN, message=message, gone=True)

    async def _is_ending(self, observed: Observed, resource: Resource) -> Outcome | None:
        """Return the outcome of a copy that stays because its source was deleted with its workspace; else None.

        A workspace that is being deleted still answers, while its objects disappear one after the other.
        """
        if self.bound is not None:
            return await _is_unbound(self.bound, observed, resource.group_resource)
        if not self.identity.workspace.path:
            return None
        found = await self.at.client.get(LOGICAL_CLUSTERS, "cluster", type=MetaWire, metadata_only=True)
        if found.metadata.deletion_timestamp is None and found.metadata.uid == self.identity.uid:
            return None
        message = f"it stays: workspace {self.identity.workspace.path} is being deleted, or was replaced"
        return Outcome(target=observed.target, state="Unknown", reason=REPLACED, message=message, retry=True, gone=True)

    async def _is_forgotten(
        self, request: RemovalRequest, one: UpstreamResource, resource: Resource, key: Key
    ) -> Outcome | None:
        """Return the outcome of a copy that stays because a restore may have lost its source; else None."""
        marker = request.observed.marker
        seen = read_source_version(marker.source_version) if marker is not None else None
        if request.confirmed or await self.history.proves(one, resource, key, seen):
            return None
        message = (
            "it stays: its source is not there, and nothing proves that it was deleted, rather than lost by a restore"
            " of the upstream from a backup; if it was deleted, annotate the sync with"
            f" {CONFIRM_DELETION}={request.digest}"
        )
        return Outcome(target=request.observed.target, state="Unknown", reason=UNPROVEN, message=message, gone=True)

    def _is_orphan(self, observed: Observed) -> Outcome | None:
        """Return the outcome of a copy that stays without its source because the spec says so; else None."""
        if self.spec.delete_propagation != "None":
            return None
        message = "its source is gone, and it stays: deletePropagation is None"
        return Outcome(target=observed.target, state="Skipped", reason=ORPHANED, message=message, gone=True)

    async def _is_selected(self, one: UpstreamResource, key: Key, meta: ObjectMeta) -> bool:
        """Whether the spec selects an object and its namespace, as the upstream has them now."""
        selector = one.spec.selector
        if selector is not None and not selector_matches(selector, meta.labels):
            return False
        if not key.namespace:
            return True
        client = self.at.cluster.client
        found = (await client.get(NAMESPACES, key.namespace, type=MetaWire, metadata_only=True)).metadata
        namespace = Namespace(found.name, found.uid, found.labels, found.deletion_timestamp is not None)
        return self.namespaces.matches(namespace) and not namespace.ignored


def _why_unproven(identity: UpstreamIdentity, one: UpstreamResource) -> str:
    """Return why the answers of a workspace are no reason to remove a copy now; empty if they are."""
    if not identity.trusted and identity.problem is not None:
        return f"it stays: {identity.problem.message}"
    return f"it stays: {one.problem}" if one.informer is None else ""


async def _is_unbound(bound: BoundUpstream, observed: Observed, resource: GroupResource) -> Outcome | None:
    """Return the outcome of a copy that stays because its source is invisible; else None. Raises `KubeError`."""
    now = await bound.current()
    if bound.binding.proves(now, resource):
        return None
    where = bound.workspace.path or bound.workspace.cluster
    message = (
        f"it stays: workspace {where} does not show all its {resource} through the APIExport, so its source may still"
        " exist; accept the claim there for all objects"
    )
    return Outcome(target=observed.target, state="Unknown", reason=UNPROVEN, message=message, gone=True)
