"""The nouns of the core: targets, content, desired objects and observed objects."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from syncline.core.digest import DigestKey, body_digest, combined_digest, value_digests
from syncline.core.group_kind import GroupKind
from syncline.core.health import Health

PLAIN = DigestKey()
HEALTHY = Health("Current")
MAX_STATUS = 256 * 1024
"""The maximum size of a cached status of a managed object: any user who can write it decides its size."""
STATUS_TOO_LARGE = b"too large"
"""Replaces a larger status; it is not JSON."""


class Target(NamedTuple):
    """One object to write: a kind (`Secret`, `Deployment.apps`) and name in a namespace, of this or a named cluster.

    The namespace is empty for kinds that have none.
    """

    namespace: str
    name: str
    kind: str = "ConfigMap"
    cluster: str = ""

    @property
    def group_kind(self) -> GroupKind:
        """The kind and its group."""
        return GroupKind.parse(self.kind)

    def local(self) -> "Target":
        """Return the target without its cluster."""
        return Target(self.namespace, self.name, self.kind) if self.cluster else self

    def fields(self) -> dict[str, str]:
        """Return the fields of a log line about it."""
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
    """The type of a Secret, which is immutable."""

    def value_digests(self, key: DigestKey = PLAIN) -> dict[str, str]:
        """Return the path of each value with the digest of the value."""
        return value_digests(self.data, self.binary_data, key)

    def digest(self, key: DigestKey = PLAIN) -> str:
        """Digest data and binaryData; `immutable` is a property of the object, not of its content."""
        return combined_digest(self.value_digests(key))

    def value_at(self, path: str) -> str:
        """Return the value at a path of `value_digests`."""
        part, _, name = path.partition("/")
        return (self.data if part == "data" else self.binary_data)[name]


class Body(Struct, frozen=True):
    """The body of an object of any other kind: its fields except metadata, and its apiVersion and kind."""

    api_version: str
    kind: str
    fields: Mapping[str, Any]

    def digest(self, key: DigestKey = PLAIN) -> str:
        """Digest the fields."""
        return body_digest(self.fields, key)


class Desired(Struct, frozen=True, kw_only=True):
    """The object that a sync wants at one target."""

    target: Target
    content: Content = Content()
    body: Body | None = None
    """The body of a kind that is not compared by content: then `content` is empty."""
    digest: str
    value_digests: Mapping[str, str] | None = None
    """The digest of each value, if the caller has them."""
    key: str = ""
    """The id of the key of the digests."""
    source: str
    revision: str
    source_version: str = ""
    """The version of the source (`source_history`): recorded with each write, and never a reason for one."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    """The finalizers in the source. The removal of one is not drift."""
    ignored: tuple[tuple[str, ...], ...] = ()
    """Paths of ignored fields (`ignored_fields`): they are sent at creation only, and count in no digest."""

    def digests_by_path(self) -> Mapping[str, str]:
        """Return the digest of each value, by its path."""
        return self.value_digests if self.value_digests is not None else self.content.value_digests()


class Marker(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={"object_id": "at", "hub_uid": "hub", "source_version": "seen"},
):
    """The annotation on every managed object: its owner, its own identity, and what was sent."""

    sync: str
    object_id: str
    hub_uid: str = ""
    source: str = ""
    revision: str = ""
    source_version: str = ""
    """The source at the last write, with its UID and version (`source_history`)."""
    digest: str = ""
    key: str = ""
    mode: str = "Created"
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()
    """The sent fields that the API server has not kept, by its answer to the write (`fields.unkept`)."""
    base: str = ""
    """The digest of the recorded base, if there is one, so that no one else can write a valid base."""
    resolved: str = ""
    """A digest of the annotation that resolves conflicts, if the source still has it and it has counted."""
    owner: str = ""
    """The owner label that belongs to it: an added label does not make an object of a previous sync ours."""
    made: int = 0
    """The creation time, in the marker of a create: by the clock of the server, in seconds since 1970."""
    uid: str = ""
    """A digest of the UID of the object, in the marker of a later write. The cache compares and drops both."""
    proof: str = ""
    """Always last. Written: the id of the key and the MAC (`marks`). Read: only the id of the key."""


class Observed(Struct, frozen=True, kw_only=True):
    """An observed object. `content` is set only after a live read; the cache drops bodies."""

    target: Target
    uid: str
    version: str
    digest: str
    """The digest. For a kind that is not compared by content, the marker has it; `fields` shows whether it holds."""
    owner: str = ""
    marker: Marker | None = None
    """The marker, if we wrote it (`marks`)."""
    claim: Marker | None = None
    """A marker that may be forged: unsigned, or signed with an unknown key. It makes nothing ours by itself."""
    replaced: bool = False
    """Whether the marker is from an earlier object of this name, and was put on this one by others."""
    immutable: bool = False
    type: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    base: Mapping[str, str] | None = None
    value_digests: Mapping[str, str] | None = None
    fields: bytes | None = None
    """Our fields by the API server (`fields.owned_fields`); for a ConfigMap or Secret, only after a live read."""
    lost_fields: tuple[str, ...] = ()
    """Our fields that another manager has changed, after the comparison of a plan."""
    applied: bool = False
    """Whether our fields are from a server-side apply, so that the next apply removes fields that it does not send."""
    prune_disabled: bool = False
    reconcile_disabled: bool = False
    deleting: bool = False
    has_labels: bool = True
    has_annotations: bool = True
    has_extras: bool = False
    """Whether a plan has ignored values that others added."""
    changed_by: str = ""
    scaled: int | None = None
    """The replicas that another manager has set through the `scale` subresource, as an autoscaler does."""
    health: Health = HEALTHY
    content: Content | None = None
    status: bytes | None = None
    """The status as JSON, if its sync needs it: empty without a status, `STATUS_TOO_LARGE` for a large one."""
    generation: int = 0
    """Set only if the status is cached."""
    trimmed: str = ""
    """The parts that are not cached: too large, or without a valid marker. A plan then reads the object live."""
