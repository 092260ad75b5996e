"""Digests: of content, of single values, of anything that must be named shortly."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

# 96 bits a value: short enough for an annotation that lists hundreds of them, long enough never to meet twice.
VALUE_DIGEST_SIZE = 12
# A longer value of an annotation is held and compared as its digest.
BRIEF = 64


def _hash(payload: bytes, size: int, key: bytes = b"", person: bytes = b"") -> str:
    return blake2b(payload, digest_size=size, key=key[:64], person=person).hexdigest()


class DigestKey(Struct, frozen=True):
    """The secret that goes into every digest of a value, so that nobody can guess the value from it."""

    secret: bytes = b""

    @property
    def id(self) -> str:
        """Name the key without telling it; digests of different keys cannot be compared."""
        return _hash(b"syncline", 4, self.secret) if self.secret else ""


def value_digests(data: Mapping[str, str], binary_data: Mapping[str, str], key: DigestKey) -> dict[str, str]:
    """Digest each value, by its path (`data/KEY`, `binaryData/KEY`)."""
    secret = key.secret
    digests = {f"data/{name}": _hash(value.encode(), VALUE_DIGEST_SIZE, secret) for name, value in data.items()}
    for name, value in binary_data.items():
        digests[f"binaryData/{name}"] = _hash(value.encode(), VALUE_DIGEST_SIZE, secret)
    return digests


def leaf_digest(value: Any, key: DigestKey) -> str:
    """Digest one JSON value: a text as `value_digests` does, anything else so that it never equals a text."""
    if isinstance(value, str):
        return _hash(value.encode(), VALUE_DIGEST_SIZE, key.secret)
    return _hash(msgspec.json.encode(value, order="sorted"), VALUE_DIGEST_SIZE, key.secret, b"json")


def body_digest(fields: Mapping[str, Any], key: DigestKey) -> str:
    """Digest the fields of an object, whatever their order."""
    return _hash(msgspec.json.encode(fields, order="sorted"), 16, key.secret)


def combined_digest(digests: Mapping[str, str]) -> str:
    """Digest a whole content from the digests of its values, so that a merge needs no values to name its result."""
    return _hash(msgspec.json.encode(digests, order="sorted"), 16)


def short_digest(*parts: str) -> str:
    """Name a list of texts shortly and safely for a label."""
    return _hash("\0".join(parts).encode(), 8)


def brief(value: str) -> str:
    """Return a text that stands for the value in a comparison, and is never long."""
    return value if len(value) <= BRIEF else "#" + short_digest(value)
