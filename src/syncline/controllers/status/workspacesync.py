"""The status of a WorkspaceSync: its upstream, namespaces, placement, resources and conflicts. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import structs

from syncline.api.common import TargetState
from syncline.api.workspace_status import (
    MAX_LISTED,
    MAX_SHARDS,
    MappedNamespace,
    NamespacePlacement,
    PathConflict,
    ResourceState,
    ResourceSyncStatus,
    UpstreamStatus,
    WorkspaceSyncStatus,
)
from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.controllers.result import ReconcileResult
from syncline.controllers.sources.upstream_versions import recorded_shards
from syncline.controllers.sources.workspace_report import ResourceReport, WorkspaceReport
from syncline.controllers.targets.layout import REFUSED
from syncline.controllers.targets.own_namespaces import NOT_OURS
from syncline.core.conditions import Finding, shorten, update_conditions
from syncline.core.group_kind import GroupResource
from syncline.core.objects import Target
from syncline.core.outcome import Outcome, describe_changes, worst_first

UPSTREAM_READY = "UpstreamReady"
STATUS_SYNCED = "StatusSynced"
_MAX_PATHS = 20
_MAX_MESSAGE = 1000
Value = TypeVar("Value")
Report = ReconcileResult[WorkspaceSyncSpec, WorkspaceSyncStatus]


def extend(report: Report, status: WorkspaceSyncStatus, now: str) -> WorkspaceSyncStatus:
    """Add the status fields of this kind."""
    found = next((one.desired.workspace for one in report.units if one.desired.workspace is not None), None)
    findings = [_upstream_ready(report, found)]
    if found is not None and (upward := _status_synced(report)) is not None:
        findings.append(upward)
    before = report.sync.status.conditions
    own = update_conditions(before, findings, status.observed_generation, now)
    others = [one for one in status.conditions if one.type not in (UPSTREAM_READY, STATUS_SYNCED)]
    status = structs.replace(status, conditions=[*others, *own])
    if found is None:
        return status
    outcomes = [one for one in report.outcomes or () if not one.gone]
    changed = bool(describe_changes(report.outcomes or ()))
    return structs.replace(
        status,
        upstream=_upstream(found, status.upstream, changed=changed),
        namespaces=_namespaces(found, outcomes),
        placement=_placement(found),
        resources=[_resource(one, outcomes) for one in found.resources],
        conflicts=_conflicts(found, outcomes),
        copies_skipped=found.copies,
        last_sync_time=now if changed else status.last_sync_time,
    )


def _upstream_ready(report: Report, found: WorkspaceReport | None) -> Finding:
    problem = report.problem
    if found is None and problem is not None:
        return Finding(UPSTREAM_READY, "Unknown", problem.reason, problem.message)
    if found is not None and found.identity.problem is not None:
        wrong = found.identity.problem
        return Finding(UPSTREAM_READY, "False", wrong.reason, wrong.message)
    if found is not None and found.problem is not None:
        return Finding(UPSTREAM_READY, "False", found.problem.reason, found.problem.message)
    bad = [one for one in found.resources if one.reason and one.reason != "NotServed"] if found is not None else []
    if bad:
        return Finding(UPSTREAM_READY, "False", bad[0].reason, bad[0].message)
    return Finding(UPSTREAM_READY, "True", "Reachable", "the upstream is read and watched")


def _status_synced(report: Report) -> Finding | None:
    """Return the condition StatusSynced; None if the spec does not request it."""
    results = [one.upward for one in report.units if one.upward is not None]
    if not results:
        return None
    if forbidden := next((one.forbidden for one in results if one.forbidden), ""):
        return Finding(STATUS_SYNCED, "False", "UpstreamForbidden", forbidden)
    failed = [outcome for one in results for outcome in one.failed]
    if failed:
        first = min(failed, key=worst_first)
        return Finding(STATUS_SYNCED, "False", first.reason, f"{first.target}: {first.message}")
    return Finding(STATUS_SYNCED, "True", "Synced", "the upstream has the status of the copies")


def _upstream(found: WorkspaceReport, before: UpstreamStatus | None, *, changed: bool) -> UpstreamStatus:
    """Return the status of the upstream. Its version changes only together with a write of a copy."""
    old, identity = before or UpstreamStatus(), found.identity
    shards = found.shards if changed else {**found.shards, **recorded_shards(old)}
    return structs.replace(
        old,
        identity=identity.uid,
        workspace=identity.workspace.path,
        workspaces=found.workspaces,
        resource_version=identity.version if changed or not old.resource_version else old.resource_version,
        shards=[f"{shard}={version}" for shard, version in sorted(shards.items())][:MAX_SHARDS],
    )


def _namespaces(found: WorkspaceReport, outcomes: Sequence[Outcome]) -> list[MappedNamespace]:
    states: dict[str, Outcome] = {}
    unplaced = (
        one for one in outcomes if one.reason == NOT_OURS or (one.target.kind == "Namespace" and one.state != "Synced")
    )
    for outcome in sorted(unplaced, key=worst_first):
        states.setdefault(outcome.target.namespace or outcome.target.name, outcome)
    layout = found.layout
    listed = [
        MappedNamespace(
            cluster=cluster, upstream=name, state="Refused", reason=REFUSED, message=shorten(why, _MAX_MESSAGE)
        )
        for (cluster, name), why in _named(layout.refused)
    ]
    for (cluster, name), place in _named(layout.places):
        wrong = states.get(place.namespace)
        if wrong is None:
            listed.append(MappedNamespace(cluster=cluster, upstream=name, downstream=place.namespace, state="Synced"))
        else:
            listed.append(
                MappedNamespace(
                    cluster=cluster,
                    upstream=name,
                    downstream=place.namespace,
                    state="Refused" if wrong.reason in (NOT_OURS, "NotOurs", "OwnedByOther") else "Pending",
                    reason=wrong.reason,
                    message=shorten(wrong.message, _MAX_MESSAGE),
                )
            )
    listed.sort(key=lambda one: (one.state == "Synced", one.cluster, one.upstream))
    return listed[:MAX_LISTED]


def _named(places: Mapping[str, Value]) -> list[tuple[tuple[str, str], Value]]:
    """Return the values by upstream namespace, in order, with the logical cluster and the name of each."""
    split = ((key.rpartition("/"), value) for key, value in sorted(places.items()) if key)
    return [((cluster, name), value) for (cluster, _, name), value in split]


def _placement(found: WorkspaceReport) -> list[NamespacePlacement]:
    return [
        NamespacePlacement(
            cluster=cluster,
            namespace=name,
            targets=list(place.targets)[:MAX_LISTED],
            reason=place.reason,
            message=shorten(place.message, _MAX_MESSAGE),
        )
        for (cluster, name), place in _named(found.layout.places)
    ][:MAX_LISTED]


def _resource(one: ResourceReport, outcomes: Sequence[Outcome]) -> ResourceSyncStatus:
    mine = [outcome for outcome in outcomes if one.kind and outcome.target.kind == one.kind]
    states = Counter(outcome.state for outcome in mine)
    reason, message, state = one.reason, one.message, _state_of(one, mine, states)
    if not reason and state not in ("Synced", "Pending"):
        bad = min(
            (one for one in mine if one.state not in ("Synced", "Skipped", "Pending")), key=worst_first, default=None
        )
        reason, message = (bad.reason, f"{bad.target}: {bad.message}") if bad is not None else ("", "")
    return ResourceSyncStatus(
        group=one.spec.group,
        resource=one.spec.resource,
        direction=one.spec.direction,
        state=state,
        synced=states["Synced"],
        failed=states["Failed"],
        conflicted=states["Conflict"],
        reason=reason,
        message=shorten(message, _MAX_MESSAGE),
    )


def _state_of(one: ResourceReport, mine: Sequence[Outcome], states: Mapping[TargetState, int]) -> ResourceState:
    if one.reason == "NotServed":
        return "NotServed"
    if one.reason:
        return "Failed"
    if any(outcome.reason == "KindNotServed" for outcome in mine):
        return "Incompatible"
    order: tuple[tuple[TargetState, ResourceState], ...] = (
        ("Failed", "Failed"),
        ("Conflict", "Conflict"),
        ("Unknown", "Unknown"),
        ("Pending", "Pending"),
    )
    return next((state for key, state in order if states.get(key)), "Synced")


def _conflicts(found: WorkspaceReport, outcomes: Sequence[Outcome]) -> list[PathConflict]:
    conflicted = sorted((one for one in outcomes if one.conflicts), key=lambda one: one.target)[:MAX_LISTED]
    if not conflicted:
        return []
    names = {one.kind: str(GroupResource(one.spec.group, one.spec.resource)) for one in found.resources}
    upstream = {place.namespace: name for (_, name), place in _named(found.layout.places)}
    return [
        PathConflict(
            resource=names.get(outcome.target.kind, outcome.target.kind),
            namespace=_source_namespace(found, upstream, outcome.target),
            name=outcome.target.name,
            cluster=outcome.target.cluster,
            paths=[f"/{path.removeprefix('/')}"[:512] for path in outcome.conflicts[:_MAX_PATHS]],
            message=shorten(outcome.message, _MAX_MESSAGE),
        )
        for outcome in conflicted
    ]


def _source_namespace(found: WorkspaceReport, upstream: Mapping[str, str], target: Target) -> str:
    """Return the upstream namespace of a target. A fixed namespace has the copies of several."""
    source = found.sources.get(target)
    return source.namespace if source is not None else upstream.get(target.namespace, target.namespace)
