"""What is wrong with a manifest before any cluster sees it, in words for the person who wrote it.

The API server would find the same, but cannot name file and line. No message holds a value: it may be secret.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from syncline.api.names import AnyName, ApiVersion, NamespaceName, ObjectName
from syncline.core.fielderrors import FieldError, field_path, unknown_field

_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?").fullmatch
_BUILT_IN = re.compile(r"|apps|autoscaling|batch|policy|[a-z0-9.-]+\.k8s\.io").fullmatch
_RBAC = "rbac.authorization.k8s.io"
_TEXTS = ("labels", "annotations")
_ENCODED = {"ConfigMap": ("binaryData",), "Secret": ("data",)}
_VALUES = {"ConfigMap": ("data", "binaryData"), "Secret": ("data", "stringData")}
# What metadata may have, on any API server; most of it is the server's own, and in many files all the same.
_METADATA = (
    *("name", "namespace", "labels", "annotations", "finalizers", "generateName", "ownerReferences"),
    *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"),
    *("resourceVersion", "selfLink", "uid", "clusterName", "initializers"),
)
_HEAD = ("apiVersion", "kind", "metadata")
_FIELDS = {
    "ConfigMap": (*_HEAD, *_VALUES["ConfigMap"], "immutable"),
    "Secret": (*_HEAD, *_VALUES["Secret"], "immutable", "type"),
}


def kind_of(manifest: Mapping[str, Any]) -> str:
    """Return the kind as targets have it: `Kind`, or `Kind.group`."""
    group, kind = group_of(manifest), str(manifest.get("kind", ""))
    return f"{kind}.{group}" if group else kind


def group_of(manifest: Mapping[str, Any]) -> str:
    """Return the group, empty for the core."""
    return str(manifest.get("apiVersion", "")).rpartition("/")[0]


def problems(manifest: Any) -> list[str]:
    """Say what is wrong with a manifest; nothing, where it can be sent."""
    if not isinstance(manifest, Mapping):
        return ["is not an object: write apiVersion, kind and metadata.name"]
    return [*_kind_problems(manifest)] or [*_metadata_problems(manifest), *_value_problems(manifest)]


def field_errors(manifest: Mapping[str, Any]) -> list[FieldError]:
    """Name the fields that are unknown wherever the manifest goes: of metadata, and of a ConfigMap or Secret.

    All other fields are for the schemas of a cluster.
    """
    found = [_unknown(("metadata", name), _METADATA) for name in manifest["metadata"] if name not in _METADATA]
    known = _FIELDS.get(kind_of(manifest))
    if known is not None:
        found += [_unknown((name,), known) for name in manifest if name not in (*known, "status")]
    return found


def _unknown(steps: tuple[str, ...], known: tuple[str, ...]) -> FieldError:
    return FieldError(field_path(steps), unknown_field(steps[-1], known))


def _kind_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    version, kind = manifest.get("apiVersion"), manifest.get("kind")
    if not version:
        yield "has no apiVersion: write one, such as v1 or apps/v1"
    elif not _fits(version, ApiVersion):
        yield "apiVersion is not a version: write one, such as v1 or apps/v1"
    if not kind:
        yield "has no kind: write one, such as ConfigMap"
    elif not isinstance(kind, str) or not _KIND(kind):
        yield "kind is not the name of a kind: write one, such as ConfigMap"
    elif kind.endswith("List") and isinstance(manifest.get("items"), list):
        yield f"is a {kind}: write its items as documents of their own"


def _metadata_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping):
        yield "has no metadata.name: write metadata with the object's name"
        return
    if metadata.get("generateName"):
        # Each pass would make one more object.
        yield "has generateName: write a name instead, so that it is the same object every time"
    elif not metadata.get("name"):
        yield "has no metadata.name: write the object's name"
    elif problem := _name_problem(group_of(manifest), metadata["name"]):
        yield problem
    namespace = metadata.get("namespace")
    if namespace and not _fits(namespace, NamespaceName):
        yield 'metadata.namespace is not a name: write lowercase letters, digits and "-", such as team-a'
    for part in _TEXTS:
        yield from _text_problems(f"metadata.{part}", metadata.get(part))


def _name_problem(group: str, name: Any) -> str:
    """Check the name as strictly as we know: other API servers have rules of their own."""
    if group != _RBAC and _BUILT_IN(group):
        fits, may = _fits(name, ObjectName), 'lowercase letters, digits, "-" and "."'
    else:
        fits, may = _fits(name, AnyName), 'letters, digits, "-", "_", ".", ":" and "@"'
    return "" if fits else f"metadata.name is not a name: write {may}, at most 253, as text"


def _value_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    kind = kind_of(manifest)
    for part in _VALUES.get(kind, ()):
        found = [*_text_problems(part, manifest.get(part))]
        yield from found
        if not found and part in _ENCODED[kind]:
            for key, value in (manifest.get(part) or {}).items():
                if not _is_base64(value or ""):
                    hint = "write it under stringData" if kind == "Secret" else "write it under data"
                    yield f"{part}.{key} is not base64: encode it, or {hint} as it is"


def _text_problems(name: str, texts: Any) -> Iterator[str]:
    if texts is None:
        return
    if not isinstance(texts, Mapping):
        yield f"{name} must be a map of texts"
        return
    for key, value in texts.items():
        if value is not None and not isinstance(value, str):
            yield f"{name}.{key} is {_called(value)}: put it in quotes to make it text"


def _called(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case Mapping():
            return "a map"
        case _:
            return "a list"


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
