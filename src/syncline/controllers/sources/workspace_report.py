"""Workspace report: the findings of a reconcile about an upstream, for the status of its sync."""

from collections.abc import Mapping

from msgspec import Struct

from syncline.api.workspacesync import WorkspaceResource
from syncline.controllers.errors import SyncError
from syncline.controllers.sources.upstream_identity import UpstreamIdentity
from syncline.controllers.targets.copy_statuses import UpwardItem
from syncline.controllers.targets.layout import Layout
from syncline.core.objects import Target


class ResourceReport(Struct, frozen=True, kw_only=True):
    """The findings about one resource."""

    spec: WorkspaceResource
    kind: str = ""
    """The kind as targets name it; empty if it is not known."""
    reason: str = ""
    message: str = ""
    """Why its objects are not synced; empty if they are."""


class WorkspaceReport(Struct, frozen=True, kw_only=True):
    """The findings about an upstream."""

    identity: UpstreamIdentity
    resources: tuple[ResourceReport, ...] = ()
    layout: Layout
    copies: int = 0
    """The number of skipped upstream objects that a sync has written."""
    reports: tuple[UpwardItem, ...] = ()
    """The objects whose copies report a status, as far as they may have changed."""
    sources: Mapping[Target, Target] = {}
    """The source of each target."""
    workspaces: int = 0
    """The number of workspaces that are bound to the APIExport, if the upstream is one."""
    shards: Mapping[str, str] = {}
    """The highest resourceVersion of each shard of the APIExport."""
    problem: SyncError | None = None
    """The problem of these workspaces."""
