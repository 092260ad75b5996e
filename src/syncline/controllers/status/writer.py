"""Status writer: composes and stores the status of a sync, and counts its metrics."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Generic

import structlog
from msgspec import structs

from syncline.api.common import REQUESTED_AT, ObjectMeta, TargetState
from syncline.api.fitting import fit, overfull
from syncline.api.status import SyncStatus
from syncline.controllers.errors import SyncError
from syncline.controllers.lowered import AnySync, Spec, Status
from syncline.controllers.result import ReconcileResult
from syncline.controllers.status.events import EventReporter, StatusChange
from syncline.core.conditions import find
from syncline.core.inventory import FULL
from syncline.core.outcome import Outcome, count, describe_changes
from syncline.core.redact import redact_outcomes
from syncline.core.sync_status import StatusInput, compose_progress, compose_status
from syncline.engine.statuses import REFUSED, describe_refusal, is_refusal, store
from syncline.engine.sync_object import RawSync, SyncObjectWriter
from syncline.kube.cache import Key
from syncline.kube.errors import ApiError
from syncline.kube.events import EventRecorder
from syncline.telemetry import metrics

log = structlog.get_logger(__name__)

ExtendStatus = Callable[[ReconcileResult[Spec, Status], Status, str], Status]
"""Adds the fields of its kind to a status."""

_FAILURES: frozenset[TargetState] = frozenset({"Failed", "Unknown"})


class StatusWriter(Generic[Spec, Status]):
    """Publishes results. `writing` is open while a status is written, and receives the answer of the API server."""

    def __init__(
        self,
        kind: str,
        sync_objects: SyncObjectWriter,
        events: EventRecorder,
        own_write: Callable[[ObjectMeta], AbstractContextManager[Callable[[RawSync], object]]],
        extend_status: ExtendStatus[Spec, Status],
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

    async def publish(self, report: ReconcileResult[Spec, Status]) -> bool:
        """Write the status if it changed, and report the change. Return whether the API server accepted it."""
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
        """Report the progress of a long reconcile."""
        message = f"{len(so_far)} of {total} targets written"
        status = compose_progress(sync.status, sync.metadata.generation, message, revision, _now())
        await self._store(sync, status)

    async def record(self, sync: AnySync, status: SyncStatus) -> None:
        """Record the inventory before the first write. Raises `SyncError` if that is not possible."""
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
        """Send a Warning event about a sync that may have no status any more."""
        log.warning(message, reason=reason)
        await self._events.emit(sync.metadata, "Warning", reason, message, "Finalize")

    def forget(self, key: Key) -> None:
        """Remove the series of a deleted sync."""
        metrics.forget_sync(self._kind, key.namespace, key.name)
        self._events.forget(key)

    def report_finalized(self, outcomes: Sequence[Outcome]) -> None:
        """Log and count the outcomes of the copies of a deleted sync, which has no status any more."""
        self._count(SyncStatus(), outcomes)
        log.info("released its copies", changes=describe_changes(outcomes) or "none")

    def _count(self, before: SyncStatus, outcomes: Sequence[Outcome]) -> None:
        for action, number in Counter(outcome.written for outcome in outcomes if outcome.written is not None).items():
            metrics.count_writes(self._kind, action.value, number)
        for outcome in outcomes:
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
            # Targets with the failure of the whole sync are not counted in addition to it.
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


def compose(report: ReconcileResult[Spec, Status], now: str) -> Status:
    """Compose the new status of a sync from the old status and the result of a reconcile."""
    meta, problem = report.sync.metadata, report.problem
    result = StatusInput(
        generation=meta.generation,
        requested_at=meta.annotations.get(REQUESTED_AT),
        outcomes=report.outcomes,
        problem=None if problem is None else problem.for_status(),
        revision=report.revision,
        scope=report.scope,
        kept=report.kept,
        retries=report.requeue.backoff or report.requeue.pending,
        warnings=report.warnings,
        unmatched=report.unmatched,
    )
    return compose_status(report.sync.status, result, now)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
