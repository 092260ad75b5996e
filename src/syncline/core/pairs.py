"""What becomes of a pair of objects when one of them is gone: `deletion(...) -> Decision`. Pure and total.

A deletion travels only on positive evidence: both sides were read live, and the object that is to follow is the very
one that was recorded, unchanged since. Whatever was edited or made anew in the meantime stays.
"""

from enum import Enum
from typing import Literal

from msgspec import Struct

DeletePropagation = Literal["Down", "Both", "None"]


class Sighting(Struct, frozen=True):
    """One side, read live and found, or not found. A side that could not be read is None in its place."""

    uid: str = ""
    """Of the object that is there; empty if the server says that there is none."""
    changed: bool = False
    """Whether its leaves differ from its half of the base."""


GONE = Sighting()


class Pair(Struct, frozen=True):
    """The two objects that a base was recorded for, by their UIDs."""

    up: str
    down: str


class Step(Enum):
    """What to do with a pair."""

    AGREE = "agree"
    """Both are there: their values are for `twoway.agree`."""
    WAIT = "wait"
    CREATE_DOWN = "create downstream"
    CREATE_UP = "create upstream"
    DELETE_DOWN = "delete downstream"
    DELETE_UP = "delete upstream"
    LEAVE = "leave"
    FORGET = "forget"
    """Both are gone: the record can go."""


class Decision(Struct, frozen=True):
    """What to do with a pair, and why."""

    step: Step
    reason: str
    message: str
    reported: bool = False
    """Whether a person should hear of it: a deletion met an edit."""
    uid: str = ""
    """Of a deletion: the very object that goes. The delete carries it."""


def deletion(
    up: Sighting | None, down: Sighting | None, recorded: Pair | None, propagate: DeletePropagation = "Down"
) -> Decision:
    """Decide for a pair of which one may be gone.

    `recorded` is None if there is no base: nobody knows that there ever were two, so the one that exists is copied.
    An object with another UID than the recorded one was made anew, which counts as an edit.
    """
    if up is None or down is None:
        return Decision(Step.WAIT, "Unseen", "one side cannot be read at present, so nothing is decided")
    match bool(up.uid), bool(down.uid):
        case True, True:
            return Decision(Step.AGREE, "BothPresent", "there on both sides")
        case True, False:
            return _only_upstream(up, recorded, propagate)
        case False, True:
            return _only_downstream(down, recorded, propagate)
        case _:
            return Decision(Step.FORGET, "BothGone", "deleted on both sides")


def _only_upstream(up: Sighting, recorded: Pair | None, propagate: DeletePropagation) -> Decision:
    if recorded is None:
        return Decision(Step.CREATE_DOWN, "OnlyUpstream", "there is no object downstream yet")
    if propagate != "Both":
        return Decision(
            Step.CREATE_DOWN, "DeletedDownstream", "deleted downstream, so it is created again from upstream"
        )
    if up.changed or up.uid != recorded.up:
        message = "deleted downstream but changed upstream since: the change wins, and it is created again downstream"
        return Decision(Step.CREATE_DOWN, "EditedUpstream", message, reported=True)
    message = "deleted downstream and unchanged upstream, so it is deleted there too"
    return Decision(Step.DELETE_UP, "DeletedDownstream", message, uid=up.uid)


def _only_downstream(down: Sighting, recorded: Pair | None, propagate: DeletePropagation) -> Decision:
    if recorded is None:
        return Decision(Step.CREATE_UP, "OnlyDownstream", "there is no object upstream yet")
    if down.changed or down.uid != recorded.down:
        if propagate == "Both":
            message = "deleted upstream but changed downstream since: the change wins, and it is created again upstream"
            return Decision(Step.CREATE_UP, "EditedDownstream", message, reported=True)
        message = (
            "deleted upstream but changed downstream since, so it stays there; delete it, or create it again upstream"
        )
        return Decision(Step.LEAVE, "EditedDownstream", message, reported=True)
    if propagate == "None":
        return Decision(Step.LEAVE, "DeletedUpstream", "deleted upstream; it stays here, as deletions do not propagate")
    message = "deleted upstream and unchanged downstream, so it is deleted there too"
    return Decision(Step.DELETE_DOWN, "DeletedUpstream", message, uid=down.uid)
