"""A repository with its credential, certificate authority and proxy, from Secrets.

    Token       token [username]; or bearerToken, for servers that need it in a header
    Basic       username, password
    SSH         identity, known_hosts [password: the passphrase of identity]
    GitHubApp   appID, installationID, privateKey [baseURL: the API of a GitHub Enterprise server]
    authority   ca.crt and, for servers that ask for a certificate, tls.crt and tls.key
    proxy       address [username, password]

No error message and no `repr` of these types contains a value of a Secret.
"""

import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal
from urllib.parse import quote, urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from msgspec import Struct
from msgspec.msgpack import encode

from syncline.core.private_keys import KeyRefused
from syncline.core.private_keys import rsa_key as read_rsa_key
from syncline.git.errors import CredentialError
from syncline.git.identities import read_identity
from syncline.git.url import canonical

AuthType = Literal["Token", "Basic", "SSH", "GitHubApp"]
Secret = Mapping[str, bytes]

_PROCESS_KEY = secrets.token_bytes(32)
_MAX_SIZE = 64 * 1024
_GITHUB = "https://api.github.com"


class _Hidden(Struct, frozen=True):
    """A base class with a `repr` without values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Basic(_Hidden, frozen=True, tag=True):
    """A name, and a password or token."""

    username: str
    password: str


class Bearer(_Hidden, frozen=True, tag=True):
    """A token for the Authorization header."""

    token: str


class Ssh(_Hidden, frozen=True, tag=True):
    """An unencrypted private key, and the keys of its servers."""

    identity: bytes
    known_hosts: bytes


class GitHubApp(_Hidden, frozen=True, tag=True):
    """A GitHub App, whose tokens are valid for an hour."""

    app: str
    installation: str
    private_key: bytes
    api: str


Credential = Basic | Bearer | Ssh | GitHubApp


class Proxy(_Hidden, frozen=True):
    """An HTTP proxy."""

    host: str
    port: int
    scheme: str = "http"
    username: str = ""
    password: str = ""

    @property
    def url(self) -> str:
        """The proxy's URL, with its credentials."""
        login = f"{quote(self.username, safe='')}:{quote(self.password, safe='')}@" if self.username else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{login}{host}:{self.port}"


class Remote(_Hidden, frozen=True):
    """A repository with its credential. Equal remotes share one mirror."""

    url: str
    credential: Credential | None = None
    ca: bytes = b""
    client_certificate: bytes = b""
    client_key: bytes = b""
    proxy: Proxy | None = None

    @property
    def key(self) -> str:
        """Return an identifier of the remote and its credential for this process. It reveals neither."""
        return self.digest(_PROCESS_KEY)

    def digest(self, salt: bytes) -> str:
        """Return an identifier of the remote and its credential for all processes with the salt."""
        return blake2b(encode(self), digest_size=16, key=salt).hexdigest()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not be in any message."""
        match self.credential:
            case Basic(_, password):
                found = [password]
            case Bearer(token):
                found = [token]
            case _:
                found = []
        if self.proxy is not None:
            found += [self.proxy.password, quote(self.proxy.password, safe="")]
        return tuple(each for each in found if each)


def remote_from(
    url: str,
    auth_type: AuthType | None = None,
    auth_secret: Secret | None = None,
    ca_secret: Secret | None = None,
    proxy_secret: Secret | None = None,
) -> Remote:
    """Return a remote from Secrets. Raises `CredentialError`, which names the missing or invalid key.

    `tls.crt`, `tls.key` and `ca.crt` may be in the Secret of the authority or in that of the credential.
    """
    auth, authority = auth_secret or {}, ca_secret or {}
    certificate = _optional(authority, "tls.crt") or _optional(auth, "tls.crt")
    key = _optional(authority, "tls.key") or _optional(auth, "tls.key")
    ca = _optional(authority, "ca.crt") or _optional(auth, "ca.crt")
    if ca_secret is not None and not (ca or certificate):
        raise CredentialError("the Secret of caSecretRef has no key 'ca.crt'")
    if bool(certificate) != bool(key):
        raise CredentialError("a client certificate needs both keys, 'tls.crt' and 'tls.key', in its Secret")
    ssh = not url.startswith(("https://", "http://"))
    if ssh and auth_type != "SSH":
        raise CredentialError("a repository over ssh needs auth.type SSH, with the keys 'identity' and 'known_hosts'")
    if auth_type == "SSH" and not ssh:
        raise CredentialError("auth.type SSH needs an ssh URL; use Token, Basic or GitHubApp with https")
    if ssh and (proxy_secret is not None or certificate or ca):
        raise CredentialError("proxySecretRef and caSecretRef need an https URL; remove them for ssh")
    return Remote(
        url=canonical(url),
        credential=_credential(url, auth_type, auth) if auth_type else None,
        ca=ca,
        client_certificate=certificate,
        client_key=key,
        proxy=None if proxy_secret is None else _proxy(proxy_secret),
    )


def _credential(url: str, kind: AuthType, secret: Secret) -> Credential:
    match kind:
        case "Token":
            if "bearerToken" in secret:
                return Bearer(_header(secret, "bearerToken"))
            # Most servers accept any name with a token. Bitbucket needs a certain name.
            usual = "x-token-auth" if urlsplit(url).hostname == "bitbucket.org" else "x-access-token"
            return Basic(_header(secret, "username") if "username" in secret else usual, _header(secret, "token"))
        case "Basic":
            return Basic(_header(secret, "username"), _header(secret, "password"))
        case "SSH":
            return Ssh(_identity(secret), _lines(secret, "known_hosts"))
        case "GitHubApp":
            return _app(url, secret)


def _app(url: str, secret: Secret) -> GitHubApp:
    numbers = [_header(secret, name) for name in ("appID", "installationID")]
    for name, number in zip(("appID", "installationID"), numbers, strict=True):
        if not number.isalnum() or not number.isascii():
            raise CredentialError(f"the key {name!r} of the Secret is not the id of a GitHub App or installation")
    rsa_key(_required(secret, "privateKey"))
    if "baseURL" in secret:
        api = _header(secret, "baseURL").rstrip("/")
    else:
        host = urlsplit(url).netloc
        api = _GITHUB if host.lower() in ("github.com", "www.github.com") else f"https://{host}/api/v3"
    return GitHubApp(numbers[0], numbers[1], _required(secret, "privateKey"), api)


def rsa_key(pem: bytes) -> RSAPrivateKey:
    """Return the key of a GitHub App. Raises `CredentialError`."""
    try:
        return read_rsa_key(pem)
    except KeyRefused as refused:
        raise CredentialError(
            f"the key 'privateKey' of the Secret {refused}: write the RSA key of the GitHub App"
        ) from None


def _identity(secret: Secret) -> bytes:
    identity = _lines(secret, "identity")
    return read_identity(identity, _required(secret, "password") if "password" in secret else None)


def _proxy(secret: Secret) -> Proxy:
    try:
        parts = urlsplit(_header(secret, "address"))
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.path.strip("/"):
        raise CredentialError("the key 'address' of the proxy's Secret is not like http://proxy.example.com:3128")
    if parts.username is not None:
        raise CredentialError(
            "put the proxy's user in the keys 'username' and 'password' of its Secret, not in 'address'"
        )
    username = _header(secret, "username") if "username" in secret else ""
    password = _header(secret, "password") if "password" in secret else ""
    return Proxy(host, port or (443 if parts.scheme == "https" else 3128), parts.scheme, username, password)


def _required(secret: Secret, name: str) -> bytes:
    value = secret.get(name, b"")
    if not value.strip():
        raise CredentialError(f"the Secret has no key {name!r}, or it is empty")
    if len(value) > _MAX_SIZE:
        raise CredentialError(f"the key {name!r} of the Secret is too long")
    return value


def _optional(secret: Secret, name: str) -> bytes:
    return _lines(secret, name) if name in secret else b""


def _lines(secret: Secret, name: str) -> bytes:
    """Return a text with Unix newlines and a newline at the end, as ssh and curl need it."""
    return b"\n".join(line.rstrip() for line in _required(secret, name).strip().splitlines()) + b"\n"


def _header(secret: Secret, name: str) -> str:
    """Return a value of one line, without a newline at the end."""
    try:
        value = _required(secret, name).decode().strip()
    except UnicodeDecodeError:
        raise CredentialError(f"the key {name!r} of the Secret is not text") from None
    if any(ord(character) < ord(" ") or ord(character) == 0x7F for character in value):  # noqa: PLR2004 - DEL
        raise CredentialError(f"the key {name!r} of the Secret has line breaks or control characters")
    return value
