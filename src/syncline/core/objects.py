"""The nouns of the core: places, content, what is wanted and what was seen."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from syncline.core.digest import DigestKey, body_digest, combined_digest, value_digests
from syncline.core.health import Health

PLAIN = DigestKey()
HEALTHY = Health("Current")


class Target(NamedTuple):
    """One place to write: a kind (`Secret`, `Deployment.apps`) and name in a namespace, of this or a named cluster.

    The namespace is empty for kinds that have none.
    """

    namespace: str
    name: str
    kind: str = "ConfigMap"
    cluster: str = ""

    def local(self) -> "Target":
        """Return the place as it is called within its cluster."""
        return self._replace(cluster="") if self.cluster else self

    def fields(self) -> dict[str, str]:
        """Return what a log line says of it."""
        return {"target": str(self.local())} | ({"cluster": self.cluster} if self.cluster else {})

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        place = place if self.kind == "ConfigMap" else f"{self.kind} {place}"
        return f"{self.cluster}: {place}" if self.cluster else place


class Content(Struct, frozen=True):
    """The part of a ConfigMap or Secret that is copied exactly. Values of a Secret are base64, as on the wire."""

    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}
    immutable: bool = False
    type: str = ""
    """Of a Secret; it cannot be changed."""

    def value_digests(self, key: DigestKey = PLAIN) -> dict[str, str]:
        """Return the path of each value with the digest of the value."""
        return value_digests(self.data, self.binary_data, key)

    def digest(self, key: DigestKey = PLAIN) -> str:
        """Digest data and binaryData; `immutable` is a property of the object, not of what it says."""
        return combined_digest(self.value_digests(key))

    def value_at(self, path: str) -> str:
        """Return the value at a path of `leaves`."""
        part, _, name = path.partition("/")
        return (self.data if part == "data" else self.binary_data)[name]


class Body(Struct, frozen=True):
    """What is sent of an object of any other kind: its fields beside metadata, and how the API server calls it."""

    api_version: str
    kind: str
    fields: Mapping[str, Any]

    def digest(self, key: DigestKey = PLAIN) -> str:
        """Digest the fields."""
        return body_digest(self.fields, key)


class Desired(Struct, frozen=True, kw_only=True):
    """What a sync wants at one target."""

    target: Target
    content: Content = Content()
    body: Body | None = None
    """Of a kind that is not compared by content: then `content` is empty."""
    digest: str
    value_digests: Mapping[str, str] | None = None
    """The digests of the single values, where the caller has them."""
    key: str = ""
    """Names the key that the digests were made with."""
    source: str
    revision: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    """Those that the source asks for; whether somebody takes one away again is nobody's drift."""
    ignored: tuple[tuple[str, ...], ...] = ()
    """Paths (see `ignoring`) to what is left to others: it is sent at creation only, and counts in no digest."""

    def digests_by_path(self) -> Mapping[str, str]:
        """Return the digests of the single values."""
        return self.value_digests if self.value_digests is not None else self.content.value_digests()


class Marker(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={"object_id": "at", "hub_uid": "hub"},
):
    """What the annotation on every copy says: whose it is, that it is this very object, and what was sent."""

    sync: str
    object_id: str
    hub_uid: str = ""
    source: str = ""
    revision: str = ""
    digest: str = ""
    key: str = ""
    mode: str = "Created"
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()
    """Empty values of what was sent that the API server did not keep, by the answer to the write (`fields.unkept`)."""
    owner: str = ""
    """The label that goes with it: a label that somebody has put on does not make an object of a former sync ours."""
    proof: str = ""
    """Always last. As written, the id of the key and the MAC (`marks`); as read, only the id of the key."""


class Observed(Struct, frozen=True, kw_only=True):
    """An object as observed at a target. `content` is there only when it was read live; the cache drops bodies."""

    target: Target
    uid: str
    version: str
    digest: str
    """Of a kind that is not compared by content: what its marker says; `fields` tells whether that still holds."""
    owner: str = ""
    marker: Marker | None = None
    """Only one that we wrote (`marks`)."""
    claim: Marker | None = None
    """A marker of which that is not known: unsigned, or of an unknown key. It makes nothing ours by itself."""
    immutable: bool = False
    type: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    base: Mapping[str, str] | None = None
    value_digests: Mapping[str, str] | None = None
    fields: bytes | None = None
    """Which fields the API server counts as ours (`fields.owned_fields`), of a kind that is not compared by content."""
    lost_fields: tuple[str, ...] = ()
    """Fields of ours that somebody has changed, where a plan has looked for them."""
    applied: bool = False
    """Whether our fields are those of a server-side apply, so that the next one removes what it no longer sends."""
    prune_disabled: bool = False
    reconcile_disabled: bool = False
    deleting: bool = False
    has_labels: bool = True
    has_annotations: bool = True
    changed_by: str = ""
    health: Health = HEALTHY
    content: Content | None = None
