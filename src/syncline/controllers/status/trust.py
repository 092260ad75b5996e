"""Trusted status: the last status of a sync that is proven to be ours.

A status that others have edited has no effect, and the next report corrects it. If no status of a sync is proven, the
sync has none: then everything is found by the marks on objects, as after a restore from a backup.
"""

from typing import Generic

from msgspec import structs

from syncline.controllers.lowered import Spec, Status
from syncline.core.status_proof import is_status_proven, without_orders
from syncline.engine.markkeys import MarkRing
from syncline.engine.sync_object import Sync


class StatusTrust(Generic[Spec, Status]):
    """Remembers the last proven status of each sync of one kind."""

    def __init__(self, marks: MarkRing) -> None:
        self._marks = marks
        self._proven: dict[str, Status] = {}

    def take_over(self, sync: Sync[Spec, Status]) -> None:
        """Trust a status of an earlier version, which signed nothing, from now on."""
        if sync.status.proof is None:
            self._proven[sync.metadata.uid] = sync.status

    def observe(self, sync: Sync[Spec, Status] | None) -> None:
        """Remember a status from a watch, if it is proven."""
        if sync is not None:
            self._check(sync)

    def trusted(self, sync: Sync[Spec, Status]) -> Sync[Spec, Status]:
        """Return a sync with its trusted status."""
        if self._check(sync):
            return sync
        if not self._marks.keys.checked:
            return structs.replace(sync, status=without_orders(sync.status))
        known = self._proven.get(sync.metadata.uid)
        return structs.replace(sync, status=type(sync.status)() if known is None else known, stored=sync.status)

    def forget(self, uid: str) -> None:
        """Forget a deleted sync."""
        self._proven.pop(uid, None)

    def _check(self, sync: Sync[Spec, Status]) -> bool:
        uid, status = sync.metadata.uid, sync.status
        if self._proven.get(uid) is status:
            return True
        if not is_status_proven(status, sync.kind, uid, self._marks.keys):
            return False
        self._proven[uid] = status
        return True
