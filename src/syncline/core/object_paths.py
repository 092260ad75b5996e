"""An object as leaves, by their paths, and back: `leaves`, `leaf_digests`, `apply_leaves`. For merges of any kind.

A path is segments joined by `/`, escaped as in a JSON pointer. An item of a list with keys is a segment such as
`[name=web]` or `[containerPort=80,protocol=TCP]`, a member of a set one such as `[=ReadWriteOnce]`. A path below
another one begins with its segments, as `twoway.agree` needs it.

    spec/template/spec/containers/[name=web]/image

A leaf is a single value, a list without keys, a map that is one value as a whole, or an empty map that means something
(`emptyDir: {}`). Null, an empty list, and an empty map without a meaning count as absent, as they do for the server.
The keys of an item are no leaves: its path has them. The identity of the object, its status and Syncline's marks are no
leaves either.

The order of a list with keys is no leaf. Items that `apply_leaves` adds get their order from another object.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from syncline.api.common import GROUP
from syncline.core.digest import DigestKey, leaf_digest
from syncline.core.object_shapes import Shape
from syncline.core.quantities import parse_quantity

Json = dict[str, Any]

DEPTH_LIMIT = 64
"""A value that is nested more deeply is one leaf."""

_METADATA = ("labels", "annotations")
_NO_LEAVES = frozenset({"apiVersion", "kind", "metadata", "status"})
_MARKS = f"{GROUP}/"
_is_bare = re.compile(r"(?!(?:true|false|null)$)[A-Za-z_][-A-Za-z0-9_.]*").fullmatch
_bare_text = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]*")
_is_index = re.compile(r"[0-9]{1,9}").fullmatch
_decoder = json.JSONDecoder()


class PathError(Exception):
    """A text is not a path."""


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
    """Return the leaves of an object, in its order."""
    return {join_path(leaf.segments): leaf.value for leaf in _object_leaves(manifest, shape)}


def leaf_digests(manifest: Mapping[str, Any], shape: Shape, key: DigestKey) -> dict[str, str]:
    """Return the digest of each leaf, by its path; equal quantities have equal digests, however they are written."""
    return {
        join_path(leaf.segments): leaf_digest(_comparable(leaf.value, leaf.shape), key)
        for leaf in _object_leaves(manifest, shape)
    }


def canonical(manifest: Mapping[str, Any], shape: Shape) -> Json:
    """Return an object without values that count as absent, with the keys of items filled in and sets sorted."""
    result = {name: manifest[name] for name in manifest if name in _NO_LEAVES}
    if isinstance(metadata := manifest.get("metadata"), Mapping):
        marks = {
            part: kept
            for part in _METADATA
            if (kept := {name: value for name, value in _map(metadata.get(part)).items() if name.startswith(_MARKS)})
        }
        result["metadata"] = {name: metadata[name] for name in metadata if name not in _METADATA} | marks
    return apply_leaves(result, leaves(manifest, shape), (), shape)


def apply_leaves(
    manifest: Mapping[str, Any],
    put: Mapping[str, Any],
    unset: Iterable[str],
    shape: Shape,
    *,
    order: Mapping[str, Any] | None = None,
) -> Json:
    """Return the object with some leaves removed and then others set. The manifest is not changed.

    Parents and items are made as needed; a parent without any leaf left is removed. `order`: an object whose lists
    tell where new items go; without it they go to the end. Apply leaves to an object in the form that its leaves were
    taken from (`upstream_objects.taken_down`): fields that are no leaves there would keep their parents. Raises
    `PathError`.
    """
    result = deepcopy(dict(manifest))
    for path in unset:
        _remove(result, split_path(path), shape)
    for path, value in put.items():
        _put(result, split_path(path), deepcopy(value), shape, order)
    return result


def pointer_path(manifest: Mapping[str, Any], pointer: Sequence[str], shape: Shape) -> str:
    """Return the path in an object for a JSON pointer (its parts, unescaped).

    Inside a value that is a leaf as a whole, it is the path of that value. `-` is the last item of a list.
    """
    segments: list[Segment] = []
    value: Any = manifest
    for part in pointer:
        if shape.form in ("Atomic", "Quantity"):
            break
        if isinstance(value, list) or (value is None and (shape.keys or shape.form == "Set")):
            item = _item_at(value or [], part, shape)
            if item is None:
                break
            segments.append(item[0])
            value, shape = item[1], shape.item()
        else:
            segments.append(part)
            value, shape = (value.get(part) if isinstance(value, Mapping) else None), shape.field(part)
    return join_path(tuple(segments))


def join_path(segments: Sequence[Segment]) -> str:
    """Write a path."""
    return "/".join(map(_write_segment, segments))


def split_path(path: str) -> Segments:
    """Read a path. Raises `PathError`."""
    return tuple(map(read_segment, path.split("/")))


def read_segment(text: str) -> Segment:
    """Read one segment of a path. Raises `PathError`."""
    is_item = text.startswith("[")
    plain = text.replace("~2", "[").replace("~1", "/").replace("~0", "~")
    return _read_item(plain) if is_item else plain


def _write_segment(segment: Segment) -> str:
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


def _object_leaves(manifest: Mapping[str, Any], shape: Shape) -> Iterator[_Leaf]:
    metadata = shape.field("metadata")
    for part in _METADATA:
        entries = _map(_map(manifest.get("metadata")).get(part))
        for name, value in entries.items():
            if not name.startswith(_MARKS):
                yield from _leaves(value, ("metadata", part, name), metadata.field(part).field(name))
    for name, value in manifest.items():
        if name not in _NO_LEAVES and not _is_blank(value, name, shape):
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
        if not _is_blank(inside, name, shape):
            is_empty = False
            yield from _leaves(inside, (*segments, name), shape.field(name))
    if is_empty:
        yield _Leaf(segments, {}, shape)


def _is_blank(value: Any, name: str, shape: Shape) -> bool:
    """Whether a field of a map counts as absent."""
    if value is None or value == []:
        return True
    return (
        isinstance(value, Mapping)
        and shape.empty_is_absent(name)
        and all(_is_blank(inside, below, shape.field(name)) for below, inside in value.items())
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
    found = [(_keyed(item, shape), item) for item in items]
    segments = [segment for segment, _ in found if segment is not None]
    if len({_write_segment(segment) for segment in segments}) < len(items):
        return None
    return [(segment, item) for segment, item in found if segment is not None]


def _keyed(item: Any, shape: Shape) -> KeyedItem | None:
    if not isinstance(item, Mapping):
        return None
    keys = tuple((name, _key_value(item, name, shape)) for name in shape.keys)
    return KeyedItem(keys) if all(isinstance(value, str | int) for _, value in keys) else None


def _key_value(item: Mapping[str, Any], name: str, shape: Shape) -> Any:
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
            if not _is_blank(inside, name, shape)
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
    segment = SetMember(item) if shape.form == "Set" else _keyed(item, shape)
    return None if segment is None else (segment, item)


def _remove(container: Any, segments: Segments, shape: Shape, keys: Sequence[str] = ()) -> bool:
    """Remove a leaf below a map or list; return whether nothing is left in it but the keys of an item."""
    segment = segments[0]
    at = _find(container, segment, shape)
    if at is None:
        return False
    if len(segments) > 1:
        is_item = isinstance(segment, KeyedItem)
        below = shape.field(segment) if isinstance(segment, str) else shape.item()
        if not _remove(container[at], segments[1:], below, shape.keys if is_item else ()):
            return False
    del container[at]
    if isinstance(container, list):
        return not container
    return all(name in keys or _is_blank(inside, name, shape) for name, inside in container.items())


def _put(container: Any, segments: Segments, value: Any, shape: Shape, order: Any) -> None:
    """Set a leaf below a map or list."""
    segment, rest = segments[0], segments[1:]
    if isinstance(segment, str):
        if rest:
            wanted = dict if isinstance(rest[0], str) else list
            if not isinstance(container.get(segment), wanted):
                container[segment] = wanted()
            _put(container[segment], rest, value, shape.field(segment), _map(order).get(segment))
        else:
            container[segment] = value
        return
    at = _find(container, segment, shape)
    if isinstance(segment, SetMember):
        if at is None:
            container.append(segment.value)
        return
    if at is None:
        at = _place(container, segment, shape, order)
        container.insert(at, dict(segment.keys))
    if not rest and shape.item().form == "Atomic":
        container[at] = {**dict(segment.keys), **_map(value)}
    elif rest and isinstance(rest[0], str):
        like = order[there] if (there := _find_item(order, segment, shape)) is not None else None
        _put(container[at], rest, value, shape.item(), like)


def _place(items: Sequence[Any], segment: KeyedItem, shape: Shape, order: Any) -> int:
    """Return where a new item goes: after the item that it follows in the other list, or else to the end."""
    there = _find_item(order, segment, shape)
    if there is None:
        return len(items)
    for before in reversed(order[:there]):
        known = _keyed(before, shape)
        at = None if known is None else _find_item(items, known, shape)
        if at is not None:
            return at + 1
    return 0


def _find(container: Any, segment: Segment, shape: Shape) -> Any:
    """Return the key or index of what a segment names in a map or list; None where it is absent."""
    if isinstance(segment, str):
        return segment if isinstance(container, Mapping) and segment in container else None
    return _find_item(container, segment, shape)


def _find_item(container: Any, segment: KeyedItem | SetMember, shape: Shape) -> int | None:
    if not isinstance(container, list):
        return None
    wanted = _write_segment(segment)
    for index, item in enumerate(container):
        found: Segment | None = None
        if isinstance(segment, SetMember):
            found = SetMember(item)
        elif isinstance(item, Mapping):
            found = KeyedItem(tuple((name, _key_value(item, name, shape)) for name, _ in segment.keys))
        if found is not None and _write_segment(found) == wanted:
            return index
    return None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
