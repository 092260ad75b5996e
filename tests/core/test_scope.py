"""Which namespaces a sync writes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.api.common import LabelSelector, LabelSelectorRequirement
from syncline.core.scope import Namespace, Reach, Scope, scope_of

BLUE = LabelSelector(match_labels={"team": "blue"})
OPERATOR = frozenset({"syncline-system"})


def namespace(name: str, *, terminating: bool = False, **labels: str) -> Namespace:
    return Namespace(name, f"uid-of-{name}", labels, terminating)


def scope(*patterns: str, selector: LabelSelector | None = None) -> Scope:
    return scope_of((), patterns, selector, OPERATOR)


class TestReach:
    def test_an_exact_name_is_wanted_and_others_are_not(self) -> None:
        assert scope("team-a").reach(namespace("team-a")) is Reach.WANTED
        assert scope("team-a").reach(namespace("team-ab")) is Reach.OUTSIDE

    def test_a_glob_is_matched_against_the_whole_name(self) -> None:
        assert scope("team-*").reach(namespace("team-a")) is Reach.WANTED
        assert scope("team-*").reach(namespace("my-team-a")) is Reach.OUTSIDE

    def test_a_selector_is_matched_against_the_labels(self) -> None:
        assert scope(selector=BLUE).reach(namespace("any", team="blue")) is Reach.WANTED
        assert scope(selector=BLUE).reach(namespace("any", team="red")) is Reach.OUTSIDE

    @pytest.mark.parametrize(
        ("found", "wanted"),
        [
            (namespace("named"), True),
            (namespace("listed"), True),
            (namespace("team-a"), True),
            (namespace("any", team="blue"), True),
            (namespace("any"), False),
        ],
    )
    def test_names_globs_and_selector_are_a_union(self, found: Namespace, wanted: bool) -> None:
        union = scope_of(("named",), ("listed", "team-*"), BLUE, OPERATOR)
        assert union.matches(found) is wanted

    def test_nothing_asked_for_is_nothing_wanted(self) -> None:
        assert scope().reach(namespace("team-a", team="blue")) is Reach.OUTSIDE

    @pytest.mark.parametrize("name", ["kube-system", "kube-public", "kube-anything", "syncline-system"])
    @pytest.mark.parametrize("derived", [scope("*"), scope("kube-*", "syncline-*", "*-system"), scope(selector=BLUE)])
    def test_globs_and_selectors_never_reach_the_cluster_s_and_the_operator_s_own(
        self, derived: Scope, name: str
    ) -> None:
        assert derived.reach(namespace(name, team="blue")) is Reach.OUTSIDE

    @pytest.mark.parametrize("name", ["kube-system", "syncline-system"])
    def test_an_exact_name_does_reach_them(self, name: str) -> None:
        assert scope(name).reach(namespace(name)) is Reach.WANTED
        assert scope_of((name,), (), None, OPERATOR).reach(namespace(name)) is Reach.WANTED

    def test_a_name_that_only_begins_like_them_is_ordinary(self) -> None:
        assert scope("*").reach(namespace("kubeflow")) is Reach.WANTED
        assert scope("*").reach(namespace("syncline-system-2")) is Reach.WANTED

    @pytest.mark.parametrize("asked", [scope("team-a"), scope("*")])
    def test_the_ignore_label_keeps_every_sync_out(self, asked: Scope) -> None:
        ignored = namespace("team-a", **{"syncline.dev/ignore": "true"})
        assert asked.reach(ignored) is Reach.IGNORED
        assert asked.reach(namespace("team-a", **{"syncline.dev/ignore": "false"})) is Reach.WANTED

    def test_a_terminating_namespace_is_not_written_to(self) -> None:
        assert scope("*").reach(namespace("team-a", terminating=True)) is Reach.TERMINATING

    def test_what_is_outside_is_outside_whatever_else_it_is(self) -> None:
        other = namespace("other", terminating=True, **{"syncline.dev/ignore": "true"})
        assert scope("team-*").reach(other) is Reach.OUTSIDE


names = st.lists(st.sampled_from(("a", "b", "team-*", "*-x", "c?")), max_size=4)
requirements = st.builds(
    lambda key, operator: LabelSelectorRequirement(key=key, operator=operator),
    st.sampled_from("kl"),
    st.sampled_from(("Exists", "DoesNotExist")),
) | st.builds(
    lambda key, operator, values: LabelSelectorRequirement(key=key, operator=operator, values=values),
    st.sampled_from("kl"),
    st.sampled_from(("In", "NotIn")),
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True),
)
selectors = st.builds(
    lambda match_labels, expressions: LabelSelector(match_labels=match_labels, match_expressions=expressions),
    st.dictionaries(st.sampled_from("kl"), st.sampled_from("xy"), min_size=1),
    st.lists(requirements, max_size=2),
)


class TestDigest:
    """It tells an edit of the spec, which may shrink the scope, from a change of the cluster, which is guarded."""

    @quick
    @given(names, selectors, st.data())
    def test_the_same_asked_for_in_another_order_is_the_same(
        self, patterns: list[str], selector: LabelSelector, data: st.DataObject
    ) -> None:
        shuffled = LabelSelector(
            match_labels=dict(data.draw(st.permutations(list(selector.match_labels.items())))),
            match_expressions=[
                LabelSelectorRequirement(
                    key=one.key, operator=one.operator, values=data.draw(st.permutations(one.values))
                )
                for one in data.draw(st.permutations(selector.match_expressions))
            ],
        )
        again = scope(*data.draw(st.permutations(patterns)), selector=shuffled)
        assert again.digest() == scope(*patterns, selector=selector).digest()

    @quick
    @given(names, names, selectors, selectors)
    def test_something_else_asked_for_is_told_apart(
        self, one: list[str], other: list[str], one_selector: LabelSelector, other_selector: LabelSelector
    ) -> None:
        def asked(patterns: list[str], selector: LabelSelector) -> object:
            expressions = sorted((e.key, e.operator, sorted(e.values)) for e in selector.match_expressions)
            return sorted(patterns), selector.match_labels, expressions

        same = scope(*set(one), selector=one_selector).digest() == scope(*set(other), selector=other_selector).digest()
        assert same is (asked(list(set(one)), one_selector) == asked(list(set(other)), other_selector))

    def test_a_selector_is_told_from_none(self) -> None:
        assert scope("a").digest() != scope("a", selector=BLUE).digest()

    def test_an_exact_name_is_the_same_in_either_field(self) -> None:
        assert scope_of(("a",), ("b",), None, OPERATOR).digest() == scope_of(("b",), ("a",), None, OPERATOR).digest()

    def test_moving_the_operator_is_no_edit_of_the_spec(self) -> None:
        assert scope_of(("a",), (), None, OPERATOR).digest() == scope_of(("a",), (), None, frozenset()).digest()


class TestUnmatched:
    WIDE = scope("team-*", "ops-?", "exact", selector=BLUE)

    def test_each_glob_and_the_selector_that_match_nothing_are_named(self) -> None:
        assert self.WIDE.unmatched([]) == [
            "no namespace to write to matches team-*",
            "no namespace to write to matches ops-?",
            "no namespace to write to has the labels team=blue",
        ]

    def test_what_matches_is_not_named(self) -> None:
        found = [namespace("ops-1"), namespace("any", team="blue")]
        assert self.WIDE.unmatched(found) == ["no namespace to write to matches team-*"]

    def test_exact_names_are_told_of_otherwise(self) -> None:
        assert scope("exact").unmatched([]) == []
