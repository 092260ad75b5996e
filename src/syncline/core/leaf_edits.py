"""Leaves of an object set and removed: `apply_leaves`. Its time follows the number of leaves.

The order of a list with keys is no leaf. Items that are added get their order from another object.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from syncline.core.object_paths import (
    NO_LEAVES,
    OWN_MARKS,
    KeyedItem,
    Segment,
    Segments,
    SetMember,
    is_blank,
    key_value,
    keyed_item,
    leaves,
    split_path,
    write_segment,
)
from syncline.core.object_shapes import Shape

Json = dict[str, Any]
_METADATA = ("labels", "annotations")
_START = -1


def canonical(manifest: Mapping[str, Any], shape: Shape) -> Json:
    """Return an object without values that count as absent, with the keys of items filled in and sets sorted."""
    result = {name: manifest[name] for name in manifest if name in NO_LEAVES}
    if isinstance(metadata := manifest.get("metadata"), Mapping):
        marks = {
            part: kept
            for part in _METADATA
            if (kept := {name: value for name, value in _map(metadata.get(part)).items() if name.startswith(OWN_MARKS)})
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
    edit = _Edit()
    for path in unset:
        edit.remove(result, split_path(path), shape)
    for path, value in put.items():
        edit.put(result, split_path(path), deepcopy(value), shape, order)
    edit.close()
    return result


class _Edit:
    """The edit of one object. Each list is opened once, and written back at the end."""

    def __init__(self) -> None:
        self._lists: dict[int, _OpenList] = {}
        self._orders: dict[int, _ItemOrder] = {}
        self._left: dict[int, tuple[Json, deque[str]]] = {}

    def close(self) -> None:
        for one in self._lists.values():
            one.write_back()

    def remove(self, container: Any, segments: Segments, shape: Shape, keys: Sequence[str] = ()) -> bool:
        """Remove a leaf below a map or list; return whether nothing is left in it but the keys of an item."""
        segment, rest = segments[0], segments[1:]
        if isinstance(segment, str):
            if not isinstance(container, dict) or segment not in container:
                return False
            if rest and not self.remove(container[segment], rest, shape.field(segment)):
                return False
            del container[segment]
            return self._is_blank(container, shape, keys)
        items = self._open(container, shape)
        at = items.find(segment) if items is not None else None
        if items is None or at is None:
            return False
        below = shape.keys if isinstance(segment, KeyedItem) else ()
        if rest and not self.remove(items.values[at], rest, shape.item(), below):
            return False
        items.remove(at)
        return not items.values

    def put(self, container: Any, segments: Segments, value: Any, shape: Shape, order: Any) -> None:
        """Set a leaf below a map or list."""
        segment, rest = segments[0], segments[1:]
        if not isinstance(segment, str):
            self._put_item(container, segments, value, shape, order)
        elif rest:
            wanted = dict if isinstance(rest[0], str) else list
            if not isinstance(container.get(segment), wanted):
                container[segment] = wanted()
            self.put(container[segment], rest, value, shape.field(segment), _map(order).get(segment))
        else:
            container[segment] = value

    def _put_item(self, container: Any, segments: Segments, value: Any, shape: Shape, order: Any) -> None:
        segment, rest = segments[0], segments[1:]
        items = self._open(container, shape)
        assert items is not None  # noqa: S101 - the parent was made for an item
        at = items.find(segment)
        if isinstance(segment, SetMember):
            if at is None:
                items.append(segment.value)
            return
        assert isinstance(segment, KeyedItem)  # noqa: S101 - the only other segment
        like = self._order(order, shape)
        if at is None:
            at = items.insert(dict(segment.keys), segment, like)
        if not rest and shape.item().form == "Atomic":
            items.values[at] = {**dict(segment.keys), **_map(value)}
        elif rest and isinstance(rest[0], str):
            there = like.first(segment) if like is not None else None
            below = like.values[there] if like is not None and there is not None else None
            self.put(items.values[at], rest, value, shape.item(), below)

    def _is_blank(self, container: Json, shape: Shape, keys: Sequence[str]) -> bool:
        """Whether nothing is left in a map but keys, and values that count as absent: these stay so."""
        if id(container) not in self._left:
            self._left[id(container)] = container, deque(container)
        names = self._left[id(container)][1]
        while names:
            name = names[0]
            if name in container and name not in keys and not is_blank(container[name], name, shape):
                return False
            names.popleft()
        return True

    def _open(self, items: Any, shape: Shape) -> "_OpenList | None":
        if not isinstance(items, list):
            return None
        if id(items) not in self._lists:
            self._lists[id(items)] = _OpenList(items, shape)
        return self._lists[id(items)]

    def _order(self, items: Any, shape: Shape) -> "_ItemOrder | None":
        if not isinstance(items, list):
            return None
        if id(items) not in self._orders:
            self._orders[id(items)] = _ItemOrder(items, shape)
        return self._orders[id(items)]


class _ItemOrder:
    """The items of a list by their places, which are found by segments."""

    def __init__(self, items: list[Any], shape: Shape) -> None:
        self.items = items
        self.values = dict(enumerate(items))
        self._shape = shape
        self._places: dict[tuple[str, ...], dict[str, list[int]]] = {}

    def all(self, segment: Segment) -> list[int]:
        """Return the places of all items with a segment."""
        names = _names(segment)
        if names not in self._places:
            found: dict[str, list[int]] = {}
            for place, item in self.values.items():
                if (text := self._text(item, names)) is not None:
                    found.setdefault(text, []).append(place)
            self._places[names] = found
        return self._places[names].get(write_segment(segment), [])

    def first(self, segment: Segment) -> int | None:
        """Return the first place with a segment."""
        return next(iter(self.all(segment)), None)

    def segment_at(self, place: int) -> KeyedItem | None:
        """Return the segment of the item at a place; None if it has none."""
        return keyed_item(self.values[place], self._shape)

    def _text(self, item: Any, names: tuple[str, ...]) -> str | None:
        if not names:
            return write_segment(SetMember(item))
        if not isinstance(item, Mapping):
            return None
        return write_segment(KeyedItem(tuple((name, key_value(item, name, self._shape)) for name in names)))

    def add(self, place: int, value: Any) -> None:
        """Add an item at a new place."""
        self.values[place] = value
        for names, found in self._places.items():
            if (text := self._text(value, names)) is not None:
                found.setdefault(text, []).append(place)


class _OpenList(_ItemOrder):
    """A list that is edited. A place is the name of an item: it stays while others come and go."""

    def __init__(self, items: list[Any], shape: Shape) -> None:
        super().__init__(items, shape)
        self._end = len(items)
        self._after = {place: place + 1 for place in range(_START, self._end)}
        self._last = self._end - 1
        self._present: tuple[_ItemOrder, list[int]] | None = None

    def find(self, segment: Segment) -> int | None:
        """Return the place of the first item with a segment."""
        places = self.all(segment)
        while places and places[0] not in self.values:
            del places[0]
        return places[0] if places else None

    def remove(self, place: int) -> None:
        """Remove an item."""
        del self.values[place]

    def append(self, value: Any) -> int:
        """Add an item at the end."""
        return self._insert_after(self._last, value)

    def insert(self, value: Any, segment: KeyedItem, order: _ItemOrder | None) -> int:
        """Add an item after the one that it follows in another list, or else at the end."""
        there = order.first(segment) if order is not None else None
        if order is None or there is None:
            return self.append(value)
        present = self._present_in(order)
        at = bisect_left(present, there)
        before = order.segment_at(present[at - 1]) if at else None
        found = self.find(before) if before is not None else None
        for each in order.all(segment):
            insort(present, each)
        return self._insert_after(_START if found is None else found, value)

    def _present_in(self, order: _ItemOrder) -> list[int]:
        """Return the places in another list of the items that are in this one, in their order."""
        if self._present is None or self._present[0] is not order:
            known = ((place, order.segment_at(place)) for place in order.values)
            found = [place for place, segment in known if segment is not None and self.find(segment) is not None]
            self._present = (order, found)
        return self._present[1]

    def _insert_after(self, place: int, value: Any) -> int:
        new = self._end = self._end + 1
        self._after[new], self._after[place] = self._after[place], new
        if place == self._last:
            self._last = new
        self.add(new, value)
        return new

    def write_back(self) -> None:
        """Write the items into the list."""
        left: list[Any] = []
        place: int | None = self._after[_START]
        while place is not None:
            if place in self.values:
                left.append(self.values[place])
            place = self._after.get(place)
        self.items[:] = left


def _names(segment: Segment) -> tuple[str, ...]:
    """Return the names of the keys of an item; none for a member of a set."""
    return tuple(name for name, _ in segment.keys) if isinstance(segment, KeyedItem) else ()


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
