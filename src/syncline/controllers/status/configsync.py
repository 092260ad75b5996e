"""Status of a ConfigSync: revisions and histories of its environments, and its own conditions."""

from collections.abc import Sequence

from msgspec import structs

from syncline.api.common import Condition, ConditionStatus
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus, EnvironmentStatus, HeldRollback
from syncline.controllers.errors import SourceError, SyncError
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sources.desired import UnitResult
from syncline.controllers.sources.prepared import PreparedRevision
from syncline.core.conditions import Finding, find, shorten, update_conditions
from syncline.core.history import WAITING, Attempt, attempt_of, extend, is_failure
from syncline.core.outcome import describe_changes, readiness
from syncline.core.redact import redact_outcomes

PLAN_LINES = 100
REPORTED = 5


def compose_configsync(
    report: ReconcileResult[ConfigSyncSpec, ConfigSyncStatus],
    status: ConfigSyncStatus,
    now: str,
) -> ConfigSyncStatus:
    """Complete the status of a sync after a reconcile."""
    results, former, plan = report.units, report.removed_units, report.plan
    old = report.sync.status
    synced = [outcome for outcome in report.outcomes or () if outcome.state == "Synced" and not outcome.gone]
    changes = describe_changes(report.outcomes or ())
    status = structs.replace(
        status,
        conditions=[*status.conditions, *_conditions(report, status, results, now)],
        applied_targets=len(synced) if report.outcomes is not None else old.applied_targets,
        last_synced_time=now if changes else old.last_synced_time,
        plan=_capped(plan) if plan is not None else [],
    )
    if not results:
        return status
    if plan is not None:
        return structs.replace(status, history=old.history)
    environments = [
        _environment_status(structs.replace(one, outcomes=tuple(redact_outcomes(report.sync.spec, one.outcomes))), now)
        for one in results
    ]
    if not _prepared(results[0]).environment.name:
        one = environments[0]
        return structs.replace(
            status,
            source_revision=one.source_revision,
            revisions=one.revisions,
            inputs=one.inputs,
            rollback=one.rollback,
            last_healthy_revision=one.last_healthy_revision,
            history=one.history,
            environments=[entry for entry in old.environments if entry.name in former],
        )
    return structs.replace(
        status,
        source_revision=None,
        inputs=None,
        rollback=None,
        environments=[*environments, *(entry for entry in old.environments if entry.name in former)],
    )


def _prepared(one: UnitResult) -> PreparedRevision:
    if one.desired.prepared is None:
        raise TypeError("the units of a ConfigSync are built")
    return one.desired.prepared


def _capped(lines: Sequence[str]) -> list[str]:
    shown = [shorten(line, 600) for line in lines[:PLAN_LINES]]
    return [*shown, f"and {len(lines) - PLAN_LINES} more"] if len(lines) > PLAN_LINES else shown


def _environment_status(one: UnitResult, now: str) -> EnvironmentStatus:
    prepared, recorded = _prepared(one), _prepared(one).recorded
    ready = _ready(one)
    rollback = recorded.rollback
    if prepared.decision is not None:
        hold = prepared.decision.rollback
        if hold is None:
            rollback = None
        elif rollback is None or (rollback.to, rollback.requested) != (hold.to, hold.requested):
            rollback = HeldRollback(to=hold.to, requested=hold.requested, since=now)
    return EnvironmentStatus(
        name=prepared.environment.name,
        ready=ready.status,
        message=shorten(ready.message, 1024),
        source_revision=prepared.revision,
        revisions=list(prepared.revisions),
        inputs=prepared.artifact.inputs if prepared.artifact is not None and prepared.certain else recorded.inputs,
        rollback=rollback,
        last_healthy_revision=prepared.revision if one.health == "Healthy" else recorded.healthy,
        history=extend(recorded.history, _attempt(one, ready), now, by_revision=True, amend=one.health == "Failed"),
    )


def _ready(one: UnitResult) -> Finding:
    if one.problem is not None:
        return Finding("Ready", one.problem.status, one.problem.reason, one.problem.message)
    if _prepared(one).artifact is None:
        return Finding("Ready", "Unknown", "Progressing", "nothing was applied yet")
    return readiness(one.outcomes)


def _attempt(one: UnitResult, ready: Finding) -> Attempt | None:
    """Return the result of the attempt. Without a write, it is about the attempted revision."""
    prepared, failed = _prepared(one), one.problem is not None and is_failure(ready)
    attempt = attempt_of(one.outcomes, ready, failed=failed or one.health == "Failed", revision=prepared.revision)
    if attempt is None or attempt.changes or not failed or one.problem is not prepared.problem:
        return attempt
    return structs.replace(attempt, revision=prepared.attempted)


def _conditions(
    report: ReconcileResult[ConfigSyncSpec, ConfigSyncStatus],
    status: ConfigSyncStatus,
    results: Sequence[UnitResult],
    now: str,
) -> list[Condition]:
    """Return the conditions that only this kind has."""
    ready = find(status.conditions, "Ready")
    if ready is None:
        return []
    failed = ready.status == "False" and ready.reason not in WAITING
    findings = [
        Finding("Synced", ready.status, ready.reason, ready.message),
        Finding("Failed", "True", ready.reason, ready.message)
        if failed
        else Finding("Failed", "False", "NotFailed", "nothing has failed"),
        _invalid_source(report.problem, results, ready),
    ]
    spec = report.sync.spec
    if spec is not None and spec.wait and results:
        findings.append(_healthy_condition(results))
    artifacts = (_prepared(one).artifact for one in results)
    notes = dict.fromkeys(note for artifact in artifacts if artifact is not None for note in artifact.notes)
    if notes:
        findings.append(_not_applied_condition([*notes]))
    return update_conditions(report.sync.status.conditions, findings, status.observed_generation, now)


def _invalid_source(problem: SyncError | None, results: Sequence[UnitResult], ready: Condition) -> Finding:
    """Return the condition about the source. It is Unknown if the source was not read."""
    if isinstance(problem, SourceError):
        status: ConditionStatus = "True" if problem.status == "False" else "Unknown"
        return Finding("InvalidSource", status, problem.reason, problem.message)
    if results and all(_prepared(one).certain for one in results):
        return Finding("InvalidSource", "False", "SourceIsValid", "the source can be read and built")
    return Finding("InvalidSource", "Unknown", ready.reason, ready.message)


def _not_applied_condition(notes: Sequence[str]) -> Finding:
    """Return the condition about content of the source that was not applied; None if there is none."""
    rest = f"; and {len(notes) - REPORTED} more" if len(notes) > REPORTED else ""
    named = "; ".join(shorten(note, 300) for note in notes[:REPORTED])
    return Finding("Reported", "True", "NotApplied", f"{named}{rest}")


def _healthy_condition(results: Sequence[UnitResult]) -> Finding:
    for one in results:
        if one.health == "Failed":
            words = one.problem.message if one.problem is not None else "not everything was applied in time"
            return Finding("Healthy", "False", "HealthCheckFailed", words)
    for one in results:
        if one.health == "Pending":
            words = one.problem.message if one.problem is not None else "not everything is applied yet"
            return Finding("Healthy", "Unknown", "Progressing", words)
    return Finding("Healthy", "True", "Healthy", "everything that was applied is healthy")
