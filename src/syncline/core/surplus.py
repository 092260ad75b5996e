"""What to remove, and the brake.

A removal needs positive evidence: the caller says which copies are no longer wanted and why. What was adopted is
released, never deleted. Shrinkage that nobody asked for in so many words (a selector, a glob) waits for a person when
it is large.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from syncline.core.digest import short_digest
from syncline.core.objects import Seen
from syncline.core.ownership import Owner, Standing, place, standing
from syncline.core.plan import Action, Verb

BRAKE_COUNT = 10
BRAKE_SHARE = 0.5


def plan_removal(
    seen: Seen, owner: Owner, cluster_id: str, reason: str, message: str, *, keep_edited: bool = False
) -> Action | None:
    """Decide how to let go of one object, or None where it is not ours to touch.

    `keep_edited`: an object that differs from what was written last stays; of two sides, an edit beats a deletion.
    """
    # What an earlier sync of this name left behind is ours to take up again where it is wanted, never to remove.
    if standing(seen, owner, place(cluster_id, seen.target)) is not Standing.OURS:
        return None
    if keep_edited and (seen.marker is None or seen.marker.digest != seen.digest):
        return None
    if seen.prune_disabled or seen.reconcile_disabled:
        annotation = "prune" if seen.prune_disabled else "reconcile"
        return Action(
            verb=Verb.LEAVE,
            target=seen.target,
            reason="PruneDisabled",
            message=f"{message}, but left: it is annotated syncline.dev/{annotation}: Disabled",
            state="Skipped",
        )
    if seen.deleting:
        return Action(
            verb=Verb.LEAVE, target=seen.target, reason="Terminating", message="is being deleted", state="Pending"
        )
    created = seen.marker is not None and seen.marker.mode == "Created"
    return Action(
        verb=Verb.DELETE if created else Verb.RELEASE,
        target=seen.target,
        reason=reason,
        uid=seen.uid,
        message=message if created else f"{message}; it was taken over, so it is released and stays",
    )


class Brake(Struct, frozen=True):
    """Whether the removals may go on, and what a person has to write if not."""

    held: bool
    digest: str
    message: str = ""
    derived: bool = True
    """Whether no person has confirmed the removals; such ones count together with those that follow soon."""


def brake(
    removals: Sequence[Action],
    owned: int,
    *,
    confirmed: str,
    recent: int = 0,
    why: str = "they are no longer wanted",
) -> Brake:
    """Hold derived removals of more than max(10, half of what the sync owns) until their digest is confirmed.

    The removals that an edit of the spec asks for are not among them, and do not count as owned: the verdict is the
    same before and after they are done. `recent` derived removals have gone before: labels that a script takes off one
    by one are one shrinkage.
    """
    writes = [action for action in removals if action.verb in (Verb.DELETE, Verb.RELEASE)]
    digest = removal_digest(writes)
    if writes and confirmed == digest:
        return Brake(held=False, digest=digest, derived=False)
    if not writes or len(writes) + recent <= max(BRAKE_COUNT, BRAKE_SHARE * (owned + recent)):
        return Brake(held=False, digest=digest)
    before = f", after {recent} that were removed already" if recent else ""
    return Brake(
        held=True,
        digest=digest,
        message=(
            f"{len(writes)} of {owned} copies would be removed because {why}{before}; "
            f"none of these was removed. To confirm, annotate this sync with syncline.dev/confirm-deletion={digest}"
        ),
    )


def removal_digest(removals: Iterable[Action]) -> str:
    """Name a set of removals, so that a confirmation is for these very objects and no others, nor for the next ones."""
    return short_digest(*sorted(f"{action.target} {action.uid}" for action in removals))
