"""Objects as they come over the wire, and what we keep of them."""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.core.digest import DigestKey, brief, combined_digest, value_digests
from syncline.core.fields import APPLY, MANAGER, owned_fields
from syncline.core.health import Health, health_of
from syncline.core.marks import NO_KEYS, MarkKeys
from syncline.core.objects import HEALTHY, PLAIN, Content, Marker, Observed, Target
from syncline.core.ownership import BASE, DISABLED, MARKER, OWNER_LABEL, PRUNE, RECONCILE, read_marks

_base_decoder = msgspec.json.Decoder(dict[str, str])


_MARKS = frozenset({MARKER, BASE})
# Most copies have no labels and annotations but ours.
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Kinds whose content is compared value by value and made exactly the source's.
DATA_KINDS = frozenset({"ConfigMap", "Secret"})
# Kinds that are not yet well while they have no status.
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
    """Who wrote what, and when."""

    manager: str = ""
    operation: str = ""
    time: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.Raw(b"")


class ManagedMeta(ObjectMeta, kw_only=True, rename="camel"):
    """Metadata with the managers of fields, to name who changed a copy."""

    managed_fields: list[ManagedFields] = field(default_factory=list)


class DataWire(Struct, kw_only=True, rename="camel"):
    """A ConfigMap or Secret, decoded no further than needed."""

    metadata: ManagedMeta = field(default_factory=ManagedMeta)
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None
    type: str = ""

    def content(self) -> Content:
        """Return what is copied."""
        return Content(
            data=self.data or {}, binary_data=self.binary_data or {}, immutable=bool(self.immutable), type=self.type
        )


class ObjectWire(Struct, kw_only=True, rename="camel"):
    """An object of any other kind: what it says about itself is enough."""

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
) -> Observed:
    """Reduce an object to what a plan needs; the body is dropped unless asked for.

    `unsigned`: whether a mark without a proof may count (see `ownership.read_marks`).
    """
    meta = wire.metadata
    marker, claim = read_marks(meta.annotations, marks, unsigned=unsigned)
    if not _names(marker or claim, kind, meta):
        marker = claim = None  # a clone: what it says is about another object
    base = _read_base(meta.annotations.get(BASE))
    leaves: dict[str, str] | None = None
    if isinstance(wire, DataWire):
        leaves = value_digests(wire.data or {}, wire.binary_data or {}, key)
        digest = combined_digest(leaves)
        edited = marker is not None and marker.digest != digest
    else:
        digest, edited = marker.digest if marker is not None else "", True
    return Observed(
        target=Target(meta.namespace, meta.name, kind, cluster),
        uid=meta.uid,
        version=meta.resource_version,
        digest=intern(digest),
        owner=intern(meta.labels.get(OWNER_LABEL, "")),
        marker=marker,
        claim=claim,
        immutable=isinstance(wire, DataWire) and bool(wire.immutable),
        type=intern(wire.type) if isinstance(wire, DataWire) else "",
        labels={key: value for key, value in meta.labels.items() if key != OWNER_LABEL} or _NOTHING,
        annotations={key: brief(value) for key, value in meta.annotations.items() if key not in _MARKS} or _NOTHING,
        base=base,
        value_digests=leaves if base is not None or body else None,
        fields=None
        if isinstance(wire, DataWire)
        else _shared(owned_fields(meta.managed_fields, group=kind.partition(".")[2])),
        applied=_is_applied(meta),
        prune_disabled=meta.annotations.get(PRUNE) == DISABLED,
        reconcile_disabled=meta.annotations.get(RECONCILE) == DISABLED,
        deleting=meta.deletion_timestamp is not None,
        has_labels=bool(meta.labels),
        has_annotations=bool(meta.annotations),
        changed_by=_last_manager(meta, marker) if edited else "",
        health=HEALTHY if isinstance(wire, DataWire) else _health(wire, kind),
        content=wire.content() if body and isinstance(wire, DataWire) else None,
    )


def _names(marker: Marker | None, kind: str, meta: ManagedMeta) -> bool:
    """Whether a marker names this object, whatever the cluster."""
    return marker is not None and marker.object_id.partition("/")[2] == f"{kind}/{meta.namespace}/{meta.name}"


def _health(wire: ObjectWire, kind: str) -> Health:
    """Tell how an object is; most say nothing about it, and need not be read any further."""
    meta = wire.metadata
    if not bytes(wire.status).strip(b" \n") and kind not in WAITED_FOR and meta.deletion_timestamp is None:
        return HEALTHY
    name, _, group = kind.partition(".")
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


@lru_cache(maxsize=1024)
def _shared(fields: bytes) -> bytes:
    """Return one object for equal bytes: all copies of a source have the same fields."""
    return fields


def _read_base(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    try:
        return _base_decoder.decode(text)
    except msgspec.MsgspecError:
        return None


def _last_manager(meta: ManagedMeta, marker: Marker | None) -> str:
    """Name who wrote last, other than us; times are whole seconds of one server, so a tie is the later entry."""
    if marker is None:
        return ""
    others = [entry for entry in meta.managed_fields if entry.manager != MANAGER and not entry.subresource]
    return max(reversed(others), key=lambda entry: entry.time).manager if others else ""
