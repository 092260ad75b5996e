"""Proofs of statuses: what a status says is obeyed only where it can be proven that we wrote it.

A status is read back: which clusters and kinds were written to, what was judged, which revision was healthy. Somebody
who may write the status of a sync may not thereby have the operator call, read, write or delete anything. So a status
carries a MAC over all of itself and the UID of its sync.
"""

from typing import TypeVar

import msgspec
from msgspec import structs

from syncline.api.status import RemoteSyncStatus, SyncStatus
from syncline.api.synctarget import SyncTargetStatus
from syncline.core.marks import MarkKeys

S = TypeVar("S", bound=SyncStatus | SyncTargetStatus)


def sign_status(status: S, kind: str, uid: str, keys: MarkKeys) -> S:
    """Return the status with its proof; without one where there is no key."""
    return structs.replace(status, proof=keys.mac(_text(status, kind, uid)))


def is_status_proven(status: SyncStatus | SyncTargetStatus, kind: str, uid: str, keys: MarkKeys) -> bool:
    """Whether we wrote this status, for this very object."""
    return status.proof is not None and keys.proves(_text(status, kind, uid), status.proof)


def without_orders(status: S) -> S:
    """Return a status that nobody could check, for a plan: it names no cluster that would be called."""
    return structs.replace(status, clusters=[]) if isinstance(status, RemoteSyncStatus) else status


def _text(status: SyncStatus | SyncTargetStatus, kind: str, uid: str) -> bytes:
    return msgspec.json.encode([kind, uid, structs.replace(status, proof=None)], order="deterministic")
