"""The status of an IgnitionSync: its ref and commit, its gateways, its rollout and its own conditions. Pure."""

from msgspec import structs

from syncline.api.common import Condition
from syncline.api.ignition_status import MAX_GATEWAYS, DiscoveredGateway, IgnitionSyncStatus
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.controllers.result import ReconcileResult
from syncline.core.conditions import Finding, find, update_conditions
from syncline.core.gateway_serving import withdrawn
from syncline.core.gateway_status import ALL_SYNCED, resolution, summary
from syncline.core.gateway_unsupported import unsupported_condition
from syncline.core.history import Attempt, extend

_SHORT = 7
_OWN = frozenset({"Ready", "Stalled", "Reconciling", "Conflicted"})
"""The conditions of every kind."""
_ORDER = {"Error": 0, "MissingSidecar": 1, "Syncing": 2, "Pending": 3, "Synced": 4}

Report = ReconcileResult[IgnitionSyncSpec, IgnitionSyncStatus]


def extend_ignitionsync(report: Report, status: IgnitionSyncStatus, now: str) -> IgnitionSyncStatus:
    """Add the status fields of this kind."""
    fleet = report.fleet
    if fleet is None:
        return _not_carried_out(report, status, now)
    before = report.sync.status
    found = fleet.gateways if fleet.gateways is not None else before.discovered_gateways
    gateways = sorted(found, key=lambda one: (_ORDER[one.sync_status], one.name, one.pod_name))
    status = structs.replace(
        status,
        conditions=_conditions(before, _ready(status, gateways), fleet.findings, status.observed_generation, now),
        last_sync_ref=fleet.ref,
        last_sync_commit=fleet.commit or before.last_sync_commit,
        last_sync_commit_short=(fleet.commit or before.last_sync_commit)[:_SHORT],
        ref_resolution_status="Resolved" if fleet.commit else "Error",
        repo_clone_status="Cloned" if fleet.commit else "Error",
        profile_count=fleet.profiles,
        discovered_gateways=gateways[:MAX_GATEWAYS],
        rollout=fleet.rollout,
        requested_ref=fleet.requested,
        rollback=fleet.rollback,
        source_revision=fleet.rollout.commit or None,
    )
    if not fleet.completed:
        return status
    attempt = Attempt(revision=fleet.rollout.commit, changes=summary(gateways))
    return structs.replace(status, last_sync_time=now, history=extend(before.history, attempt, now))


def _not_carried_out(report: Report, status: IgnitionSyncStatus, now: str) -> IgnitionSyncStatus:
    """Return the status of a sync that serves nothing: its gateways keep their files."""
    problem = report.problem
    if problem is None or report.sync.deleting:
        return status
    findings = [
        *resolution("Unknown", problem.reason, problem.message),
        Finding(ALL_SYNCED, "Unknown", problem.reason, summary(status.discovered_gateways)),
        *(unsupported_condition(report.sync.spec) if report.sync.spec is not None else ()),
    ]
    conditions = _conditions(report.sync.status, status.conditions, findings, status.observed_generation, now)
    return withdrawn(structs.replace(status, conditions=conditions, ref_resolution_status="NotResolved"))


def _ready(status: IgnitionSyncStatus, gateways: list[DiscoveredGateway]) -> list[Condition]:
    """Return the conditions of every kind, with a message about gateways if there is no other message."""
    ready = find(status.conditions, "Ready")
    if ready is None or ready.reason != "Synced":
        return status.conditions
    summarized = structs.replace(ready, message=summary(gateways))
    return [summarized if one.type == "Ready" else one for one in status.conditions]


def _conditions(
    before: IgnitionSyncStatus,
    composed: list[Condition],
    findings: "tuple[Finding, ...] | list[Finding]",
    generation: int,
    now: str,
) -> list[Condition]:
    own = update_conditions(before.conditions, findings, generation, now)
    return [*(one for one in composed if one.type in _OWN), *own]
