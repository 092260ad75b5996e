"""Events and log lines of a sync: changes of its outcome, and new causes of the same outcome."""

import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Literal

import structlog
from msgspec import Struct

from syncline.api.common import API_VERSION, ObjectMeta, TargetState
from syncline.api.status import SyncStatus
from syncline.core.causes import causes
from syncline.core.conditions import find
from syncline.core.outcome import LISTED, SOURCE_MOVED, Outcome, describe_changes
from syncline.core.sync_status import EXPIRING
from syncline.kube.cache import Key
from syncline.kube.events import EventRecorder

log = structlog.get_logger(__name__)

NAMED = 3
LOGGED = 10
# Each cause is reported once in this time, and at most this many causes of one sync.
WINDOW = 600.0
MOST = 5

# The reasons of states that a user has asked for, or that end without anybody's help.
_NO_WARNING = frozenset({"Suspended", SOURCE_MOVED})
_NOT_WELL: frozenset[TargetState] = frozenset({"Failed", "Conflict", "Unknown"})


class StatusChange(Struct, frozen=True, kw_only=True):
    """The result of one reconcile, for events: the status before and after, and the actions."""

    sync: ObjectMeta
    before: SyncStatus
    after: SyncStatus
    outcomes: Sequence[Outcome] = ()
    revision: str | None = None
    whole: str = ""
    """The reason of a failure of the whole sync. Its targets have the same reason."""


OVERRULED = "Overruled"
"""The reason of a write that replaced the edit of one side by the edit of the other."""


class EventReporter:
    """Reports changes of the syncs of one kind."""

    def __init__(self, kind: str, events: EventRecorder) -> None:
        self._kind = kind
        self._events = events
        self._reported: dict[Key, OrderedDict[str, float]] = {}

    async def announce(self, one: StatusChange) -> None:
        """Log the changes, and send events."""
        ready, before = find(one.after.conditions, "Ready"), find(one.before.conditions, "Ready")
        if ready is None:
            return
        changes = describe_changes(one.outcomes)
        if changes:
            await self._changed(one, changes)
        expiring = find(one.after.conditions, EXPIRING)
        if expiring is not None and find(one.before.conditions, EXPIRING) is None:
            await self.emit(one.sync, "Warning", EXPIRING, expiring.message)
        turned = before is None or (before.status, before.reason) != (ready.status, ready.reason)
        if ready.status == "True":
            if turned and before is not None and not changes:
                await self.emit(one.sync, "Normal", "Ready", ready.message)
            return
        _log_targets(one)
        if self._is_news(one, turned=turned):
            level: Literal["Normal", "Warning"] = "Normal" if ready.reason in _NO_WARNING else "Warning"
            log.warning("not ready", reason=ready.reason, message=ready.message, **_about(one, _bad(one)))
            await self.emit(one.sync, level, ready.reason, ready.message)

    async def emit(
        self, sync: ObjectMeta, level: Literal["Normal", "Warning"], reason: str, message: str, action: str = "Sync"
    ) -> None:
        """Send an event about a sync."""
        await self._events.emit(_reference(self._kind, sync), level, reason, message, action)

    def forget(self, key: Key) -> None:
        """Forget a deleted sync."""
        self._reported.pop(key, None)

    async def _changed(self, one: StatusChange, changes: str) -> None:
        written = [outcome for outcome in one.outcomes if outcome.written]
        drifted = [outcome for outcome in written if outcome.drift]
        note = f"revision {one.revision}: {changes}" if one.revision else changes
        log.info("synced", changes=changes, **_about(one, written))
        reason = "DriftRepaired" if drifted else "Synced"
        await self.emit(one.sync, "Normal", reason, f"{note} ({_name(drifted or written)})")
        if overruled := [f"{outcome.target}: {outcome.message}" for outcome in written if outcome.reason == OVERRULED]:
            await self.emit(one.sync, "Warning", OVERRULED, "; ".join(overruled[:NAMED]))

    def _is_news(self, one: StatusChange, *, turned: bool) -> bool:
        """Whether to report that a sync is not ready: for another reason than before, or for a new cause.

        Repeated causes, and causes above the limit, are not reported.
        """
        now = time.monotonic()
        found = causes(one.after)
        recent = self._reported.setdefault(Key(one.sync.namespace, one.sync.name), OrderedDict())
        while recent and now - next(iter(recent.values())) >= WINDOW:
            recent.popitem(last=False)
        fresh = sorted(found - causes(one.before) - recent.keys())
        news = turned or (bool(fresh) and len(recent) < MOST)
        if news:
            recent.update(dict.fromkeys(sorted(found)[:MOST], now))
        return news


def _bad(one: StatusChange) -> list[Outcome]:
    return [outcome for outcome in one.outcomes if outcome.state in _NOT_WELL and outcome.reason != one.whole]


def _about(one: StatusChange, outcomes: Collection[Outcome]) -> dict[str, str]:
    """Return the fields of a log line: the revision, and the target and cluster if it is about a single one."""
    fields = {"revision": one.revision} if one.revision else {}
    if len(outcomes) == 1:
        return fields | next(iter(outcomes)).target.fields()
    clusters = {outcome.target.cluster for outcome in outcomes}
    if len(clusters) == 1 and (cluster := clusters.pop()):
        fields["cluster"] = cluster
    return fields


def _log_targets(one: StatusChange) -> None:
    """Log the targets with a new bad state. A single one is in the line of the sync."""
    listed = one.before.target_statuses
    known: dict[tuple[str, ...], tuple[TargetState, str]] = {
        (entry.cluster_name, entry.kind or "ConfigMap", entry.namespace, entry.name): (entry.status, entry.reason)
        for entry in listed
    }
    bad = _bad(one)
    new = []
    for outcome in bad:
        target = outcome.target
        was = known.get((target.cluster, target.kind, target.namespace, target.name))
        # A target that is not in a truncated list may have any state.
        if was != (outcome.state, outcome.reason) and (was is not None or len(listed) < LISTED):
            new.append(outcome)
    for outcome in new[:LOGGED] if len(bad) > 1 else ():
        log.warning(
            "target not synced",
            state=outcome.state,
            reason=outcome.reason,
            message=outcome.message,
            **_about(one, [outcome]),
        )
    if len(new) > LOGGED:
        log.warning("more targets not synced", number=len(new) - LOGGED, **_about(one, ()))


def _name(outcomes: Sequence[Outcome]) -> str:
    """Return the first targets with their messages, as text."""
    names = [f"{outcome.target}: {outcome.message}" if outcome.drift else str(outcome.target) for outcome in outcomes]
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _reference(kind: str, meta: ObjectMeta) -> dict[str, str]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
