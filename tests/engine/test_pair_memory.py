"""What a process remembers of pairs: which side it saw change last, and no more of them than it has room for."""

import json
import zlib
from typing import Any, cast

import pytest

from syncline.engine import pair_memory
from syncline.engine.pair_memory import PairMemory
from syncline.kube.openapi import SchemaDocument


def test_the_side_that_was_seen_to_change_last_is_the_later_one() -> None:
    memory = PairMemory()
    assert memory.order("pair", "u1", "d1") == ()
    assert memory.order("pair", "u2", "d1") == ("Upstream",)
    assert memory.order("pair", "u2", "d1") == ("Upstream",)
    assert memory.order("pair", "u2", "d2") == ("Downstream",)
    assert memory.order("other", "u2", "d2") == ()


def test_two_changes_at_one_look_have_no_order() -> None:
    memory = PairMemory()
    memory.order("pair", "u1", "d1")
    assert memory.order("pair", "u2", "d2") == ()


def test_the_own_writes_of_a_pass_are_no_changes() -> None:
    memory = PairMemory()
    memory.order("pair", "u1", "d1")
    memory.order("pair", "u2", "d1")
    memory.settle("pair", "u2", "d2")
    assert memory.order("pair", "u2", "d2") == ()
    assert memory.order("pair", "u2", "d3") == ("Downstream",)


def test_the_oldest_pair_is_forgotten_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_memory, "MAX_PAIRS", 2)
    memory = PairMemory()
    for name in ("a", "b", "c"):
        memory.order(name, "u1", "d1")
    assert memory.order("c", "u2", "d1") == ("Upstream",)
    assert memory.order("a", "u2", "d1") == ()


def document(kind: str, fields: int) -> SchemaDocument:
    properties = {f"field-{number}": {"type": "string"} for number in range(fields)}
    schema = {
        "properties": properties,
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": kind}],
    }
    components = json.dumps({"schemas": {kind: schema}}).encode()
    return SchemaDocument(kind.encode(), zlib.compress(components))


class Schemas:
    """A server that publishes one large kind after the other."""

    def __init__(self) -> None:
        self.openapi = self
        self.published = document("Widget", 3)

    async def documents(self, versions: list[str]) -> dict[str, SchemaDocument]:
        return dict.fromkeys(versions, self.published)


async def test_shapes_are_kept_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_memory, "MAX_SHAPE_PARTS", 100)
    memory, server = PairMemory(), Schemas()
    cluster = cast("Any", server)
    first = await memory.shape_of(cluster, "Widget.example.com", "example.com/v1")
    assert await memory.shape_of(cluster, "Widget.example.com", "example.com/v1") is first
    for number in range(5):
        server.published = document(f"Kind{number}", 60)
        await memory.shape_of(cluster, f"Kind{number}.example.com", "example.com/v1")
        assert len(memory._shapes) <= 2
