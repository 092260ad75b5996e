"""Pairs of large objects: their time follows the number of their values, whatever their shape."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from syncline.core.digest import DigestKey
from syncline.core.last_write import WriteTime, write_time_of
from syncline.core.leaf_edits import apply_leaves
from syncline.core.object_paths import leaves
from syncline.core.object_shapes import shape_from_schema
from syncline.core.objects import Body, Desired, Target
from syncline.core.pair_values import ValueReader
from syncline.core.strip import NotCopyable

ITEMS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
}
SHAPE = shape_from_schema(
    {"type": "object", "properties": {"spec": {"type": "object", "properties": {"items": ITEMS}}}}
)
MANY = 15_000
READER = ValueReader(SHAPE, DigestKey(b"secret"))


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    before = time.thread_time()
    yield
    assert time.thread_time() - before < seconds


def thing(*names: str) -> dict[str, Any]:
    items = [{"name": name, "value": 1} for name in names]
    return {"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {}, "spec": {"items": items}}


NAMES = [f"n{number:05}" for number in range(MANY)]


@pytest.mark.parametrize("backwards", [False, True])
def test_many_items_are_set_and_removed(backwards: bool) -> None:
    whole, empty = thing(*NAMES), thing()
    paths = leaves(whole, SHAPE)
    wanted = dict(reversed(paths.items())) if backwards else paths
    with at_most(5):
        assert apply_leaves(empty, wanted, (), SHAPE, order=whole) == whole
        assert apply_leaves(whole, dict.fromkeys(wanted, 2), (), SHAPE, order=whole) != whole
        assert "spec" not in apply_leaves(whole, {}, wanted, SHAPE)


def test_many_values_are_removed_next_to_many_that_say_nothing() -> None:
    blank: dict[str, Any] = {f"a{number}": [] for number in range(MANY)}
    values = {f"b{number}": 1 for number in range(MANY)}
    with at_most(5):
        gone = [f"spec/{name}" for name in values]
        assert apply_leaves({"spec": {**blank, **values}}, {}, gone, SHAPE) == {}


def test_many_items_lose_their_values_next_to_many_labels() -> None:
    manifest = thing(*NAMES)
    manifest["metadata"] = {"annotations": {f"a{number}": "" for number in range(4_000)}}
    with at_most(4):
        changed = READER.changed(manifest, {}, [*leaves(thing(*NAMES), SHAPE)], {})
    assert "spec" not in changed


def test_values_below_a_long_name_are_refused() -> None:
    """Below a name of 300,000 characters, the paths of 20,000 values would be 6 GB."""
    fields = {"spec": {"n" * 300_000: {f"v{number}": 1 for number in range(20_000)}}}
    body = Body("x.example/v1", "Thing", fields)
    target = Target("a", "one", "Thing.x.example", "")
    desired = Desired(target=target, body=body, digest="", source="", revision="")
    with at_most(2), pytest.raises(NotCopyable, match="Thing: it has many values below very long names"):
        READER.upstream(desired)


def test_the_last_write_of_many_items_is_found() -> None:
    items: dict[str, Any] = {f'k:{{"name":"{name}"}}': {"f:value": {}} for name in NAMES}
    entry = {"manager": "them", "time": "1970-01-01T00:10:00Z", "fieldsV1": {"f:spec": {"f:items": items}}}
    absent = [f"spec/items/[name=x{name}]/value" for name in NAMES]
    with at_most(5):
        assert write_time_of([entry], absent) is None
        assert write_time_of([entry], [*absent, f"spec/items/[name={NAMES[-1]}]/value"]) == WriteTime(600, "them")
