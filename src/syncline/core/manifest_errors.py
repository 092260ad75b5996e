"""Errors in a manifest that are found without a cluster, for its author.

The API server would find the same, but cannot name file and line. No message contains a value, because it may be
secret.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from syncline.api.names import AnyName, ApiVersion, NamespaceName, ObjectName
from syncline.core.fielderrors import FieldError, field_path, unknown_field
from syncline.core.group_kind import GroupKind

_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?").fullmatch
_BUILT_IN = re.compile(r"|apps|autoscaling|batch|policy|[a-z0-9.-]+\.k8s\.io").fullmatch
_RBAC = "rbac.authorization.k8s.io"
_TEXTS = ("labels", "annotations")
_ENCODED = {"ConfigMap": ("binaryData",), "Secret": ("data",)}
_VALUES = {"ConfigMap": ("data", "binaryData"), "Secret": ("data", "stringData")}
# The fields of metadata on any API server. Most are written by the server, but are in many files.
_METADATA = (
    *("name", "namespace", "labels", "annotations", "finalizers", "generateName", "ownerReferences"),
    *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"),
    *("resourceVersion", "selfLink", "uid", "clusterName", "initializers"),
)
_HEAD = ("apiVersion", "kind", "metadata")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}").fullmatch
_LABEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?").fullmatch
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*").fullmatch
_MAY_BE_LABEL = 'write letters, digits, "-", "_" and ".", at most 63, with a letter or digit at both ends'
_MAY_BE_KEY = f"{_MAY_BE_LABEL}; a domain and / may come first"
_FIELDS = {
    "ConfigMap": (*_HEAD, *_VALUES["ConfigMap"], "immutable"),
    "Secret": (*_HEAD, *_VALUES["Secret"], "immutable", "type"),
}


FieldProblem = tuple[str, str]
"""The path of a field, empty for the whole manifest, and its error."""


def kind_of(manifest: Mapping[str, Any]) -> str:
    """Return the kind as in targets: `Kind`, or `Kind.group`."""
    return str(GroupKind(group_of(manifest), str(manifest.get("kind", ""))))


def group_of(manifest: Mapping[str, Any]) -> str:
    """Return the group; empty for the core group."""
    return str(manifest.get("apiVersion", "")).rpartition("/")[0]


def validate(manifest: Any) -> list[FieldProblem]:
    """Return the errors of a manifest; empty if it can be sent."""
    if not isinstance(manifest, Mapping):
        return [("", "is not an object: write apiVersion, kind and metadata.name")]
    return [*_kind_problems(manifest)] or [*_metadata_problems(manifest), *_value_problems(manifest)]


def field_errors(manifest: Mapping[str, Any]) -> list[FieldError]:
    """Return the errors that every cluster would find: in metadata, and in a ConfigMap or Secret.

    The schemas of a cluster check all other fields.
    """
    found = [_unknown(("metadata", name), _METADATA) for name in manifest["metadata"] if name not in _METADATA]
    found += _label_errors(manifest["metadata"])
    known = _FIELDS.get(kind_of(manifest))
    if known is not None:
        found += [_unknown((name,), known) for name in manifest if name not in (*known, "status")]
        found += _data_errors(manifest)
    return found


def _label_errors(metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    """Check labels and annotations by the rules of every API server, which no schema has."""
    for key, value in (metadata.get("labels") or {}).items():
        path = field_path(("metadata", "labels", key))
        if not _is_qualified(key):
            yield FieldError(path, f"is not the key of a label: {_MAY_BE_KEY}")
        elif value and not _LABEL(value):
            yield FieldError(path, f"is not the value of a label: {_MAY_BE_LABEL}")
    for key in metadata.get("annotations") or {}:
        if not _is_qualified(key.lower()):
            path = field_path(("metadata", "annotations", key))
            yield FieldError(path, f"is not the key of an annotation: {_MAY_BE_KEY}")


def _data_errors(manifest: Mapping[str, Any]) -> Iterator[FieldError]:
    """Check the keys of a ConfigMap or Secret, and its fields other than values."""
    for part in _VALUES[kind_of(manifest)]:
        for key in manifest.get(part) or {}:
            if not _KEY(key) or key == "." or key.startswith(".."):
                path = field_path((part, key))
                yield FieldError(path, 'is not a key: write letters, digits, "-", "_" and ".", at most 253')
    immutable, kind = manifest.get("immutable"), manifest.get("type")
    if immutable is not None and not isinstance(immutable, bool):
        yield FieldError("immutable", "must be true or false, without quotes")
    if kind is not None and not isinstance(kind, str):
        yield FieldError("type", f"must be a string, but is {_called(kind)}")


def _is_qualified(key: str) -> bool:
    """Whether a text can be the key of a label: a name, or a name after a domain and a slash."""
    prefix, slash, name = key.rpartition("/")
    return bool(_LABEL(name)) and (not slash or bool(_DOMAIN(prefix)))


def _unknown(steps: tuple[str, ...], known: tuple[str, ...]) -> FieldError:
    return FieldError(field_path(steps), unknown_field(steps[-1], known))


def _kind_problems(manifest: Mapping[str, Any]) -> Iterator[FieldProblem]:
    version, kind = manifest.get("apiVersion"), manifest.get("kind")
    if not version:
        yield "", "has no apiVersion: write one, such as v1 or apps/v1"
    elif not _fits(version, ApiVersion):
        yield "apiVersion", "apiVersion is not a version: write one, such as v1 or apps/v1"
    if not kind:
        yield "", "has no kind: write one, such as ConfigMap"
    elif not isinstance(kind, str) or not _KIND(kind):
        yield "kind", "kind is not the name of a kind: write one, such as ConfigMap"
    elif kind.endswith("List") and isinstance(manifest.get("items"), list):
        yield "", f"is a {kind}: write its items as documents of their own"


def _metadata_problems(manifest: Mapping[str, Any]) -> Iterator[FieldProblem]:
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping):
        yield "metadata", "has no metadata.name: write metadata with the object's name"
        return
    if metadata.get("generateName"):
        # Each reconcile would create another object.
        yield (
            "metadata.generateName",
            "has generateName: write a name instead, so that it is the same object every time",
        )
    elif not metadata.get("name"):
        yield "metadata", "has no metadata.name: write the object's name"
    elif problem := _name_problem(group_of(manifest), metadata["name"]):
        yield "metadata.name", problem
    namespace = metadata.get("namespace")
    if namespace and not _fits(namespace, NamespaceName):
        problem = 'metadata.namespace is not a name: write lowercase letters, digits and "-", such as team-a'
        yield "metadata.namespace", problem
    for part in _TEXTS:
        yield from _text_problems(("metadata", part), metadata.get(part))


def _name_problem(group: str, name: Any) -> str:
    """Check the name by the rules that are known; other API servers may have their own."""
    if group != _RBAC and _BUILT_IN(group):
        fits, may = _fits(name, ObjectName), 'lowercase letters, digits, "-" and "."'
    else:
        fits, may = _fits(name, AnyName), 'letters, digits, "-", "_", ".", ":" and "@"'
    return "" if fits else f"metadata.name is not a name: write {may}, at most 253, as text"


def _value_problems(manifest: Mapping[str, Any]) -> Iterator[FieldProblem]:
    kind = kind_of(manifest)
    for part in _VALUES.get(kind, ()):
        found = [*_text_problems((part,), manifest.get(part))]
        yield from found
        if not found and part in _ENCODED[kind]:
            for key, value in (manifest.get(part) or {}).items():
                if not _is_base64(value or ""):
                    hint = "write it under stringData" if kind == "Secret" else "write it under data"
                    problem = f"{part}.{key} is not base64: encode it, or {hint} as it is"
                    yield field_path((part, key)), problem


def _text_problems(steps: tuple[str, ...], texts: Any) -> Iterator[FieldProblem]:
    if texts is None:
        return
    name = ".".join(steps)
    if not isinstance(texts, Mapping):
        yield name, f"{name} must be a map of texts"
        return
    for key, value in texts.items():
        if value is not None and not isinstance(value, str):
            yield field_path((*steps, key)), f"{name}.{key} is {_called(value)}: put it in quotes to make it text"


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
