"""Globs and label selectors."""

from collections.abc import Mapping

from syncline.api.common import LabelSelector

WILDCARDS = frozenset("*?")


def is_glob(pattern: str) -> bool:
    """Whether the pattern can match more than one name."""
    return not WILDCARDS.isdisjoint(pattern)


def glob_matches(pattern: str, text: str) -> bool:
    """Match `*` (any run) and `?` (any one character), case-sensitive, whole text, without backtracking blow-up."""
    position = cursor = 0
    star, resume = -1, 0
    while cursor < len(text):
        if position < len(pattern) and pattern[position] == "*":
            star, resume = position, cursor
            position += 1
        elif position < len(pattern) and pattern[position] in ("?", text[cursor]):
            position += 1
            cursor += 1
        elif star >= 0:
            resume += 1
            position, cursor = star + 1, resume
        else:
            return False
    return all(character == "*" for character in pattern[position:])


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
