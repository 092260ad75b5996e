"""The upstreams of one reconcile: one cluster or workspace, or each workspace that is bound to an APIExport."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from syncline.api.workspacesync import WorkspaceResource, WorkspaceSyncSpec, resources_of
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import SourceObject
from syncline.controllers.sources.held_objects import HeldObjects, ReadObjects
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.controllers.sources.upstream_identity import UpstreamIdentity
from syncline.controllers.sources.upstream_reader import UpstreamResource
from syncline.controllers.sources.workspace_report import ResourceReport
from syncline.controllers.targets.export_clusters import BoundUpstream
from syncline.engine.watch_index import UpstreamWatch


class UpstreamPart(Struct, frozen=True, kw_only=True):
    """One upstream, with its resources."""

    at: SourceCluster
    identity: UpstreamIdentity
    resources: Sequence[UpstreamResource]
    held: HeldObjects
    bound: BoundUpstream | None = None
    """The binding, where it is a workspace of an APIExport."""


class ReadResource(Struct, frozen=True, kw_only=True):
    """The objects of one resource of one upstream."""

    part: UpstreamPart
    resource: UpstreamResource
    objects: ReadObjects = ReadObjects(())
    problem: SyncError | None = None

    @property
    def sources(self) -> tuple[SourceObject, ...]:
        """The objects."""
        return self.objects.sources


class UpstreamSet(Struct, frozen=True, kw_only=True):
    """All upstreams of one reconcile."""

    identity: UpstreamIdentity
    """Of the upstream, or of the APIExport."""
    parts: tuple[UpstreamPart, ...]
    is_export: bool = False
    lost: Mapping[str, SyncError] = {}
    """The causes for bound workspaces that cannot be read, by logical cluster."""
    problem: SyncError | None = None
    """The problem of the workspaces as a whole."""
    unreached: SyncError | None = None
    """Why some shards of the APIExport cannot be followed: they may have bound workspaces."""
    bindings: Mapping[str, str] = {}
    """By logical cluster: the UID of the APIBinding to record."""
    shards: Mapping[str, str] = {}
    """By shard: the highest resourceVersion that was seen."""
    watched: frozenset[str] = frozenset()
    """The names that changes of the bindings are reported for."""
    watches: tuple[UpstreamWatch, ...] = ()


def resource_reports(found: Sequence[ReadResource], spec: WorkspaceSyncSpec) -> tuple[ResourceReport, ...]:
    """Return the report about each resource. Of several workspaces, the first one with a problem counts."""
    return tuple(
        _report(one, [each.resource for each in found if each.resource.spec == one]) for one in resources_of(spec)
    )


def _report(spec: WorkspaceResource, opened: Sequence[UpstreamResource]) -> ResourceReport:
    served = [one for one in opened if one.reason != "NotServed"]
    worst = next((one for one in served if one.reason), None) or (opened[0] if opened and not served else None)
    kind = next((one.kind for one in opened if one.kind), "")
    if worst is None:
        return ResourceReport(spec=spec, kind=kind)
    return ResourceReport(spec=spec, kind=kind, reason=worst.reason, message=worst.problem)
