"""The elements of lists with keys in `managedFields`: the same as one by one, in a time that follows their number."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from syncline.core.fields import elements_of, extra_paths, lost_paths, recordable_fields, unkept

VALUES = st.sampled_from(["a", "b", 1, 80, True, "TCP", "UDP", [], None])
KEYS = st.dictionaries(st.sampled_from(["name", "port", "protocol"]), VALUES, min_size=1, max_size=3)
SINGLE = KEYS.filter(lambda keys: not any(isinstance(value, list) for value in keys.values()))


def one_by_one(items: Sequence[Any], keyed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the element of each item: first by all keys, then by the keys of the item."""

    def fits(item: Any, keys: Mapping[str, Any]) -> bool:
        return isinstance(item, dict) and all(name in item and item[name] == value for name, value in keys.items())

    def fits_filled(item: Any, keys: Mapping[str, Any]) -> bool:
        if not isinstance(item, dict) or keys.keys().isdisjoint(item):
            return False
        return fits({**keys, **({"protocol": "TCP"} if "protocol" in keys else {}), **item}, keys)

    elements = {f"k:{json.dumps(keys)}": keys for keys in keyed}
    found = [next((element for element, keys in elements.items() if fits(item, keys)), "") for item in items]
    taken = set(found)
    for index, item in enumerate(items):
        if not found[index]:
            left = (one for one, keys in elements.items() if one not in taken and fits_filled(item, keys))
            found[index] = next(left, "")
            taken.add(found[index])
    return found


@given(st.lists(st.one_of(KEYS, st.just("text")), max_size=6), st.lists(SINGLE, min_size=1, max_size=6))
def test_items_have_the_same_elements_as_one_by_one(items: list[Any], keyed: list[dict[str, Any]]) -> None:
    assert elements_of(items, {f"k:{json.dumps(keys)}": {} for keys in keyed}) == one_by_one(items, keyed)


def test_many_items_take_little_time() -> None:
    """One Deployment can have 20,000 environment variables."""
    items = [{"name": f"v{number}"} for number in range(20_000)]
    tree = {f'k:{{"name":"v{number}","protocol":"TCP"}}': {} for number in range(20_000)}
    whole = {f'k:{{"name":"v{number}"}}': {} for number in range(20_000)}
    before = time.thread_time()
    assert elements_of(items, tree) == [*tree]
    assert elements_of(items[::-1], whole) == [*whole][::-1]
    strangers = [{"name": f"x{number}"} for number in range(20_000)]
    assert not any(elements_of(strangers, tree))
    assert time.thread_time() - before < 5


def test_paths_below_a_long_name_take_little_memory_and_time() -> None:
    """Below a name of 300,000 characters, 20,000 paths would be 6 GB."""
    long = "n" * 300_000
    lists = {f"l{number}": [1] for number in range(20_000)}
    theirs = {f"f:l{number}": None for number in range(20_000)}
    body = {"apiVersion": "x.example/v1", "kind": "Thing", "spec": {long: lists}}
    before = time.thread_time()
    fields = json.dumps({"f:spec": {f"f:{long}": theirs}, "??": {}}).encode()
    found = (*lost_paths(body, fields), *extra_paths(fields), *recordable_fields(body), *unkept(body, fields))
    assert len(found) > 20_000
    assert all(len(path) < 1100 for path in found)
    assert time.thread_time() - before < 5


def test_deep_values_take_a_time_that_follows_their_number() -> None:
    value: Any = {f"l{number}": 0 for number in range(20_000)}
    theirs: Any = {f"f:l{number}": None for number in range(20_000)}
    for _ in range(150):
        value, theirs = {"d": value}, {"f:d": theirs}
    body = {"apiVersion": "x.example/v1", "kind": "Thing", "spec": value}
    before = time.thread_time()
    assert len(lost_paths(body, {"f:spec": theirs})) == 20_000
    assert len(recordable_fields(body)) > 20_000
    assert time.thread_time() - before < 5
