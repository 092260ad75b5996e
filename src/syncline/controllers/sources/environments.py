"""What the spec of a ConfigSync alone tells: a request for a sync, what it watches, and what it claims."""

from syncline.api.common import REQUESTED_AT
from syncline.api.configsync import ConfigSyncSpec
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.core.conditions import shorten
from syncline.core.environments import references
from syncline.engine.claims import Claim, ClaimedTarget
from syncline.engine.watch_index import WatchSet


def is_reconcile_requested(sync: AnySync) -> bool:
    """Whether a person asked for a sync that no reconcile has answered yet."""
    asked = sync.metadata.annotations.get(REQUESTED_AT)
    return asked is not None and shorten(asked, 256) != sync.status.last_handled_request


def spec_of(sync: AnySync) -> ConfigSyncSpec:
    """Return the spec; raises `SyncError` where it could not be read."""
    if sync.spec is None:
        raise SyncError("InvalidSpec", sync.error, stalled=True)
    assert isinstance(sync.spec, ConfigSyncSpec)  # noqa: S101 - it was read as one
    return sync.spec


def spec_watches(sync: AnySync, spec: ConfigSyncSpec) -> WatchSet:
    """Return what should enqueue a sync, before anything was read."""
    return WatchSet(
        objects=frozenset(references(spec, sync.metadata.namespace)),
        targets=any(remote.connection.type == "SyncTarget" for remote in spec.remote_clusters),
    )


def spec_claim(sync: AnySync, spec: ConfigSyncSpec, user: str | None, wants: tuple[ClaimedTarget, ...] = ()) -> Claim:
    """Return what a sync claims; which objects these are is known only once it was built."""
    created = sync.metadata.creation_timestamp
    return Claim(ref=sync.owner.ref, created=created, targets=wants, user=user, dry_run=spec.dry_run)
