"""Objects as the API server sends them, and how they are reduced to observed objects."""

from collections.abc import Container, Mapping
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from syncline.api.common import ObjectMeta
from syncline.core.digest import DigestKey, brief, combined_digest, short_digest, value_digests
from syncline.core.fields import APPLY, MANAGER, owned_fields
from syncline.core.group_kind import GroupKind
from syncline.core.health import Health, health_of
from syncline.core.marks import NO_KEYS, MarkKeys
from syncline.core.objects import (
    HEALTHY,
    MAX_STATUS,
    PLAIN,
    STATUS_TOO_LARGE,
    Content,
    Marker,
    Observed,
    Target,
)
from syncline.core.ownership import (
    BASE,
    DISABLED,
    MARKER,
    OWNER_LABEL,
    PRUNE,
    RECONCILE,
    Marks,
    forget_object,
    is_replaced,
    read_marks,
)

_base_decoder = msgspec.json.Decoder(dict[str, str])


_MARKS = frozenset({MARKER, BASE})
# Most managed objects have only our labels and annotations.
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Kinds whose content is compared value by value and made equal to the source.
DATA_KINDS = frozenset({"ConfigMap", "Secret"})
_SHARED_AT_MOST = 16 * 1024
_CLAIM_TEXT = 1024
# Limits of the cached state of an object: users who can edit it decide how many labels, annotations and keys it has.
CACHED_ENTRIES = 64
CACHED_TEXT = 8 * 1024
CACHED_VALUES = 4096
CACHED_BASE = 80 * 1024
UNPROVEN = "unproven"
"""Replaces the state of an object with our label and without a valid marker, which is not cached."""
# Kinds that are not healthy without a status.
WAITED_FOR = frozenset(
    {
        "Deployment.apps",
        "StatefulSet.apps",
        "DaemonSet.apps",
        "ReplicaSet.apps",
        "Job.batch",
        "Pod",
        "PersistentVolumeClaim",
        "Service",
        "CustomResourceDefinition.apiextensions.k8s.io",
        "APIService.apiregistration.k8s.io",
    }
)


class ManagedFields(Struct, rename={"fields": "fieldsV1"}):
    """An entry of `managedFields`: the manager, the fields, and the time."""

    manager: str = ""
    operation: str = ""
    time: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.Raw(b"")


class ManagedMeta(ObjectMeta, kw_only=True, rename="camel"):
    """Metadata with the managers of fields, to name who changed an object."""

    managed_fields: list[ManagedFields] = field(default_factory=list)


class DataWire(Struct, kw_only=True, rename="camel"):
    """A ConfigMap or Secret, decoded no further than needed."""

    metadata: ManagedMeta = field(default_factory=ManagedMeta)
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None
    type: str = ""

    def content(self) -> Content:
        """Return the content that is copied."""
        return Content(
            data=self.data or {}, binary_data=self.binary_data or {}, immutable=bool(self.immutable), type=self.type
        )


class ObjectWire(Struct, kw_only=True, rename="camel"):
    """An object of any other kind: its metadata and status are enough."""

    metadata: ManagedMeta = field(default_factory=ManagedMeta)
    api_version: str = ""
    kind: str = ""
    spec: msgspec.Raw = msgspec.Raw(b"")
    status: msgspec.Raw = msgspec.Raw(b"")


def to_observed(
    wire: DataWire | ObjectWire,
    *,
    kind: str = "ConfigMap",
    cluster: str = "",
    body: bool = False,
    key: DigestKey = PLAIN,
    marks: MarkKeys = NO_KEYS,
    unsigned: bool = False,
    status_for: Container[str] = (),
) -> Observed:
    """Reduce an object to the state that a plan needs; the body is dropped unless it is requested.

    `unsigned`: whether an unsigned mark may count (see `ownership.read_marks`). `status_for`: the owners, as markers
    name them, whose objects keep their status.
    """
    meta = wire.metadata
    (marker, claim), replaced = _marks(meta, kind, marks, unsigned=unsigned)
    counts = marker is not None or (claim is not None and claim.proof in marks.takeovers)
    if not body and not counts:
        return _unproven(meta, kind, cluster, claim)
    base = _read_base(meta.annotations.get(BASE))
    digests, digest, edited = _digests(wire, marker, key)
    keeps_status = marker is not None and marker.sync in status_for and isinstance(wire, ObjectWire)
    observed = Observed(
        target=Target(meta.namespace, meta.name, kind, cluster),
        uid=meta.uid,
        version=meta.resource_version,
        digest=intern(digest),
        owner=intern(meta.labels.get(OWNER_LABEL, "")),
        marker=marker,
        claim=claim,
        replaced=replaced,
        immutable=isinstance(wire, DataWire) and bool(wire.immutable),
        type=intern(wire.type) if isinstance(wire, DataWire) else "",
        labels={key: value for key, value in meta.labels.items() if key != OWNER_LABEL} or _NOTHING,
        annotations={key: brief(value) for key, value in meta.annotations.items() if key not in _MARKS} or _NOTHING,
        base=base,
        value_digests=digests if base is not None or body else None,
        fields=None
        if isinstance(wire, DataWire) and not body
        else _fields(owned_fields(meta.managed_fields, group=GroupKind.parse(kind).group)),
        applied=_is_applied(meta),
        prune_disabled=meta.annotations.get(PRUNE) == DISABLED,
        reconcile_disabled=meta.annotations.get(RECONCILE) == DISABLED,
        deleting=meta.deletion_timestamp is not None,
        has_labels=bool(meta.labels),
        has_annotations=bool(meta.annotations),
        changed_by=_last_manager(meta, marker) if edited else "",
        scaled=None if isinstance(wire, DataWire) else _scaled(wire),
        health=HEALTHY if isinstance(wire, DataWire) else _health(wire, kind),
        content=wire.content() if body and isinstance(wire, DataWire) else None,
        status=_status(wire) if keeps_status else None,
        generation=meta.generation if keeps_status else 0,
    )
    return observed if body else _trimmed(observed)


def _marks(meta: ManagedMeta, kind: str, keys: MarkKeys, *, unsigned: bool) -> tuple[Marks, bool]:
    """Return the marker of an object, and whether it was written on an earlier object of this name."""
    marks = read_marks(meta.annotations, keys, unsigned=unsigned)
    found = marks.marker or marks.claim
    if found is None or not _names(found, kind, meta):
        return Marks(), False  # a clone: its marker is of another object
    replaced = marks.marker is not None and is_replaced(found, meta.uid, meta.creation_timestamp)
    forget_object(found)
    return marks, replaced


def _digests(
    wire: DataWire | ObjectWire, marker: Marker | None, key: DigestKey
) -> tuple[dict[str, str] | None, str, bool]:
    """Return the digests of the values, if known, the digest of the object, and whether it may have been edited."""
    if not isinstance(wire, DataWire):
        return None, marker.digest if marker is not None else "", True
    digests = value_digests(wire.data or {}, wire.binary_data or {}, key)
    digest = combined_digest(digests)
    return digests, digest, marker is not None and marker.digest != digest


def _unproven(meta: ManagedMeta, kind: str, cluster: str, claim: Marker | None) -> Observed:
    """Return the cached state of an object with our label only: any user can add the label to any object."""
    if claim is not None and any(len(text) > _CLAIM_TEXT for text in _texts_of(claim)):
        claim = None  # longer than any name: no version of Syncline has written it
    if claim is not None and (claim.labels or claim.annotations or claim.unkept):
        claim = structs.replace(claim, labels=(), annotations=(), unkept=())
    return Observed(
        target=Target(meta.namespace, meta.name, kind, cluster),
        uid=meta.uid,
        version=meta.resource_version,
        digest="",
        owner=intern(meta.labels.get(OWNER_LABEL, "")),
        claim=claim,
        prune_disabled=meta.annotations.get(PRUNE) == DISABLED,
        reconcile_disabled=meta.annotations.get(RECONCILE) == DISABLED,
        deleting=meta.deletion_timestamp is not None,
        trimmed=UNPROVEN,
    )


def _texts_of(claim: Marker) -> tuple[str, ...]:
    names = (claim.sync, claim.object_id, claim.hub_uid, claim.source)
    return (*names, claim.revision, claim.digest, claim.key, claim.mode, claim.base, claim.owner, claim.proof)


def _trimmed(observed: Observed) -> Observed:
    """Return an object without its labels, annotations and digests of values, if there are too many to cache.

    A digest replaces them, so that a change is noticed.
    """
    marker = observed.marker or observed.claim
    sent = (marker.labels, marker.annotations) if marker is not None else ()
    values = observed.value_digests
    is_small = (
        all(map(_is_small, (observed.labels, observed.annotations)))
        and all(len(names) <= CACHED_ENTRIES for names in sent)
        and (values is None or len(values) <= CACHED_VALUES)
    )
    if is_small:
        return observed
    what = (dict(observed.labels), dict(observed.annotations), *sent)
    return structs.replace(
        observed,
        marker=_brief_marker(observed.marker),
        claim=_brief_marker(observed.claim),
        labels=_NOTHING,
        annotations=_NOTHING,
        value_digests=None,
        trimmed=short_digest(msgspec.json.encode(what).decode()),
    )


def _is_small(texts: Mapping[str, str]) -> bool:
    return len(texts) <= CACHED_ENTRIES and sum(len(key) + len(value) for key, value in texts.items()) <= CACHED_TEXT


def _brief_marker(marker: Marker | None) -> Marker | None:
    return structs.replace(marker, labels=(), annotations=()) if marker is not None else None


def _status(wire: DataWire | ObjectWire) -> bytes:
    status = bytes(wire.status) if isinstance(wire, ObjectWire) else b""
    return status if len(status) <= MAX_STATUS else STATUS_TOO_LARGE


def _names(marker: Marker | None, kind: str, meta: ManagedMeta) -> bool:
    """Whether a marker names this object, whatever the cluster."""
    return marker is not None and marker.object_id.partition("/")[2] == f"{kind}/{meta.namespace}/{meta.name}"


def _scaled(wire: ObjectWire) -> int | None:
    """Return the replicas that another manager has set through the `scale` subresource, or None."""
    entries = (entry for entry in wire.metadata.managed_fields if entry.subresource == "scale")
    if not any(entry.manager != MANAGER and b'"f:replicas"' in bytes(entry.fields) for entry in entries):
        return None
    replicas = _any(wire.spec).get("replicas")
    return replicas if isinstance(replicas, int) else None


def _health(wire: ObjectWire, kind: str) -> Health:
    """Return the health of an object. Most kinds have none, and their status is not decoded."""
    meta = wire.metadata
    if not bytes(wire.status).strip(b" \n") and kind not in WAITED_FOR and meta.deletion_timestamp is None:
        return HEALTHY
    group, name = GroupKind.parse(kind)
    found = health_of(
        {
            "apiVersion": f"{group}/" if group else "v1",
            "kind": name,
            "metadata": {
                "generation": meta.generation or None,
                "deletionTimestamp": meta.deletion_timestamp,
                "finalizers": meta.finalizers,
            },
            "spec": _any(wire.spec),
            "status": _any(wire.status),
        }
    )
    return _same(found)


@lru_cache(maxsize=256)
def _same(health: Health) -> Health:
    """Return one object for equal ones."""
    return health


def _any(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if bytes(raw) else {}


def _is_applied(meta: ManagedMeta) -> bool:
    ours = {entry.operation for entry in meta.managed_fields if entry.manager == MANAGER and not entry.subresource}
    return ours <= {APPLY}


def _fields(fields: bytes) -> bytes:
    """Share one object between equal small bytes; large ones are not shared, because a server can send any."""
    return _shared(fields) if len(fields) <= _SHARED_AT_MOST else fields


@lru_cache(maxsize=1024)
def _shared(fields: bytes) -> bytes:
    """Return one object for equal bytes: all objects of a source have the same fields."""
    return fields


def _read_base(text: str | None) -> dict[str, str] | None:
    if text is None or len(text) > CACHED_BASE:  # our own are never this long
        return None
    try:
        return _base_decoder.decode(text)
    except msgspec.MsgspecError:
        return None


def _last_manager(meta: ManagedMeta, marker: Marker | None) -> str:
    """Return the last writer other than us. Times are whole seconds of one server; a tie is the later entry."""
    if marker is None:
        return ""
    others = [entry for entry in meta.managed_fields if entry.manager != MANAGER and not entry.subresource]
    return max(reversed(others), key=lambda entry: entry.time).manager if others else ""
