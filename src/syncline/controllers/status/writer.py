"""Status writer: composes and stores the status of a sync, and counts its metrics."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

import structlog
from msgspec import structs

from syncline.api.common import REQUESTED_AT, ObjectMeta, TargetState
from syncline.api.fitting import fit, overfull
from syncline.api.status import SyncStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync
from syncline.controllers.result import ReconcileResult
from syncline.controllers.status.events import EXPIRING, EventReporter, StatusChange
from syncline.core.conditions import Finding, find, shorten, update_conditions
from syncline.core.history import PROGRESSING, RETRYING, Attempt, attempt_of, extend, is_certain_failure, is_failure
from syncline.core.inventory import FULL
from syncline.core.outcome import Outcome, conflicted, count, describe_changes, listing, readiness
from syncline.core.redact import redact_outcomes
from syncline.engine.statuses import REFUSED, describe_refusal, is_refusal, store
from syncline.engine.sync_object import RawSync, SyncObjectWriter
from syncline.kube.cache import Key
from syncline.kube.errors import ApiError
from syncline.kube.events import EventRecorder
from syncline.telemetry import metrics

log = structlog.get_logger(__name__)

ExtendStatus = Callable[[ReconcileResult, SyncStatus, str], SyncStatus]
"""Adds to a status what only its kind has."""

_FAILURES: frozenset[TargetState] = frozenset({"Failed", "Unknown"})


class StatusWriter:
    """Publishes reports. `writing` is open while a status is written, and takes in what the API server answers."""

    def __init__(
        self,
        kind: str,
        sync_objects: SyncObjectWriter,
        events: EventRecorder,
        own_write: Callable[[ObjectMeta], AbstractContextManager[Callable[[RawSync], object]]],
        extend_status: ExtendStatus,
    ) -> None:
        self._kind = kind
        self._extend_status = extend_status
        self._sync_objects = sync_objects
        self._events = EventReporter(kind, events)
        self._own_write = own_write

    @contextmanager
    def observed(self, sync: AnySync) -> Iterator[None]:
        """Measure one reconcile, and give its log lines the name of the sync."""
        meta = sync.metadata
        name = f"{meta.namespace}/{meta.name}"
        with structlog.contextvars.bound_contextvars(kind=self._kind, sync=name), metrics.sync_pass(self._kind):
            try:
                yield
            except Exception:
                metrics.count_failures(self._kind, meta.namespace, meta.name, "")
                raise

    async def publish(self, report: ReconcileResult) -> bool:
        """Write the status if it changed, and tell of the change; whether the API server took it as it is."""
        if report.outcomes is not None:
            report = structs.replace(report, outcomes=redact_outcomes(report.sync.spec, report.outcomes))
        now = _now()
        status = self._extend_status(report, compose(report, now), now)
        ready = find(status.conditions, "Ready")
        outcomes = report.outcomes or ()
        meta = report.sync.metadata
        metrics.set_ready(self._kind, meta.namespace, meta.name, ready.status if ready else "Unknown")
        if status.targets is not None:
            metrics.set_targets(self._kind, meta.namespace, meta.name, status.targets)
        self._count(report.sync.status, outcomes)
        self._count_failures(report)
        with self._own_write(meta) as observe:
            stored = await store(self._sync_objects, meta, report.sync.stored_status, status, now)
            if stored.wire is not None:
                observe(stored.wire)
        if stored.refusal is not None:
            metrics.set_ready(self._kind, meta.namespace, meta.name, "False")
        await self._events.announce(
            StatusChange(
                sync=report.sync.metadata,
                before=report.sync.status,
                after=stored.status,
                outcomes=outcomes,
                revision=report.revision,
                whole=report.problem.reason if report.problem is not None else "",
            )
        )
        return stored.refusal is None

    async def progress(self, sync: AnySync, so_far: Sequence[Outcome], total: int, revision: str) -> None:
        """Tell, while a long reconcile goes on, how far it is."""
        message = f"{len(so_far)} of {total} targets written"
        await self._store(sync, compose_progress(sync, message, revision, _now()))

    async def record(self, sync: AnySync, status: SyncStatus) -> None:
        """Write down what must be known before the first write; raises `SyncError` where that is not possible."""
        if field := overfull(status):
            raise SyncError(
                FULL,
                f"split the sync: status.{field} cannot hold all that it would write to, and nothing is written that"
                " is not recorded there first",
                stalled=True,
            )
        try:
            await self._store(sync, status)
        except ApiError as error:
            if not is_refusal(error):
                raise
            raise SyncError(REFUSED, f"nothing is written: {describe_refusal(error)}", retry=True) from error

    async def warn(self, sync: AnySync, reason: str, message: str) -> None:
        """Tell of something that the status can no longer carry."""
        log.warning(message, reason=reason)
        await self._events.emit(sync.metadata, "Warning", reason, message, "Finalize")

    def forget(self, key: Key) -> None:
        """Remove the series of a sync that is gone."""
        metrics.forget_sync(self._kind, key.namespace, key.name)
        self._events.forget(key)

    def report_finalized(self, outcomes: Sequence[Outcome]) -> None:
        """Tell what became of the copies of a sync that is being deleted; its status goes with it."""
        self._count(SyncStatus(), outcomes)
        log.info("let go of its copies", changes=describe_changes(outcomes) or "none")

    def _count(self, before: SyncStatus, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.written is not None:
                metrics.count_write(self._kind, outcome.written.value)
            if outcome.drift:
                metrics.count_drift_repair(self._kind)
        known = before.targets.conflicted if before.targets is not None else 0
        for _ in range(count(outcomes).conflicted - known):
            metrics.count_conflict(self._kind)

    def _count_failures(self, report: ReconcileResult) -> None:
        meta, problem = report.sync.metadata, report.problem
        outcomes = report.outcomes or ()
        failures = Counter(
            outcome.target.cluster
            for outcome in outcomes
            # Targets that only share the fate of the whole sync are not counted beside it.
            if outcome.state in _FAILURES and (problem is None or outcome.reason != problem.reason)
        )
        for kind, number in Counter(outcome.target.kind for outcome in outcomes if outcome.state in _FAILURES).items():
            metrics.count_target_failures(self._kind, kind, number)
        if problem is not None and problem.status == "False":
            failures[""] += 1
        for cluster, number in failures.items():
            metrics.count_failures(self._kind, meta.namespace, meta.name, cluster, number)
        if report.outcomes is not None:
            clusters = {outcome.target.cluster for outcome in outcomes}
            metrics.set_clusters(self._kind, meta.namespace, meta.name, clusters)

    async def _store(self, sync: AnySync, status: SyncStatus) -> None:
        with self._own_write(sync.metadata) as observe:
            wire = await self._sync_objects.write_status(sync.metadata, sync.stored_status, fit(status))
            if wire is not None:
                observe(wire)


def compose(report: ReconcileResult, now: str) -> SyncStatus:
    """Make the new status of a sync from the old one and what came of this reconcile. Pure."""
    meta, old = report.sync.metadata, report.sync.status
    findings = _findings(report)
    status = structs.replace(
        old,
        observed_generation=meta.generation,
        conditions=update_conditions(old.conditions, findings, meta.generation, now),
        last_handled_request=shorten(meta.annotations[REQUESTED_AT], 256) if REQUESTED_AT in meta.annotations else None,
        kept=report.kept if report.kept is not None else old.kept,
        history=extend(old.history, _attempt(report, findings[0]), now),
    )
    if report.outcomes is None:
        return status
    return structs.replace(
        status,
        targets=count(report.outcomes),
        target_statuses=listing(report.outcomes, old.target_statuses, now),
        source_revision=report.revision or old.source_revision,
        scope=report.scope or old.scope,
    )


def compose_progress(sync: AnySync, message: str, revision: str, now: str) -> SyncStatus:
    """Make the status of a sync whose reconcile is still going on. Pure."""
    generation = sync.metadata.generation
    findings = [
        Finding("Ready", "False", "Progressing", f"revision {revision}: {message}"),
        Finding("Reconciling", "True", PROGRESSING, message),
    ]
    conditions = update_conditions(sync.status.conditions, findings, generation, now)
    return structs.replace(sync.status, observed_generation=generation, conditions=conditions)


def _attempt(report: ReconcileResult, ready: Finding) -> Attempt | None:
    failed = report.problem is not None and is_failure(ready)
    return attempt_of(report.outcomes or (), ready, failed=failed, revision=report.revision)


def _findings(report: ReconcileResult) -> list[Finding]:
    outcomes = list(report.outcomes or ())
    problem = report.problem
    ready = readiness(outcomes, report.unmatched)
    if problem is not None:
        ready = Finding("Ready", problem.status, problem.reason, problem.message)
    findings = [ready]
    if problem is not None and problem.stalled:
        findings.append(Finding("Stalled", "True", problem.reason, problem.message))
    elif (
        report.requeue.backoff or report.requeue.pending or any(outcome.reason == "InProgress" for outcome in outcomes)
    ):
        failed = is_certain_failure(ready, outcomes, whole=problem is not None)
        findings.append(Finding("Reconciling", "True", RETRYING if failed else PROGRESSING, "trying again"))
    if (conflict := conflicted(outcomes)) is not None:
        findings.append(conflict)
    if report.warnings:
        findings.append(Finding(EXPIRING, "True", "RenewSoon", "; ".join(report.warnings)))
    return findings


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
