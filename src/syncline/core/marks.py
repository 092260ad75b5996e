"""Proofs of marks: a mark counts only where it can be proven that we wrote it.

Anybody who may edit an object can write a marker on it. So a marker ends with the id of a key and a MAC over all that
it says before: whose the object is, which object it is, and what was sent. Nobody without the key can make one up,
change one, or move one to another object, whose place it does not name.
"""

import hmac
from collections.abc import Collection, Mapping
from enum import Enum
from hashlib import blake2b
from typing import Self

import msgspec

from syncline.core.digest import short_digest
from syncline.core.objects import Marker

UNSIGNED = ""
"""Stands for the key of a mark that an earlier version wrote: it signed nothing."""
UNCHECKED = "unchecked"
"""Stands for the key of a mark that is taken at its word, where the keys may not be read."""

_PROOF = ',"proof":"'
_PERSON = b"syncline mark"
_SIZE = 16


class Proof(Enum):
    """What a mark is worth."""

    PROVEN = "proven"
    UNSIGNED = "unsigned"
    """It carries no proof: an earlier version wrote it, or anybody."""
    UNKNOWN = "unknown"
    """It names a key that is not known: one that was lost, one of another hub, or none at all."""
    FORGED = "forged"
    """It names a key that is known, and was not made with it."""


def key_id(key: bytes) -> str:
    """Name a key without telling it."""
    return blake2b(b"id", digest_size=4, key=key, person=_PERSON).hexdigest()


def sync_id(uid: str) -> str:
    """Name a sync shortly, for the list of those that may take marks over."""
    return short_digest(uid)


class MarkKeys:
    """The keys that marks are proven with; `current` is the id of the one that signs.

    `takeovers` has, by the id of a key that proves nothing, the syncs (by `sync_id`) that may take over the objects
    with such marks where their specs want them. `lost` are the ids of keys that there were and that are not known any
    more; None: that is not known, so that any unknown key may have been one. A key that never was is made up.
    """

    __slots__ = ("_keys", "checked", "current", "lost", "takeovers")

    def __init__(
        self,
        keys: Collection[bytes] = (),
        current: str = "",
        *,
        takeovers: Mapping[str, frozenset[str]] | None = None,
        lost: frozenset[str] | None = None,
        checked: bool = True,
    ) -> None:
        self._keys = {key_id(key): key for key in keys}
        self.current = current or next(iter(self._keys), "")
        self.takeovers = dict(takeovers or {})
        self.lost = lost
        self.checked = checked

    def __repr__(self) -> str:
        return f"MarkKeys({', '.join(sorted(self._keys))})"

    def __contains__(self, key: str) -> bool:
        return key in self._keys or (key == UNCHECKED and not self.checked)

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all keys."""
        return frozenset(self._keys)

    def signing(self, current: str) -> Self:
        """Return these keys with another one to sign with."""
        return self._replace(current, self.lost)

    def knowing_lost(self, noted: frozenset[str]) -> Self:
        """Return these keys with the ids of all that there have been."""
        return self._replace(self.current, noted - self.ids)

    def may_be_lost(self, key: str) -> bool:
        """Whether a key that is not known may have been ours."""
        return self.lost is None or key in self.lost or key in self.takeovers

    def taken_over_by(self, uid: str) -> frozenset[str]:
        """Return the keys whose marks this sync may take over where it wants the objects."""
        if not self.takeovers:
            return frozenset()
        sync = sync_id(uid)
        return frozenset(key for key, syncs in self.takeovers.items() if sync in syncs)

    def write(self, marker: Marker) -> str:
        """Return the text of a marker, signed; unsigned where there is no key."""
        text = msgspec.json.encode(marker).decode()
        return self._sign(text, self.current) if self.current in self._keys else text

    def check(self, text: str, proof: str) -> tuple[str, Proof]:
        """Return the key that a marker with this text and proof names, and what it is worth."""
        key = proof.partition(".")[0]
        if not self.checked:
            return UNCHECKED, Proof.PROVEN
        if not proof:
            return UNSIGNED, Proof.UNSIGNED
        if key not in self._keys:
            return key, Proof.UNKNOWN
        said = text.rpartition(_PROOF)[0]
        is_proven = hmac.compare_digest(self._sign(said + "}", key).encode(), text.encode(errors="replace"))
        return key, Proof.PROVEN if is_proven else Proof.FORGED

    def mac(self, said: bytes) -> str | None:
        """Return the proof of something that we write down; None where there is no key."""
        return self._mac(said, self.current) if self.current in self._keys else None

    def proves(self, said: bytes, proof: str) -> bool:
        """Whether we wrote this down."""
        key = proof.partition(".")[0]
        return key in self._keys and hmac.compare_digest(self._mac(said, key).encode(), proof.encode(errors="replace"))

    def _replace(self, current: str, lost: frozenset[str] | None) -> Self:
        return type(self)(self._keys.values(), current, takeovers=self.takeovers, lost=lost, checked=self.checked)

    def _mac(self, said: bytes, key: str) -> str:
        mac = blake2b(said, digest_size=_SIZE, key=self._keys[key], person=b"syncline status")
        return f"{key}.{mac.hexdigest()}"

    def _sign(self, text: str, key: str) -> str:
        said = text[:-1]
        mac = blake2b(said.encode(errors="replace"), digest_size=_SIZE, key=self._keys[key], person=_PERSON)
        return f'{said}{_PROOF}{key}.{mac.hexdigest()}"}}'


NO_KEYS = MarkKeys()
