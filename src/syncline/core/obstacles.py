"""Fields of others that conflict with ours.

A server-side apply keeps the fields of others. If our field and theirs exclude each other (two types of a volume, or
settings of another update strategy), the server refuses the apply, and names a field near them. Then one patch removes
theirs and restores ours, as a whole or not at all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from syncline.core.fields import Json, elements_of
from syncline.core.request_bodies import escape

_INDEX = re.compile(r"\[[^\]]*\]")
_NOT_PATCHED = frozenset({"apiVersion", "kind", "metadata", "status"})


class _FieldPosition(Struct, frozen=True):
    """A map of the object: its path, its readable path, and the maps that the server may mean."""

    pointer: str
    field: str
    near: frozenset[str]

    @property
    def is_near(self) -> bool:
        return self.field in self.near

    def below(self, name: str) -> "_FieldPosition":
        return _FieldPosition(
            f"{self.pointer}/{escape(name)}", f"{self.field}.{name}" if self.field else name, self.near
        )

    def item(self, index: int) -> "_FieldPosition":
        return _FieldPosition(f"{self.pointer}/{index}", self.field, self.near)


def clearing_patch(
    sent: Mapping[str, Any], live: Mapping[str, Any], fields: bytes, named: Sequence[str]
) -> list[Json] | None:
    """Return the JSON patch that replaces their fields by ours; None if no field of others conflicts.

    `fields` is the result of `fields.owned_fields` for the live object. `named` are the fields that the server names,
    such as `spec.template.spec.volumes[0].hostPath`: only their neighbours are removed.
    """
    bare = frozenset(_INDEX.sub("", field) for field in named if field)
    near = bare | {field.rpartition(".")[0] for field in bare}
    body = {name: value for name, value in sent.items() if name not in _NOT_PATCHED}
    return list(_clear_map(body, live, msgspec.json.decode(fields), _FieldPosition("", "", near))) or None


def _clear_map(
    sent: Mapping[str, Any], live: Mapping[str, Any], tree: Mapping[str, Any], here: _FieldPosition
) -> Iterator[Json]:
    theirs = [
        element[2:]
        for element, below in tree.items()
        if element[:2] == "f:" and below is None and element[2:] not in sent and element[2:] in live
    ]
    lost = [name for name, value in sent.items() if value is not None and tree.get(f"f:{name}") is None]
    if here.is_near and theirs and lost:
        yield from ({"op": "remove", "path": here.below(name).pointer} for name in theirs)
        yield from ({"op": "add", "path": here.below(name).pointer, "value": sent[name]} for name in lost)
        lost = []
    for name, value in sent.items():
        below, there, inside = tree.get(f"f:{name}"), live.get(name), here.below(name)
        if below and isinstance(value, dict) and isinstance(there, dict):
            yield from _clear_map(value, there, below, inside)
        elif below and isinstance(value, list) and isinstance(there, list):
            yield from _clear_items(value, there, below, inside)
        elif name in lost and inside.is_near and isinstance(value, dict) and isinstance(there, dict):
            yield {"op": "add", "path": inside.pointer, "value": value}


def _clear_items(
    sent: Sequence[Any], live: Sequence[Any], tree: Mapping[str, Any], here: _FieldPosition
) -> Iterator[Json]:
    places: dict[str, int] = {}
    for at, element in enumerate(elements_of(live, tree)):
        places.setdefault(element, at)
    for item, element in zip(sent, elements_of(sent, tree), strict=False):
        index = places.get(element)
        if element[:2] != "k:" or not isinstance(item, dict) or index is None:
            continue
        if tree[element]:
            yield from _clear_map(item, live[index], tree[element], here.item(index))
        elif tree[element] is None and here.is_near:
            yield {"op": "replace", "path": here.item(index).pointer, "value": item}
