"""Upstream identity: whether an upstream is that of the copies."""

from msgspec import Struct, field

from syncline.api.common import CONFIRM_DELETION
from syncline.api.workspace_status import UpstreamStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.controllers.sources.object_reader import SourceCluster
from syncline.core.digest import short_digest
from syncline.core.namespace_mapping import Workspace, server_workspace
from syncline.kube.client import Client
from syncline.kube.errors import KubeError
from syncline.kube.identity import LOGICAL_CLUSTERS

REPLACED = "UpstreamReplaced"
NOT_READY = "WorkspaceNotReady"
# The interval of looks at a workspace that is being created: it tells nobody when it is Ready.
_READY_AGAIN = 2.0
_UNFINISHED = frozenset({"Scheduling", "Initializing"})


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


class _LogicalClusterStatus(Struct):
    phase: str = ""


class _LogicalCluster(Struct):
    status: _LogicalClusterStatus = field(default_factory=_LogicalClusterStatus)


async def refuse_unfinished(client: Client, workspace: str) -> None:
    """Raise `SyncError` while a workspace is being created: what it has and serves is not complete."""
    try:
        found = await client.get(LOGICAL_CLUSTERS, "cluster", type=_LogicalCluster)
    except KubeError as error:
        raise SyncError("UpstreamUnreadable", f"the upstream: {error}", again=_READY_AGAIN) from error
    if found.status.phase in _UNFINISHED:
        message = f"workspace {workspace} is not Ready yet ({found.status.phase}): wait, or see its initializers"
        raise SyncError(NOT_READY, message, status="Unknown", again=_READY_AGAIN)


def confirmation(what: str) -> str:
    """Return the text by which a person confirms a state of the upstream."""
    return short_digest("upstream", what)
