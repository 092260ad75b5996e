"""Which revision to apply: the head of the source, one that a person asked to go back to, or the last healthy one.

- `rollback.to: Previous` is resolved once, to the newest revision before the applied one that has not failed, and
  stays that commit until the spec is cleared or asks for something else.
- `rollback.to: <commit>` may be abbreviated where only one known revision begins so.
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
"""How long a commit is, by the hash of its repository."""
_SHORT = 12


class Head(Struct, frozen=True):
    """What the source is at; without a commit, the reason why that is not known."""

    commit: str | None
    reason: str = ""


class Past(Struct, frozen=True):
    """A revision that was applied."""

    commit: str
    healthy: bool | None = None
    """None where nobody waited for it."""


class Hold(Struct, frozen=True):
    """A rollback in force, as status has it.

    `requested` is what the spec asked for; of a rollback after a failure, the commit that failed.
    """

    to: str
    requested: str

    @property
    def after_failure(self) -> bool:
        """Whether nobody asked for it."""
        return self.requested != PREVIOUS and not self.to.startswith(self.requested)


class Situation(Struct, frozen=True, kw_only=True):
    """All that the decision depends on."""

    head: Head
    rollback_to: str | None = None
    """What the spec asks for."""
    hold: Hold | None = None
    """What status says is in force."""
    history: Sequence[Past] = ()
    """Newest first."""
    current: str | None = None
    """The revision that is applied now, whole or in part."""
    health: RevisionHealth = "Pending"
    """Of the current revision; Failed once its time is over."""
    last_healthy: str | None = None
    policy: FailurePolicy = "Hold"
    requested: bool = False
    """Whether a person asked for a sync that no pass has answered yet."""


class Decision(Struct, frozen=True, kw_only=True):
    """What to apply, and what to record before it is applied."""

    commit: str | None
    """None where there is nothing to apply."""
    held: bool
    """Whether something other than the head is wanted, so that news from the source change nothing."""
    reason: Reason
    why: str
    rollback: Hold | None = None
    """The rollback that is in force from now on."""


def decide(now: Situation) -> Decision:
    """Decide which revision to apply. Total; to decide again after having applied it decides the same."""
    if now.rollback_to is not None:
        return _asked_for(now, now.rollback_to)
    if now.policy == "Rollback" and not now.requested and (decision := _after_failure(now)):
        return decision
    if now.head.commit is None:
        return Decision(commit=now.current, held=False, reason="HeadUnknown", why=now.head.reason)
    return Decision(commit=now.head.commit, held=False, reason="Head", why="follows the source")


def _asked_for(now: Situation, to: str) -> Decision:
    if now.hold is not None and now.hold.requested == to and not now.hold.after_failure:
        return _rolled_back(now.hold)
    found, problem = _previous(now) if to == PREVIOUS else _named(now, to)
    if found is None:
        # What was in force stays known: it may say which revision has failed.
        return Decision(commit=now.current, held=True, reason="NotFound", why=problem, rollback=now.hold)
    return _rolled_back(Hold(found, to))


def _rolled_back(hold: Hold) -> Decision:
    what = "the previous revision" if hold.requested == PREVIOUS else "a revision"
    why = f"rolled back to {what}, {hold.to[:_SHORT]}, as spec.rollback asks; remove it to follow the source again"
    return Decision(commit=hold.to, held=True, reason="RolledBack", why=why, rollback=hold)


def _previous(now: Situation) -> tuple[str | None, str]:
    if now.current is None:
        return None, "nothing was applied yet, so there is no previous revision: remove spec.rollback"
    failed = {past.commit for past in now.history if past.healthy is False}
    failed -= {past.commit for past in now.history if past.healthy} | {now.last_healthy or ""}
    if now.hold is not None and now.hold.after_failure:
        failed.add(now.hold.requested)
    before = [past.commit for past in now.history if past.commit != now.current]
    for commit in before:
        if commit not in failed:
            return commit, ""
    known = "all revisions before have failed" if before else "the history has no revision before"
    return None, f"{known} {now.current[:_SHORT]}: write a commit into spec.rollback.to, or remove spec.rollback"


def _named(now: Situation, to: str) -> tuple[str | None, str]:
    known = [now.head.commit, now.current, now.last_healthy, now.hold.to if now.hold else None]
    known += [past.commit for past in now.history]
    matching = {commit for commit in known if commit is not None and commit.startswith(to)}
    if len(matching) == 1:
        return matching.pop(), ""
    if matching:
        both = " and ".join(sorted(matching)[:2])
        return None, f"spec.rollback.to: {to} is short for {both}: write more of it"
    if len(to) in _FULL:
        return to, ""
    return None, f"spec.rollback.to: {to} begins no revision of status.history: write the whole commit"


def _after_failure(now: Situation) -> Decision | None:
    """Return to the last healthy revision, or stay there; None where the head is to be followed."""
    head = now.head.commit or now.current
    if now.hold is not None and now.hold.after_failure and now.head.commit in (None, now.hold.requested):
        return _back(now.hold)
    failed = now.health == "Failed" and now.current == head and now.current != now.last_healthy
    if not failed or now.current is None:
        return None
    if now.last_healthy is None:
        why = f"{now.current[:_SHORT]} is not healthy, and no revision before it was: it stays; push a better one"
        return Decision(commit=now.current, held=False, reason="NothingHealthy", why=why)
    return _back(Hold(now.last_healthy, now.current))


def _back(hold: Hold) -> Decision:
    why = (
        f"{hold.requested[:_SHORT]} did not become healthy, so the last healthy revision, {hold.to[:_SHORT]}, is back; "
        "push a better one, or ask for a sync to try it again"
    )
    return Decision(commit=hold.to, held=True, reason="RolledBackOnFailure", why=why, rollback=hold)
