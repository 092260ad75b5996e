"""The three-way merge of one direction, on digests of values.

Every way in which one key can differ is tried; a last property shows that keys do not touch each other.
"""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.oracle import merge_by_the_book, other_map
from tests.sampling import quick

from syncline.core.merge import merge_one_way

Leaves = dict[str, str]

# What the base, the source and the destination have; what the destination has then, and the base to record.
CELLS: dict[str, tuple[str, str, str, str, str]] = {
    "nothing changed": ("1", "1", "1", "1", "1"),
    "the source changed": ("1", "2", "1", "2", "2"),
    "the destination changed": ("1", "1", "2", "2", "1"),
    "both changed alike": ("1", "2", "2", "2", "2"),
    "the source added": ("", "1", "", "1", "1"),
    "the destination added": ("", "", "1", "1", ""),
    "both added alike": ("", "1", "1", "1", "1"),
    "the source deleted": ("1", "", "1", "", ""),
    "the destination deleted": ("1", "1", "", "", "1"),
    "both deleted": ("1", "", "", "", ""),
    "conflict: both changed differently": ("1", "2", "3", "3", "1"),
    "conflict: both added differently": ("", "1", "2", "2", ""),
    "conflict: the source deleted, the destination changed": ("1", "", "2", "2", "1"),
    "conflict: the source changed, the destination deleted": ("1", "2", "", "", "1"),
}
SIDES: list[Leaves] = [
    {},
    {"data/a": "1"},
    {"data/a": "2"},
    {"data/a": "3"},
    {"binaryData/a": "1"},
    {"binaryData/a": "2"},
    {"binaryData/a": "4"},
]
EVERY = list(product(SIDES, repeat=3))


def leaves(value: str) -> Leaves:
    return {"data/a": value} if value else {}


@pytest.mark.parametrize("name", CELLS)
def test_one_key(name: str) -> None:
    base, source, destination, result, new_base = (leaves(value) for value in CELLS[name])
    merged = merge_one_way(base, source, destination)
    assert merged.result == result
    assert merged.base == new_base
    assert merged.conflicts == (("data/a",) if name.startswith("conflict") else ())


def test_what_was_edited_stays_and_everything_else_is_the_sources() -> None:
    for base, source, there in EVERY:
        assert merge_one_way(base, source, there).result == merge_by_the_book(base, source, there)


def test_an_edit_made_on_one_side_only_is_never_lost() -> None:
    for base, source, there in EVERY:
        merged = merge_one_way(base, source, there)
        assert source != base or merged.result == there
        assert there != base or merged.result == source


def test_the_same_change_on_both_sides_is_silent() -> None:
    for base, source, there in EVERY:
        if source == there:
            merged = merge_one_way(base, source, there)
            assert (merged.set, merged.unset, merged.conflicts) == ((), (), ())
            assert merged.base == source


def test_a_second_merge_changes_nothing_and_reports_the_same() -> None:
    for base, source, there in EVERY:
        first = merge_one_way(base, source, there)
        second = merge_one_way(first.base, source, first.result)
        assert (second.set, second.unset) == ((), ())
        assert (second.result, second.base, second.conflicts) == (first.result, first.base, first.conflicts)


def test_the_server_accepts_the_result() -> None:
    for base, source, there in EVERY:
        merged = merge_one_way(base, source, there)
        assert not any(other_map(path) in merged.result for path in merged.result)


def test_a_conflict_stays_as_it_is_and_its_base_is_not_advanced() -> None:
    for base, source, there in EVERY:
        merged = merge_one_way(base, source, there)
        for path in merged.conflicts:
            assert source.get(path) != there.get(path)
            assert merged.result.get(path) == there.get(path)
            assert merged.base.get(path) == base.get(path)
        for path in merged.result.keys() - set(merged.conflicts):
            assert merged.base.get(path) == source.get(path)


def test_a_conflict_ends_when_one_side_gives_in() -> None:
    for base, source, there in EVERY:
        merged = merge_one_way(base, source, there)
        for agreed in (source, merged.result):
            end = merge_one_way(merged.base, agreed, agreed)
            assert (end.set, end.unset, end.conflicts) == ((), (), ())
            assert end.base == agreed


def test_take_and_drop_lead_from_the_destination_to_the_result() -> None:
    for base, source, there in EVERY:
        merged = merge_one_way(base, source, there)
        assert set(merged.unset) <= there.keys()
        carried_out = {path: value for path, value in there.items() if path not in merged.unset}
        assert carried_out | {path: source[path] for path in merged.set} == merged.result


@quick
@given(st.lists(st.sampled_from(EVERY), max_size=4), st.randoms(use_true_random=False))
def test_keys_are_merged_one_by_one_in_any_order(keys: list[tuple[Leaves, Leaves, Leaves]], random: Random) -> None:
    def together(side: int) -> Leaves:
        entries = [(f"{path}{number}", value) for number, key in enumerate(keys) for path, value in key[side].items()]
        random.shuffle(entries)
        return dict(entries)

    merged = merge_one_way(together(0), together(1), together(2))

    alone = [merge_one_way(*key) for key in keys]
    for part in ("set", "unset", "conflicts"):
        expected = [f"{path}{number}" for number, one in enumerate(alone) for path in getattr(one, part)]
        assert list(getattr(merged, part)) == sorted(expected)
    for part in ("base", "result"):
        assert getattr(merged, part) == {
            f"{path}{number}": value for number, one in enumerate(alone) for path, value in getattr(one, part).items()
        }
