"""The spec of a ConfigSync: its request for a reconcile, its watches and its claims."""

from syncline.api.common import REQUESTED_AT
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.controllers.lowered import AnySync
from syncline.core.conditions import shorten
from syncline.core.environments import references
from syncline.engine.claims import Claim, ClaimedTarget
from syncline.engine.sync_object import Sync
from syncline.engine.watch_index import WatchSet

BuiltSync = Sync[ConfigSyncSpec, ConfigSyncStatus]


def is_reconcile_requested(sync: AnySync) -> bool:
    """Whether a person asked for a sync that no reconcile has answered yet."""
    asked = sync.metadata.annotations.get(REQUESTED_AT)
    return asked is not None and shorten(asked, 256) != sync.status.last_handled_request


def spec_watches(sync: AnySync, spec: ConfigSyncSpec) -> WatchSet:
    """Return what should enqueue a sync, before anything was read."""
    return WatchSet(
        objects=frozenset(references(spec, sync.metadata.namespace)),
        targets=any(remote.connection.type == "SyncTarget" for remote in spec.remote_clusters),
        health=spec.wait,
    )


def spec_claim(sync: AnySync, spec: ConfigSyncSpec, user: str | None, wants: tuple[ClaimedTarget, ...] = ()) -> Claim:
    """Return what a sync claims; which objects these are is known only once it was built."""
    created = sync.metadata.creation_timestamp
    return Claim(ref=sync.owner.ref, created=created, targets=wants, user=user, dry_run=spec.dry_run)
