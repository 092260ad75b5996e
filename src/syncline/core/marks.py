"""Proofs of marks: a mark counts only if its signature proves that we wrote it.

Any user who can edit an object can write a marker on it. So a marker ends with the id of a key, and a MAC over
everything before: the owner, the identity of the object, and the sent content. Without the key, a user cannot create or
change a marker, or move it to another object.
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
"""Stands for the key of a mark of an earlier version without signatures."""
UNCHECKED = "unchecked"
"""Stands for the key of a mark that is trusted, because the keys may not be read."""

_PROOF = ',"proof":"'
_PERSON = b"syncline mark"
_SIZE = 16


class Proof(Enum):
    """The proof of a mark."""

    PROVEN = "proven"
    UNSIGNED = "unsigned"
    """It has no signature: an earlier version or any user wrote it."""
    UNKNOWN = "unknown"
    """It names an unknown key: a lost key, a key of another hub, or an invented one."""
    FORGED = "forged"
    """It names a known key, and is not signed with it."""


def key_id(key: bytes) -> str:
    """Return the id of a key, which does not reveal the key."""
    return blake2b(b"id", digest_size=4, key=key, person=_PERSON).hexdigest()


def sync_id(uid: str) -> str:
    """Return a short identifier of a sync, for the list of syncs that may take over marks."""
    return short_digest(uid)


class MarkKeys:
    """The keys that verify marks; `current` is the id of the key that signs.

    `takeovers` has, by the id of a key that proves nothing, the syncs (by `sync_id`) that may take over wanted objects
    with such marks. `lost` are the ids of lost keys; None: they are not known, so any unknown key may be a lost one. A
    key that is neither known nor lost is forged.
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
        """Return these keys with a new current key."""
        return self._replace(current, self.lost)

    def knowing_lost(self, noted: frozenset[str]) -> Self:
        """Return these keys with the ids of all keys that have existed."""
        return self._replace(self.current, noted - self.ids)

    def may_be_lost(self, key: str) -> bool:
        """Whether an unknown key may be a lost key of ours."""
        return self.lost is None or key in self.lost or key in self.takeovers

    def taken_over_by(self, uid: str) -> frozenset[str]:
        """Return the keys whose marks this sync may take over on wanted objects."""
        if not self.takeovers:
            return frozenset()
        sync = sync_id(uid)
        return frozenset(key for key, syncs in self.takeovers.items() if sync in syncs)

    def write(self, marker: Marker) -> str:
        """Return the signed text of a marker; unsigned without a key."""
        text = msgspec.json.encode(marker).decode()
        return self._sign(text, self.current) if self.current in self._keys else text

    def check(self, text: str, proof: str) -> tuple[str, Proof]:
        """Return the key that a marker with this text names, and its proof."""
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
        """Return the signature of a text; None without a key."""
        return self._mac(said, self.current) if self.current in self._keys else None

    def proves(self, said: bytes, proof: str) -> bool:
        """Whether the signature proves that we wrote the text."""
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
