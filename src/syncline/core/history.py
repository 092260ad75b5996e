"""The history of a sync: the changes that were made, and the attempts that failed.

An attempt that changes nothing is added only if its outcome differs from the newest entry, so that a retry adds
nothing. Entries with changed objects are kept longer than others, because a rollback uses the history.
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

# Reasons of temporary states, or of those that wait for a user by design: no attempt has failed.
WAITING = frozenset(
    {
        *("Progressing", "InProgress", "Connecting", "DependencyNotReady", "Suspended", "DryRun", "DeletionHeld"),
        *("SyncInProgress", "NoGatewaysDiscovered", "ChangesUnnoticed"),
    }
)

RETRYING = "Retrying"
"""The reason of Reconciling after a failure: it is retried."""
PROGRESSING = "Progressing"
"""The reason of Reconciling while work is left."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt of a sync."""

    revision: str = ""
    """The attempted revision; empty if it is not known."""
    result: AttemptResult = "Synced"
    changes: str = ""
    """The writes, in words."""
    reason: str = ""
    message: str = ""


def is_failure(ready: Finding) -> bool:
    """Whether a Ready condition reports a failure, and not a wait."""
    return ready.status != "True" and ready.reason not in WAITING


def is_certain_failure(ready: Finding, outcomes: Iterable[Outcome], *, whole: bool) -> bool:
    """Whether an attempt has failed and nothing is pending, so that its outcome is final.

    `whole`: the sync has failed as a whole, so its targets were not read.
    """
    if ready.status != "False" or not is_failure(ready):
        return False
    return whole or not any(outcome.state in {"Pending", "Unknown"} for outcome in outcomes)


def attempt_of(outcomes: Iterable[Outcome], ready: Finding, *, failed: bool, revision: str | None) -> Attempt | None:
    """Return the result of an attempt; None while nothing was changed and the end is open.

    `failed`: the sync has failed as a whole, whatever the outcomes of single targets are.
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

    With `by_revision`, changes with the same revision and result are one entry, which adds them up. With `amend`, the
    newest entry of the same revision gets this result, because it is known only now.
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
    # An attempt without a revision continues the entry that failed for the same reason.
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
