"""The environments of a ConfigSync as owners: each owns the objects that it has written."""

from msgspec import structs

from syncline.api.common import REQUESTED_AT
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, LoweredSpec
from syncline.controllers.targets.clusters import ConnectedClusters, TargetCluster
from syncline.core.conditions import shorten
from syncline.core.environments import references, removed_environments
from syncline.engine.interests import Interest


def as_environment(connected: ConnectedClusters, name: str, left: tuple[str, ...] = ()) -> ConnectedClusters:
    """Return the clusters as one part of a sync writes to them; it takes over what the parts that left still have."""

    def named(site: TargetCluster) -> TargetCluster:
        heir_of = tuple(structs.replace(site.owner, part=part).ref for part in left)
        return structs.replace(site, owner=structs.replace(site.owner, part=name, heir_of=heir_of))

    if not name and not left:
        return connected
    return structs.replace(
        connected, sites=tuple(map(named, connected.sites)), former=tuple(map(named, connected.former))
    )


def removed_from_spec(lowered: LoweredSpec) -> tuple[str, ...]:
    """Return the parts that left the spec and may still have something."""
    status = lowered.sync.status
    assert isinstance(status, ConfigSyncStatus)  # noqa: S101 - it was read as one
    return removed_environments(spec_of(lowered.sync), status)


def has_objects(part: ConnectedClusters) -> bool:
    """Whether anything is there that names this part."""
    return any(site.cluster.copies_of(site.owner.ref) for site in (*part.sites, *part.former))


def is_reconcile_requested(sync: AnySync) -> bool:
    """Whether a person asked for a sync that no reconcile has answered yet."""
    asked = sync.metadata.annotations.get(REQUESTED_AT)
    return asked is not None and shorten(asked, 256) != sync.status.last_handled_request


def spec_of(sync: AnySync) -> ConfigSyncSpec:
    """Return the spec; raises `Problem` where it could not be read."""
    if sync.spec is None:
        raise SyncError("InvalidSpec", sync.error, stalled=True)
    assert isinstance(sync.spec, ConfigSyncSpec)  # noqa: S101 - it was read as one
    return sync.spec


def spec_watches(sync: AnySync, spec: ConfigSyncSpec) -> Interest:
    """Return what should enqueue a sync, before anything was read."""
    return Interest(
        objects=frozenset(references(spec, sync.metadata.namespace)),
        targets=any(remote.connection.type == "SyncTarget" for remote in spec.remote_clusters),
    )
