"""Ownership: who owns an object.

An object is ours if it has the label *and* a signed annotation that names exactly this object (`marks`). A clone from
`kubectl get | apply -n other` or from a backup tool has both, but its annotation names another object, so it is
unmanaged. So is an object with forged marks.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import lru_cache
from sys import intern
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from syncline.api.common import GROUP
from syncline.core.digest import short_digest
from syncline.core.marks import NO_KEYS, UNSIGNED, MarkKeys, Proof
from syncline.core.objects import Marker, Observed, Target

OWNER_LABEL = f"{GROUP}/owner"
MARKER = f"{GROUP}/copy"
BASE = f"{GROUP}/base"
PRUNE = f"{GROUP}/prune"
RECONCILE = f"{GROUP}/reconcile"
RESOLVE = f"{GROUP}/resolve"
DISABLED = "Disabled"
# The maximum difference of the clocks of the servers of one cluster, and our measure of them, in seconds.
CLOCKS_DIFFER = 300

_decoder = msgspec.json.Decoder(Marker)
_SHARED = ("sync", "hub_uid", "source", "revision", "digest", "key", "mode", "owner", "proof")


class Owner(Struct, frozen=True):
    """A sync, or one environment of it, as an owner of objects."""

    kind: str
    namespace: str
    name: str
    uid: str
    hub_uid: str = ""
    """The UID of the cluster of the sync, if it writes to another one: there, other hubs may write too."""
    environment: str = ""
    """The environment of the sync; empty if the sync owns the objects itself."""
    inherits_from: tuple[str, ...] = ()
    """Former owners, by `ref`, whose objects this owner takes over: environments that were removed from the sync."""
    keys: MarkKeys = NO_KEYS
    """The keys that sign its marks."""

    @property
    def sync(self) -> str:
        """The sync without its environment. A new sync of the same name has the same text."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def ref(self) -> str:
        """The name of the owner in markers."""
        return f"{self.sync}/{self.environment}" if self.environment else self.sync

    @property
    def label(self) -> str:
        """The value of the owner label: a hash of the UID, so it is valid for any name."""
        return _label(self.uid, self.environment)


class Ownership(Enum):
    """Who owns an object, from the point of view of one sync."""

    OURS = "ours"
    """Written by exactly this sync."""
    PREVIOUS = "previous"
    """Owned again if it is wanted, never removed: written by a deleted sync of this name or a removed environment, or
    created by others with the marker of an object of ours."""
    RENEWABLE = "renewable"
    """Its unsigned mark names this sync, and may be taken over: owned if it is wanted, and never removed."""
    UNPROVEN = "unproven"
    """Its mark names a lost key. It may be ours, so it is neither changed nor treated as unmanaged."""
    OTHER_SYNC = "other sync"
    """Written by another sync."""
    FOREIGN = "foreign"
    """Unmanaged: not written by any sync."""


@lru_cache(maxsize=4096)
def _label(uid: str, environment: str) -> str:
    return short_digest(uid, environment) if environment else short_digest(uid)


def object_id_of(cluster_id: str, target: Target) -> str:
    """Return the identity of a target among all clusters; `cluster_id` is the UID of its cluster."""
    return f"{cluster_id}/{target.kind}/{target.namespace}/{target.name}"


class Marks(NamedTuple):
    """The marker of an object, by its proof."""

    marker: Marker | None = None
    """A marker that we wrote."""
    claim: Marker | None = None
    """A marker of unknown origin."""


def read_marks(annotations: Mapping[str, str], keys: MarkKeys, *, unsigned: bool = False) -> Marks:
    """Return the marker, if it is valid and not forged.

    `unsigned`: a marker without a signature counts, if any sync may take over such markers.
    """
    text = annotations.get(MARKER)
    if text is None:
        return Marks()
    try:
        marker = _decoder.decode(text)
    except msgspec.MsgspecError:
        return Marks()
    key, proof = keys.check(text, marker.proof)
    structs.force_setattr(marker, "proof", key)
    # These texts are equal on all objects of a source, and are stored once.
    for name in _SHARED:
        structs.force_setattr(marker, name, intern(getattr(marker, name)))
    match proof:
        case Proof.FORGED:
            return Marks()
        case Proof.PROVEN:
            return Marks(marker=marker)
        case Proof.UNSIGNED if unsigned and UNSIGNED in keys.takeovers:
            return Marks(marker=marker)
        case _:
            return Marks(claim=marker)


def is_replaced(marker: Marker, uid: str, created: str) -> bool:
    """Whether a marker was written on an earlier object than the one with this UID and creation time.

    Only the API server chooses these two. A marker of an earlier version has neither.
    """
    if marker.uid:
        return marker.uid != short_digest(uid)
    at = _seconds(created) if marker.made else None
    return at is not None and at > marker.made + CLOCKS_DIFFER


def forget_object(marker: Marker) -> None:
    """Drop the fields of a marker that were compared with its object: the cache has one marker for each copy."""
    structs.force_setattr(marker, "uid", "")
    structs.force_setattr(marker, "made", 0)


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def ownership_of(observed: Observed, owner: Owner, object_id: str) -> Ownership:
    """Return who owns an object, from its label and marker alone."""
    marker = observed.marker or observed.claim
    if not observed.owner or marker is None or marker.object_id != object_id:
        return Ownership.FOREIGN
    inherited = marker.hub_uid == owner.hub_uid and marker.sync in owner.inherits_from
    named = (marker.sync, marker.hub_uid) == (owner.ref, owner.hub_uid)
    if not is_proven(observed, owner):
        return _ownership_of_claim(marker, owner, named=named or inherited)
    if not named:
        return Ownership.PREVIOUS if inherited else Ownership.OTHER_SYNC
    is_its_own = observed.owner == owner.label and marker.owner in (owner.label, "") and not observed.replaced
    return Ownership.OURS if is_its_own else Ownership.PREVIOUS


def is_proven(observed: Observed, owner: Owner) -> bool:
    """Whether we wrote the marker of an object, or this sync may take over its unsigned marker."""
    marker = observed.marker
    if marker is None:
        return False
    if marker.proof == UNSIGNED:
        return UNSIGNED in owner.keys.taken_over_by(owner.uid)
    return marker.proof in owner.keys


def recognise(observed: Observed, owner: Owner, object_id: str) -> Observed:
    """Return an object with the marker that counts for a sync that desires it, or that the sync may take over."""
    claim = observed.claim
    if claim is None or ownership_of(observed, owner, object_id) is not Ownership.RENEWABLE:
        return observed
    return structs.replace(observed, marker=claim, digest=observed.digest or claim.digest)


def may_be_copy(claim: Marker, hub_uid: str, keys: MarkKeys, *, in_hub: bool) -> bool:
    """Whether an object with an unproven marker may be a copy of a sync.

    Then it is no source, so that two syncs never copy each other's copies: after the loss of a key, or if another hub
    has written it. `in_hub`: the object is in the cluster of the hub. In another cluster, a marker without a hub is
    from an operator in that cluster, which copies within it.
    """
    if claim.hub_uid and claim.hub_uid != hub_uid:
        return True
    if not claim.hub_uid and not in_hub:
        return False
    return claim.proof in keys.takeovers or (claim.proof != UNSIGNED and keys.may_be_lost(claim.proof))


def must_renew(observed: Observed, owner: Owner, object_id: str) -> bool:
    """Whether the mark of an object must be renewed: it is of this sync, and not signed with the current key."""
    marker = observed.marker or observed.claim
    if marker is None or not owner.keys.current or marker.proof == owner.keys.current:
        return False
    return ownership_of(observed, owner, object_id) in (Ownership.OURS, Ownership.RENEWABLE)


def _ownership_of_claim(claim: Marker, owner: Owner, *, named: bool) -> Ownership:
    if claim.hub_uid != owner.hub_uid:
        return Ownership.OTHER_SYNC  # another hub has other keys: its marks only prevent our writes
    if named and claim.proof in owner.keys.taken_over_by(owner.uid):
        return Ownership.RENEWABLE
    if not named and claim.proof in owner.keys.takeovers:
        return Ownership.OTHER_SYNC  # the named sync may still take it over
    is_lost = claim.proof != UNSIGNED and owner.keys.may_be_lost(claim.proof)
    return Ownership.UNPROVEN if is_lost else Ownership.FOREIGN
