"""The metrics of syncs, in the default registry of prometheus_client.

Three of them have labels for single syncs. Their series are removed with the sync (`forget_sync`). Series of a cluster
are also removed when the sync no longer writes to the cluster (`set_clusters`). The metrics of leader election and of
API requests are in `syncline.kube.metrics`, those of clusters in `syncline.fleet.metrics`.
"""

import contextlib
import platform
import time
from collections.abc import Collection, Iterator
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram

import syncline
from syncline.api.common import ConditionStatus, TargetCounts

SyncResult = Literal["success", "failure"]
StatusResult = Literal["written", "conflict", "refused", "forbidden", "failed"]

_STATES = ("synced", "pending", "failed", "conflicted", "skipped", "unknown", "unwanted")
_READY: dict[ConditionStatus, int] = {"True": 1, "False": 0, "Unknown": -1}

_sync_seconds = Histogram(
    "syncline_sync_duration_seconds",
    "Duration of one reconcile of a sync, with all its targets.",
    ["kind"],
    buckets=(0.01, 0.05, 0.2, 1, 5, 20, 60, 300),
)
_syncs = Counter("syncline_sync", "Number of reconciles, by result.", ["kind", "result"])
_targets = Gauge("syncline_targets", "Number of targets of a sync, by state.", ["kind", "namespace", "name", "state"])
_ready = Gauge(
    "syncline_ready", "The Ready condition of a sync: 1 True, 0 False, -1 Unknown.", ["kind", "namespace", "name"]
)
_failures = Counter(
    "syncline_failures",
    "Number of failures of a sync, by cluster: targets that could not be written or read, and failed reconciles.",
    ["kind", "namespace", "name", "cluster"],
)
_target_failures = Counter(
    "syncline_target_failures",
    "Number of targets that could not be written or read, by the kind of the target.",
    ["kind", "target_kind"],
)
_writes = Counter("syncline_writes", "Number of objects written at targets, by action.", ["kind", "action"])
_status_writes = Counter(
    "syncline_upstream_status_writes",
    "Number of statuses that were sent to upstream objects, by result and by the kind of the object.",
    ["target_kind", "result"],
)
_repairs = Counter("syncline_drift_repairs", "Number of objects whose drift was repaired.", ["kind"])
_conflicts = Counter("syncline_conflicts", "Number of targets found with another owner.", ["kind"])
_unconfined = Gauge(
    "syncline_builds_unconfined",
    "1 while builds and git run unconfined, because the kernel lacks a feature and --allow-unconfined-builds is set.",
)
_authors_unchecked = Gauge(
    "syncline_authors_unchecked",
    "1 while syncs without a service account are reconciled with unchecked authors (--allow-unchecked-authors).",
)
_self_check = Gauge("syncline_self_check", "Result of each self-check of the operator: 1 passed, 0 failed.", ["check"])
_build = Gauge(
    "syncline_build_info",
    "Always 1. The labels name the versions of the operator and of Python.",
    ["version", "python"],
)
# Users and repositories choose the kinds. Above this number, all other kinds are counted together.
MAX_TARGET_KINDS = 200
OTHER_KINDS = "other"
_target_kinds: set[str] = set()
_failed_in: dict[tuple[str, str, str], set[str]] = {}
"""The clusters with a series of failures, by sync. They are needed to remove the series."""

_build.labels(syncline.__version__, platform.python_version()).set(1)


def set_unconfined(*, missing: bool, allowed: bool) -> None:
    """Set whether builds and git run without confinement."""
    _unconfined.set(int(missing and allowed))


def set_authors_unchecked(*, unchecked: bool) -> None:
    """Set whether syncs with unchecked authors are reconciled."""
    _authors_unchecked.set(int(unchecked))


def set_self_check(check: str, *, ok: bool) -> None:
    """Set the result of a self-check."""
    _self_check.labels(check).set(int(ok))


@contextlib.contextmanager
def sync_pass(kind: str) -> Iterator[None]:
    """Measure one reconcile of a sync, and count it as a failure if it raises."""
    started = time.monotonic()
    try:
        yield
    except Exception:
        observe_sync(kind, "failure", time.monotonic() - started)
        raise
    observe_sync(kind, "success", time.monotonic() - started)


def observe_sync(kind: str, result: SyncResult, seconds: float) -> None:
    """Count one reconcile of a sync."""
    _syncs.labels(kind, result).inc()
    _sync_seconds.labels(kind).observe(seconds)


def set_targets(kind: str, namespace: str, name: str, counts: TargetCounts) -> None:
    """Set the number of targets of a sync in each state."""
    for state in _STATES:
        _targets.labels(kind, namespace, name, state).set(getattr(counts, state))


def set_ready(kind: str, namespace: str, name: str, status: ConditionStatus) -> None:
    """Set the Ready condition of a sync."""
    _ready.labels(kind, namespace, name).set(_READY[status])


def count_failures(kind: str, namespace: str, name: str, cluster: str, number: int = 1) -> None:
    """Count failures of a sync in a cluster, by the name of the cluster in the sync. Empty: its own cluster."""
    _failed_in.setdefault((kind, namespace, name), set()).add(cluster)
    _failures.labels(kind, namespace, name, cluster).inc(number)


def count_target_failures(kind: str, target_kind: str, number: int = 1) -> None:
    """Count targets that could not be written or read, by the kind of the sync and the kind of the target."""
    _target_failures.labels(kind, _counted_kind(target_kind)).inc(number)


def set_clusters(kind: str, namespace: str, name: str, clusters: Collection[str]) -> None:
    """Remove the series of clusters that a sync no longer writes to. The series of its own cluster stays."""
    known = _failed_in.get((kind, namespace, name), set())
    for cluster in known - {"", *clusters}:
        known.discard(cluster)
        _failures.remove(kind, namespace, name, cluster)


def forget_sync(kind: str, namespace: str, name: str) -> None:
    """Remove the series of a deleted sync."""
    for cluster in _failed_in.pop((kind, namespace, name), set()):
        _failures.remove(kind, namespace, name, cluster)
    with contextlib.suppress(KeyError):
        _ready.remove(kind, namespace, name)
    for state in _STATES:
        with contextlib.suppress(KeyError):
            _targets.remove(kind, namespace, name, state)


def count_writes(kind: str, action: str, number: int) -> None:
    """Count objects that were created, updated, deleted or released at targets."""
    _writes.labels(kind, action).inc(number)


def count_status_write(target_kind: str, result: StatusResult) -> None:
    """Count a status that was sent to an upstream object."""
    _status_writes.labels(_counted_kind(target_kind), result).inc()


def _counted_kind(target_kind: str) -> str:
    if len(_target_kinds) < MAX_TARGET_KINDS:
        _target_kinds.add(target_kind)
    return target_kind if target_kind in _target_kinds else OTHER_KINDS


def count_drift_repair(kind: str) -> None:
    """Count an object whose drift was repaired."""
    _repairs.labels(kind).inc()


def count_conflict(kind: str) -> None:
    """Count a target with another owner."""
    _conflicts.labels(kind).inc()
