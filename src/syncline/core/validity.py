"""The verdict on a validated revision: whether it is applied, and to which clusters. Pure.

A revision goes live as a whole: what one cluster would refuse goes to none. A cluster that cannot be asked holds up no
other; nothing new is written there until it can be. What is live already is not taken back by any of this.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from syncline.core.conditions import shorten

NAMED = 10
_ERROR_LIMIT = 340

State = Literal["Valid", "Invalid", "Unknown"]


class Validity(Struct, frozen=True, kw_only=True):
    """What is known of a revision in one cluster."""

    state: State
    reason: str = ""
    errors: tuple[str, ...] = ()
    """What is wrong, each with file, object and field; or why nothing is known."""
    more: int = 0
    """How many errors there are beyond these."""


class Extent(Struct, frozen=True):
    """Whether a revision is applied, and the clusters where it is not, with why."""

    applied: bool
    passed_over: Mapping[str, Validity] = {}


def extent_of(validities: Mapping[str, Validity], *, live: bool, occupied: frozenset[str] = frozenset()) -> Extent:
    """Decide about a revision by what each cluster has against it.

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
    """Say that a revision is wrong; no more is kept of it than a person is told."""
    named = tuple(shorten(error, _ERROR_LIMIT) for error in errors[:NAMED])
    return Validity(state="Invalid", reason=reason, errors=named, more=len(errors) - len(named))


def explain(validities: Sequence[tuple[str, Validity]], revision: str, *, live: bool) -> str:
    """Say why a revision is not applied, or not everywhere; with the names that the sync has for its clusters."""
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
