"""Proofs of statuses: a status is trusted only if its signature proves that we wrote it.

The operator reads the status again: the written clusters and kinds, the verdicts, the healthy revisions. A user who can
write the status of a sync must not be able to make the operator call, read, write or delete anything. So a status has a
MAC over all its fields and the UID of its sync.
"""

from typing import TypeVar

import msgspec
from msgspec import structs

from syncline.api.status import RemoteSyncStatus, SyncStatus
from syncline.api.synctarget import SyncTargetStatus
from syncline.core.marks import MarkKeys

S = TypeVar("S", bound=SyncStatus | SyncTargetStatus)


def sign_status(status: S, kind: str, uid: str, keys: MarkKeys) -> S:
    """Return the status with its proof; without a key, it has none."""
    return structs.replace(status, proof=keys.mac(_text(status, kind, uid)))


def is_status_proven(status: SyncStatus | SyncTargetStatus, kind: str, uid: str, keys: MarkKeys) -> bool:
    """Whether we wrote this status for exactly this object."""
    return status.proof is not None and keys.proves(_text(status, kind, uid), status.proof)


def without_orders(status: S) -> S:
    """Return an unchecked status for a preview, without the clusters that it would call."""
    return structs.replace(status, clusters=[]) if isinstance(status, RemoteSyncStatus) else status


def _text(status: SyncStatus | SyncTargetStatus, kind: str, uid: str) -> bytes:
    return msgspec.json.encode([kind, uid, structs.replace(status, proof=None)], order="deterministic")
