"""Finds files that look like credentials, by their names and by their content. Pure.

It guards against accidents before files leave a gateway: it finds keys and tokens of known forms, but no plain
passwords.
"""

import re

KEEP = 8 * 1024
"""The number of bytes of a piece that are scanned again with the next piece."""

_FORMS: tuple[tuple[str, bytes], ...] = (
    ("a private key", rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    ("a private key of PuTTY", rb"PuTTY-User-Key-File-\d"),
    ("a private key of age", rb"AGE-SECRET-KEY-1[0-9A-Z]{20}"),
    ("a token of GitHub", rb"(?<![A-Za-z0-9_])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22})"),
    ("a token of GitLab", rb"(?<![A-Za-z0-9_-])gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{20}"),
    ("a key of AWS", rb"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("a key of Google", rb"(?<![A-Za-z0-9_-])AIza[0-9A-Za-z_-]{35}"),
    ("a token of Slack", rb"(?<![A-Za-z0-9])xox[abeoprs]-[0-9A-Za-z-]{20}"),
    ("a key of Stripe", rb"(?<![A-Za-z0-9])[rs]k_live_[0-9A-Za-z]{20}"),
    ("a token of npm", rb"(?<![A-Za-z0-9])npm_[0-9A-Za-z]{36}"),
    (
        "a JSON web token",
        rb"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{10,2000}+\.eyJ[A-Za-z0-9_-]{10,4000}+\.[A-Za-z0-9_-]{20}",
    ),
)
_CONTENT = re.compile(b"|".join(b"(%s)" % form for _, form in _FORMS))
_NAMES = re.compile(
    r"(?i)(?:.*\.(?:key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg)|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|htpasswd|credentials|\.env(?:\..*)?|\.netrc|\.pgpass|\.npmrc|\.git-credentials|.*kubeconfig.*)"
)


def credential_name(path: str) -> bool:
    """Whether a file has a name that is typical of keys or credentials."""
    return _NAMES.fullmatch(path.rpartition("/")[2]) is not None


class CredentialScanner:
    """Scans the content of one file, piece by piece. The time is proportional to the content."""

    def __init__(self) -> None:
        self._tail = b""
        self.found = ""
        """The kind of credential that was found, such as `a private key`; empty: none."""

    def feed(self, chunk: bytes) -> None:
        """Scan the next piece."""
        if self.found:
            return
        text = self._tail + chunk
        if (match := _CONTENT.search(text)) is not None and match.lastindex is not None:
            self.found = _FORMS[match.lastindex - 1][0]
        self._tail = text[-KEEP:]
