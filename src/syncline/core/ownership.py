"""Ownership: whose an object is.

Ours = the label *and* an annotation that names exactly this object. A clone made by `kubectl get | apply -n other` or
restored by a backup tool carries both, but its annotation names another place, so it is foreign.
"""

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from sys import intern

import msgspec
from msgspec import Struct, structs

from syncline.api.common import GROUP
from syncline.core.digest import short_digest
from syncline.core.objects import Marker, Seen, Target

OWNER_LABEL = f"{GROUP}/owner"
MARKER = f"{GROUP}/copy"
BASE = f"{GROUP}/base"
PRUNE = f"{GROUP}/prune"
RECONCILE = f"{GROUP}/reconcile"
DISABLED = "Disabled"

_decoder = msgspec.json.Decoder(Marker)
_SHARED = ("sync", "hub", "source", "revision", "digest", "key", "mode")


class Owner(Struct, frozen=True):
    """A sync as the owner of copies."""

    kind: str
    namespace: str
    name: str
    uid: str
    hub: str = ""
    """The UID of the cluster that the sync is in, where it writes to another one: there, other hubs may write too."""
    part: str = ""
    """The part of a sync that has copies of its own, such as an environment."""
    heir_of: tuple[str, ...] = ()
    """Owners, by `ref`, that are no more and whose copies this one takes over: parts that left the sync."""

    @property
    def sync(self) -> str:
        """Name the sync, whatever the part; the same for a sync re-created under the same name."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def ref(self) -> str:
        """Name the owner in markers."""
        return f"{self.sync}/{self.part}" if self.part else self.sync

    @property
    def label(self) -> str:
        """Value of the owner label; safe for any name, since it is a hash of the UID."""
        return _label(self.uid, self.part)


class Standing(Enum):
    """How an object at a target stands to a sync."""

    OURS = "ours"
    """Written by this very sync."""
    FORMER = "former"
    """Written by a sync of this name that is gone, or by a part that left the sync: ours to take again."""
    RIVAL = "rival"
    """Written by another sync."""
    FOREIGN = "foreign"
    """Anything else."""


@lru_cache(maxsize=4096)
def _label(uid: str, part: str) -> str:
    return short_digest(uid, part) if part else short_digest(uid)


def place(cluster_id: str, target: Target) -> str:
    """Name a target over all clusters and times; `cluster_id` is the UID of that cluster."""
    return f"{cluster_id}/{target.kind}/{target.namespace}/{target.name}"


def read_marker(annotations: Mapping[str, str]) -> Marker | None:
    """Return the marker, or None where there is none that can be read: then the object is foreign."""
    text = annotations.get(MARKER)
    if text is None:
        return None
    try:
        marker = _decoder.decode(text)
    except msgspec.MsgspecError:
        return None
    # All copies of a source say the same in these: it is held once for all of them.
    for name in _SHARED:
        structs.force_setattr(marker, name, intern(getattr(marker, name)))
    return marker


def standing(seen: Seen, owner: Owner, here: str) -> Standing:
    """Tell whose the object is, from what it carries alone."""
    if not seen.owner or seen.marker is None or seen.marker.at != here:
        return Standing.FOREIGN
    if (seen.marker.sync, seen.marker.hub) != (owner.ref, owner.hub):
        inherited = seen.marker.hub == owner.hub and seen.marker.sync in owner.heir_of
        return Standing.FORMER if inherited else Standing.RIVAL
    return Standing.OURS if seen.owner == owner.label else Standing.FORMER
