"""The keys that sign our marks: a Secret in the operator's own namespace, and its changes at run time.

The Secret has every key that may have signed a mark, by its id, and names the current key. `syncline keys rotate` adds
a key. Marks of the other keys stay valid, and are signed again a few at a time.

It also lists the syncs that may take over unsigned marks: those that existed at an upgrade from a version without
signatures, or at `syncline keys heal`. A sync leaves the list when it has nothing left to take over.

The Secret of the digest key records that keys exist. So a missing Secret is not mistaken for one that was never
created, and unsigned marks do not become valid again. If both are lost, the signatures of statuses show that keys
existed.
"""

import base64
import binascii
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from msgspec import Struct, field

from syncline.api.common import GROUP, ObjectMeta
from syncline.core.marks import NO_KEYS, UNSIGNED, MarkKeys, key_id, sync_id
from syncline.engine.digestkey import NAME as DIGEST_KEY
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import AlreadyExists, ConfigError, NotFound
from syncline.kube.resources import SECRETS

log = structlog.get_logger(__name__)

NAME = "syncline-mark-keys"
NOTED = f"{GROUP}/mark-keys"
"""On the Secret of the digest key: the ids of the existing keys."""
# The marks that are renewed per second, so that neither an upgrade nor a new key causes a burst of writes.
RENEWALS_PER_SECOND = 20.0
RENEWALS_AT_ONCE = 100.0
_CURRENT = "current"
_TAKEOVERS = "takeovers"
_SIZE = 32


class KeysWire(Struct):
    """The Secret as it is read."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class MarkRing:
    """The present keys, shared by all clusters, and the rate of renewed marks."""

    def __init__(self, keys: MarkKeys = NO_KEYS, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self.waiting: set[str] = set()
        """Syncs with marks to renew as soon as the rate allows, by `Kind/namespace/name`."""
        self.unfinished: set[str] = set()
        """Syncs with marks that cannot be renewed now."""
        self.taken_over: set[str] = set()
        """Syncs, by `sync_id`, that had nothing left to take over at their last complete reconcile."""
        self._clock = clock
        self._left = RENEWALS_AT_ONCE
        self._at = clock()

    @property
    def keys(self) -> MarkKeys:
        """The keys."""
        return self._keys

    @keys.setter
    def keys(self, keys: MarkKeys) -> None:
        before = self._keys
        if keys.lost is None and before.lost is not None:
            keys = keys.knowing_lost(before.lost | before.ids)
        self._keys = keys

    def begin(self, sync: str) -> None:
        """Begin a reconcile of a sync."""
        self.waiting.discard(sync)
        self.unfinished.discard(sync)

    def is_finished(self, sync: str) -> bool:
        """Whether the last reconcile of a sync left no mark to renew."""
        return sync not in self.waiting and sync not in self.unfinished

    def may_renew(self, sync: str) -> bool:
        """Whether one more mark may be renewed now. Else the sync is recorded for another reconcile."""
        now = self._clock()
        self._left = min(RENEWALS_AT_ONCE, self._left + (now - self._at) * RENEWALS_PER_SECOND)
        self._at = now
        if self._left < 1:
            self.waiting.add(sync)
            return False
        self._left -= 1
        return True


def read_keys(data: Mapping[str, str] | None, where: str) -> MarkKeys:
    """Read the keys from the data of the Secret. Raises `ConfigError` if there are none."""
    entries = {name: _decoded(value) for name, value in (data or {}).items()}
    current = entries.pop(_CURRENT, b"").decode(errors="replace")
    takeovers = _takeovers(entries.pop(_TAKEOVERS, b""))
    keys = [key for name, key in entries.items() if len(key) >= _SIZE and key_id(key) == name]
    if current not in {key_id(key) for key in keys}:
        raise ConfigError(f"the Secret {where} does not hold the key that it names: restore it, or delete it")
    return MarkKeys(keys, current, takeovers=takeovers)


def data_of(keys: Iterable[bytes], current: bytes, takeovers: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the data of the Secret."""
    data = {key_id(key): _encoded(key) for key in (*keys, current)}
    data[_CURRENT] = _encoded(key_id(current).encode())
    return {**data, **takeovers_data(takeovers)}


def takeovers_data(takeovers: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the part of the data that lists the syncs that may take over unsigned marks."""
    listed = {key: sorted(syncs) for key, syncs in sorted(takeovers.items()) if syncs}
    return {_TAKEOVERS: _encoded(msgspec.json.encode(listed))}


async def read_mark_keys(client: Client, namespace: str) -> MarkKeys:
    """Read the keys. Raises the errors of a read, and `ConfigError` for a Secret without keys."""
    found = await client.get(SECRETS, NAME, namespace, type=KeysWire)
    keys = read_keys(found.data, f"{namespace}/{NAME}")
    return keys.knowing_lost(await noted_keys(client, namespace))


async def ensure_mark_keys(
    client: Client, namespace: str, worked_on: Iterable[str], signers: frozenset[str] = frozenset()
) -> MarkKeys:
    """Read the keys, and create one if there is none. Another replica may be faster.

    `worked_on` are the UIDs of the syncs that a version without signatures may have reconciled: if there never were
    keys, these syncs may take over its marks. `signers` are the keys that have signed statuses: they show which keys
    are lost if the record of the keys is lost too.
    """
    noted = await noted_keys(client, namespace)
    try:
        keys = await read_mark_keys(client, namespace)
    except NotFound:
        unsigned = [] if noted else [sync_id(uid) for uid in worked_on]
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": NAME, "namespace": namespace},
            "data": data_of((), secrets.token_bytes(_SIZE), {UNSIGNED: unsigned}),
        }
        with suppress(AlreadyExists):
            await client.create(SECRETS, body, namespace)
        keys = await read_mark_keys(client, namespace)
        noted |= signers
        if unsigned:
            log.info("marks are signed from now on; those of an earlier version are taken over", syncs=len(unsigned))
    if lost := noted - keys.ids - keys.takeovers.keys():
        log.error(
            "keys of marks are lost: objects that are marked with them are neither changed nor removed; restore the "
            "Secret, or run `syncline keys heal`",
            secret=f"{namespace}/{NAME}",
            keys=sorted(lost),
        )
    if keys.ids - noted:
        await note_keys(client, namespace, noted | keys.ids)
    return keys.knowing_lost(noted)


async def write_takeovers(
    client: Client, namespace: str, change: Callable[[Mapping[str, frozenset[str]]], Mapping[str, Iterable[str]]]
) -> MarkKeys:
    """Change the list of the syncs that may take over unsigned marks. Return the new keys."""
    found = await client.get(SECRETS, NAME, namespace, type=KeysWire)
    takeovers = read_keys(found.data, f"{namespace}/{NAME}").takeovers
    return await _write(client, namespace, found, takeovers_data(change(takeovers)))


async def add_key(client: Client, namespace: str) -> MarkKeys:
    """Add a key that signs from now on. The other keys still verify."""
    found = await client.get(SECRETS, NAME, namespace, type=KeysWire)
    key = secrets.token_bytes(_SIZE)
    await note_keys(client, namespace, await noted_keys(client, namespace) | {key_id(key)})
    return await _write(
        client, namespace, found, {key_id(key): _encoded(key), _CURRENT: _encoded(key_id(key).encode())}
    )


async def drop_key(client: Client, namespace: str, key: str) -> MarkKeys:
    """Remove a key. Its signatures are no longer valid."""
    found = await client.get(SECRETS, NAME, namespace, type=KeysWire)
    takeovers = read_keys(found.data, f"{namespace}/{NAME}").takeovers
    left = {one: syncs for one, syncs in takeovers.items() if one != key}
    keys = await _write(client, namespace, found, {key: None, **takeovers_data(left)})
    await note_keys(client, namespace, await noted_keys(client, namespace) - {key})
    return keys


async def _write(client: Client, namespace: str, found: KeysWire, data: Mapping[str, str | None]) -> MarkKeys:
    # The version makes the server refuse the write if the keys have changed since the read.
    meta = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
    body = {"metadata": meta, "data": dict(data)}
    written = await client.patch(SECRETS, NAME, namespace, body, PatchKind.MERGE, type=KeysWire)
    return read_keys(written.data, f"{namespace}/{NAME}")


async def note_keys(client: Client, namespace: str, ids: Iterable[str]) -> None:
    """Record that these keys exist."""
    body = {"metadata": {"annotations": {NOTED: ",".join(sorted(ids))}}}
    await client.patch(SECRETS, DIGEST_KEY, namespace, body, PatchKind.MERGE)


async def noted_keys(client: Client, namespace: str) -> frozenset[str]:
    """Return the ids of the present and earlier keys."""
    found: dict[str, Any] = await client.get(SECRETS, DIGEST_KEY, namespace, metadata_only=True)
    text = (found["metadata"].get("annotations") or {}).get(NOTED, "")
    return frozenset(filter(None, text.split(",")))


def _takeovers(text: bytes) -> dict[str, frozenset[str]]:
    try:
        found = msgspec.json.decode(text or b"{}", type=dict[str, frozenset[str]])
    except msgspec.MsgspecError:
        return {}  # an invalid list allows nothing
    return {key: syncs for key, syncs in found.items() if syncs}


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()
