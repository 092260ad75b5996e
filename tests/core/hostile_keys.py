"""Private keys that take a library hours, as a tenant writes them."""

import base64
import textwrap
from collections.abc import Mapping

P, Q = 2**11213 - 1, 2**9941 - 1
"""Two primes: to be sure of it, a library computes for a minute."""


def pem(label: str, content: bytes) -> bytes:
    coded = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 64))
    return f"-----BEGIN {label}-----\n{coded}\n-----END {label}-----\n".encode()


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    digits = size.to_bytes((size.bit_length() + 7) // 8 or 1)
    return bytes([tag]) + (digits if size < 128 else bytes([0x80 | len(digits)]) + digits) + content


def integer(number: int) -> bytes:
    return der(2, number.to_bytes(number.bit_length() // 8 + 1, signed=True))


def rsa_numbers(p: int = P, q: int = Q, e: int = 65537, other: Mapping[str, int] | None = None) -> bytes:
    """An RSA key in PKCS #1, with other numbers where they are given by name."""
    n = p * q
    d = pow(e, -1, (p - 1) * (q - 1))
    numbers = {"n": n, "e": e, "d": d, "p": p, "q": q, "dp": d % (p - 1), "dq": d % (q - 1), "qi": pow(q, -1, p)}
    return der(0x30, b"".join(map(integer, [0, *{**numbers, **(other or {})}.values()])))


def large_rsa(bits: int = 0) -> bytes:
    """A key whose numbers a library tests for primes; with bits, a smaller one of numbers that are none."""
    return pem("RSA PRIVATE KEY", rsa_numbers((1 << bits) - 1, (1 << bits) - 3, e=5) if bits else rsa_numbers())


def pkcs8(algorithm: str, parameters: bytes, private: bytes) -> bytes:
    kind = der(0x30, der(6, bytes.fromhex(algorithm)) + parameters)
    return der(0x30, integer(0) + kind + der(4, private))


def large_dsa(bits: int = 100_000) -> bytes:
    """A key whose public part a library computes."""
    p = (1 << bits) - 1
    parameters = der(0x30, integer(p) + integer((1 << 256) - 1) + integer(2))
    return pkcs8("2a8648ce380401", parameters, integer(p >> 2))


def many_rounds(rounds: int) -> bytes:
    """A key whose passphrase is derived in many rounds."""
    derivation = der(0x30, der(4, b"salt") + integer(rounds))
    cipher = der(0x30, der(6, bytes.fromhex("60864801650304012a")) + der(4, bytes(16)))
    scheme = der(0x30, der(0x30, der(6, bytes.fromhex("2a864886f70d01050c")) + derivation) + cipher)
    algorithm = der(0x30, der(6, bytes.fromhex("2a864886f70d01050d")) + scheme)
    return pem("ENCRYPTED PRIVATE KEY", der(0x30, algorithm + der(4, bytes(64))))
