"""Composes the status of a sync: after a reconcile from its result, or during a reconcile."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct, structs

from syncline.api.common import ConditionStatus
from syncline.api.status import SyncStatus
from syncline.core.conditions import Finding, shorten, update_conditions
from syncline.core.history import PROGRESSING, RETRYING, attempt_of, extend, is_certain_failure, is_failure
from syncline.core.outcome import Outcome, conflicted, count, listing, readiness

EXPIRING = "CredentialExpiring"
"""The condition of a credential that expires soon."""

_MAX_REQUEST = 256

Status = TypeVar("Status", bound=SyncStatus)


class StatusProblem(Struct, frozen=True, kw_only=True):
    """Why a sync as a whole is not ready."""

    reason: str
    message: str
    status: ConditionStatus = "False"
    stalled: bool = False
    """Whether only an edit of the spec or the source can resolve it."""


class StatusInput(Struct, frozen=True, kw_only=True):
    """The result of a reconcile, as far as the status reports it."""

    generation: int = 0
    requested_at: str | None = None
    """The value of the annotation that requests a reconcile."""
    outcomes: Sequence[Outcome] | None = None
    """None: the targets were not observed, and their status stays."""
    problem: StatusProblem | None = None
    revision: str | None = None
    scope: str | None = None
    kept: list[str] | None = None
    """None: the marks of the policy Keep stay."""
    retries: bool = False
    """Whether work is left for another reconcile."""
    warnings: Sequence[str] = ()
    unmatched: Sequence[str] = ()
    """The parts of the spec that match no target."""


def compose_status(old: Status, result: StatusInput, now: str) -> Status:
    """Return the status after a reconcile."""
    findings = _findings(result)
    ready = findings[0]
    failed = result.problem is not None and is_failure(ready)
    attempt = attempt_of(result.outcomes or (), ready, failed=failed, revision=result.revision)
    status = structs.replace(
        old,
        observed_generation=result.generation,
        conditions=update_conditions(old.conditions, findings, result.generation, now),
        last_handled_request=None if result.requested_at is None else shorten(result.requested_at, _MAX_REQUEST),
        kept=result.kept if result.kept is not None else old.kept,
        history=extend(old.history, attempt, now),
    )
    if result.outcomes is None:
        return status
    return structs.replace(
        status,
        targets=count(result.outcomes),
        target_statuses=listing(result.outcomes, old.target_statuses, now),
        source_revision=result.revision or old.source_revision,
        scope=result.scope or old.scope,
    )


def compose_progress(old: Status, generation: int, message: str, revision: str, now: str) -> Status:
    """Return the status during a reconcile."""
    findings = [
        Finding("Ready", "False", "Progressing", f"revision {revision}: {message}"),
        Finding("Reconciling", "True", PROGRESSING, message),
    ]
    conditions = update_conditions(old.conditions, findings, generation, now)
    return structs.replace(old, observed_generation=generation, conditions=conditions)


def _findings(result: StatusInput) -> list[Finding]:
    """Return the conditions, Ready first."""
    outcomes = list(result.outcomes or ())
    problem = result.problem
    ready = readiness(outcomes, result.unmatched)
    if problem is not None:
        ready = Finding("Ready", problem.status, problem.reason, problem.message)
    findings = [ready]
    if problem is not None and problem.stalled:
        findings.append(Finding("Stalled", "True", problem.reason, problem.message))
    elif result.retries or any(outcome.reason == "InProgress" for outcome in outcomes):
        failed = is_certain_failure(ready, outcomes, whole=problem is not None)
        findings.append(Finding("Reconciling", "True", RETRYING if failed else PROGRESSING, "trying again"))
    if (conflict := conflicted(outcomes)) is not None:
        findings.append(conflict)
    if result.warnings:
        findings.append(Finding(EXPIRING, "True", "RenewSoon", "; ".join(result.warnings)))
    return findings
