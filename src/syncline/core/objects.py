"""The nouns of the core: places, content, what is wanted and what was seen."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from syncline.core.digest import leaf_digests, leaves_digest


class Target(NamedTuple):
    """One place to write: a kind and name in a namespace, of this cluster or of a named one."""

    namespace: str
    name: str
    kind: str = "ConfigMap"
    cluster: str = ""

    def __str__(self) -> str:
        return f"{self.cluster}:{self.namespace}/{self.name}" if self.cluster else f"{self.namespace}/{self.name}"


class Content(Struct, frozen=True):
    """The part of a ConfigMap that is copied exactly."""

    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}
    immutable: bool = False

    def leaves(self) -> dict[str, str]:
        """Return the path of each value with the digest of the value."""
        return leaf_digests(self.data, self.binary_data)

    def digest(self) -> str:
        """Digest data and binaryData; `immutable` is a property of the object, not of what it says."""
        return leaves_digest(self.leaves())

    def at(self, path: str) -> str:
        """Return the value at a path of `leaves`."""
        part, _, name = path.partition("/")
        return (self.data if part == "data" else self.binary_data)[name]


class Desired(Struct, frozen=True, kw_only=True):
    """What a sync wants at one target."""

    target: Target
    content: Content
    digest: str
    source: str
    revision: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Marker(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the annotation on every copy says: whose it is, that it is this very object, and what was sent."""

    sync: str
    at: str
    source: str = ""
    revision: str = ""
    digest: str = ""
    mode: str = "Created"
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


class Seen(Struct, frozen=True, kw_only=True):
    """An object as observed at a target. `content` is there only when it was read live; the cache drops bodies."""

    target: Target
    uid: str
    version: str
    digest: str
    owner: str = ""
    marker: Marker | None = None
    immutable: bool = False
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    base: Mapping[str, str] | None = None
    leaves: Mapping[str, str] | None = None
    prune_disabled: bool = False
    reconcile_disabled: bool = False
    deleting: bool = False
    has_labels: bool = True
    has_annotations: bool = True
    changed_by: str = ""
    content: Content | None = None
