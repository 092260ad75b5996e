"""The plan of a prune: the objects to remove, and the deletion guard.

A removal needs positive evidence: the caller names the objects that are no longer desired, and the reason. An adopted
object is released, never deleted. A large removal that no edit of the spec requested (a label or a namespace has
changed) waits for the confirmation of a user.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from syncline.core.deletion_guard import needs_confirmation
from syncline.core.digest import short_digest
from syncline.core.objects import Observed
from syncline.core.ownership import Owner, Ownership, object_id_of, ownership_of
from syncline.core.plan import Action, Verb


def plan_prune(
    observed: Observed, owner: Owner, cluster_id: str, reason: str, message: str, *, keep_edited: bool = False
) -> Action | None:
    """Decide how to prune one object; None if the sync does not own it.

    `keep_edited`: an object that differs from the last write stays: of two sides, an edit beats a deletion.
    """
    # An object of a previous sync of this name may be owned again if it is desired, but is never removed.
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
    """Whether the removals may proceed, and how a user confirms them if not."""

    held: bool
    digest: str
    message: str = ""
    derived: bool = True
    """Whether no user has requested or confirmed the removals: then they count together with later ones."""


def deletion_guard(
    removals: Sequence[Action],
    owned: int,
    *,
    confirmed: str,
    recent: int = 0,
    why: str = "they are no longer wanted",
) -> GuardVerdict:
    """Hold derived removals of more than max(10, half of what the sync owns) until their digest is confirmed.

    The removals that an edit of the spec requested are not among them, and do not count as owned: the verdict is the
    same before and after them. `recent` derived removals were done before: labels that a script removes one by one are
    one change.
    """
    writes = [action for action in removals if action.verb in (Verb.DELETE, Verb.RELEASE)]
    digest = removal_digest(writes)
    if writes and confirmed == digest:
        return GuardVerdict(held=False, digest=digest, derived=False)
    if not needs_confirmation(len(writes), owned, recent):
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
    """Return the digest of a set of removals, so that a confirmation is for exactly these objects."""
    return short_digest(*sorted(f"{action.target} {action.uid}" for action in removals))
