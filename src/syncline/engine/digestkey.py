"""The key of all digests that are written down: a Secret in the operator's own namespace, made once.

Without it nobody can guess a value from its digest. If it is lost, a new one is made: then no record can be read, and
its content is unknown, never guessed.
"""

import base64
import binascii
import secrets
from contextlib import suppress
from typing import Any

from syncline.core.digest import DigestKey
from syncline.kube.client import Client
from syncline.kube.errors import AlreadyExists, ConfigError, NotFound
from syncline.kube.resources import SECRETS

NAME = "syncline-digest-key"
_ENTRY = "key"
_SIZE = 32


async def read_digest_key(client: Client, namespace: str) -> DigestKey:
    """Read the key. Raises what any read raises, and `ConfigError` for a Secret that holds none."""
    found: dict[str, Any] = await client.get(SECRETS, NAME, namespace)
    try:
        key = base64.b64decode((found.get("data") or {}).get(_ENTRY, ""), validate=True)
    except binascii.Error:
        key = b""
    if len(key) < _SIZE:
        raise ConfigError(f"the Secret {namespace}/{NAME} holds no key of {_SIZE} bytes; delete it to have one made")
    return DigestKey(key)


async def ensure_digest_key(client: Client, namespace: str) -> DigestKey:
    """Read the key, and make one if there is none. Another replica may be faster."""
    try:
        return await read_digest_key(client, namespace)
    except NotFound:
        pass
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": NAME, "namespace": namespace},
        "immutable": True,
        "data": {_ENTRY: base64.b64encode(secrets.token_bytes(_SIZE)).decode()},
    }
    with suppress(AlreadyExists):
        await client.create(SECRETS, body, namespace)
    return await read_digest_key(client, namespace)
