"""Removes secrets from logs: values with the names of secrets, and strings that look like credentials.

This is a second line of defence: code must not log the value of a Secret in the first place.
"""

import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

REDACTED = "[redacted]"

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]
"""A JSON value."""

_NAMES = frozenset(
    {"auth", "bearer", "binarydata", "cookie", "data", "kubeconfig", "secret", "setcookie", "stringdata"}
)
_ENDINGS = (
    "accesskey",
    "apikey",
    "authorization",
    "clientkey",
    "credential",
    "credentials",
    "keydata",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secretkey",
    "token",
)

_ASSIGNED = r"(?:token|password|passwd|passphrase|secret|api_?key|authorization)"

# Each pattern starts with a literal and is bounded, so that the time for a hostile string is linear in its length.
_MASKS = (
    (re.compile(r"(?s)-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)"), ""),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"), ""),
    (re.compile(r"\b([Bb]earer\s{1,8})[\w.~+/=-]{8,}"), r"\1"),
    (re.compile(r"\b([Bb]asic\s{1,8})(?=[A-Za-z+/]{0,512}[0-9=])[\w+/=]{8,}"), r"\1"),
    (re.compile(r"(?<=://)[^\s/?#]{1,512}(?=@)"), ""),
    (re.compile(rf"(?i)({_ASSIGNED}=)[^\s&;,\"']+"), r"\1"),
    (re.compile(rf"(?i)({_ASSIGNED}[\"']\s{{0,8}}:\s{{0,8}}[\"'])[^\"']+"), r"\1"),
)

_DEEPEST = 12


def redact(value: object, *, depth: int = 0) -> Plain:  # noqa: PLR0911 - one line a shape
    """Return the value as plain data. Values that look secret are replaced."""
    if depth > _DEEPEST:
        return "..."
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return mask(value)
        case bytes() | bytearray() | memoryview():
            return f"[{len(value)} bytes]"
        case Mapping():
            return {
                mask(str(key)): REDACTED if is_secret_name(str(key)) else redact(item, depth=depth + 1)
                for key, item in value.items()
            }
        case list() | tuple() | AbstractSet():
            return [redact(item, depth=depth + 1) for item in value]
        case BaseException():
            return mask(f"{type(value).__name__}: {value}")
        case msgspec.Struct():
            return redact(msgspec.structs.asdict(value), depth=depth + 1)
        case _:
            return mask(str(value))


def is_secret_name(name: str) -> bool:
    """Whether a value with this name is secret."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return plain in _NAMES or plain.endswith(_ENDINGS)


def mask(text: str) -> str:
    """Replace bearer and basic credentials, tokens, private keys, user info in URLs, and assigned secrets."""
    for pattern, kept in _MASKS:
        text = pattern.sub(kept + REDACTED, text)
    return text
