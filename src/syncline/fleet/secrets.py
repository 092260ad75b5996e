"""From a Secret to a connection: kubeconfigs, as Cluster API and others keep them, and ServiceAccount tokens.

No message quotes what is in a Secret, but the names of its keys.
"""

import base64
import binascii
import re

from msgspec import Struct, field, structs

from syncline.api.common import ObjectMeta
from syncline.fleet import argocd
from syncline.fleet.errors import NotResolved
from syncline.kube.config import Connection, parse_kubeconfig
from syncline.kube.errors import ConfigError

KUBECONFIG_KEYS = ("value", "value.yaml", "kubeconfig", "config")
TOKEN_KEY = "token"  # noqa: S105  # the name of a key
AUTHORITY_KEY = "ca.crt"
MAX_CONTENT = 256 * 1024
"""Far above any real kubeconfig, far below what would take long to read."""
_LONG_WORD = re.compile(r"[^\s'\"]{48,}")


class SecretWire(Struct, kw_only=True):
    """A Secret as it is read; printed without its data."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    type: str = ""
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        """Name the Secret and its keys."""
        return f"SecretWire({self.origin!r}, keys={sorted(self.data or ())})"

    @property
    def origin(self) -> str:
        """The Secret, for people."""
        return f"Secret {self.metadata.namespace}/{self.metadata.name}"

    def value(self, key: str) -> bytes | None:
        """Return what is under a key; None where there is nothing."""
        text = (self.data or {}).get(key)
        if not text:
            return None
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return None


def kubeconfig_connection(secret: SecretWire, key: str | None) -> Connection:
    """Return the connection of a Secret with a kubeconfig, or of a cluster Secret of Argo CD. Raises `NotResolved`."""
    try:
        if argocd.is_cluster(secret.metadata) and key in (None, argocd.CONFIG_KEY):
            return argocd.connection(secret.value, secret.origin)
        connection = parse_kubeconfig(_find(secret, (key,) if key else KUBECONFIG_KEYS), trusted=False)
        return structs.replace(connection, name=secret.origin)
    except ConfigError as error:
        raise _not_usable(secret, error) from None


def token_connection(secret: SecretWire, key: str | None, server: str, authority: str | None) -> Connection:
    """Return the connection of a Secret with a ServiceAccount's token. Raises `NotResolved`.

    `authority` is PEM in base64; without it the Secret's own `ca.crt` counts, as in Secrets that Kubernetes fills.
    """
    try:
        token = _find(secret, (key or TOKEN_KEY,))
        return Connection(
            server=server.rstrip("/"),
            name=secret.origin,
            ca_pem=_decode(authority) if authority else secret.value(AUTHORITY_KEY),
            # Files end in a line end, and so do tokens that were read from one.
            token=token.decode("utf-8", "replace").strip(),
        )
    except ConfigError as error:
        raise _not_usable(secret, error) from None


def _find(secret: SecretWire, keys: tuple[str, ...]) -> bytes:
    """Return what is under the first of these keys that is there."""
    content = next((value for key in keys if (value := secret.value(key)) is not None), None)
    if content is None:
        absent = f"it has no key {keys[0]}" if len(keys) == 1 else f"it has none of the keys {', '.join(keys)}"
        raise ConfigError(f"{absent}, or nothing under it: name the key that holds the credential")
    if len(content) > MAX_CONTENT:
        raise ConfigError("more than 256 KiB are not read")
    return content


def _decode(authority: str) -> bytes:
    try:
        return base64.b64decode("".join(authority.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("caData is not base64") from None


def _not_usable(secret: SecretWire, error: ConfigError) -> NotResolved:
    """Name the Secret. Long words are left out: names in a file are its author's, and may be anything."""
    return NotResolved("InvalidCredentials", f"{secret.origin}: {_LONG_WORD.sub('...', str(error))}")
