"""What to remove, and the brake.

A removal needs positive evidence: the caller says which copies are no longer wanted and why. What was adopted is
released, never deleted. Shrinkage that nobody asked for in so many words (a selector, a glob) waits for a person when
it is large.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from syncline.core.digest import short_digest
from syncline.core.objects import Observed
from syncline.core.ownership import Owner, Ownership, object_id_of, ownership_of
from syncline.core.plan import Action, Verb

GUARD_COUNT = 10
GUARD_SHARE = 0.5


def plan_prune(
    observed: Observed, owner: Owner, cluster_id: str, reason: str, message: str, *, keep_edited: bool = False
) -> Action | None:
    """Decide how to let go of one object, or None where it is not ours to touch.

    `keep_edited`: an object that differs from what was written last stays; of two sides, an edit beats a deletion.
    """
    # What an earlier sync of this name left behind is ours to take up again where it is wanted, never to remove.
    if ownership_of(observed, owner, object_id_of(cluster_id, observed.target)) is not Ownership.OURS:
        return None
    if keep_edited and (observed.marker is None or observed.marker.digest != observed.digest):
        return None
    if observed.prune_disabled or observed.reconcile_disabled:
        annotation = "prune" if observed.prune_disabled else "reconcile"
        return Action(
            verb=Verb.LEAVE,
            target=observed.target,
            reason="PruneDisabled",
            message=f"{message}, but left: it is annotated syncline.dev/{annotation}: Disabled",
            state="Skipped",
        )
    if observed.deleting:
        return Action(
            verb=Verb.LEAVE, target=observed.target, reason="Terminating", message="is being deleted", state="Pending"
        )
    created = observed.marker is not None and observed.marker.mode == "Created"
    return Action(
        verb=Verb.DELETE if created else Verb.RELEASE,
        target=observed.target,
        reason=reason,
        uid=observed.uid,
        message=message if created else f"{message}; it was taken over, so it is released and stays",
    )


class GuardVerdict(Struct, frozen=True):
    """Whether the removals may go on, and what a person has to write if not."""

    held: bool
    digest: str
    message: str = ""
    derived: bool = True
    """Whether no person has confirmed the removals; such ones count together with those that follow soon."""


def deletion_guard(
    removals: Sequence[Action],
    owned: int,
    *,
    confirmed: str,
    recent: int = 0,
    why: str = "they are no longer wanted",
) -> GuardVerdict:
    """Hold derived removals of more than max(10, half of what the sync owns) until their digest is confirmed.

    The removals that an edit of the spec asks for are not among them, and do not count as owned: the verdict is the
    same before and after they are done. `recent` derived removals have gone before: labels that a script takes off one
    by one are one shrinkage.
    """
    writes = [action for action in removals if action.verb in (Verb.DELETE, Verb.RELEASE)]
    digest = removal_digest(writes)
    if writes and confirmed == digest:
        return GuardVerdict(held=False, digest=digest, derived=False)
    if not writes or len(writes) + recent <= max(GUARD_COUNT, GUARD_SHARE * (owned + recent)):
        return GuardVerdict(held=False, digest=digest)
    before = f", after {recent} that were removed already" if recent else ""
    return GuardVerdict(
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
