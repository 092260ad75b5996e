"""Globs of paths: `*`, `?` and `[a-z]` stay within one name, `**` stands for any number of folders."""

import re
from collections.abc import Iterable
from functools import lru_cache


def glob(pattern: str) -> re.Pattern[str]:
    """Return the pattern for the beginning of the paths of a glob, up to the end of a name, and so for all files below.

    Each part matches only at its first possible place. This is enough, because parts have fixed lengths, and the time
    stays proportional to the length of the path.
    """
    names = pattern.split("/")
    expression = ""
    deep = False
    for index, name in enumerate(names):
        if name == "**":
            deep = True
            continue
        first = index == 0 or names[index - 1] == "**"
        if deep and first:
            expression += "(?>(?:[^/]+/)*?"
        expression += _name(name) + "(?=/|\\Z)"
        last = index == len(names) - 1 or names[index + 1] == "**"
        expression += ")" * (deep and last) + "/" * (index < len(names) - 1)
    return re.compile(expression + "[^/]" * (names[-1] == "**"), re.DOTALL)


def _name(name: str) -> str:
    """Return the expression for one name of a glob."""
    fixed = [""]
    position = 0
    while position < len(name):
        character = name[position]
        end = name.find("]", position + 2) if character == "[" else -1
        if character == "*":
            fixed.append("")
        elif end > 0:
            fixed[-1] += _choice(name[position + 1 : end])
            position = end
        else:
            fixed[-1] += "[^/]" if character == "?" else re.escape(character)
        position += 1
    middle = "".join(f"(?>[^/]*?{part})" for part in fixed[1:-1])
    return fixed[0] + middle + (f"[^/]*{fixed[-1]}" if len(fixed) > 1 else "")


def _choice(inside: str) -> str:
    """Return the expression for one of several characters; a reversed range matches nothing."""
    negated, inside = inside[0] in "!^", inside.lstrip("!^") if inside[0] in "!^" else inside
    members = ""
    while inside:
        if len(inside) >= len("a-z") and inside[1] == "-":
            members += f"{re.escape(inside[0])}-{re.escape(inside[2])}" if inside[0] <= inside[2] else ""
            inside = inside[3:]
        else:
            members += re.escape(inside[0])
            inside = inside[1:]
    if negated:
        return f"[^/{members}]"
    return f"(?!/)[{members}]" if members else "(?!)"


class PathPatterns:
    """Globs of paths, as people write them to exclude files.

    A glob without a slash matches a name in any folder, such as `*.bak`. A glob with a slash begins at the root, such
    as `projects/*/tests`. A glob of a folder matches all files below it, with and without a slash at its end.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        globs = dict.fromkeys(_expression(pattern) for pattern in patterns if pattern.strip("/"))
        self._match = re.compile("|".join(f"(?:{one})" for one in globs), re.DOTALL).match if globs else None

    def matches(self, path: str) -> bool:
        """Whether one of the globs matches a path."""
        return self._match is not None and self._match(path) is not None


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> str:
    plain = pattern.rstrip("/")
    return glob(plain.lstrip("/") if "/" in plain else f"**/{plain}").pattern
