"""Transforms: the changes of a sync to each object on its way down, by JSON pointers.

    transformed(manifest, [TransformStep(index=0, set={"/data/cluster": "{{ target.cluster }}"})], variables, shape)

Missing parents of a set value are created, and the removal of an absent value is no error. A transform cannot change
the identity of the object, its status, or Syncline's marks. It either succeeds whole or raises `ObjectTransformError`;
no message holds a value.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from syncline.api.common import GROUP
from syncline.core.documents import is_deep
from syncline.core.namespace_mapping import NO_WORKSPACE, Workspace
from syncline.core.object_paths import pointer_path
from syncline.core.object_shapes import Shape
from syncline.core.patching import SET, LenientPatch, PatchError
from syncline.core.placeholders import TemplateError, fill_texts

Json = dict[str, Any]

ITEMS_LIMIT = 100_000
"""The most items of lists that the operations of an object may pass, all together: they are read for each operation."""

_MARKS = f"{GROUP}/"
_TEXTS = ("labels", "annotations")
_FIXED = frozenset({"apiVersion", "kind", "metadata", "status"})
_REACH = "a transform can change all but apiVersion, kind, status, and metadata other than labels and annotations"


class ObjectTransformError(Exception):
    """A transform cannot be applied; the message names it and the remedy."""


class TransformStep(Struct, frozen=True, kw_only=True):
    """One entry of `spec.transforms`: its changes, in the order remove, set, patch."""

    index: int
    """Its place in the spec, for messages."""
    remove: Sequence[str] = ()
    set: Mapping[str, Any] = {}
    patch: Sequence[Mapping[str, Any]] = ()


class TransformedObject(Struct, frozen=True, kw_only=True):
    """An object after its transforms."""

    manifest: Json
    written: frozenset[str]
    """The paths (`object_paths`) that transforms write, also where they remove something: they flow down only."""


def transform_variables(
    *,
    cluster: str,
    namespace: str,
    labels: Mapping[str, str],
    source: tuple[str, str],
    workspace: Workspace = NO_WORKSPACE,
) -> dict[str, str]:
    """Return the variables of templates: of the target, its namespace and labels, the source (namespace and name)."""
    return {
        "namespace": source[0],
        "source.name": source[1],
        "source.namespace": source[0],
        "target.cluster": cluster,
        "target.namespace": namespace,
        "workspace.cluster": workspace.logical_cluster,
        "workspace.name": workspace.name,
        "workspace.path": workspace.path,
        **{f"target.labels.{name}": value for name, value in labels.items()},
    }


def transformed(
    manifest: Mapping[str, Any], steps: Sequence[TransformStep], variables: Mapping[str, str], shape: Shape
) -> TransformedObject:
    """Return the object after all steps. The manifest is not changed. Raises `ObjectTransformError`."""
    written: set[str] = set()
    room = ITEMS_LIMIT

    def note(document: Json, pointer: Sequence[str]) -> None:
        nonlocal room
        path, read = pointer_path(document, pointer, shape)
        written.add(path)
        room -= read
        if room < 0:
            raise ObjectTransformError(f"{where}: it has many operations on a long list: use fewer, or set the list")

    where = "transforms"
    try:
        patch = LenientPatch(manifest, note)
        for step in steps:
            for part, operations in _operations(step):
                where = f"transforms[{step.index}].{part}"
                patch.apply([_filled(operation, variables, where) for operation in operations])
                if any(_is_in_metadata(operation) for operation in operations):
                    _keep_marks(manifest, patch.result, where)
    except PatchError as error:
        raise ObjectTransformError(f"{where}: {error}") from None
    except RecursionError:
        raise ObjectTransformError(f"{where}: its value is nested too deeply: make it flatter") from None
    if is_deep(patch.result):
        raise ObjectTransformError(f"{where}: the object is nested too deeply: make it flatter")
    return TransformedObject(manifest=patch.result, written=frozenset(written))


def _is_in_metadata(operation: Mapping[str, Any]) -> bool:
    """Whether an operation may change labels or annotations."""
    pointers = (operation.get("path"), operation.get("from"))
    return any(isinstance(pointer, str) and pointer.startswith("/metadata") for pointer in pointers)


def _operations(step: TransformStep) -> list[tuple[str, list[Mapping[str, Any]]]]:
    return [
        ("remove", [{"op": "remove", "path": pointer} for pointer in step.remove]),
        ("set", [{"op": SET, "path": pointer, "value": value} for pointer, value in step.set.items()]),
        ("patch", list(step.patch)),
    ]


def _filled(operation: Mapping[str, Any], variables: Mapping[str, str], where: str) -> Mapping[str, Any]:
    """Return an operation with its templates filled. Raises `ObjectTransformError` for what is out of reach."""
    pointer = operation.get("path")
    changed = [pointer] if operation.get("op") != "test" else []
    if operation.get("op") == "move":
        changed.append(operation.get("from"))
    for path in changed:
        if isinstance(path, str) and (why := _out_of_reach(path)):
            raise ObjectTransformError(f"{where}: {path or 'the whole object'} {why}")
    if where.endswith(".patch") and operation.get("op") == SET:
        raise ObjectTransformError(f"{where}: {pointer} has the op set, which JSON Patch does not have: write add")
    if "value" not in operation:
        return operation
    try:
        return {**operation, "value": fill_texts(operation["value"], variables)}
    except TemplateError as error:
        raise ObjectTransformError(f"{where}: {pointer}: {error}") from None


def _out_of_reach(pointer: str) -> str:
    """Return why a transform cannot change the value at a pointer; empty if it can."""
    if pointer and not pointer.startswith("/"):
        return "is not a JSON pointer: a path begins with a slash, such as /spec/replicas"
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")][1:]
    if not parts:
        return f"is out of reach: {_REACH}; write a pointer such as /spec/replicas"
    if parts[0] not in _FIXED:
        return ""
    if parts[0] != "metadata" or len(parts) == 1 or parts[1] not in _TEXTS:
        return f"is out of reach: {_REACH}; remove this path"
    if len(parts) > 2 and parts[2].startswith(_MARKS):  # noqa: PLR2004 - metadata, labels, key
        return f"is out of reach: labels and annotations of {GROUP} are Syncline's own; remove this path"
    return ""


def _keep_marks(before: Mapping[str, Any], after: Json, where: str) -> None:
    """Restore Syncline's marks if their whole map was replaced, and refuse other marks and values that are no text."""
    was = before.get("metadata") or {}
    metadata = dict(after.get("metadata") or {})
    for part in _TEXTS:
        marks = {name: value for name, value in (was.get(part) or {}).items() if name.startswith(_MARKS)}
        entries = metadata.get(part)
        if entries is not None and not isinstance(entries, dict):
            raise ObjectTransformError(f"{where}: metadata.{part} is not a map any more: write a map of texts")
        for name, value in (entries or {}).items():
            if name.startswith(_MARKS) and marks.get(name) != value:
                raise ObjectTransformError(
                    f"{where}: metadata.{part} {name} is out of reach: those of {GROUP} are Syncline's own; remove it"
                )
            if not isinstance(value, str):
                raise ObjectTransformError(f"{where}: metadata.{part} {name} is not text: put it in quotes")
        if marks:
            metadata[part] = {**(entries or {}), **marks}
    if metadata:
        after["metadata"] = metadata
