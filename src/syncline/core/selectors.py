"""Globs and label selectors."""

import re
from collections.abc import Mapping
from functools import lru_cache

from syncline.api.common import LabelSelector

WILDCARDS = frozenset("*?")


def is_glob(pattern: str) -> bool:
    """Whether the pattern can match more than one name."""
    return not WILDCARDS.isdisjoint(pattern)


def glob_matches(pattern: str, text: str) -> bool:
    """Match `*` (any run) and `?` (any one character), case-sensitive, whole text, without backtracking blow-up."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == text
    first, *rest = _parts(pattern)
    if not rest:
        return len(text) == first.length and first.is_at(text, 0)
    *middle, last = rest
    position, end = first.length, len(text) - last.length
    if position > end or not first.is_at(text, 0) or not last.is_at(text, end):
        return False
    for part in middle:  # the first place of each part leaves the most text for the others
        found = part.find(text, position, end)
        if found < 0:
            return False
        position = found + part.length
    return True


class _Part:
    """The text between two stars of a glob. The library of Python finds it: a glob is matched against many names."""

    def __init__(self, text: str) -> None:
        self.length = len(text)
        self._text = text
        expression = "".join("." if one == "?" else re.escape(one) for one in text)
        self._expression = re.compile(expression, re.DOTALL) if "?" in text else None

    def is_at(self, text: str, position: int) -> bool:
        if self._expression is None:
            return text.startswith(self._text, position)
        return self._expression.match(text, position) is not None

    def find(self, text: str, position: int, end: int) -> int:
        if self._expression is None:
            return text.find(self._text, position, end)
        found = self._expression.search(text, position, end)
        return found.start() if found is not None else -1


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[_Part, ...]:
    return tuple(map(_Part, pattern.split("*")))


def selector_matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether all requirements hold; as in Kubernetes, NotIn also holds where the label is absent."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for requirement in selector.match_expressions:
        value = labels.get(requirement.key)
        holds = {
            "In": value is not None and value in requirement.values,
            "NotIn": value is None or value not in requirement.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[requirement.operator]
        if not holds:
            return False
    return True


def selector_words(selector: LabelSelector | None) -> str:
    """Write a selector as kubectl does."""
    if selector is None:
        return ""
    words = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for requirement in selector.match_expressions:
        values = f"({','.join(requirement.values)})"
        words.append(
            {
                "In": f"{requirement.key} in {values}",
                "NotIn": f"{requirement.key} notin {values}",
                "Exists": requirement.key,
                "DoesNotExist": f"!{requirement.key}",
            }[requirement.operator]
        )
    return ",".join(words)
