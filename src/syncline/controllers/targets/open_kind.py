"""Opens a kind in a cluster: it is watched, and its first list is complete."""

from syncline.core.group_kind import GroupKind
from syncline.core.remedies import grant_credential, grant_operator, grant_upstream, with_cause
from syncline.engine.cluster import Cluster, NotWatchedError
from syncline.engine.kind_informer import KindInformer
from syncline.kube.errors import KindNotServed

# How long a reconcile waits for the first list of a kind before it reads or writes it.
LIST_PATIENCE = 5.0
# How long a reconcile waits for the first list of a kind that the sync has written earlier.
RELIST_PATIENCE = 2.0


async def open_kind(
    cluster: Cluster, kind: GroupKind, version: str | None = None, *, patience: float = LIST_PATIENCE
) -> KindInformer:
    """Return the informer of a kind after its first list. Raises `KindNotServed` or `NotWatchedError`."""
    informer = await cluster.open_kind(kind, version)
    await cluster.wait_synced(informer, patience)
    return informer


async def reopen_kind(cluster: Cluster, name: str) -> None:
    """Watch a kind that was written earlier, by its name in targets.

    If a kind is certainly no longer served, its objects do not exist either. Raises like `open_kind`.
    """
    try:
        await open_kind(cluster, GroupKind.parse(name), patience=RELIST_PATIENCE)
    except KindNotServed as error:
        if not error.certain:
            raise


def unwatched_reason(error: NotWatchedError) -> str:
    """Return the reason of a condition about an upstream that cannot be watched."""
    if error.full:
        return "UpstreamTooLarge"
    return "UpstreamForbidden" if error.forbidden else "UpstreamUnreadable"


def describe_unwatched(
    error: NotWatchedError, *, cluster: str = "", upstream: bool = False, reads_as_account: bool = False
) -> str:
    """Describe the missing right to watch a kind: of the operator, or of the credential of a cluster or an upstream."""
    if not error.forbidden:
        return with_cause("", error)
    if upstream:
        return with_cause(grant_upstream(error.resource), error)
    remedy = (
        grant_credential(error.resource, cluster) if cluster else grant_operator(error.resource, read=reads_as_account)
    )
    return with_cause(remedy, error)
