"""Desired objects: made from manifests, and packed as the artifact of a build. Pure."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from syncline.api.configsync import Ignored
from syncline.core.content import ContentError, exact_content
from syncline.core.digest import DigestKey, combined_digest
from syncline.core.ignored_fields import Path, compared_values, ignored, remove_paths
from syncline.core.objects import Body, Content, Desired
from syncline.core.ownership import BASE, MARKER, OWNER_LABEL
from syncline.core.placing import Placed
from syncline.core.wire import DATA_KINDS

_NOT_SENT = frozenset({"apiVersion", "kind", "metadata", "status"})
# kubectl's copy of the whole object would reveal Secrets, and is not used here.
_UNWANTED = frozenset({MARKER, BASE, OWNER_LABEL, "kubectl.kubernetes.io/last-applied-configuration"})


GroupVersionKind = tuple[str, str, str]


class BuildArtifact(Struct, frozen=True, kw_only=True):
    """The packed result of the last build, and its inputs."""

    recipe: str
    """The digest of the inputs that are not files."""
    paths: Mapping[str, str]
    """The paths that the build depends on, with the digests of their content."""
    inputs: str
    """The digest of all inputs."""
    compressed: bytes
    notes: tuple[str, ...] = ()
    unserved_kinds: tuple[GroupVersionKind, ...] = ()
    """Kinds that were not served, and so are assumed to be namespaced."""

    def desired(self) -> list[Desired]:
        """Unpack the desired object of each target."""
        return _decoder.decode(zlib.decompress(self.compressed))


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Desired]] = msgspec.msgpack.Decoder(list[Desired])


def compress(desired: Sequence[Desired]) -> bytes:
    """Pack desired objects for an artifact."""
    return zlib.compress(_encoder.encode(desired), 1)


class DesiredError(Exception):
    """A manifest that no API server would accept; the message names its file."""


def from_manifest(placed: Placed, entries: Sequence[Ignored], key: DigestKey, revision: str) -> Desired:
    """Make the desired object of a target. Raises `DesiredError`, and `PointerError` for an invalid path."""
    target, manifest = placed.target, placed.manifest
    paths = ignored(entries, target.kind, target.name)
    metadata = manifest["metadata"]
    labels = _texts(placed, metadata.get("labels"), "labels", paths)
    annotations = _texts(placed, metadata.get("annotations"), "annotations", paths)
    fields = {name: value for name, value in manifest.items() if name not in _NOT_SENT}
    content, body, leaves = Content(), None, None
    if target.kind in DATA_KINDS:
        try:
            content = exact_content(target.kind, fields)
        except ContentError as error:
            raise DesiredError(f"{placed.origin}: {error}") from error
        leaves = compared_values(content.value_digests(key), paths)
        digest = combined_digest(leaves)
    else:
        body = Body(str(manifest["apiVersion"]), str(manifest["kind"]), fields)
        digest = Body(body.api_version, body.kind, remove_paths(fields, paths)).digest(key)
    return Desired(
        target=target,
        content=content,
        body=body,
        digest=digest,
        value_digests=leaves,
        key=key.id,
        source=placed.origin,
        revision=revision,
        labels=labels,
        annotations=annotations,
        finalizers=_finalizers(placed),
        ignored=paths,
    )


def _finalizers(placed: Placed) -> tuple[str, ...]:
    found = placed.manifest["metadata"].get("finalizers") or ()
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
        raise DesiredError(f"{placed.origin}: finalizers of {placed.target} must be a list of names")
    return tuple(found)


def _texts(placed: Placed, found: Any, what: str, paths: Sequence[Path]) -> Mapping[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise DesiredError(f"{placed.origin}: the {what} of {placed.target} must be texts; put their values in quotes")
    left = remove_paths({"metadata": {what: found}}, paths)["metadata"].get(what, {})
    return {name: value for name, value in left.items() if name not in _UNWANTED}
