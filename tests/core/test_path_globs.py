"""Globs of paths, as people write them to exclude files."""

import re
import time
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.core.path_globs import PathPatterns

MATCHING = [
    ("**/.git/", "a/.git/config"),
    ("**/.git/", ".git/config"),
    ("**/.gitkeep", ".gitkeep"),
    ("**/.gitkeep", "projects/a/.gitkeep"),
    ("**/.resources/**", "projects/.resources/ab/cd"),
    ("**/.resources/**", ".resources/a"),
    ("*.bak", "a/b/c.bak"),
    ("*.bak", "c.bak"),
    (".DS_Store", "projects/.DS_Store"),
    ("projects/test", "projects/test/a/b"),
    ("projects/test/", "projects/test/a"),
    ("projects/*/tests/**", "projects/a/tests/b/c"),
    ("/projects/a", "projects/a/b"),
    ("projects/**/view.json", "projects/view.json"),
    ("projects/**/view.json", "projects/a/b/view.json"),
    ("config/resources/core/**/tags-?.json", "config/resources/core/a/b/tags-1.json"),
    ("**", "anything/at/all"),
    ("*", "anything/at/all"),
    ("a/[0-9].json", "a/7.json"),
    ("**/secrets/**", "x/secrets/y"),
]
OTHERS = [
    ("**/.git/", "a/.github/x"),
    ("**/.gitkeep", "a/.gitkeep2"),
    ("**/.resources/**", "projects/resources/a"),
    ("*.bak", "a.bak2"),
    ("projects/*.json", "projects/a/b.json"),
    ("projects/test", "projects/testing/a"),
    ("projects/test", "other/projects/test"),
    ("projects/**/view.json", "projects/a/view.json5"),
    ("tags-?.json", "a/tags-10.json"),
    ("Projects/**", "projects/a"),
    ("", "a"),
    ("/", "a"),
]


@pytest.mark.parametrize(("pattern", "path"), MATCHING)
def test_a_glob_matches(pattern: str, path: str) -> None:
    assert PathPatterns([pattern]).matches(path)
    assert PathPatterns(["nothing-of-this", pattern]).matches(path)


@pytest.mark.parametrize(("pattern", "path"), OTHERS)
def test_a_glob_does_not_match(pattern: str, path: str) -> None:
    assert not PathPatterns([pattern, "nothing-of-this"]).matches(path)


def test_no_globs_match_nothing() -> None:
    assert not PathPatterns([]).matches("a")


@thorough
@given(
    st.text(alphabet="ab*?/", min_size=1, max_size=8),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join),
)
def test_globs_mean_what_a_slow_and_simple_reading_says(pattern: str, path: str) -> None:
    assert PathPatterns([pattern]).matches(path) == simple(pattern, path)


def simple(pattern: str, path: str) -> bool:
    """Match every beginning of a path, folder by folder, in the most direct way."""
    plain = pattern.rstrip("/")
    if not plain.strip("/"):
        return False
    names = plain.lstrip("/").split("/") if "/" in plain else ["**", plain]
    parts = path.split("/")
    ends = [len(parts)] if names[-1] == "**" else range(1, len(parts) + 1)
    return any(_simple(names, parts[:end]) for end in ends)


def _simple(names: list[str], parts: list[str]) -> bool:
    if not names:
        return not parts
    if names[0] == "**":
        rest = names[1:]
        least = 0 if rest else 1
        return any(_simple(rest, parts[skip:]) for skip in range(least, len(parts) + 1))
    return bool(parts) and re.match(translate(names[0]), parts[0]) is not None and _simple(names[1:], parts[1:])


def test_a_glob_that_is_written_to_be_slow_is_not() -> None:
    patterns = PathPatterns(["**/a*a*a*a*a*a*a*a*a*a*b/**/a*a*a*a*a*a*a*b", "*a*a*a*a*a*a*a*a*a*c"])
    path = "/".join(["a" * 60] * 8)
    began = time.process_time()
    found = [patterns.matches(path) for _ in range(200)]
    assert not any(found)
    assert time.process_time() - began < 5
