"""Cluster Secrets of Argo CD: a server, and the credential as JSON.

As for kubeconfigs of tenants, only inline credentials over verified TLS are accepted. All other settings are refused by
name.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from syncline.api.common import ObjectMeta
from syncline.kube.config import Connection
from syncline.kube.errors import ConfigError

LABEL = "argocd.argoproj.io/secret-type"
CONFIG_KEY = "config"
SERVER_KEY = "server"

_REFUSED = {
    "username": "basic authentication was removed from Kubernetes; use bearerToken",
    "password": "basic authentication was removed from Kubernetes; use bearerToken",
    "execProviderConfig": "commands for credentials are not supported; use bearerToken, or certData and keyData",
    "awsAuthConfig": "commands for credentials are not supported; use bearerToken, or certData and keyData",
    "proxyUrl": "proxies are not supported; remove it",
    "insecure": "the certificate of the server must be verified; use caData",
}
_CONFIG = {"bearerToken", "tlsClientConfig", "disableCompression"}
_TLS = {"caData", "certData", "keyData", "serverName"}


def is_cluster(metadata: ObjectMeta) -> bool:
    """Whether this Secret is a cluster Secret of Argo CD."""
    return metadata.labels.get(LABEL) == "cluster"


def connection(value: Callable[[str], bytes | None], name: str) -> Connection:
    """Return the connection that such a Secret describes. Raises `ConfigError`."""
    config = _mapping(value(CONFIG_KEY) or b"{}")
    _validate(config, _CONFIG)
    tls = config.get("tlsClientConfig") or {}
    if not isinstance(tls, dict):
        raise ConfigError("tlsClientConfig must be an object")
    _validate(tls, _TLS)
    certificate, key = _pem(tls, "certData"), _pem(tls, "keyData")
    if (certificate is None) != (key is None):
        raise ConfigError("certData and keyData are needed together: add the missing one")
    return Connection(
        server=(value(SERVER_KEY) or b"").decode("utf-8", "replace").strip().rstrip("/"),
        name=name,
        ca_pem=_pem(tls, "caData"),
        tls_server_name=_text(tls, "serverName"),
        client_cert_pem=certificate,
        client_key_pem=key,
        token=_text(config, "bearerToken"),
    )


def _mapping(content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (ValueError, RecursionError):  # not chained: the message can quote the content
        raise ConfigError(f"{CONFIG_KEY} is not a JSON object") from None


def _validate(settings: Mapping[str, Any], allowed: set[str]) -> None:
    for key, setting in settings.items():
        if not setting or key in allowed:
            continue
        if key in _REFUSED:
            raise ConfigError(f"{key} is not accepted: {_REFUSED[key]}")
        raise ConfigError(f"{CONFIG_KEY} contains an unknown setting; it can contain bearerToken and tlsClientConfig")


def _text(settings: Mapping[str, Any], key: str) -> str | None:
    setting = settings.get(key)
    if setting is not None and not isinstance(setting, str):
        raise ConfigError(f"{key} must be a string")
    return setting or None


def _pem(settings: Mapping[str, Any], key: str) -> bytes | None:
    text = _text(settings, key)
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{key} is not base64") from None
