"""Writes kubeconfig files with inline certificate authority and credentials, readable only by their owner."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path

import yaml


def token_user(token: str) -> dict[str, str]:
    """Return the user entry of a kubeconfig for a bearer token."""
    return {"token": token}


def certificate_user(certificate: bytes, key: bytes) -> dict[str, str]:
    """Return the user entry of a kubeconfig for a client certificate."""
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }


def write(path: Path, *, server: str, authority: str, user: Mapping[str, str], name: str) -> None:
    """Write a kubeconfig with one cluster, one user and one context, all with the name `name`, atomically."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def write_private(path: Path, content: bytes) -> None:
    """Write a private file atomically: readers see the old content or the new one, never a part."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)
