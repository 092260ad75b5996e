"""The history of a sync: the changes that were made, and the attempts that failed.

An attempt that changes nothing enters only when its outcome differs from the newest entry, so that a retry adds
nothing. What changed objects is kept longer than what did not: the history is what a rollback goes by.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from syncline.api.common import AttemptResult, HistoryEntry
from syncline.api.fitting import as_reason
from syncline.core.conditions import Finding, shorten
from syncline.core.outcome import Outcome, add_changes, describe_changes

LENGTH = 10
MAX_REASON = 64
MAX_MESSAGE = 256

# Reasons of what passes by itself, or waits for a person by design: no attempt has failed.
WAITING = frozenset(
    {
        *("Progressing", "InProgress", "Connecting", "DependencyNotReady", "Suspended", "DryRun", "DeletionHeld"),
        *("SyncInProgress", "NoGatewaysDiscovered", "ChangesUnnoticed"),
    }
)

RETRYING = "Retrying"
"""The reason of Reconciling: it has failed, and is tried again."""
PROGRESSING = "Progressing"
"""The reason of Reconciling: something is still awaited."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt to bring a sync about."""

    revision: str = ""
    """The revision that was tried; empty where it is not known."""
    result: AttemptResult = "Synced"
    changes: str = ""
    """What was written, in words."""
    reason: str = ""
    message: str = ""


def is_failure(ready: Finding) -> bool:
    """Whether a Ready condition tells of something that went wrong, rather than of something awaited."""
    return ready.status != "True" and ready.reason not in WAITING


def is_certain_failure(ready: Finding, outcomes: Iterable[Outcome], *, whole: bool) -> bool:
    """Whether an attempt has failed and nothing is awaited any more: whoever waits for its outcome knows it.

    `whole` tells that the sync has failed as a whole: then its targets were not looked at.
    """
    if ready.status != "False" or not is_failure(ready):
        return False
    return whole or not any(outcome.state in {"Pending", "Unknown"} for outcome in outcomes)


def attempt_of(outcomes: Iterable[Outcome], ready: Finding, *, failed: bool, revision: str | None) -> Attempt | None:
    """Return how an attempt ended; None while nothing was changed and the end is open.

    `failed` tells that the whole has failed, whatever became of single targets.
    """
    outcomes = list(outcomes)
    states = {outcome.state for outcome in outcomes if outcome.reason not in WAITING}
    attempt = Attempt(revision=revision or "", changes=describe_changes(outcomes))
    if failed or states & {"Failed", "Unknown"}:
        return structs.replace(attempt, result="Failed", reason=ready.reason, message=ready.message)
    if "Conflict" in states:
        return structs.replace(attempt, result="Conflict", reason=ready.reason, message=ready.message)
    return attempt if attempt.changes or ready.status == "True" else None


def extend(
    history: Sequence[HistoryEntry],
    attempt: Attempt | None,
    now: str,
    *,
    by_revision: bool = False,
    amend: bool = False,
) -> list[HistoryEntry]:
    """Return the history with an attempt, newest first, at most 10 entries.

    Under `by_revision`, changes under one revision with one result are one entry, which adds them up. Under `amend`,
    the newest entry of the same revision takes this result: its outcome is known only now.
    """
    if attempt is None:
        return list(history)
    newest = history[0] if history else None
    if newest is not None and _continues(newest, attempt, by_revision=by_revision, amend=amend):
        return [_continued(newest, attempt, now), *history[1:]]
    if attempt.result == "Synced" and not attempt.changes and (newest is None or newest.result == "Synced"):
        return list(history)
    return _bounded([_entry(attempt, now), *history])


def applied(history: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Return the entries whose revision was applied, whole or in part: a rollback may go there."""
    return [entry for entry in history if entry.revision and (entry.changes or entry.result == "Synced")]


def _continues(newest: HistoryEntry, attempt: Attempt, *, by_revision: bool, amend: bool) -> bool:
    same_revision = attempt.revision == newest.revision
    if amend and same_revision:
        return True
    if attempt.changes and not (by_revision and newest.changes):
        return False
    # An attempt that did not get as far as a revision goes on with whatever failed for this reason.
    same_revision = same_revision or not (attempt.revision or attempt.changes)
    return same_revision and (attempt.result, _reason(attempt)) == (newest.result, newest.reason)


def _continued(newest: HistoryEntry, attempt: Attempt, now: str) -> HistoryEntry:
    return structs.replace(
        newest,
        time=now if attempt.changes else newest.time,
        result=attempt.result,
        changes=add_changes(newest.changes, attempt.changes),
        reason=_reason(attempt),
        message=shorten(attempt.message, MAX_MESSAGE),
    )


def _entry(attempt: Attempt, now: str) -> HistoryEntry:
    return HistoryEntry(
        time=now,
        revision=attempt.revision,
        result=attempt.result,
        changes=attempt.changes,
        reason=_reason(attempt),
        message=shorten(attempt.message, MAX_MESSAGE),
    )


def _reason(attempt: Attempt) -> str:
    return as_reason(attempt.reason, MAX_REASON) if attempt.reason else ""


def _bounded(history: list[HistoryEntry]) -> list[HistoryEntry]:
    """Drop the oldest entry that changed nothing, else the oldest; the newest stays."""
    while len(history) > LENGTH:
        idle = (index for index in range(len(history) - 1, 0, -1) if not history[index].changes)
        del history[next(idle, len(history) - 1)]
    return history
