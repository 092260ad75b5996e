"""Secrets in the forms in which people keep the credentials of clusters."""

import base64
import json
from typing import Any

import yaml

from syncline.api.common import ObjectMeta
from syncline.fleet import SecretWire
from syncline.sandbox.pki import Authority

SERVER = "https://edge.example.com:6443"
CANARY = "canary-9f8e7d6c5b4a39281706f5e4d3c2b1a0"
"""Stands for whatever nobody may see."""
AUTHORITY = Authority.create()


def encode(content: str | bytes) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


def secret(
    values: dict[str, str | bytes],
    *,
    labels: dict[str, str] | None = None,
    kind: str = "Opaque",
    name: str = "edge",
    namespace: str = "team-a",
) -> SecretWire:
    return SecretWire(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=labels or {}),
        type=kind,
        data={key: encode(value) for key, value in values.items()},
    )


def kubeconfig(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, server: str = SERVER, **top: Any
) -> str:
    authority = encode(AUTHORITY.certificate)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": server, "certificate-authority-data": authority, **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": {"token": CANARY} if user is None else user}],
        **top,
    }
    return yaml.safe_dump(document)


def argocd(config: dict[str, Any] | str, *, server: str = SERVER) -> SecretWire:
    text = config if isinstance(config, str) else json.dumps(config)
    return secret(
        {"name": "edge", "server": server, "config": text}, labels={"argocd.argoproj.io/secret-type": "cluster"}
    )


def token(*, begins: float | None = None, ends: float | None = None) -> str:
    """Make a JSON web token that nobody has signed."""
    claims = {key: value for key, value in (("iat", begins), ("exp", ends)) if value is not None}
    parts = (json.dumps({"alg": "none"}), json.dumps(claims), "signature")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
