"""Upstream identity: whether an upstream is that of the copies."""

from msgspec import Struct

from syncline.api.common import CONFIRM_DELETION
from syncline.api.workspace_status import UpstreamStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.core.digest import short_digest
from syncline.core.namespace_mapping import Workspace, server_workspace

REPLACED = "UpstreamReplaced"


class UpstreamIdentity(Struct, frozen=True, kw_only=True):
    """The identity of the connected upstream."""

    uid: str
    """The UID to record: that of the former upstream until a person confirms the new one."""
    workspace: Workspace = Workspace()
    version: str = ""
    """The highest resourceVersion that was seen; empty where versions are no numbers, and for an APIExport."""
    trusted: bool = True
    """Whether absent upstream objects are a reason for removals."""
    problem: SyncError | None = None


def check_identity(
    sync: AnySync,
    at: SourceCluster,
    recorded: UpstreamStatus | None,
    workspace: str,
    *,
    server: str = "",
    logical_cluster: str = "",
) -> UpstreamIdentity:
    """Compare an upstream with that of the copies."""
    path = workspace or server_workspace(server)
    place = Workspace(path, path.rpartition(":")[2], only=logical_cluster) if path else Workspace()
    before, now = recorded.identity if recorded is not None else "", at.cluster.uid
    if not before or before == now or sync.metadata.annotations.get(CONFIRM_DELETION) == confirmation(now):
        return UpstreamIdentity(uid=now, workspace=place)
    what = f"workspace {path}" if path else "the upstream"
    message = (
        f"{what} was replaced: it has another UID than the one that the copies were made from, so nothing is removed;"
        f" if that is right, annotate the sync with {CONFIRM_DELETION}={confirmation(now)}"
    )
    return UpstreamIdentity(uid=before, workspace=place, trusted=False, problem=SyncError(REPLACED, message))


def confirmation(what: str) -> str:
    """Return the text by which a person confirms a state of the upstream."""
    return short_digest("upstream", what)
