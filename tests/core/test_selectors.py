"""Globs and label selectors."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.api.common import LabelSelector, LabelSelectorRequirement
from syncline.core.selectors import glob_matches, is_glob, selector_matches


def as_regex(pattern: str) -> re.Pattern[str]:
    """Write the glob as a regular expression: slower on hostile patterns, but known to be right."""
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(character) or re.escape(character) for character in pattern), re.DOTALL)


class TestGlobs:
    @thorough
    @given(st.text("ab*?.", max_size=8), st.text("ab.*", max_size=10))
    @example("*a*b", "aabab")
    @example("**", "")
    @example("a*?b", "ab")
    def test_star_is_any_run_and_question_mark_is_any_one_character(self, pattern: str, text: str) -> None:
        assert glob_matches(pattern, text) is (as_regex(pattern).fullmatch(text) is not None)

    @pytest.mark.parametrize(
        ("pattern", "text", "matches"),
        [
            ("team-*", "team-a", True),
            ("team-*", "team-", True),
            ("team-*", "Team-a", False),
            ("*.yaml", "app.yaml", True),
            ("*.yaml", "app-yaml", False),
            ("[a]", "a", False),
            ("[a]", "[a]", True),
            ("", "", True),
            ("", "a", False),
        ],
    )
    def test_examples(self, pattern: str, text: str, matches: bool) -> None:
        assert glob_matches(pattern, text) is matches

    @pytest.mark.parametrize(
        "pattern", ["a*" * 50 + "b", "*a" * 50 + "b", "?*" * 50 + "b", "*" * 1000 + "b", "*aaaaaaaaaaaaab*" * 3]
    )
    def test_hostile_patterns_come_to_an_end(self, pattern: str) -> None:
        assert not glob_matches(pattern, "a" * 2000)

    def test_hostile_patterns_over_many_names_take_little_time(self) -> None:
        names = ["k" * 235 + f"{number:05}" for number in range(4000)]
        before = time.process_time()
        assert not any(glob_matches("*" + "k" * 120 + "z*", name) for name in names * 25)
        assert time.process_time() - before < 10

    @pytest.mark.parametrize(("pattern", "glob"), [("team-a", False), ("team-*", True), ("team-?", True), ("*", True)])
    def test_a_glob_can_match_more_than_one_name(self, pattern: str, glob: bool) -> None:
        assert is_glob(pattern) is glob


class TestLabelSelectors:
    """As in Kubernetes: all requirements hold; NotIn holds where the label is absent."""

    @pytest.mark.parametrize(
        ("operator", "values", "there", "other", "absent"),
        [
            ("In", ["x", "y"], True, False, False),
            ("NotIn", ["x", "y"], False, True, True),
            ("Exists", [], True, True, False),
            ("DoesNotExist", [], False, False, True),
        ],
    )
    def test_one_requirement(self, operator: str, values: list[str], there: bool, other: bool, absent: bool) -> None:
        requirement = LabelSelectorRequirement(key="team", operator=operator, values=values)
        selector = LabelSelector(match_expressions=[requirement])
        found = [selector_matches(selector, labels) for labels in ({"team": "x"}, {"team": "z"}, {"unrelated": "x"})]
        assert found == [there, other, absent]

    def test_an_empty_value_is_a_value(self) -> None:
        exists = LabelSelectorRequirement(key="team", operator="Exists")
        assert selector_matches(LabelSelector(match_expressions=[exists]), {"team": ""})
        assert selector_matches(LabelSelector(match_labels={"team": ""}), {"team": ""})
        assert not selector_matches(LabelSelector(match_labels={"team": ""}), {})

    def test_all_labels_and_all_requirements_must_hold(self) -> None:
        blue = LabelSelectorRequirement(key="color", operator="In", values=["blue"])
        selector = LabelSelector(match_labels={"team": "a", "tier": "1"}, match_expressions=[blue])
        matching = {"team": "a", "tier": "1", "color": "blue"}
        assert selector_matches(selector, matching)
        for key in matching:
            assert not selector_matches(selector, {**matching, key: "else"})
            assert not selector_matches(selector, {name: value for name, value in matching.items() if name != key})

    def test_no_requirement_holds_everywhere(self) -> None:
        assert selector_matches(LabelSelector(), {})
