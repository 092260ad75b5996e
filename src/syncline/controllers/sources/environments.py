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
    """Whether a user has requested a reconcile that has not run yet."""
    asked = sync.metadata.annotations.get(REQUESTED_AT)
    return asked is not None and shorten(asked, 256) != sync.status.last_handled_request


def spec_watches(sync: AnySync, spec: ConfigSyncSpec) -> WatchSet:
    """Return the watches that follow from the spec alone, before anything is read."""
    return WatchSet(
        objects=frozenset(references(spec, sync.metadata.namespace)),
        targets=any(remote.connection.type == "SyncTarget" for remote in spec.remote_clusters),
        health=spec.wait,
    )


def spec_claim(sync: AnySync, spec: ConfigSyncSpec, user: str | None, wants: tuple[ClaimedTarget, ...] = ()) -> Claim:
    """Return the claim of a sync. Its objects are known only after a build."""
    created = sync.metadata.creation_timestamp
    return Claim(ref=sync.owner.ref, created=created, targets=wants, user=user, dry_run=spec.dry_run)
