"""The authentication of a webhook: a signature over its body, or a token.

| Sender | Header |
|---|---|
| GitHub, Gitea, Forgejo | `X-Hub-Signature-256: sha256=<hex>` |
| Bitbucket | `X-Hub-Signature: sha256=<hex>` |
| Gitea, Forgejo, Gogs | `X-Gitea-Signature`, `X-Forgejo-Signature`, `X-Gogs-Signature: <hex>` |
| other senders that sign | `X-Signature` or `X-Signature-256: <hex>`, with or without `sha256=` |
| GitLab | `X-Gitlab-Token: <token>` |
| Argo CD, Kargo, other senders | `Authorization: Bearer <token>` |

Signatures are HMAC-SHA256 over the raw bytes. SHA-1 is not accepted. All keys are compared with all values of a
request, in constant time and without an early end. The time reveals nothing about the keys, and not whether a sync has
keys.
"""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256

SLOTS = 2
"""The minimum number of compared keys: a name without keys takes the same time as a name with keys."""

_SIGNATURES = (
    "X-Hub-Signature-256",
    "X-Hub-Signature",
    "X-Gitea-Signature",
    "X-Forgejo-Signature",
    "X-Gogs-Signature",
    "X-Signature-256",
    "X-Signature",
)
_NAMED = frozenset({"X-Hub-Signature-256", "X-Hub-Signature"})
"""The headers that name the algorithm of their signature. A value without it is refused."""
_TOKEN = "X-Gitlab-Token"  # noqa: S105 - the name of a header
_BEARER = "bearer "
_DUMMY = secrets.token_bytes(32)
"""The key for names without a key. It is random, and different in each process."""


def is_authentic(headers: Mapping[str, str], body: bytes, keys: Sequence[bytes]) -> bool:
    """Whether the request was made with one of the keys. Empty keys match nothing. A newline at the end is ignored."""
    real = [key for raw in keys if (key := raw.rstrip(b"\r\n"))]
    signatures = [_hex(name, value) for name in _SIGNATURES if (value := headers.get(name))]
    tokens = [sha256(value.encode(errors="surrogateescape")).digest() for value in _tokens(headers)]
    found = False
    for key in [*real, *[_DUMMY] * (SLOTS - len(real))]:
        signature = hmac.new(key, body, sha256).hexdigest().encode()
        token = sha256(key).digest()
        for given in signatures:
            found |= hmac.compare_digest(signature, given)
        for given in tokens:
            found |= hmac.compare_digest(token, given)
    return found


def _hex(header: str, value: str) -> bytes:
    scheme, separator, rest = value.strip().partition("=")
    named = bool(separator) and scheme.lower() == "sha256"
    if header in _NAMED and not named:
        return b""
    return (rest if named else value.strip()).lower().encode(errors="replace")


def _tokens(headers: Mapping[str, str]) -> list[str]:
    given = headers.get("Authorization", "")
    bearer = given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else ""
    return [token for token in (headers.get(_TOKEN, ""), bearer) if token]
