"""The verdict on a validated revision: whether it is applied, and to which clusters. Pure.

A revision is applied as a whole: a revision that one cluster would refuse is applied to none. A cluster that cannot be
checked blocks no other, but nothing new is written there until it can be. An applied revision is never taken back by
this.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from syncline.core.conditions import shorten

NAMED = 10
_ERROR_LIMIT = 340

State = Literal["Valid", "Invalid", "Unknown"]


class Validity(Struct, frozen=True, kw_only=True):
    """The result of the validation of a revision in one cluster."""

    state: State
    reason: str = ""
    errors: tuple[str, ...] = ()
    """The errors, each with file, object and field; or why the result is not known."""
    more: int = 0
    """The number of further errors."""


class Extent(Struct, frozen=True):
    """Whether a revision is applied, and the clusters where it is not, with the reason."""

    applied: bool
    passed_over: Mapping[str, Validity] = {}


def extent_of(validities: Mapping[str, Validity], *, live: bool, occupied: frozenset[str] = frozenset()) -> Extent:
    """Decide about a revision by the results of all clusters.

    `live`: it was applied before, somewhere. `occupied`: the clusters that hold objects of the sync. If a live revision
    cannot be checked there, it is still repaired.
    """
    invalid = {name for name, validity in validities.items() if validity.state == "Invalid"}
    if invalid and not live:
        return Extent(applied=False)
    unknown = {name for name, validity in validities.items() if validity.state == "Unknown"}
    left_out = invalid | (unknown - occupied if live else unknown)
    if validities and not live and left_out == validities.keys():
        return Extent(applied=False)
    return Extent(applied=True, passed_over={name: validities[name] for name in sorted(left_out)})


def invalid(reason: str, errors: Sequence[str]) -> Validity:
    """Return the result of an invalid revision, with as many errors as a message names."""
    named = tuple(shorten(error, _ERROR_LIMIT) for error in errors[:NAMED])
    return Validity(state="Invalid", reason=reason, errors=named, more=len(errors) - len(named))


def explain(validities: Sequence[tuple[str, Validity]], revision: str, *, live: bool) -> str:
    """Describe why a revision is not applied, or not everywhere, with the sync's names of its clusters."""
    errors: dict[str, str] = {}
    for cluster, validity in validities:
        for error in validity.errors:
            errors.setdefault(error, f"cluster {cluster}: {error}" if cluster else error)
    named = [shorten(error, _ERROR_LIMIT) for error in errors.values()]
    rest = len(named[NAMED:]) + max((validity.more for _, validity in validities), default=0)
    more = f"; and {rest} more" if rest > 0 else ""
    what = f"revision {revision[:10]}" if revision else "the revision"
    how = "is not applied everywhere" if live else "is not applied"
    return f"{what} {how}: {'; '.join(named[:NAMED])}{more}"
