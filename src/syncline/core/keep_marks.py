"""The policy Keep: marks in the status of targets that have had their object, which is not created again."""

from collections.abc import Iterable, Mapping

from syncline.api.status import MAX_KEPT
from syncline.core.digest import short_digest
from syncline.core.inventory import FULL
from syncline.core.objects import Target
from syncline.core.outcome import Outcome


class KeepRoom:
    """The marks of a status, and its room for new marks during one reconcile."""

    def __init__(self, kept: Iterable[str]) -> None:
        self.kept = frozenset(kept)
        """The marks of the status at the start."""
        self._taken = set(self.kept)

    def take(self, mark: str) -> bool:
        """Reserve room for a mark. Return whether there is room."""
        if mark not in self._taken and len(self._taken) >= MAX_KEPT:
            return False
        self._taken.add(mark)
        return True


def keep_mark(target: Target, namespace_uid: str) -> str:
    """Return the mark of a place. A namespace that was created again under its name is another place."""
    return short_digest(target.cluster, target.kind, target.name, namespace_uid)


def kept_after(
    before: frozenset[str],
    outcomes: Mapping[str, Outcome],
    orphaned: Mapping[str, Outcome],
    *,
    partial_view: bool,
) -> list[str]:
    """Return the marks after a reconcile, from the outcomes by mark.

    `orphaned` are the outcomes of objects whose source is gone: a place that lost its object with the source can have
    it again. With a `partial_view` some places were not looked at, and their marks stay.
    """
    looked_at = {mark: outcome for mark, outcome in outcomes.items() if not outcome.gone}
    had = {
        mark
        for mark, outcome in looked_at.items()
        if mark in before or outcome.state == "Synced" or outcome.reason == "Kept"
    }
    went = {mark for mark, outcome in orphaned.items() if outcome.written is not None}
    unseen = before - looked_at.keys() if partial_view else frozenset()
    return sorted((had | unseen) - went)


def no_room_outcome(target: Target) -> Outcome:
    """Say why a place under Keep gets no copy."""
    message = (
        f"split the sync: under Keep it remembers the copies of {MAX_KEPT} places, and nothing is created that it"
        " could create again after somebody has deleted it"
    )
    return Outcome(target=target, state="Failed", reason=FULL, message=message)
