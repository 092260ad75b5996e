"""Connections from Secrets: kubeconfigs, as in Cluster API and other tools, and ServiceAccount tokens.

Messages contain only the names of a Secret's keys, never its values.
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
"""Much larger than any real kubeconfig, and small enough to parse fast."""
_LONG_WORD = re.compile(r"[^\s'\"]{48,}")


class SecretWire(Struct, kw_only=True):
    """A Secret from the API server. Its `repr` has no data."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    type: str = ""
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        """Return the name of the Secret and its keys."""
        return f"SecretWire({self.origin!r}, keys={sorted(self.data or ())})"

    @property
    def origin(self) -> str:
        """The Secret, for people."""
        return f"Secret {self.metadata.namespace}/{self.metadata.name}"

    def value(self, key: str) -> bytes | None:
        """Return the value of a key; None if there is none."""
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

    `authority` is base64 of PEM. Default: `ca.crt` of the Secret, as in Secrets that Kubernetes fills.
    """
    try:
        token = _find(secret, (key or TOKEN_KEY,))
        return Connection(
            server=server.rstrip("/"),
            name=secret.origin,
            ca_pem=_decode(authority) if authority else secret.value(AUTHORITY_KEY),
            # Tokens from files end with a newline.
            token=token.decode("utf-8", "replace").strip(),
        )
    except ConfigError as error:
        raise _not_usable(secret, error) from None


def _find(secret: SecretWire, keys: tuple[str, ...]) -> bytes:
    """Return the value of the first of these keys that exists."""
    content = next((value for key in keys if (value := secret.value(key)) is not None), None)
    if content is None:
        absent = f"it has no key {keys[0]}" if len(keys) == 1 else f"it has none of the keys {', '.join(keys)}"
        raise ConfigError(f"{absent}, or its value is empty: write the name of the key with the credential")
    if len(content) > MAX_CONTENT:
        raise ConfigError("the value is larger than 256 KiB: write a smaller kubeconfig")
    return content


def _decode(authority: str) -> bytes:
    try:
        return base64.b64decode("".join(authority.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("caData is not base64") from None


def _not_usable(secret: SecretWire, error: ConfigError) -> NotResolved:
    """Add the Secret to the message, and remove long words: names in a file can contain anything."""
    return NotResolved("InvalidCredentials", f"{secret.origin}: {_LONG_WORD.sub('...', str(error))}")
