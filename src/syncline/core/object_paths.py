"""An object as leaves, by their paths: `leaves`, `leaf_digests`. For merges of any kind.

`leaf_edits` makes an object of leaves again.

A path is segments joined by `/`, escaped as in a JSON pointer. An item of a list with keys is a segment such as
`[name=web]` or `[containerPort=80,protocol=TCP]`, a member of a set one such as `[=ReadWriteOnce]`. A path below
another one begins with its segments, as `twoway.agree` needs it.

    spec/template/spec/containers/[name=web]/image

A leaf is a single value, a list without keys, a map that is one value as a whole, or an empty map that means something
(`emptyDir: {}`). Null, an empty list, and an empty map without a meaning count as absent, as they do for the server.
The keys of an item are no leaves: its path has them. The identity of the object, its status and Syncline's marks are no
leaves either.

The order of a list with keys is no leaf.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from syncline.api.common import GROUP
from syncline.core.digest import DigestKey, leaf_digest
from syncline.core.object_shapes import Shape
from syncline.core.quantities import parse_quantity

Json = dict[str, Any]

PATHS_LIMIT = 16 * 1024 * 1024
"""The most characters of all paths of an object: below a long name, each path is long."""
DEPTH_LIMIT = 64
"""A value that is nested more deeply is one leaf."""

_METADATA = ("labels", "annotations")
NO_LEAVES = frozenset({"apiVersion", "kind", "metadata", "status"})
OWN_MARKS = f"{GROUP}/"
_is_bare = re.compile(r"(?!(?:true|false|null)$)[A-Za-z_][-A-Za-z0-9_.]*").fullmatch
_bare_text = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]*")
_is_index = re.compile(r"[0-9]{1,9}").fullmatch
_decoder = json.JSONDecoder()


class PathError(Exception):
    """A text is not a path."""


class PathsTooLongError(Exception):
    """All paths of an object together are too long. The message has the remedy."""


class KeyedItem(NamedTuple):
    """A segment: the item of a list that has these keys."""

    keys: tuple[tuple[str, Any], ...]


class SetMember(NamedTuple):
    """A segment: a member of a set."""

    value: Any


Segment = str | KeyedItem | SetMember
Segments = tuple[Segment, ...]


class _Leaf(NamedTuple):
    segments: Segments
    value: Any
    shape: Shape


def leaves(manifest: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return the leaves of an object, in its order. Raises `PathsTooLongError`."""
    return {path: leaf.value for path, leaf in _named_leaves(manifest, shape)}


def leaf_digests(manifest: Mapping[str, Any], shape: Shape, key: DigestKey) -> dict[str, str]:
    """Return the digest of each leaf, by its path; equal quantities have equal digests, however they are written.

    Raises `PathsTooLongError`.
    """
    return {
        path: leaf_digest(_comparable(leaf.value, leaf.shape), key) for path, leaf in _named_leaves(manifest, shape)
    }


def pointer_path(manifest: Mapping[str, Any], pointer: Sequence[str], shape: Shape) -> tuple[str, int]:
    """Return the path in an object for a JSON pointer (its parts, unescaped), and how many list items were read for it.

    Inside a value that is a leaf as a whole, it is the path of that value. `-` is the last item of a list.
    """
    segments: list[Segment] = []
    value: Any = manifest
    read = 0
    for part in pointer:
        if shape.form in ("Atomic", "Quantity"):
            break
        if isinstance(value, list) or (value is None and (shape.keys or shape.form == "Set")):
            read += len(value or [])
            item = _item_at(value or [], part, shape)
            if item is None:
                break
            segments.append(item[0])
            value, shape = item[1], shape.item()
        else:
            segments.append(part)
            value, shape = (value.get(part) if isinstance(value, Mapping) else None), shape.field(part)
    return join_path(tuple(segments)), read


def join_path(segments: Sequence[Segment]) -> str:
    """Write a path."""
    return "/".join(map(write_segment, segments))


def split_path(path: str) -> Segments:
    """Read a path. Raises `PathError`."""
    return tuple(map(read_segment, path.split("/")))


def read_segment(text: str) -> Segment:
    """Read one segment of a path. Raises `PathError`."""
    is_item = text.startswith("[")
    plain = text.replace("~2", "[").replace("~1", "/").replace("~0", "~")
    return _read_item(plain) if is_item else plain


def write_segment(segment: Segment) -> str:
    """Write one segment of a path."""
    match segment:
        case KeyedItem(keys):
            text = f"[{','.join(f'{_scalar(name)}={_scalar(value)}' for name, value in keys)}]"
        case SetMember(value):
            text = f"[={_scalar(value)}]"
        case _:
            text = segment
    escaped = text.replace("~", "~0").replace("/", "~1")
    return f"~2{escaped[1:]}" if isinstance(segment, str) and escaped.startswith("[") else escaped


def _scalar(value: Any) -> str:
    """Write a value so that a text never looks like a number."""
    if isinstance(value, str) and _is_bare(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _read_item(text: str) -> KeyedItem | SetMember:
    if not text.endswith("]"):
        raise PathError(f"{text} is not the item of a list: write [name=value]")
    try:
        if text.startswith("[="):
            value, end = _read_scalar(text, 2)
            if end != len(text) - 1:
                raise PathError(f"{text} is not the member of a set: write [=value]")
            return SetMember(value)
        return KeyedItem(tuple(_read_keys(text)))
    except (ValueError, IndexError, RecursionError):
        raise PathError(f"{text} is not the item of a list: write [name=value]") from None


def _read_keys(text: str) -> Iterator[tuple[str, Any]]:
    at = 1
    while True:
        name, at = _read_scalar(text, at)
        if not isinstance(name, str) or text[at] != "=":
            raise ValueError(text)
        value, at = _read_scalar(text, at + 1)
        yield name, value
        if at == len(text) - 1:
            return
        if text[at] != ",":
            raise ValueError(text)
        at += 1


def _read_scalar(text: str, at: int) -> tuple[Any, int]:
    found = _bare_text.match(text, at)
    if found is not None and _is_bare(found[0]):
        return found[0], found.end()
    return _decoder.raw_decode(text, at)


def _named_leaves(manifest: Mapping[str, Any], shape: Shape) -> Iterator[tuple[str, _Leaf]]:
    room = PATHS_LIMIT
    for leaf in _object_leaves(manifest, shape):
        path = join_path(leaf.segments)
        room -= len(path)
        if room < 0:
            raise PathsTooLongError("it has many values below very long names: shorten the names")
        yield path, leaf


def _object_leaves(manifest: Mapping[str, Any], shape: Shape) -> Iterator[_Leaf]:
    metadata = shape.field("metadata")
    for part in _METADATA:
        entries = _map(_map(manifest.get("metadata")).get(part))
        for name, value in entries.items():
            if not name.startswith(OWN_MARKS):
                yield from _leaves(value, ("metadata", part, name), metadata.field(part).field(name))
    for name, value in manifest.items():
        if name not in NO_LEAVES and not is_blank(value, name, shape):
            yield from _leaves(value, (name,), shape.field(name))


def _leaves(value: Any, segments: Segments, shape: Shape) -> Iterator[_Leaf]:
    """Yield the leaves of a value that is not blank."""
    is_whole = shape.form == "Atomic" or len(segments) >= DEPTH_LIMIT
    if isinstance(value, Mapping) and not is_whole:
        yield from _leaves_of_map(value, segments, shape)
    elif isinstance(value, list) and not is_whole and (items := _items(value, shape)) is not None:
        for segment, item in items:
            if isinstance(segment, KeyedItem):
                rest = {name: inside for name, inside in item.items() if name not in shape.keys}
                if shape.item().form == "Atomic":
                    yield _Leaf((*segments, segment), _whole(rest), shape.item())
                else:
                    yield from _leaves_of_map(rest, (*segments, segment), shape.item())
            else:
                yield _Leaf((*segments, segment), item, shape)
    elif value is not None and value != []:
        yield _Leaf(segments, _whole(value), shape)


def _leaves_of_map(value: Mapping[str, Any], segments: Segments, shape: Shape) -> Iterator[_Leaf]:
    is_empty = True
    for name, inside in value.items():
        if not is_blank(inside, name, shape):
            is_empty = False
            yield from _leaves(inside, (*segments, name), shape.field(name))
    if is_empty:
        yield _Leaf(segments, {}, shape)


def is_blank(value: Any, name: str, shape: Shape) -> bool:
    """Whether a field of a map counts as absent."""
    if value is None or value == []:
        return True
    return (
        isinstance(value, Mapping)
        and shape.empty_is_absent(name)
        and all(is_blank(inside, below, shape.field(name)) for below, inside in value.items())
    )


def _whole(value: Any) -> Any:
    """Return a value that is one leaf, without its nulls."""
    if isinstance(value, Mapping):
        return {name: _whole(inside) for name, inside in value.items() if inside is not None}
    return [_whole(inside) for inside in value] if isinstance(value, list) else value


def _items(items: Sequence[Any], shape: Shape) -> list[tuple[KeyedItem | SetMember, Any]] | None:
    """Return the items of a list with their segments; None if the keys do not identify them."""
    if shape.form == "Set":
        members = {json.dumps(item): item for item in items if isinstance(item, str | int | float)}
        if len(members) < len(items):
            return None
        return [(SetMember(members[text]), members[text]) for text in sorted(members)]
    if not shape.keys:
        return None
    found = [(keyed_item(item, shape), item) for item in items]
    segments = [segment for segment, _ in found if segment is not None]
    if len({write_segment(segment) for segment in segments}) < len(items):
        return None
    return [(segment, item) for segment, item in found if segment is not None]


def keyed_item(item: Any, shape: Shape) -> KeyedItem | None:
    """Return the segment of an item of a list; None if it does not have all keys."""
    if not isinstance(item, Mapping):
        return None
    keys = tuple((name, key_value(item, name, shape)) for name in shape.keys)
    return KeyedItem(keys) if all(isinstance(value, str | int) for _, value in keys) else None


def key_value(item: Mapping[str, Any], name: str, shape: Shape) -> Any:
    """Return the value of a key of an item, or its default."""
    found = item.get(name)
    return shape.defaults.get(name) if found is None else found


def _comparable(value: Any, shape: Shape) -> Any:
    """Return a value in a form that is equal for all ways to write it."""
    if shape.form == "Quantity" and (number := parse_quantity(value)) is not None:
        return {"quantity": str(number)}
    if isinstance(value, Mapping):
        return {
            name: _comparable(inside, shape.field(name))
            for name, inside in value.items()
            if not is_blank(inside, name, shape)
        }
    if isinstance(value, list):
        return [_comparable(inside, shape.item()) for inside in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _item_at(items: Sequence[Any], part: str, shape: Shape) -> tuple[Segment, Any] | None:
    """Return the segment and value of the item that a part of a pointer means; None where the list is one leaf."""
    index = len(items) - 1 if part == "-" else int(part) if _is_index(part) else -1
    if _items(items, shape) is None or not 0 <= index < len(items):
        return None
    item = items[index]
    segment = SetMember(item) if shape.form == "Set" else keyed_item(item, shape)
    return None if segment is None else (segment, item)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
