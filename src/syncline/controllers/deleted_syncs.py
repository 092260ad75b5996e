"""Recently deleted syncs: a write that was in flight may still create an object, which must be removed too."""

from itertools import takewhile
from typing import Generic

from msgspec import Struct

from syncline.api.common import ABANDON
from syncline.controllers.lowered import AnySync, Spec, Status
from syncline.controllers.state import SyncState
from syncline.engine.sync_object import Sync
from syncline.kube.cache import Key

# Longer than any request: an API server ends it after a minute, and a call to a webhook after 30 seconds.
REMEMBERED_FOR = 600.0
MOST = 1000


class DeletedSync(Struct, Generic[Spec, Status]):
    """The last known state of a deleted sync; `pending` while copies of it are known to exist."""

    sync: Sync[Spec, Status]
    state: SyncState[Spec, Status]
    pending: bool = False


class DeletedSyncs(Generic[Spec, Status]):
    """The deleted syncs by name: the last of each name, for a limited time, up to a limit."""

    def __init__(self) -> None:
        self._ended: dict[Key, tuple[DeletedSync[Spec, Status], float]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._ended

    def get(self, key: Key) -> DeletedSync[Spec, Status] | None:
        """Return the deleted sync of this name."""
        known = self._ended.get(key)
        return known[0] if known is not None else None

    def put(self, key: Key, ended: DeletedSync[Spec, Status], now: float) -> list[Key]:
        """Remember a sync whose copies are removed with it. Return the names that are forgotten instead."""
        known = self._ended.pop(key, None)
        forgotten = [key] if known is not None else []
        forgotten += self.expire(now)
        if not leaves_objects(ended.sync):
            self._ended[key] = ended, now + REMEMBERED_FOR
        rest = list(self._ended)[: max(0, len(self._ended) - MOST)]
        for gone in rest:
            del self._ended[gone]
        return [*forgotten, *rest]

    def expire(self, now: float) -> list[Key]:
        """Forget the expired syncs, and return their names."""
        # The oldest are first.
        expired = [key for key, (_, until) in takewhile(lambda item: item[1][1] <= now, self._ended.items())]
        for key in expired:
            del self._ended[key]
        return expired

    def next_expiry(self) -> float | None:
        """Return the time when the next sync expires."""
        return next((until for _, until in self._ended.values()), None)


def leaves_objects(sync: AnySync) -> bool:
    """Whether the copies of a sync stay when it is deleted."""
    spec = sync.spec
    return (
        spec is None
        or bool(getattr(spec, "suspend", False))
        or getattr(spec, "deletion_policy", "Delete") == "Orphan"
        or sync.metadata.annotations.get(ABANDON) == "true"
    )
