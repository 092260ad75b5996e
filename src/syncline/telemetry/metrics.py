"""What is counted about syncs, in the registry that prometheus_client exposes by default.

Three of them name single syncs; their series go with the sync (`forget_sync`), and those that name a cluster too when
the sync no longer writes there (`set_clusters`). Whether this process leads and what it asks of API servers is counted
where it happens, in `syncline.kube.metrics`; how clusters are, in `syncline.fleet.metrics`.
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

_STATES = ("synced", "pending", "failed", "conflicted", "skipped", "unknown")
_READY: dict[ConditionStatus, int] = {"True": 1, "False": 0, "Unknown": -1}

_sync_seconds = Histogram(
    "syncline_sync_duration_seconds",
    "How long one pass over a sync took, with all its targets.",
    ["kind"],
    buckets=(0.01, 0.05, 0.2, 1, 5, 20, 60, 300),
)
_syncs = Counter("syncline_sync", "Passes over a sync, by how they ended.", ["kind", "result"])
_targets = Gauge("syncline_targets", "Targets of a sync, by state.", ["kind", "namespace", "name", "state"])
_ready = Gauge(
    "syncline_ready", "The Ready condition of a sync: 1 True, 0 False, -1 Unknown.", ["kind", "namespace", "name"]
)
_failures = Counter(
    "syncline_failures",
    "What went wrong for a sync, by cluster: targets that could not be written or seen, and passes that failed.",
    ["kind", "namespace", "name", "cluster"],
)
_target_failures = Counter(
    "syncline_target_failures",
    "Targets that could not be written or seen, by their own kind.",
    ["kind", "target_kind"],
)
_writes = Counter("syncline_writes", "Objects written at targets, by what was done.", ["kind", "action"])
_repairs = Counter("syncline_drift_repairs", "Copies that somebody had changed and that were put right.", ["kind"])
_conflicts = Counter("syncline_conflicts", "Targets found in the hands of somebody else.", ["kind"])
_unconfined = Gauge(
    "syncline_builds_unconfined",
    "1 while builds and git run unconfined, because the machine lacks a wall and --allow-unconfined-builds is set.",
)
_authors_unchecked = Gauge(
    "syncline_authors_unchecked",
    "1 while syncs without an account are carried out whoever wrote them, because --allow-unchecked-authors is set.",
)
_self_check = Gauge("syncline_self_check", "1 while what the operator needs is there, by check; 0 if not.", ["check"])
_build = Gauge("syncline_build_info", "Always 1; the labels say what runs.", ["version", "python"])
# Kinds are named by users, and by what they push: past this many, the rest are counted together.
MAX_TARGET_KINDS = 200
OTHER_KINDS = "other"
_target_kinds: set[str] = set()
_failed_in: dict[tuple[str, str, str], set[str]] = {}
"""The clusters with a series of failures, by sync: what is to be removed one day."""

_build.labels(syncline.__version__, platform.python_version()).set(1)


def set_unconfined(*, missing: bool, allowed: bool) -> None:
    """Say whether builds and git run without confinement."""
    _unconfined.set(int(missing and allowed))


def set_authors_unchecked(*, unchecked: bool) -> None:
    """Say whether syncs are carried out whoever wrote them."""
    _authors_unchecked.set(int(unchecked))


def set_self_check(check: str, *, ok: bool) -> None:
    """Show whether something that the operator needs is there."""
    _self_check.labels(check).set(int(ok))


@contextlib.contextmanager
def sync_pass(kind: str) -> Iterator[None]:
    """Time one pass over a sync, and count it as a failure if it raises."""
    started = time.monotonic()
    try:
        yield
    except Exception:
        observe_sync(kind, "failure", time.monotonic() - started)
        raise
    observe_sync(kind, "success", time.monotonic() - started)


def observe_sync(kind: str, result: SyncResult, seconds: float) -> None:
    """Count one pass over a sync."""
    _syncs.labels(kind, result).inc()
    _sync_seconds.labels(kind).observe(seconds)


def set_targets(kind: str, namespace: str, name: str, counts: TargetCounts) -> None:
    """Show how many targets of a sync are in which state."""
    for state in _STATES:
        _targets.labels(kind, namespace, name, state).set(getattr(counts, state))


def set_ready(kind: str, namespace: str, name: str, status: ConditionStatus) -> None:
    """Show the Ready condition of a sync."""
    _ready.labels(kind, namespace, name).set(_READY[status])


def count_failures(kind: str, namespace: str, name: str, cluster: str, number: int = 1) -> None:
    """Count what went wrong for a sync in a cluster, by the name that the sync has for it; empty: its own cluster."""
    _failed_in.setdefault((kind, namespace, name), set()).add(cluster)
    _failures.labels(kind, namespace, name, cluster).inc(number)


def count_target_failures(kind: str, target_kind: str, number: int = 1) -> None:
    """Count targets that could not be written or seen, by the kind of the sync and by their own."""
    if len(_target_kinds) < MAX_TARGET_KINDS:
        _target_kinds.add(target_kind)
    _target_failures.labels(kind, target_kind if target_kind in _target_kinds else OTHER_KINDS).inc(number)


def set_clusters(kind: str, namespace: str, name: str, clusters: Collection[str]) -> None:
    """Drop the series of clusters that a sync no longer writes to; its own cluster always counts."""
    known = _failed_in.get((kind, namespace, name), set())
    for cluster in known - {"", *clusters}:
        known.discard(cluster)
        _failures.remove(kind, namespace, name, cluster)


def forget_sync(kind: str, namespace: str, name: str) -> None:
    """Drop the series of a sync that is gone."""
    for cluster in _failed_in.pop((kind, namespace, name), set()):
        _failures.remove(kind, namespace, name, cluster)
    with contextlib.suppress(KeyError):
        _ready.remove(kind, namespace, name)
    for state in _STATES:
        with contextlib.suppress(KeyError):
            _targets.remove(kind, namespace, name, state)


def count_write(kind: str, action: str) -> None:
    """Count an object that was created, updated, deleted or released at a target."""
    _writes.labels(kind, action).inc()


def count_drift_repair(kind: str) -> None:
    """Count a copy that somebody had changed and that was put right."""
    _repairs.labels(kind).inc()


def count_conflict(kind: str) -> None:
    """Count a target that is in the hands of somebody else."""
    _conflicts.labels(kind).inc()
