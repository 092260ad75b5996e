"""Source history: whether the history of a server still includes an observed source. Pure.

A server that is restored from a backup loses later writes, and then reuses their resourceVersions for other writes. So
a source that is absent may have been deleted, or may never have existed in the history that the server has now. An
object that is still exactly as it was seen, a witness, tells the two apart: the server has all that was written before
it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

_LONGEST_VERSION = 20


def version_number(version: str) -> int:
    """Return a resourceVersion as a number; 0 for one that no etcd has, such as one of a thousand digits."""
    return int(version) if version.isdecimal() and len(version) <= _LONGEST_VERSION else 0


class SourceVersion(NamedTuple):
    """A source as it was seen."""

    uid: str
    version: int

    def __str__(self) -> str:
        return f"{self.uid}@{self.version}"


def source_version(uid: str, version: str) -> str:
    """Return the record of an observed source; empty if its version is no number, which cannot be compared."""
    number = version_number(version)
    return str(SourceVersion(uid, number)) if number and uid else ""


def read_source_version(text: str) -> SourceVersion | None:
    """Return the source of a record; None if there is none."""
    uid, _, version = text.rpartition("@")
    number = version_number(version)
    return SourceVersion(uid, number) if uid and number else None


def is_another(recorded: str, now: str) -> bool:
    """Whether a record names another source than the one that is there, or a state of it that is lost."""
    before, seen = read_source_version(recorded), read_source_version(now)
    if seen is None:
        return False
    return before is None or before.uid != seen.uid or before.version > seen.version


def is_regressed(seen: SourceVersion | None, uid: str, version: str) -> bool:
    """Whether the same object has an earlier version than it had: then its server went back."""
    return seen is not None and seen.uid == uid and 0 < version_number(version) < seen.version


def intact(seen: Iterable[SourceVersion], present: Mapping[str, str], most: int) -> list[SourceVersion]:
    """Return the sources that are present, by UID, in exactly the observed version: the newest `most`."""
    found = {one for one in seen if version_number(present.get(one.uid, "")) == one.version}
    return sorted(found, key=lambda one: -one.version)[:most]


class VersionRange(NamedTuple):
    """The versions after `after`, up to `until`, of which the server may have forgotten some."""

    after: int
    until: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.after < version <= self.until

    def __str__(self) -> str:
        return f"{self.after}-{self.until}"


def read_range(text: str) -> VersionRange | None:
    """Return the range of a record; None if there is none."""
    after, _, until = text.partition("-")
    return VersionRange(version_number(after), version_number(until)) if version_number(until) else None


def united(one: VersionRange | None, other: VersionRange | None) -> VersionRange | None:
    """Return a range that holds both."""
    if one is None or other is None:
        return one or other
    return VersionRange(min(one.after, other.after), max(one.until, other.until))
