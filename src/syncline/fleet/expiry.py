"""The expiry of tokens and certificates. They are parsed here, not verified.

This module parses certificates itself, because a library for it would need 10 MB of memory in every operator.
"""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----")
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_LONG_FORM = 0x80
_CENTURY = 50
"""RFC 5280: two-digit years below this number belong to this century."""


class ValidityPeriod(Struct, frozen=True):
    """The validity of a credential."""

    begins: datetime | None
    ends: datetime

    def margin(self, most: timedelta) -> timedelta:
        """Return the time of a warning before the expiry: a fifth of the lifetime, but at most `most`."""
        return most if self.begins is None else min(most, (self.ends - self.begins) / 5)


class _Claims(Struct):
    exp: float | None = None
    iat: float | None = None


def token_validity(token: str) -> ValidityPeriod | None:
    """Return the validity of a JSON web token; None for a token without an expiry, and for other strings."""
    parts = token.split(".")
    try:
        _, claims, _ = parts
        said = msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims)
        if said.exp is None:
            return None
        begins = datetime.fromtimestamp(said.iat, UTC) if said.iat is not None else None
        return ValidityPeriod(begins, datetime.fromtimestamp(said.exp, UTC))
    except (ValueError, OverflowError, OSError, RecursionError):
        return None


def certificate_validity(pem: bytes) -> ValidityPeriod | None:
    """Return the validity of a certificate, or of the first in a chain to expire; None if it is unreadable."""
    try:
        lives = [_validity(base64.b64decode(block)) for block in _PEM.findall(pem)]
    except (ValueError, IndexError, binascii.Error):
        return None
    return min(lives, key=lambda life: life.ends, default=None)


def _validity(der: bytes) -> ValidityPeriod:
    _, at, _ = _open(der, 0, _SEQUENCE)
    _, at, _ = _open(der, at, _SEQUENCE)
    if der[at] == _VERSION:
        at = _open(der, at)[2]
    for _ in ("serial number", "signature algorithm", "issuer"):
        at = _open(der, at)[2]
    _, at, _ = _open(der, at, _SEQUENCE)
    begins, at = _time(der, at)
    ends, _ = _time(der, at)
    return ValidityPeriod(begins, ends)


def _open(der: bytes, at: int, expected: int | None = None) -> tuple[int, int, int]:
    """Return the tag of the value at a position, and the start and the end of its content."""
    tag, length, begin = der[at], der[at + 1], at + 2
    if expected is not None and tag != expected:
        raise ValueError("not a certificate")
    if length >= _LONG_FORM:
        size = length - _LONG_FORM
        length, begin = int.from_bytes(der[begin : begin + size], "big"), begin + size
    if begin + length > len(der):
        raise ValueError("cut short")
    return tag, begin, begin + length


def _time(der: bytes, at: int) -> tuple[datetime, int]:
    tag, begin, end = _open(der, at)
    text = der[begin:end].decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < _CENTURY else "19") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("not a time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC), end
