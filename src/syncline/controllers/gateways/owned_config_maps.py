"""The ConfigMaps of IgnitionSyncs: changed and deleted only with a proof that Syncline created them.

The proof is a MAC over the namespace and name of the ConfigMap and the UID of its sync, in an annotation. A ConfigMap
of somebody else, or a clone, has no valid proof, and is never touched.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct, field

from syncline.api.common import API_VERSION, ObjectMeta
from syncline.api.ignition_annotations import CR_NAME, PREFIX
from syncline.api.ignitionsync import KIND
from syncline.core.marks import MarkKeys
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from syncline.kube.resources import CONFIGMAPS

OBJECT_LABEL = f"{PREFIX}/object"
"""The purpose of a ConfigMap: metadata, status or changes."""
OWNER = f"{PREFIX}/owner"
"""The UID of the sync that a ConfigMap belongs to."""
PROOF = f"{PREFIX}/proof"
"""The proof that Syncline created it."""
TRIES = 5
_MAX_NAME = 253
_MAX_LABEL = 63
_DIGEST = 16


class NotOurs(KubeError):  # noqa: N818 - a state, not a fault
    """A ConfigMap of this name exists, and Syncline did not create it."""


class DataMapWire(Struct, rename="camel"):
    """A ConfigMap as it is read."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class OwnedConfigMap(Struct, frozen=True, kw_only=True):
    """The desired ConfigMap of a sync."""

    namespace: str
    name: str
    sync: str
    sync_uid: str
    purpose: str
    """The value of the label."""
    data: Mapping[str, str]
    owner: Mapping[str, Any] | None = None
    """The owner reference; None: to the sync."""


def config_map_name(prefix: str, name: str) -> str:
    """Return the name of a ConfigMap; a name that is too long ends with a digest of itself."""
    whole = prefix + name
    if len(whole) <= _MAX_NAME:
        return whole
    return f"{whole[: _MAX_NAME - _DIGEST - 1].rstrip('-.')}-{sha256(whole.encode()).hexdigest()[:_DIGEST]}"


def owner_of(meta: ObjectMeta, keys: MarkKeys) -> str:
    """Return the UID of the sync that a ConfigMap belongs to; empty if Syncline did not create it."""
    uid, proof = meta.annotations.get(OWNER, ""), meta.annotations.get(PROOF, "")
    return uid if uid and proof and keys.proves(_text(meta.namespace, meta.name, uid), proof) else ""


async def write(client: Client, keys: MarkKeys, wanted: OwnedConfigMap, known: ObjectMeta | None = None) -> ObjectMeta:
    """Create or change a ConfigMap, and return its metadata. Raises `NotOurs` and the errors of any request.

    An unchanged ConfigMap is not written. `known`: its metadata, if known; then it is not read first.
    """
    live = DataMapWire(metadata=known) if known is not None else None
    for _ in range(TRIES):
        try:
            if live is None:
                made = await client.create(CONFIGMAPS, _manifest(wanted, keys), wanted.namespace, type=DataMapWire)
                return made.metadata
            return (await _change(client, keys, wanted, live)).metadata
        except (AlreadyExists, Conflict):
            live = await _read(client, wanted)
        except NotFound:
            if live is None:
                raise
            live = None
        except Invalid:
            # It is ours, but immutable or recreated by somebody: replace it.
            before, live = live, await _read(client, wanted)
            if before is None or live is None:
                raise
            if live.metadata.resource_version == before.metadata.resource_version:
                await client.delete(CONFIGMAPS, wanted.name, wanted.namespace, uid=live.metadata.uid)
                live = None
    raise KubeError(f"ConfigMap {wanted.namespace}/{wanted.name} changes too often: trying again")


async def delete(client: Client, keys: MarkKeys, namespace: str, name: str, sync_uid: str) -> None:
    """Delete a ConfigMap of a sync, if it exists and is ours."""
    try:
        wire = await client.get(CONFIGMAPS, name, namespace, type=DataMapWire)
        if owner_of(wire.metadata, keys) == sync_uid:
            meta = wire.metadata
            await client.delete(CONFIGMAPS, name, namespace, uid=meta.uid, version=meta.resource_version)
    except NotFound:
        return


async def _read(client: Client, wanted: OwnedConfigMap) -> DataMapWire | None:
    try:
        return await client.get(CONFIGMAPS, wanted.name, wanted.namespace, type=DataMapWire)
    except NotFound:
        return None


async def _change(client: Client, keys: MarkKeys, wanted: OwnedConfigMap, live: DataMapWire) -> DataMapWire:
    known = live.metadata
    owner = owner_of(known, keys)
    if not owner:
        raise NotOurs(
            f"ConfigMap {wanted.namespace}/{wanted.name} exists, and Syncline did not create it: delete or rename it"
        )
    manifest = _manifest(wanted, keys)
    labels = manifest["metadata"]["labels"]
    if owner == wanted.sync_uid and live.data == wanted.data and labels.items() <= known.labels.items():
        return live
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": known.uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": known.resource_version},
        *(
            {"op": "add", "path": f"/metadata/{name}", "value": manifest["metadata"][name]}
            for name in ("labels", "annotations", "ownerReferences")
        ),
        {"op": "add", "path": "/data", "value": manifest["data"]},
    ]
    return await client.patch(CONFIGMAPS, wanted.name, wanted.namespace, patch, PatchKind.JSON, type=DataMapWire)


def _manifest(wanted: OwnedConfigMap, keys: MarkKeys) -> dict[str, Any]:
    name = {CR_NAME: wanted.sync} if len(wanted.sync) <= _MAX_LABEL else {}
    proof = keys.mac(_text(wanted.namespace, wanted.name, wanted.sync_uid)) or ""
    to_sync = {"apiVersion": API_VERSION, "kind": KIND, "name": wanted.sync, "uid": wanted.sync_uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": wanted.name,
            "labels": {**name, OBJECT_LABEL: wanted.purpose},
            "annotations": {CR_NAME: wanted.sync, OWNER: wanted.sync_uid, PROOF: proof},
            "ownerReferences": [dict(wanted.owner or to_sync)],
        },
        "data": dict(wanted.data),
    }


def _text(namespace: str, name: str, sync_uid: str) -> bytes:
    return msgspec.json.encode(["ConfigMap", namespace, name, sync_uid])
