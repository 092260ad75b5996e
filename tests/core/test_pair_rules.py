"""The rules of pairs, the record of their base, and the patch that makes one object of another."""

import copy
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.core.json_diff import diff_patch
from syncline.core.objects import Target
from syncline.core.pair_plan import resolution_of, too_large
from syncline.core.pair_rules import PairRules, base_size, packed, unpacked
from syncline.core.pair_values import shown, shown_paths
from syncline.core.patching import json_patch
from syncline.core.plan import MAX_BASE
from syncline.core.twoway import Base

digests = st.dictionaries(st.sampled_from(("data/a", "data/b", "spec/x", "spec/y")), st.sampled_from(("1", "2", "?")))
names = st.sampled_from(("a", "b", "c/d", "e~f"))
documents = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(("x", "y")),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(names, inside, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(names, documents, max_size=4)


@pytest.mark.parametrize(
    ("rules", "plain"),
    [
        (PairRules(), True),
        (PairRules(exact=True), True),
        (PairRules(two_way=True), False),
        (PairRules(strategy="MergeChanges"), False),
        (PairRules(strategy="Skip"), False),
    ],
)
def test_only_a_copy_that_just_follows_needs_no_base(rules: PairRules, plain: bool) -> None:
    assert rules.is_plain() is plain


@given(up=digests, down=digests)
def test_a_base_is_read_as_it_was_recorded(up: dict[str, str], down: dict[str, str]) -> None:
    assert unpacked(packed(Base(up, down))) == Base(up, down)
    text = msgspec.json.encode(packed(Base(up, down)))
    assert len(text) <= base_size(packed(Base(up, down))) + 2


def test_the_second_half_of_a_base_takes_room_only_where_it_differs() -> None:
    assert packed(Base({"a": "1", "b": "1"}, {"a": "1", "b": "2", "c": "3"})) == {"a": "1", "b": "1,2", "c": ",3"}


def test_a_base_that_does_not_fit_is_refused() -> None:
    base = Base.same({f"data/{'k' * 200}{number}": "0" * 24 for number in range(300)})
    refusal = too_large(Target("team-a", "settings"), base)
    assert refusal is not None
    assert (refusal.reason, refusal.state) == ("BaseTooLarge", "Failed")
    assert str(MAX_BASE) in refusal.message
    assert too_large(Target("team-a", "settings"), Base.same({"data/a": "1"})) is None


@pytest.mark.parametrize(
    ("written", "path", "is_one_way"),
    [
        ("/data/a", "data/a", True),
        ("data/a", "data/a", True),
        ("/data/a", "data/ab", False),
        ("/spec/template", "spec/template/spec/x", True),
        ("/spec/args/0", "spec/args", True),
        ("/spec/containers/0/image", "spec/containers/[name=app]/image", True),
        ("/spec/containers/0/image", "spec/containers/[name=app]/command", False),
        ("/spec/containers/-", "spec/containers/[name=app]/command", True),
        ("/metadata/labels/a~1b", "metadata/labels/a~1b", True),
    ],
)
def test_what_a_transform_writes_flows_down_only(written: str, path: str, is_one_way: bool) -> None:
    assert PairRules(two_way=True, one_way=(written,)).flowing_down([path]) == ({path} if is_one_way else set())
    assert PairRules(one_way=(written,)).flowing_down([path]) == set()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("data/a", "data.a"),
        ("data/app.yaml", "data[app.yaml]"),
        ("spec/template/spec/containers/[name=app]/image", "spec.template.spec.containers[name=app].image"),
        ("metadata/labels/example.com~1tier", "metadata.labels[example.com/tier]"),
    ],
)
def test_paths_are_written_for_people(path: str, text: str) -> None:
    assert shown(path) == text


def test_only_some_of_many_paths_are_named() -> None:
    assert shown_paths([f"data/k{number}" for number in range(12)]).endswith("and 2 more")


def annotated(text: str | None, uid: str = "one") -> dict[str, Any]:
    return {"metadata": {"uid": uid, **({"annotations": {"syncline.dev/resolve": text}} if text is not None else {})}}


@pytest.mark.parametrize(
    ("above", "below", "two_way", "side", "is_wrong"),
    [
        (None, None, True, None, False),
        ("Upstream", None, True, "Upstream", False),
        (None, "Downstream", True, "Downstream", False),
        ("Upstream", "Upstream", True, "Upstream", False),
        ("Upstream", "Downstream", True, None, True),
        ("Upstream", None, False, "Upstream", False),
        ("Upstream", "Downstream", False, None, True),
        ("upstream", None, False, None, True),
        ("upstream", None, True, None, True),
        (None, "Mine", False, None, True),
    ],
)
def test_who_settles_a_conflict(
    above: str | None, below: str | None, two_way: bool, side: str | None, is_wrong: bool
) -> None:
    found = resolution_of(annotated(above), annotated(below), two_way=two_way)
    assert (found.side, bool(found.problem)) == (side, is_wrong)
    assert found.on_upstream == (two_way and above is not None and not is_wrong), "it is removed where we may write"


def test_an_annotation_that_cannot_be_removed_counts_once() -> None:
    source, other = annotated("Upstream", uid="one"), annotated("Upstream", uid="another")
    first = resolution_of(source, annotated(None), two_way=False)
    assert (first.side, first.is_used) == ("Upstream", False)
    assert first.counted
    again = resolution_of(source, annotated(None), two_way=False, counted=first.counted)
    assert (again.side, again.is_used, again.counted) == (None, True, first.counted)
    assert resolution_of(source, annotated("Downstream"), two_way=False, counted=first.counted).side == "Downstream"
    for fresh in (annotated("Downstream", uid="one"), other):
        assert resolution_of(fresh, annotated(None), two_way=False, counted=first.counted).side is not None
    assert resolution_of(annotated(None), annotated(None), two_way=False, counted=first.counted).counted == ""


def test_an_annotation_that_did_not_count_yet_is_not_used_up_by_a_wrong_one_on_the_copy() -> None:
    for below in ("Mine", "Downstream"):
        found = resolution_of(annotated("Upstream"), annotated(below), two_way=False)
        assert (found.side, found.counted, bool(found.problem)) == (None, "", True)


@given(before=objects, after=objects)
def test_a_patch_makes_one_object_of_another(before: dict[str, Any], after: dict[str, Any]) -> None:
    untouched = copy.deepcopy(before)
    patch = diff_patch(before, after)
    result = json_patch(before, patch) if patch else before
    assert msgspec.json.encode(result, order="sorted") == msgspec.json.encode(after, order="sorted")
    assert before == untouched
    assert diff_patch(after, after) == []


PARTS = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "[a]", "[b]", ""]), min_size=1, max_size=4)


def overlap(written: list[str], path: list[str]) -> bool:
    """Whether one path is the other, or above or below it; a place in a list stands for any of its items."""
    return all(
        one == other or (other.startswith("[") and (one == "-" or one.isdecimal()))
        for one, other in zip(written, path, strict=False)
    )


@given(st.lists(PARTS, max_size=5), PARTS)
def test_of_many_written_paths_any_may_be_above_or_below(written: list[list[str]], path: list[str]) -> None:
    rules = PairRules(two_way=True, one_way=tuple("/" + "/".join(one) for one in written))
    is_one_way = any(overlap(one, path) for one in written)
    assert rules.flowing_down(["/".join(path)]) == ({"/".join(path)} if is_one_way else set())


@pytest.mark.parametrize("written", ["data/k{}", "spec/list/{}/x"])
def test_many_written_paths_and_many_values_take_little_time(written: str) -> None:
    rules = PairRules(two_way=True, one_way=tuple("/" + written.format(number) for number in range(4_000)))
    paths = [path for number in range(15_000) for path in (f"data/v{number}", f"spec/list/[i{number}]/v{number}")]
    before = time.process_time()
    assert rules.flowing_down(paths) == set()
    assert time.process_time() - before < 10
