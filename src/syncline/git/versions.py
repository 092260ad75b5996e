"""Semantic versions, as in tags, and ranges of versions.

A range has alternatives, separated by `||`. An alternative has comparators, separated by spaces or commas, which must
all match:

    1.2.3  =1.2.3  !=1.2.3       this version, or any other
    >1.2  >=1.2.0  <2  <=2.1     an order; the comparator decides the value of missing parts
    ^1.4                         from 1.4.0 below 2.0.0; below the next part that is not zero: ^0.4 is below 0.5.0
    ~1.2                         from 1.2.0 below 1.3.0; ~1 is below 2.0.0
    1.x  1.2.*  1  *             any version with these parts
    1.2 - 2.3.4                  from 1.2.0 to 2.3.4, both included

Prereleases do not match, unless a comparator of the same alternative names one: `>=1.0.0-0` matches all of them.
"""

import re
from typing import Self

from msgspec import Struct

_NUMBER = r"(?:0|[1-9]\d{0,8})"
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?", re.ASCII
)
_PART = rf"(?:{_NUMBER}|[xX*])"
_COMPARATOR = re.compile(
    rf"(=|==|!=|>|<|>=|<=|=>|=<|\^|~|~>)?v?({_PART})(?:\.({_PART}))?(?:\.({_PART}))?(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?",
    re.ASCII,
)
_HYPHEN = re.compile(r"(\S+)\s+-\s+(\S+)")
_SPACED = re.compile(r"([=!<>^~]+)\s+")
_MAX_LENGTH = 256
_MAX_COMPARATORS = 32

Release = tuple[int, int, int]


class Version(Struct, frozen=True, order=True):
    """A version. The order is precedence, then build, so that the highest of several versions is unambiguous."""

    release: Release
    final: bool
    prerelease: tuple[tuple[int, int, str], ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse `1.2.3`, with or without `v`; None for other texts."""
        match = _VERSION.fullmatch(text)
        if match is None:
            return None
        major, minor, patch, prerelease, build = match.groups()
        return cls((int(major), int(minor), int(patch)), prerelease is None, _identifiers(prerelease), build or "")

    @property
    def precedence(self) -> tuple[Release, bool, tuple[tuple[int, int, str], ...]]:
        """The compared parts: all except the build."""
        return self.release, self.final, self.prerelease


class _Comparator(Struct, frozen=True):
    """An interval: from the lowest version, below the end; both can be open. Or all versions outside the interval."""

    least: Version | None
    end: Version | None
    inverted: bool = False
    names_prerelease: bool = False

    def holds(self, version: Version) -> bool:
        inside = (self.least is None or version.precedence >= self.least.precedence) and (
            self.end is None or version.precedence < self.end.precedence
        )
        return inside is not self.inverted


class Range(Struct, frozen=True):
    """A range of versions."""

    alternatives: tuple[tuple[_Comparator, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a range; None if the text is not a range."""
        if len(text) > _MAX_LENGTH:
            return None
        alternatives = tuple(map(_alternative, text.split("||")))
        if (
            any(each is None for each in alternatives)
            or sum(len(each or ()) for each in alternatives) > _MAX_COMPARATORS
        ):
            return None
        return cls(tuple(each for each in alternatives if each is not None))

    def holds(self, version: Version) -> bool:
        """Whether the version is in the range."""
        return any(
            all(comparator.holds(version) for comparator in alternative)
            and (version.final or any(comparator.names_prerelease for comparator in alternative))
            for alternative in self.alternatives
        )


def _identifiers(text: str | None) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key for prereleases: numbers before words, numbers by value."""
    return tuple(
        (0, int(part), "") if part.isdecimal() and len(part) < _MAX_LENGTH else (1, 0, part)
        for part in (text or "").split(".")
        if part
    )


def _alternative(text: str) -> tuple[_Comparator, ...] | None:
    text = text.strip()
    if not text:
        return None
    if hyphen := _HYPHEN.fullmatch(text):
        low, high = (_comparator(operator + side) for operator, side in zip((">=", "<="), hyphen.groups(), strict=True))
        return (low, high) if low and high else None
    found = [_comparator(word) for word in _SPACED.sub(r"\1", text).replace(",", " ").split()]
    comparators = tuple(each for each in found if each is not None)
    return comparators if comparators and len(comparators) == len(found) else None


def _comparator(text: str) -> _Comparator | None:
    match = _COMPARATOR.fullmatch(text)
    if match is None:
        return None
    operator, *written, prerelease = match.groups()
    numbers: list[int] = []
    for part in written:
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    if prerelease is not None and len(numbers) < len(written):
        return None
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    least = Version((major, minor, patch), prerelease is None, _identifiers(prerelease))
    interval = _interval(operator or "=", numbers, least)
    return _Comparator(*interval, inverted=operator == "!=", names_prerelease=prerelease is not None)


def _interval(operator: str, numbers: list[int], least: Version) -> tuple[Version | None, Version | None]:  # noqa: PLR0911 - one line an operator
    whole = _after(numbers, len(numbers)) if len(numbers) < len(least.release) else _just_after(least)
    match operator:
        case "=" | "==" | "!=":
            return (least if numbers else None), whole
        case ">":
            # No version is greater than any version.
            return (whole, None) if numbers else (least, least)
        case ">=" | "=>":
            return (least if numbers else None), None
        case "<":
            return (None, least) if numbers else (least, least)
        case "<=" | "=<":
            return None, whole
        case "^":
            significant = next((index for index, number in enumerate(numbers, 1) if number), len(numbers))
            return (least if numbers else None), _after(numbers, significant)
        case _:
            return (least if numbers else None), _after(numbers, min(2, len(numbers)))


def _after(numbers: list[int], parts: int) -> Version | None:
    """Return the first version, prereleases included, that differs in the first parts; None if there are none."""
    if not parts:
        return None
    raised = [*numbers[: parts - 1], numbers[parts - 1] + 1, 0, 0, 0][:3]
    return Version((raised[0], raised[1], raised[2]), final=False)


def _just_after(version: Version) -> Version:
    """Return the boundary between a version and all higher versions."""
    if version.final:
        major, minor, patch = version.release
        return Version((major, minor, patch + 1), final=False)
    return Version(version.release, final=False, prerelease=(*version.prerelease, (-1, 0, "")))
