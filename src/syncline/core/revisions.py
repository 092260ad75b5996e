"""The choice of a revision: the head of the source, a requested rollback, or the last healthy revision.

- `rollback.to: Previous` is resolved once, to the newest revision before the applied one that has not failed, and
  stays that commit until the spec is cleared or asks for something else.
- `rollback.to: <commit>` may be abbreviated if only one known revision has this prefix.
- Under failurePolicy Rollback, a revision that was never healthy and fails makes way for the last healthy one, until
  the head is another revision or a person asks for a sync. Which revision failed is recorded in the status, so that
  nothing of this depends on how long a history is.
- A head that cannot be read changes nothing.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from syncline.api.configsync import PREVIOUS, FailurePolicy

RevisionHealth = Literal["Healthy", "Pending", "Failed"]
Reason = Literal["Head", "RolledBack", "RolledBackOnFailure", "NothingHealthy", "NotFound", "HeadUnknown"]

_FULL = (40, 64)
"""The lengths of a commit, by the hash of its repository."""
_SHORT = 12


class HeadRevision(Struct, frozen=True):
    """The current revision of the source; without a commit, the reason why it is not known."""

    commit: str | None
    reason: str = ""


class AppliedRevision(Struct, frozen=True):
    """A revision that was applied before."""

    commit: str
    healthy: bool | None = None
    """Whether it became healthy; None if its health was not checked."""


class ActiveRollback(Struct, frozen=True):
    """A rollback in force, as the status records it.

    `requested` is the request of the spec; for a rollback after a failure, the failed commit.
    """

    to: str
    requested: str

    @property
    def after_failure(self) -> bool:
        """Whether no user requested it."""
        return self.requested != PREVIOUS and not self.to.startswith(self.requested)


class RevisionState(Struct, frozen=True, kw_only=True):
    """The inputs of the decision."""

    head: HeadRevision
    rollback_to: str | None = None
    """The request of the spec."""
    active_rollback: ActiveRollback | None = None
    """The recorded rollback of the status."""
    history: Sequence[AppliedRevision] = ()
    """Newest first."""
    current: str | None = None
    """The revision that is applied now, whole or in part."""
    health: RevisionHealth = "Pending"
    """The health of the current revision; Failed after its timeout."""
    last_healthy: str | None = None
    policy: FailurePolicy = "Hold"
    requested: bool = False
    """Whether a user has requested a reconcile that has not run yet."""


class Decision(Struct, frozen=True, kw_only=True):
    """The revision to apply, and the record to store before it is applied."""

    commit: str | None
    """The revision; None if there is nothing to apply."""
    held: bool
    """Whether a revision other than the head is applied, so that a push changes nothing."""
    reason: Reason
    why: str
    rollback: ActiveRollback | None = None
    """The rollback that is in force from now on."""


def decide(state: RevisionState) -> Decision:
    """Decide which revision to apply. Total; a second decision after the apply is the same."""
    if state.rollback_to is not None:
        return _asked_for(state, state.rollback_to)
    if state.policy == "Rollback" and not state.requested and (decision := _after_failure(state)):
        return decision
    if state.head.commit is None:
        return Decision(commit=state.current, held=False, reason="HeadUnknown", why=state.head.reason)
    return Decision(commit=state.head.commit, held=False, reason="Head", why="follows the source")


def _asked_for(state: RevisionState, to: str) -> Decision:
    if (
        state.active_rollback is not None
        and state.active_rollback.requested == to
        and not state.active_rollback.after_failure
    ):
        return _rolled_back(state.active_rollback)
    found, problem = _previous(state) if to == PREVIOUS else _named(state, to)
    if found is None:
        # The earlier rollback stays recorded: it may name the failed revision.
        return Decision(commit=state.current, held=True, reason="NotFound", why=problem, rollback=state.active_rollback)
    return _rolled_back(ActiveRollback(found, to))


def _rolled_back(rollback: ActiveRollback) -> Decision:
    what = "the previous revision" if rollback.requested == PREVIOUS else "a revision"
    why = f"rolled back to {what}, {rollback.to[:_SHORT]}, as spec.rollback asks; remove it to follow the source again"
    return Decision(commit=rollback.to, held=True, reason="RolledBack", why=why, rollback=rollback)


def _previous(state: RevisionState) -> tuple[str | None, str]:
    if state.current is None:
        return None, "nothing was applied yet, so there is no previous revision: remove spec.rollback"
    failed = {applied.commit for applied in state.history if applied.healthy is False}
    failed -= {applied.commit for applied in state.history if applied.healthy} | {state.last_healthy or ""}
    if state.active_rollback is not None and state.active_rollback.after_failure:
        failed.add(state.active_rollback.requested)
    before = [applied.commit for applied in state.history if applied.commit != state.current]
    for commit in before:
        if commit not in failed:
            return commit, ""
    known = "all revisions before have failed" if before else "the history has no revision before"
    return None, f"{known} {state.current[:_SHORT]}: write a commit into spec.rollback.to, or remove spec.rollback"


def _named(state: RevisionState, to: str) -> tuple[str | None, str]:
    known = [
        state.head.commit,
        state.current,
        state.last_healthy,
        state.active_rollback.to if state.active_rollback else None,
    ]
    known += [applied.commit for applied in state.history]
    matching = {commit for commit in known if commit is not None and commit.startswith(to)}
    if len(matching) == 1:
        return matching.pop(), ""
    if matching:
        both = " and ".join(sorted(matching)[:2])
        return None, f"spec.rollback.to: {to} is short for {both}: write more of it"
    if len(to) in _FULL:
        return to, ""
    return None, f"spec.rollback.to: {to} begins no revision of status.history: write the whole commit"


def _after_failure(state: RevisionState) -> Decision | None:
    """Return to the last healthy revision, or stay there; None if the head is followed."""
    head = state.head.commit or state.current
    if (
        state.active_rollback is not None
        and state.active_rollback.after_failure
        and state.head.commit in (None, state.active_rollback.requested)
    ):
        return _back(state.active_rollback)
    failed = state.health == "Failed" and state.current == head and state.current != state.last_healthy
    if not failed or state.current is None:
        return None
    if state.last_healthy is None:
        why = f"{state.current[:_SHORT]} is not healthy, and no revision before it was: it stays; push a better one"
        return Decision(commit=state.current, held=False, reason="NothingHealthy", why=why)
    return _back(ActiveRollback(state.last_healthy, state.current))


def _back(rollback: ActiveRollback) -> Decision:
    why = (
        f"{rollback.requested[:_SHORT]} did not become healthy, so the last healthy revision, {rollback.to[:_SHORT]}, "
        "is back; "
        "push a better one, or ask for a sync to try it again"
    )
    return Decision(commit=rollback.to, held=True, reason="RolledBackOnFailure", why=why, rollback=rollback)
