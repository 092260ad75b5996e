"""The values of a pair: of an upstream object as it is sent down, and of its copy in the same form.

Both are leaves by their paths (`object_paths`). Status, allocated fields, the marks of Syncline and the labels and
annotations of deployment tools are no values: they belong to one side.
"""

from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest
from typing import Any

from msgspec import Struct

from syncline.core.digest import DigestKey, leaf_digest
from syncline.core.ignored_fields import Path, remove_paths
from syncline.core.leaf_edits import apply_leaves
from syncline.core.object_paths import PathsTooLongError, leaf_digests, leaves, split_path
from syncline.core.object_shapes import Shape
from syncline.core.objects import Desired
from syncline.core.request_bodies import Json
from syncline.core.sanitize import copied_metadata
from syncline.core.strip import NotCopyable, strip_cluster_fields
from syncline.core.twoway import items_of

# A Secret cannot change its type.
_FIXED = {"Secret": ("type",)}
_METADATA = ("labels", "annotations")


class PairSide(Struct, frozen=True):
    """One side of a pair."""

    values: Mapping[str, Any]
    digests: Mapping[str, str]
    """Of the values that count."""
    defaults: Mapping[str, str] = {}
    """Of the defaults of the server, if there is no base that has them."""

    @property
    def stored(self) -> Mapping[str, str]:
        """The digests of all values."""
        return {**self.digests, **self.defaults} if self.defaults else self.digests


class ValueReader(Struct, frozen=True):
    """Reads the sides of pairs of one kind."""

    shape: Shape
    key: DigestKey
    ignored: tuple[Path, ...] = ()
    """Paths of fields that are left to others (`ignored_fields`), and flow nowhere."""

    @property
    def empty_map(self) -> str:
        """The digest of an empty map."""
        return leaf_digest({}, self.key)

    def upstream(self, desired: Desired) -> PairSide:
        """Return the upstream side, as it is sent down. Raises `NotCopyable` for one with paths that are too long."""
        return self._read(desired_manifest(desired))

    def downstream(self, manifest: Mapping[str, Any], known: Collection[str]) -> PairSide:
        """Return the side of the copy; `known` are the paths that the upstream or the base has."""
        return self._read(_flowing(manifest, known))

    def _read(self, manifest: Mapping[str, Any]) -> PairSide:
        fixed = _FIXED.get(str(manifest.get("kind", "")), ())
        flowing: Json = {name: value for name, value in manifest.items() if name not in fixed}
        if self.ignored:
            flowing = remove_paths(flowing, self.ignored)
        return PairSide(_leaves(flowing, self.shape), leaf_digests(flowing, self.shape, self.key))

    def changed(
        self, manifest: Mapping[str, Any], put: Mapping[str, Any], unset: Iterable[str], order: Mapping[str, Any]
    ) -> Json:
        """Return an object with some values set and others removed; an item without any value left goes whole."""
        gone = tuple(unset)
        return apply_leaves(manifest, put, (*_emptied(manifest, put, gone, self), *gone), self.shape, order=order)


def without_defaults(up: PairSide, down: PairSide, answered: Mapping[str, str]) -> PairSide:
    """Return a copy without the values that its server added (`answered`)."""
    defaults = {
        path: digest
        for path, digest in down.digests.items()
        if answered.get(path) == digest and up.digests.get(path) != digest
    }
    sent = {path: up.digests[path] for path in defaults if path in up.digests}
    counted = {path: digest for path, digest in down.digests.items() if path not in defaults}
    return PairSide(down.values, counted | sent, defaults) if defaults else down


def desired_manifest(desired: Desired) -> Json:
    """Return a desired object as a manifest."""
    metadata = {"labels": dict(desired.labels), "annotations": dict(desired.annotations)}
    if desired.body is not None:
        body = desired.body
        return {**body.fields, "apiVersion": body.api_version, "kind": body.kind, "metadata": metadata}
    content = desired.content
    manifest: Json = {"apiVersion": "v1", "kind": desired.target.kind, "metadata": metadata}
    parts = (("data", dict(content.data)), ("binaryData", dict(content.binary_data)), ("immutable", content.immutable))
    return {**manifest, **{name: value for name, value in parts if value}}


def shown(path: str) -> str:
    """Write a path for a person: `spec.template.spec.containers[name=app].image`."""
    text = ""
    for segment, raw in zip(split_path(path), path.split("/"), strict=True):
        if not isinstance(segment, str):
            text += raw.replace("~1", "/").replace("~0", "~")
        elif segment.replace("_", "").replace("-", "").isalnum():
            text += f".{segment}"
        else:
            text += f"[{segment}]"
    return text.removeprefix(".")


def shown_paths(paths: Collection[str], limit: int = 10) -> str:
    """Write paths for a person."""
    names = [shown(path) for path in nsmallest(limit, paths)]
    return ", ".join(names) + (f" and {len(paths) - limit} more" if len(paths) > limit else "")


def _flowing(manifest: Mapping[str, Any], known: Collection[str]) -> Json:
    """Return the values of a copy that can flow."""
    metadata = manifest.get("metadata") or {}
    kept: Json = {}
    for part in _METADATA:
        entries = metadata.get(part) or {}
        sent = {name: value for name, value in entries.items() if _path(part, name) in known}
        kept[part] = copied_metadata(entries) | sent
    return {**strip_cluster_fields(manifest), "metadata": kept}


def _path(part: str, name: str) -> str:
    escaped = name.replace("~", "~0").replace("/", "~1")
    return f"metadata/{part}/{escaped}"


def _emptied(
    manifest: Mapping[str, Any], put: Mapping[str, Any], unset: Collection[str], reader: ValueReader
) -> list[str]:
    """Return the items of lists with keys that lose all their values.

    What is no value, such as an allocated port of the node, must not keep an item alive.
    """
    if not any("/[" in path for path in unset):
        return []
    gone = set(unset)
    there = _leaves(_flowing(manifest, gone), reader.shape).keys()
    left = items_of((there - gone) | put.keys())
    return sorted(items_of(unset) - left)


def _leaves(manifest: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    try:
        return leaves(manifest, shape)
    except PathsTooLongError as error:
        raise NotCopyable(f"{manifest.get('kind') or 'the object'}: {error}") from None
