"""What a ConfigSync reports: revisions and histories of its tracks, and the conditions that only it has."""

from collections.abc import Sequence

from msgspec import structs

from syncline.api.common import Condition, ConditionStatus
from syncline.api.configsync import ConfigSyncSpec, ConfigSyncStatus, HeldRollback
from syncline.api.configsync import Track as TrackStatus
from syncline.controllers.discretion import discreet
from syncline.controllers.laps import Lapped
from syncline.controllers.origins import SourceProblem
from syncline.controllers.reporting import Problem, Report
from syncline.core.conditions import Finding, find, settle_conditions, shorten
from syncline.core.history import WAITING, Attempt, attempt_of, extend, is_failure
from syncline.core.outcome import describe_changes, readiness

PLAN_LINES = 100
REPORTED = 5


def finish(
    report: Report,
    status: ConfigSyncStatus,
    now: str,
    *,
    laps: Sequence[Lapped] = (),
    former: Sequence[str] = (),
    plan: Sequence[str] | None = None,
) -> ConfigSyncStatus:
    """Complete the status of a sync after a turn."""
    old = report.sync.status
    assert isinstance(old, ConfigSyncStatus)  # noqa: S101 - it was read as one
    synced = [outcome for outcome in report.outcomes or () if outcome.state == "Synced" and not outcome.gone]
    changes = describe_changes(report.outcomes or ())
    status = structs.replace(
        status,
        conditions=[*status.conditions, *_conditions(report, status, laps, now)],
        applied_targets=len(synced) if report.outcomes is not None else old.applied_targets,
        last_synced_time=now if changes else old.last_synced_time,
        plan=_capped(plan) if plan is not None else [],
    )
    if not laps:
        return status
    if plan is not None:
        return structs.replace(status, history=old.history)
    tracks = [
        _track(structs.replace(one, outcomes=tuple(discreet(report.sync.spec, one.outcomes))), now) for one in laps
    ]
    if not laps[0].lap.track.name:
        one = tracks[0]
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
        environments=[*tracks, *(entry for entry in old.environments if entry.name in former)],
    )


def _capped(lines: Sequence[str]) -> list[str]:
    shown = [shorten(line, 600) for line in lines[:PLAN_LINES]]
    return [*shown, f"and {len(lines) - PLAN_LINES} more"] if len(lines) > PLAN_LINES else shown


def _track(one: Lapped, now: str) -> TrackStatus:
    lap, course = one.lap, one.lap.course
    ready = _ready(one)
    rollback = course.rollback
    if lap.decision is not None:
        hold = lap.decision.rollback
        if hold is None:
            rollback = None
        elif rollback is None or (rollback.to, rollback.requested) != (hold.to, hold.requested):
            rollback = HeldRollback(to=hold.to, requested=hold.requested, since=now)
    return TrackStatus(
        name=lap.track.name,
        ready=ready.status,
        message=shorten(ready.message, 1024),
        source_revision=lap.revision,
        revisions=list(lap.revisions),
        inputs=lap.made.inputs if lap.made is not None and lap.certain else course.inputs,
        rollback=rollback,
        last_healthy_revision=lap.revision if one.health == "Healthy" else course.healthy,
        history=extend(course.history, _attempt(one, ready), now, by_revision=True, amend=one.health == "Failed"),
    )


def _ready(one: Lapped) -> Finding:
    if one.problem is not None:
        return Finding("Ready", one.problem.status, one.problem.reason, one.problem.message)
    if one.lap.made is None:
        return Finding("Ready", "Unknown", "Progressing", "nothing was applied yet")
    return readiness(one.outcomes)


def _attempt(one: Lapped, ready: Finding) -> Attempt | None:
    """Return how the attempt ended; one that did not get as far as writing is about the revision that it tried."""
    lap, failed = one.lap, one.problem is not None and is_failure(ready)
    attempt = attempt_of(one.outcomes, ready, failed=failed or one.health == "Failed", revision=lap.revision)
    if attempt is None or attempt.changes or not failed or one.problem is not lap.problem:
        return attempt
    return structs.replace(attempt, revision=lap.attempted)


def _conditions(report: Report, status: ConfigSyncStatus, laps: Sequence[Lapped], now: str) -> list[Condition]:
    """Return the conditions that the kind has beside the common ones."""
    ready = find(status.conditions, "Ready")
    if ready is None:
        return []
    failed = ready.status == "False" and ready.reason not in WAITING
    findings = [
        Finding("Synced", ready.status, ready.reason, ready.message),
        Finding("Failed", "True", ready.reason, ready.message)
        if failed
        else Finding("Failed", "False", "NotFailed", "nothing has failed"),
        _invalid_source(report.problem, laps, ready),
    ]
    spec = report.sync.spec
    if isinstance(spec, ConfigSyncSpec) and spec.wait and laps:
        findings.append(_healthy(laps))
    notes = dict.fromkeys(note for one in laps if one.lap.made is not None for note in one.lap.made.notes)
    if notes:
        findings.append(_reported([*notes]))
    return settle_conditions(report.sync.status.conditions, findings, status.observed_generation, now)


def _invalid_source(problem: Problem | None, laps: Sequence[Lapped], ready: Condition) -> Finding:
    """Tell whether something is wrong with the source; of one that was not looked at, nothing is known."""
    if isinstance(problem, SourceProblem):
        status: ConditionStatus = "True" if problem.status == "False" else "Unknown"
        return Finding("InvalidSource", status, problem.reason, problem.message)
    if laps and all(one.lap.certain for one in laps):
        return Finding("InvalidSource", "False", "SourceIsValid", "the source can be read and built")
    return Finding("InvalidSource", "Unknown", ready.reason, ready.message)


def _reported(notes: Sequence[str]) -> Finding:
    """Tell of what is in the source and was not applied; there is no such condition where there is nothing to tell."""
    rest = f"; and {len(notes) - REPORTED} more" if len(notes) > REPORTED else ""
    named = "; ".join(shorten(note, 300) for note in notes[:REPORTED])
    return Finding("Reported", "True", "NotApplied", f"{named}{rest}")


def _healthy(laps: Sequence[Lapped]) -> Finding:
    for one in laps:
        if one.health == "Failed":
            words = one.problem.message if one.problem is not None else "not everything was applied in time"
            return Finding("Healthy", "False", "HealthCheckFailed", words)
    for one in laps:
        if one.health == "Pending":
            words = one.problem.message if one.problem is not None else "not everything is applied yet"
            return Finding("Healthy", "Unknown", "Progressing", words)
    return Finding("Healthy", "True", "Healthy", "everything that was applied is healthy")
