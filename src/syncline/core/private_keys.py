"""Private keys that a tenant writes: read without any work whose length the tenant chooses. Pure.

Libraries test the numbers of a key for primes, compute the missing ones, and derive a key from a passphrase in as many
rounds as the file says. A file of a few kilobytes can make each of these take hours. Here the file is taken apart
first: only keys of a usual type and size get to a library, and their numbers are compared, but not tested for primes.
A wrong number only spoils the signatures of the tenant's own key.
"""

import base64
import binascii

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPrivateNumbers, RSAPublicNumbers
from msgspec import Struct

MOST_BITS = 4096
"""The size of the largest RSA key; the time of a signature grows with the third power of it."""
MOST_TEXT = 64 * 1024
_FEWEST_BITS = 1024
_LONGEST_OTHER = 2048
"""The size of the largest key of another type, in bytes."""
_LARGEST_EXPONENT = 1 << 32
_MOST_ELEMENTS = 32
_LONGEST_LENGTH = 4

SEQUENCE, INTEGER, OCTETS, OBJECT = 0x30, 0x02, 0x04, 0x06
_EC_PARAMETERS = 0xA0
_TYPES = {
    bytes.fromhex("2a864886f70d010101"): "RSA",
    bytes.fromhex("2a8648ce3d0201"): "EC",
    bytes.fromhex("2b6570"): "Ed25519",
    bytes.fromhex("2b6571"): "Ed448",
}
_OF_LABELS = {"RSA PRIVATE KEY": "RSA", "EC PRIVATE KEY": "EC"}
_RSA_NUMBERS = 9

Element = tuple[int, bytes]
"""A tag of DER, and its content."""


class KeyRefused(ValueError):  # noqa: N818 - an answer, not a fault
    """A key that is not used. The message continues a sentence about the key, and has no part of it."""


class PemKey(Struct, frozen=True):
    """A private key as it is written in a file. Its `repr` has no part of it."""

    label: str
    """Such as `RSA PRIVATE KEY`."""
    content: bytes
    encrypted: bool
    """Whether it needs a passphrase, as far as the text says it."""
    text: bytes
    """The key in PEM, without anything around it."""

    def __repr__(self) -> str:
        """Return the label alone."""
        return f"PemKey({self.label!r})"


def read_pem(text: bytes) -> PemKey:
    """Return the only private key of a text in PEM. Raises `KeyRefused`."""
    if len(text) > MOST_TEXT:
        raise KeyRefused(f"has more than {MOST_TEXT // 1024} KiB")
    found = [key for block in text.split(b"-----BEGIN ")[1:] if (key := _read_block(block)) is not None]
    if len(found) != 1:
        raise KeyRefused("is not a private key in PEM" if not found else "has more than one private key: write one")
    return found[0]


def key_type(key: PemKey) -> str:
    """Return RSA, EC, Ed25519 or Ed448, of a key without a passphrase. Raises `KeyRefused` for every other type."""
    if key.label == "PRIVATE KEY":
        return type_of(key.content)
    found = _OF_LABELS.get(key.label, "")
    if not found:
        raise KeyRefused("is not an RSA, EC or Ed25519 key")
    if found == "EC":
        _check_curve(key.content, dict(elements(one(key.content, SEQUENCE))).get(_EC_PARAMETERS, b""))
    return found


def type_of(content: bytes) -> str:
    """Return the type of a key in PKCS #8, as `key_type` does."""
    algorithm = _part(elements(one(content, SEQUENCE)), 1, SEQUENCE)
    parts = elements(algorithm)
    found = _TYPES.get(_part(parts, 0, OBJECT), "")
    if not found:
        raise KeyRefused("is not an RSA, EC or Ed25519 key")
    if found != "RSA":
        named = len(parts) > 1 and parts[1][0] == OBJECT
        _check_curve(content, bytes([OBJECT]) if named or found != "EC" else b"")
    return found


def rsa_key(pem: bytes, most_bits: int = MOST_BITS) -> RSAPrivateKey:
    """Return an RSA key without a passphrase. Raises `KeyRefused`."""
    key = read_pem(pem)
    if key.encrypted:
        raise KeyRefused("is not a private key in PEM without a passphrase")
    return rsa_of(key, most_bits)


def rsa_of(key: PemKey, most_bits: int = MOST_BITS) -> RSAPrivateKey:
    """Return an RSA key. Raises `KeyRefused`."""
    if key_type(key) != "RSA":
        raise KeyRefused("is not an RSA key")
    content = key.content
    if key.label == "PRIVATE KEY":
        content = _part(elements(one(content, SEQUENCE)), 2, OCTETS)
    numbers = [_integer(inside) for tag, inside in elements(one(content, SEQUENCE)) if tag == INTEGER]
    if len(numbers) != _RSA_NUMBERS or numbers[0] != 0 or min(numbers[1:]) < 1:
        raise KeyRefused("is not a valid RSA key")
    _, n, e, d, p, q, dp, dq, inverse = numbers
    if max(numbers).bit_length() > most_bits:
        raise KeyRefused(f"has more than {most_bits} bits: write a smaller key")
    fits = (
        n.bit_length() >= _FEWEST_BITS
        and p * q == n
        and min(p, q) > 1
        and e < _LARGEST_EXPONENT
        and p & q & e & 1
        and (d % (p - 1), d % (q - 1)) == (dp, dq)
        and (e * dp % (p - 1), e * dq % (q - 1), q * inverse % p) == (1, 1, 1)
    )
    if not fits:
        raise KeyRefused("is not a valid RSA key")
    private = RSAPrivateNumbers(p, q, d, dp, dq, inverse, RSAPublicNumbers(e, n))
    return private.private_key(unsafe_skip_rsa_key_validation=True)


def elements(content: bytes) -> list[Element]:
    """Return the elements of DER in a row. Raises `KeyRefused`."""
    found: list[Element] = []
    at = 0
    while at < len(content):
        tag, length, at = content[at], content[at + 1 : at + 2], at + 2
        size = length[0] if length else 0
        if size & 0x80:
            digits = size & 0x7F
            size = int.from_bytes(content[at : at + digits]) if digits <= _LONGEST_LENGTH else len(content)
            at += digits
        if not length or at + size > len(content) or len(found) == _MOST_ELEMENTS:
            raise KeyRefused("is not a private key in PEM")
        found.append((tag, content[at : at + size]))
        at += size
    return found


def one(content: bytes, tag: int) -> bytes:
    """Return the content of DER with one element of this tag. Raises `KeyRefused`."""
    found = elements(content)
    return _part(found, 0, tag) if len(found) == 1 else _part([], 0, tag)


def _part(parts: list[Element], index: int, tag: int) -> bytes:
    if index >= len(parts) or parts[index][0] != tag:
        raise KeyRefused("is not a private key in PEM")
    return parts[index][1]


def _check_curve(content: bytes, parameters: bytes) -> None:
    """Raise `KeyRefused` unless a curve has a name, and the key its size: the numbers of others are the tenant's."""
    if parameters[:1] != bytes([OBJECT]) or len(content) > _LONGEST_OTHER:
        raise KeyRefused("is no key of a named curve: write a key of a named curve, such as P-256")


def _integer(content: bytes) -> int:
    return int.from_bytes(content, signed=True)


def _read_block(block: bytes) -> PemKey | None:
    """Return the private key in a block of PEM, from its label on; None for another block."""
    label, _, rest = block.partition(b"-----")
    if not label.endswith(b"PRIVATE KEY"):
        return None
    end = b"-----END " + label + b"-----"
    body, ended, _ = rest.partition(end)
    headers, separated, coded = body.replace(b"\r", b"").partition(b"\n\n")
    if not (separated and b":" in headers):
        headers, coded = b"", body
    try:
        content = base64.b64decode(b"".join(coded.split()), validate=True)
        name = label.decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        content, name = b"", ""
    if not (ended and content):
        raise KeyRefused("is not a private key in PEM")
    encrypted = name.startswith("ENCRYPTED ") or b"ENCRYPTED" in headers
    return PemKey(name, content, encrypted, b"-----BEGIN " + label + b"-----" + body + end + b"\n")
