"""Patches that a user writes for copies: JSON merge patch (RFC 7386), JSON Patch (RFC 6902), replacement of keys.

    patch = parse_patch(text, "Merge")
    copy = patched(manifest, "Merge", patch)

A patch works on a copy. It succeeds as a whole, or raises `PatchError`, which names the field or the operation. No
message contains a value of the patch or of the object, because both may be secret.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

from msgspec import Struct

from syncline.api.common import GROUP
from syncline.api.manifestsync import PatchStrategy
from syncline.core.documents import DocumentError, is_deep, read_document

Json = dict[str, Any]
Patch = Mapping[str, Any] | Sequence[Any]
Written = Callable[[Json, Sequence[str]], None]

COPY_LIMIT = 2 * 1024 * 1024
"""The maximum number of characters that one patch may copy. No API server accepts an object of this size."""
SET = "set"
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")

_SHOWN = 5
_LONGEST_PATH = 200
_IDENTITY = ("apiVersion", "kind")
_NAMES = ("name", "namespace")
_CHANGEABLE = ("labels", "annotations")
_INDEX = re.compile(r"0|[1-9][0-9]*").fullmatch
_BAD_ESCAPE = re.compile(r"~(?![01])").search


class PatchError(Exception):
    """A patch is not valid, or does not fit the object. The message has the remedy.

    The message names fields and paths of the patch. `redacted` names none of them, for a patch in a Secret.
    """

    def __init__(self, message: str, redacted: str = "it cannot be applied") -> None:
        super().__init__(message)
        self.redacted = redacted


def parse_patch(text: str, strategy: PatchStrategy) -> Patch:
    """Read a patch, YAML or JSON: a map of fields, or for JSONPatch a list of operations."""
    try:
        patch = read_document(text)
    except DocumentError as error:
        raise PatchError(f"the patch cannot be read: {error}", "it cannot be read as YAML or JSON") from None
    if strategy == "JSONPatch":
        if not isinstance(patch, list):
            hint = "; for a map of fields write patchStrategy Merge" if isinstance(patch, dict) else ""
            raise PatchError(
                "a JSONPatch is a list of operations, such as [{op: replace, path: /spec/replicas, value: 2}]; "
                f"found {_called(patch)}{hint}"
            )
        for index, operation in enumerate(patch):
            _read_operation(index, operation)
        return patch
    if not isinstance(patch, dict):
        hint = "; for a list of operations write patchStrategy JSONPatch" if isinstance(patch, list) else ""
        raise PatchError(
            f"a {strategy} patch is a map of fields, such as {{spec: {{replicas: 2}}}}; found {_called(patch)}{hint}"
        )
    return patch


def patched(manifest: Mapping[str, Any], strategy: PatchStrategy, patch: Patch) -> Json:
    """Return the object after the patch. A patch cannot change the identity of the object, or our marks."""
    try:
        if isinstance(patch, Mapping):
            result = replace_keys(manifest, patch) if strategy == "Replace" else merge_patch(manifest, patch)
        else:
            result = json_patch(manifest, patch)
        if not isinstance(result, dict):
            raise PatchError(f"the patch leaves {_called(result)} in place of the object")
        deep = is_deep(result)
    except RecursionError:
        deep = True
    if deep:
        raise PatchError("what the patch makes is nested too deeply")
    _check_identity(manifest, result)
    return result


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target after a JSON merge patch: maps are merged, null removes, anything else replaces."""
    return _merge(deepcopy(target), patch)


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return deepcopy(patch)
    result = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result


def replace_keys(manifest: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """Return the object with top-level keys replaced as a whole; null removes a key. Name and namespace stay."""
    result = deepcopy(dict(manifest))
    for key, value in patch.items():
        if key == "metadata" and isinstance(value, Mapping):
            before = manifest.get("metadata") or {}
            result[key] = {**{name: before[name] for name in _NAMES if name in before}, **deepcopy(dict(value))}
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = deepcopy(value)
    return result


def json_patch(target: Any, operations: Sequence[Any]) -> Any:
    """Return the target after all operations, in order. If one fails, nothing is patched."""
    steps = [_read_operation(index, operation) for index, operation in enumerate(operations)]
    document = {"": deepcopy(target)}  # a parent for the root, so that it is a value like others
    room = COPY_LIMIT
    for step in steps:
        try:
            room -= _apply_operation(document, step, room)
        except _InvalidPatchError as wrong:
            raise PatchError(f"{step}: {wrong}", f"operation {step.index} ({step.op}) cannot be executed") from None
    return document[""]


class _Operation(Struct, frozen=True, kw_only=True):
    index: int
    op: str
    path: tuple[str, ...]
    origin: tuple[str, ...] = ()
    value: Any = None

    def __str__(self) -> str:
        return f"operation {self.index} ({self.op} {_pointer(self.path)})"


class _InvalidPatchError(Exception):
    """The error of an operation, before its index is known."""


class LenientPatch:
    """The operations of transforms on one object. After an error, the object is of no use.

    In addition to the operations of a JSON Patch there is `set`, which replaces an existing value. Missing parents are
    created. The removal of an absent value is no error. `written` is called with the object and the parts of a pointer
    for every value that an operation writes. The size of all copies together is limited.
    """

    def __init__(self, target: Mapping[str, Any], written: Written) -> None:
        self._document = {"": deepcopy(dict(target))}
        self._written = written
        self._room: int | None = None

    @property
    def result(self) -> Json:
        """The object after the operations so far."""
        return self._document[""]

    def apply(self, operations: Sequence[Any]) -> None:
        """Carry out these operations. Raises `PatchError`."""
        for step in [_read_operation(index, one, (*OPERATIONS, SET)) for index, one in enumerate(operations)]:
            try:
                self._apply(step)
            except _InvalidPatchError as wrong:
                raise PatchError(f"{step}: {wrong}", f"operation {step.index} ({step.op}) cannot be executed") from None

    def _apply(self, step: _Operation) -> None:
        if step.op == "copy" and self._room is None:  # measured once: it takes as long as a copy of the whole object
            self._room = COPY_LIMIT - _size(self._document, COPY_LIMIT)
        copied = _apply_leniently(self._document, step, self._room or 0, self._written)
        if self._room is not None:
            self._room -= copied


def _read_operation(index: int, raw: Any, operations: Sequence[str] = OPERATIONS) -> _Operation:
    if not isinstance(raw, Mapping):
        raise PatchError(f"operation {index}: write a map with op and path; found {_called(raw)}")
    op, path = raw.get("op"), raw.get("path")
    if not isinstance(op, str) or op not in operations:
        raise PatchError(f"operation {index}: op must be one of {', '.join(OPERATIONS)}")
    where = f"operation {index} ({op})"
    if not isinstance(path, str):
        raise PatchError(f"{where}: needs a path, such as /spec/replicas")
    if op in {"add", "replace", "test", SET} and "value" not in raw:
        raise PatchError(f"{where}: needs a value; write value: null if you mean null")
    origin = raw.get("from") if op in {"move", "copy"} else ""
    if not isinstance(origin, str):
        raise PatchError(f"{where}: needs from, the path to {op} from")
    try:
        return _Operation(index=index, op=op, path=_parts(path), origin=_parts(origin), value=raw.get("value"))
    except _InvalidPatchError as wrong:
        raise PatchError(f"{where}: {wrong}") from None


def _parts(pointer: str) -> tuple[str, ...]:
    """Split a JSON pointer; the first part leads to the root of the document."""
    if pointer and not pointer.startswith("/"):
        raise _InvalidPatchError("a path begins with a slash, such as /spec/replicas, or is empty for the whole object")
    if _BAD_ESCAPE(pointer):
        raise _InvalidPatchError("in a path, write ~0 for ~ and ~1 for /")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/"))


def _apply_operation(document: Json, step: _Operation, room: int) -> int:
    """Change the document. Return the amount of copied data."""
    match step.op:
        case "add":
            _add(document, step.path, deepcopy(step.value))
        case "remove":
            _remove(document, step.path)
        case "replace":
            _replace(document, step.path, deepcopy(step.value))
        case "move":
            _move(document, step.origin, step.path)
        case "copy":
            value = _find(document, step.origin)
            size = _size(value, room)
            _add(document, step.path, deepcopy(value))
            return size
        case _:
            found = _find(document, step.path)
            if not _same(found, step.value):
                raise _InvalidPatchError(f"the test fails: there is {_called(found)}, but of another value")
    return 0


def _apply_leniently(document: Json, step: _Operation, room: int, written: Written) -> int:
    """Change the document; call `written`; return the amount of copied data."""
    before = {"remove": step.path, "replace": step.path, SET: step.path, "move": step.origin}.get(step.op)
    if before is not None:
        written(document[""], before[1:])
    copied = 0
    if step.op == "remove":
        if _is_there(document, step.path):
            _remove(document, step.path)
        return copied
    if step.op in {"add", "copy", "move", SET}:
        if step.op in {"copy", "move"}:
            _find(document, step.origin)
        _make_parents(document, step.path)
    if step.op == SET:
        change = _replace if _is_there(document, step.path) else _add
        change(document, step.path, deepcopy(step.value))
    else:
        copied = _apply_operation(document, step, room)
    if step.op != "test":
        written(document[""], step.path[1:])
    return copied


def _is_there(document: Json, path: Sequence[str]) -> bool:
    try:
        _find(document, path)
    except _InvalidPatchError:
        return False
    return True


def _make_parents(document: Json, path: Sequence[str]) -> None:
    parent: Any = document
    for depth, part in enumerate(path[:-1]):
        if isinstance(parent, dict) and parent.get(part) is None:
            parent[part] = [] if path[depth + 1] == "-" else {}
        parent = parent[_key(parent, part, path[:depth])]


def _find(document: Any, path: Sequence[str]) -> Any:
    found = document
    for depth, part in enumerate(path):
        key = _key(found, part, path[:depth])
        if isinstance(found, dict) and key not in found:
            raise _InvalidPatchError(_missing(found, part, path[:depth]))
        found = found[key]
    return found


def _key(parent: Any, part: str, path: Sequence[str], *, room: int = 0) -> Any:
    """Return the key or index of a part of a path. `room`: how far an index may exceed the end of a list."""
    if isinstance(parent, dict):
        return part
    if not isinstance(parent, list):
        raise _InvalidPatchError(f"{_pointer(path)} is {_called(parent)}, which has no {part}")
    if part == "-" and room:
        return len(parent)
    if not _INDEX(part):
        raise _InvalidPatchError(
            f"{_pointer(path)} is a list, so write the number of an item (from 0) in place of {part}"
        )
    # A number with many digits is no index, and slow to parse.
    index = int(part) if len(part) <= len(str(len(parent))) else len(parent) + room
    if index >= len(parent) + room:
        raise _InvalidPatchError(
            f"{_pointer(path)} is a list of {len(parent)}, which has no item {part} (the first is 0)"
        )
    return index


def _add(document: Json, path: Sequence[str], value: Any) -> None:
    parent = _find(document, path[:-1])
    key = _key(parent, path[-1], path[:-1], room=1)
    if isinstance(parent, list):
        parent.insert(key, value)
    else:
        parent[key] = value


def _replace(document: Json, path: Sequence[str], value: Any) -> None:
    _find(document, path)
    parent = _find(document, path[:-1])
    parent[_key(parent, path[-1], path[:-1])] = value


def _move(document: Json, origin: Sequence[str], path: Sequence[str]) -> None:
    _find(document, origin)
    if path == origin:
        return
    if path[: len(origin)] == origin:
        raise _InvalidPatchError(f"{_pointer(origin)} cannot be moved into itself")
    _add(document, path, _remove(document, origin))


def _remove(document: Json, path: Sequence[str]) -> Any:
    value = _find(document, path)
    parent = _find(document, path[:-1])
    if parent is document:
        raise _InvalidPatchError("the whole object cannot be removed")
    del parent[_key(parent, path[-1], path[:-1])]
    return value


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON. In Python true equals 1, in JSON it does not."""
    if isinstance(one, dict) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(isinstance(one, bool) == isinstance(other, bool) and one == other)


def _size(value: Any, limit: int) -> int:
    size = 0
    for part in _sizes(value):
        size += part
        if size > limit:
            raise _InvalidPatchError("the copies make the object too large")
    return size


def _sizes(value: Any) -> Iterator[int]:
    """Yield the approximate size of each part of a value."""
    if isinstance(value, dict):
        for name, inside in value.items():
            yield len(name)
            yield from _sizes(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _sizes(inside)
    yield len(value) if isinstance(value, str) else 8


def _missing(found: Mapping[str, Any], part: str, path: Sequence[str]) -> str:
    shown = ", ".join(islice(found, _SHOWN)) + (", ..." if len(found) > _SHOWN else "")
    return f"there is no {part} in {_pointer(path)}; there {f'are {shown}' if found else 'is nothing'}"


def _pointer(path: Sequence[str]) -> str:
    text = "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)
    text = text if len(text) <= _LONGEST_PATH else text[:_LONGEST_PATH] + "..."
    return text or "the whole object"


def _called(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "a map"
        case _:
            return "a list"


def _check_identity(before: Mapping[str, Any], after: Json) -> None:
    for name in _IDENTITY:
        if after.get(name) != before.get(name):
            raise PatchError(f"the patch changes {name}; it must stay")
    if "status" in after and "status" not in before:
        raise PatchError("the patch sets status; that is for the controllers at the target")
    was, now = before.get("metadata") or {}, after.get("metadata")
    if not isinstance(now, dict):
        raise PatchError("the patch removes metadata; it may change metadata.labels and metadata.annotations")
    for name in [*was, *now]:
        if name not in _CHANGEABLE and was.get(name) != now.get(name):
            hint = "; write targetName to name copies otherwise" if name == "name" else ""
            raise PatchError(f"the patch changes metadata.{name}; only labels and annotations may change{hint}")
    for part in _CHANGEABLE:
        _check_texts(part, was.get(part) or {}, now.get(part))


def _check_texts(part: str, was: Mapping[str, Any], now: Any) -> None:
    if now is not None and not isinstance(now, dict):
        raise PatchError(f"the patch makes metadata.{part} {_called(now)}; it must be a map")
    for key in [*was, *(now or {})]:
        value = (now or {}).get(key)
        if key.startswith(f"{GROUP}/") and value != was.get(key):
            raise PatchError(f"the patch changes metadata.{part} {key}; those of {GROUP} are Syncline's own")
        if key in (now or {}) and not isinstance(value, str):
            raise PatchError(f"metadata.{part} {key} is {_called(value)}; it must be text: put it in quotes")
