"""Ownership: whose an object is.

Ours = the label *and* an annotation that names exactly this object and proves that we wrote it (`marks`). A clone made
by `kubectl get | apply -n other` or restored by a backup tool carries both, but its annotation names another place, so
it is foreign; so is an object with marks that somebody made up.
"""

from collections.abc import Mapping
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
DISABLED = "Disabled"

_decoder = msgspec.json.Decoder(Marker)
_SHARED = ("sync", "hub_uid", "source", "revision", "digest", "key", "mode", "owner", "proof")


class Owner(Struct, frozen=True):
    """A sync as the owner of copies."""

    kind: str
    namespace: str
    name: str
    uid: str
    hub_uid: str = ""
    """The UID of the cluster that the sync is in, where it writes to another one: there, other hubs may write too."""
    environment: str = ""
    """The part of a sync that has copies of its own, such as an environment."""
    inherits_from: tuple[str, ...] = ()
    """Owners, by `ref`, that are no more and whose copies this one takes over: parts that left the sync."""
    keys: MarkKeys = NO_KEYS
    """What its marks are signed with."""

    @property
    def sync(self) -> str:
        """Name the sync, whatever the part; the same for a sync re-created under the same name."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def ref(self) -> str:
        """Name the owner in markers."""
        return f"{self.sync}/{self.environment}" if self.environment else self.sync

    @property
    def label(self) -> str:
        """Value of the owner label; safe for any name, since it is a hash of the UID."""
        return _label(self.uid, self.environment)


class Ownership(Enum):
    """How an object at a target stands to a sync."""

    OURS = "ours"
    """Written by this very sync."""
    PREVIOUS = "former"
    """Written by a sync of this name that is gone, or by a part that left the sync: ours to take again."""
    RENEWABLE = "renewable"
    """Its mark names this sync and proves nothing, but may be taken over: ours where it is wanted, never to remove."""
    UNPROVEN = "unproven"
    """Its mark names a key that was lost: perhaps ours, so it is neither touched nor taken for a stranger's."""
    OTHER_SYNC = "rival"
    """Written by another sync."""
    FOREIGN = "foreign"
    """Anything else."""


@lru_cache(maxsize=4096)
def _label(uid: str, environment: str) -> str:
    return short_digest(uid, environment) if environment else short_digest(uid)


def object_id_of(cluster_id: str, target: Target) -> str:
    """Name a target over all clusters and times; `cluster_id` is the UID of that cluster."""
    return f"{cluster_id}/{target.kind}/{target.namespace}/{target.name}"


class Marks(NamedTuple):
    """The marker of an object, as far as it is worth anything."""

    marker: Marker | None = None
    """One that we wrote."""
    claim: Marker | None = None
    """One of which that is not known."""


def read_marks(annotations: Mapping[str, str], keys: MarkKeys, *, unsigned: bool = False) -> Marks:
    """Return the marker, where there is one that can be read and was not forged.

    `unsigned`: one without a proof counts, if any sync may take such ones over.
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
    # All copies of a source say the same in these: it is held once for all of them.
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


def ownership_of(observed: Observed, owner: Owner, object_id: str) -> Ownership:
    """Tell whose the object is, from what it carries alone."""
    marker = observed.marker or observed.claim
    if not observed.owner or marker is None or marker.object_id != object_id:
        return Ownership.FOREIGN
    inherited = marker.hub_uid == owner.hub_uid and marker.sync in owner.inherits_from
    named = (marker.sync, marker.hub_uid) == (owner.ref, owner.hub_uid)
    if not is_proven(observed, owner):
        return _ownership_of_claim(marker, owner, named=named or inherited)
    if not named:
        return Ownership.PREVIOUS if inherited else Ownership.OTHER_SYNC
    is_its_own = observed.owner == owner.label and marker.owner in (owner.label, "")
    return Ownership.OURS if is_its_own else Ownership.PREVIOUS


def is_proven(observed: Observed, owner: Owner) -> bool:
    """Whether we wrote the marker of an object, or it counts as long as this sync may take unsigned ones over."""
    marker = observed.marker
    if marker is None:
        return False
    if marker.proof == UNSIGNED:
        return UNSIGNED in owner.keys.taken_over_by(owner.uid)
    return marker.proof in owner.keys


def recognise(observed: Observed, owner: Owner, object_id: str) -> Observed:
    """Return an object that a sync wants with the marker that counts for that sync: one that it may take over too."""
    claim = observed.claim
    if claim is None or ownership_of(observed, owner, object_id) is not Ownership.RENEWABLE:
        return observed
    return structs.replace(observed, marker=claim, digest=observed.digest or claim.digest)


def must_renew(observed: Observed, owner: Owner, object_id: str) -> bool:
    """Whether the mark of an object is to be signed anew: it is this sync's, and not signed with the current key."""
    marker = observed.marker or observed.claim
    if marker is None or not owner.keys.current or marker.proof == owner.keys.current:
        return False
    return ownership_of(observed, owner, object_id) in (Ownership.OURS, Ownership.RENEWABLE)


def _ownership_of_claim(claim: Marker, owner: Owner, *, named: bool) -> Ownership:
    if claim.hub_uid != owner.hub_uid:
        return Ownership.OTHER_SYNC  # another hub has other keys; what it says of itself only keeps us away
    if named and claim.proof in owner.keys.taken_over_by(owner.uid):
        return Ownership.RENEWABLE
    if not named and claim.proof in owner.keys.takeovers:
        return Ownership.OTHER_SYNC  # the sync that it names may still take it over
    is_lost = claim.proof != UNSIGNED and owner.keys.may_be_lost(claim.proof)
    return Ownership.UNPROVEN if is_lost else Ownership.FOREIGN
