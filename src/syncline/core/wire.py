"""ConfigMaps as they come over the wire, and what we keep of them."""

import msgspec
from msgspec import Struct, field

from syncline.api.common import GROUP, ObjectMeta
from syncline.core.digest import brief, leaf_digests, leaves_digest
from syncline.core.objects import Content, Seen, Target
from syncline.core.ownership import BASE, DISABLED, OWNER_LABEL, PRUNE, RECONCILE, read_marker

MANAGER = "syncline"

_base_decoder = msgspec.json.Decoder(dict[str, str])


class ManagedFields(Struct, gc=False):
    """Who wrote, and when."""

    manager: str = ""
    time: str = ""


class CopyMeta(ObjectMeta, kw_only=True, rename="camel"):
    """Metadata with the managers of fields, to name who changed a copy."""

    managed_fields: list[ManagedFields] = field(default_factory=list)


class ConfigMapWire(Struct, kw_only=True, rename="camel"):
    """A ConfigMap, decoded no further than needed."""

    metadata: CopyMeta = field(default_factory=CopyMeta)
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None

    def content(self) -> Content:
        """Return what is copied."""
        return Content(data=self.data or {}, binary_data=self.binary_data or {}, immutable=bool(self.immutable))


def see(wire: ConfigMapWire, *, cluster: str = "", body: bool = False) -> Seen:
    """Reduce a ConfigMap to what a plan needs; the body is dropped unless asked for."""
    meta = wire.metadata
    leaves = leaf_digests(wire.data or {}, wire.binary_data or {})
    digest = leaves_digest(leaves)
    marker = read_marker(meta.annotations)
    base = _read_base(meta.annotations.get(BASE))
    return Seen(
        target=Target(meta.namespace, meta.name, "ConfigMap", cluster),
        uid=meta.uid,
        version=meta.resource_version,
        digest=digest,
        owner=meta.labels.get(OWNER_LABEL, ""),
        marker=marker,
        immutable=bool(wire.immutable),
        labels={key: value for key, value in meta.labels.items() if key != OWNER_LABEL},
        annotations={key: brief(value) for key, value in meta.annotations.items() if not key.startswith(f"{GROUP}/")},
        base=base,
        leaves=leaves if base is not None else None,
        prune_disabled=meta.annotations.get(PRUNE) == DISABLED,
        reconcile_disabled=meta.annotations.get(RECONCILE) == DISABLED,
        deleting=meta.deletion_timestamp is not None,
        has_labels=bool(meta.labels),
        has_annotations=bool(meta.annotations),
        changed_by=_last_manager(meta) if marker is not None and marker.digest != digest else "",
        content=wire.content() if body else None,
    )


def _read_base(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    try:
        return _base_decoder.decode(text)
    except msgspec.MsgspecError:
        return None


def _last_manager(meta: CopyMeta) -> str:
    """Name who wrote last, other than us; times are whole seconds of one server, so a tie is the later entry."""
    others = [entry for entry in meta.managed_fields if entry.manager != MANAGER]
    return max(reversed(others), key=lambda entry: entry.time).manager if others else ""
