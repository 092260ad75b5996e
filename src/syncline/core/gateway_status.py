"""The status of an IgnitionSync: its gateways by their reports, and its conditions. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from syncline.api.common import ConditionStatus, TargetState
from syncline.api.configsync import HeldRollback
from syncline.api.ignition_rollout import RollbackTrigger
from syncline.api.ignition_status import (
    DiscoveredGateway,
    FileChanges,
    GatewaySnapshot,
    GatewaySyncStatus,
    HeldFileDeletion,
    RequestedRef,
    RolloutStatus,
    SyncHistoryEntry,
)
from syncline.core.bidirectional_status import gateway_edits
from syncline.core.conditions import Finding, shorten
from syncline.core.gateway_plan import GatewayReport, ReportedSync
from syncline.core.gateway_rollout import GatewayProgress, RolloutEvent
from syncline.core.objects import Target
from syncline.core.outcome import Outcome

REF_RESOLVED = "RefResolved"
REPO_CLONED = "RepoCloned"
WEBHOOK_READY = "WebhookReady"
ALL_SYNCED = "AllGatewaysSynced"
AGENTS_READY = "AgentsReady"

NO_GATEWAYS = "NoGatewaysDiscovered"
IN_PROGRESS = "SyncInProgress"
FAILED = "SyncFailed"
SUCCEEDED = "SyncSucceeded"

SILENT_AFTER = 25 * 60.0
"""An agent reports at least every 10 minutes. After this many seconds without a report it counts as silent."""

_FAILURES: dict[str, RollbackTrigger] = {
    "ScanFailed": "scanFailure",
    "ApplyFailed": "scanFailure",
    "VerifyFailed": "verifyFailure",
}
_STATES: dict[GatewaySyncStatus, TargetState] = {
    "Synced": "Synced",
    "Error": "Failed",
    "MissingSidecar": "Failed",
    "Pending": "Pending",
    "Syncing": "Pending",
}
_NAMED = 3
_MAX_MESSAGE = 1000


class GatewayObservation(Struct, frozen=True, kw_only=True):
    """The observed state of one gateway."""

    name: str
    pod: str
    namespace: str
    labels: dict[str, str]
    service_account: str = ""
    service_path: str = ""
    profile: str = ""
    running: bool = True
    has_agent: bool = False
    wants_agent: bool = False
    commit: str = ""
    """The commit that it is served; empty if it waits."""
    plan: str = ""
    """The id of its newest plan; empty if it has none."""
    reason: str = ""
    """Why it has no plan with files, as one word."""
    message: str = ""
    omitted: str = ""
    """What its plan leaves out, for people."""
    report: GatewayReport | None = None
    silent: bool = False
    """Whether its last report is too old."""
    dry_run: bool = False
    has_branch: bool = True
    """Whether its plan has a branch for edits, if it wants one."""

    @property
    def is_current(self) -> bool:
        """Whether its report is about its newest plan."""
        return self.report is not None and bool(self.plan) and self.report.plan == self.plan


def progress_of(one: GatewayObservation) -> GatewayProgress:
    """Return the progress of a gateway, for the rollout."""
    report = one.report if one.is_current else None
    is_error = report is not None and report.state == "Error"
    return GatewayProgress(
        pod=one.pod,
        name=one.name,
        labels=one.labels,
        running=one.running,
        state=report.state if report is not None else "Pending",
        commit=one.commit if report is not None and _is_about(one, report) else "",
        failure=_FAILURES.get(report.reason) if report is not None and is_error else None,
    )


def _is_about(one: GatewayObservation, report: GatewayReport) -> bool:
    """Whether a report about the newest plan is about its commit. A dry run publishes no commit."""
    return report.state == "Error" or one.dry_run or report.commit == one.commit


def discovered(one: GatewayObservation, head: str) -> DiscoveredGateway:
    """Return the entry of a gateway in the status. `head` is the commit that all gateways get in the end."""
    status, reason, message = _judge(one, head)
    entry = DiscoveredGateway(
        name=one.name,
        namespace=one.namespace,
        pod_name=one.pod,
        service_account_name=one.service_account,
        profile=one.profile,
        service_path=one.service_path,
        sync_status=status,
        reason=reason,
        message=shorten(message, _MAX_MESSAGE),
        dry_run=one.dry_run,
    )
    return entry if one.report is None else _with_report(entry, one.report)


def _judge(one: GatewayObservation, head: str) -> tuple[GatewaySyncStatus, str, str]:
    """Return the state of a gateway, and its cause."""
    report = one.report
    if one.wants_agent and not one.has_agent and report is None:
        return "MissingSidecar", "AgentMissing", "the pod has no agent: recreate it, and check the admission webhook"
    if one.reason:
        return ("Pending" if one.reason in _WAITING else "Error"), one.reason, one.message
    if report is None:
        return "Pending", "NoReport", "the agent has not reported yet"
    return _judge_report(one, report, head)


def _judge_report(one: GatewayObservation, report: GatewayReport, head: str) -> tuple[GatewaySyncStatus, str, str]:
    if one.silent:
        return "Error", "AgentSilent", "the agent has not reported for a long time: look at its log"
    if not one.is_current:
        return "Syncing", "NewPlan", "the agent has not reported about the newest plan yet"
    if report.state != "Synced":
        return report.state, report.reason, report.message
    if report.commit != one.commit and not one.dry_run:
        return "Syncing", "NewPlan", "the agent has not taken up the commit yet"
    if one.commit != head:
        return "Pending", "WaitingForStage", "the gateway waits for its stage of the rollout"
    return "Synced", "", "; ".join(filter(None, (report.message, one.omitted)))


_WAITING = frozenset({"WaitingForStage", "Suspended", "Paused", "Held"})


def _with_report(entry: DiscoveredGateway, report: GatewayReport) -> DiscoveredGateway:
    changed = report.changed
    counts = FileChanges(added=changed.added, modified=changed.modified, deleted=changed.deleted)
    held = report.deletion
    return DiscoveredGateway(
        **{name: getattr(entry, name) for name in entry.__struct_fields__ if name not in _REPORTED},
        last_sync_time=report.synced_at or None,
        last_sync_duration=_duration(report.seconds),
        synced_commit=report.commit,
        synced_ref=report.ref,
        agent_version=report.agent_version,
        last_scan_result=report.scan,
        files=max(0, report.files),
        files_changed=max(0, changed.added + changed.modified + changed.deleted),
        changes=counts if counts != FileChanges() else None,
        projects_synced=list(report.projects),
        drifted=list(report.drifted),
        held_deletion=None if held is None else HeldFileDeletion(digest=held.digest, files=held.files, of=held.of),
        last_snapshot=_snapshot(report),
        sync_history=[_history(one) for one in reversed(report.history)],
        edits=None if report.edits is None else gateway_edits(report.edits),
    )


_REPORTED = frozenset(
    {
        *("last_sync_time", "last_sync_duration", "synced_commit", "synced_ref", "agent_version", "last_scan_result"),
        *("files", "files_changed", "changes", "projects_synced", "drifted", "held_deletion", "last_snapshot"),
        *("sync_history", "edits"),
    }
)


def _snapshot(report: GatewayReport) -> GatewaySnapshot | None:
    if not report.snapshot:
        return None
    size = max(0, report.snapshot_bytes)
    return GatewaySnapshot(id=report.snapshot, size=f"{size}", timestamp=report.snapshot_at or None)


def _history(one: ReportedSync) -> SyncHistoryEntry:
    return SyncHistoryEntry(timestamp=one.time, commit=one.commit, result=one.result, duration=_duration(one.seconds))


def _duration(seconds: float) -> str:
    return f"{seconds:.1f}s" if 0 < seconds < 1e9 else ""  # noqa: PLR2004 - what a report says is not believed


def outcomes_of(gateways: Sequence[DiscoveredGateway]) -> list[Outcome]:
    """Return the gateways as targets, for counts and events."""
    return [
        Outcome(
            target=Target(one.namespace, one.pod_name, "Pod"),
            state=_STATES[one.sync_status],
            reason=one.reason or "Synced",
            message=one.message,
        )
        for one in gateways
    ]


def summary(gateways: Sequence[DiscoveredGateway]) -> str:
    """Count the gateways that are synced, such as `2/3 gateways synced`."""
    return f"{sum(one.sync_status == 'Synced' for one in gateways)}/{len(gateways)} gateways synced"


def all_synced(gateways: Sequence[DiscoveredGateway]) -> Finding:
    """Return the condition AllGatewaysSynced."""
    if not gateways:
        return Finding(ALL_SYNCED, "False", NO_GATEWAYS, summary(gateways))
    if all(one.sync_status == "Synced" for one in gateways):
        return Finding(ALL_SYNCED, "True", SUCCEEDED, summary(gateways))
    failed = any(_STATES[one.sync_status] == "Failed" for one in gateways)
    return Finding(ALL_SYNCED, "False", FAILED if failed else IN_PROGRESS, summary(gateways))


def describe_unsynced(gateways: Sequence[DiscoveredGateway]) -> str:
    """Name the gateways that are not synced, failures first."""
    bad = [one for one in gateways if one.sync_status != "Synced"]
    bad.sort(key=lambda one: (_STATES[one.sync_status] != "Failed", one.name))
    named = "; ".join(
        f"{one.name} (pod {one.pod_name}): {': '.join(filter(None, (one.reason, one.message)))}" for one in bad[:_NAMED]
    )
    more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f"{summary(gateways)}; {named}{more}" if bad else summary(gateways)


def agents_ready(gateways: Sequence[GatewayObservation]) -> Finding:
    """Return the condition AgentsReady: whether every running pod has an agent that reports."""
    running = [one for one in gateways if one.running]
    if not running:
        return Finding(AGENTS_READY, "Unknown", NO_GATEWAYS, "no pod of a gateway runs")
    causes: tuple[tuple[str, str, list[GatewayObservation]], ...] = (
        (
            "AgentMissing",
            "recreate the pods, and check the admission webhook: they asked for an agent and have none",
            [one for one in running if one.wants_agent and not one.has_agent and one.report is None],
        ),
        (
            "NoReport",
            "their agents have not reported yet",
            [one for one in running if one.report is None],
        ),
        (
            "AgentSilent",
            "look at the logs of their agents: they have not reported for a long time",
            [one for one in running if one.silent],
        ),
    )
    for reason, why, pods in causes:
        if pods:
            names = ", ".join(one.pod for one in pods[:_NAMED])
            more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
            return Finding(AGENTS_READY, "False", reason, f"{names}{more}: {why}")
    return Finding(AGENTS_READY, "True", "AgentsReporting", f"{len(running)} agents report")


def resolution(status: ConditionStatus, reason: str, message: str) -> tuple[Finding, Finding]:
    """Return the condition RefResolved, and RepoCloned with the same content."""
    return Finding(REF_RESOLVED, status, reason, message), Finding(REPO_CLONED, status, reason, message)


class FleetReport(Struct, frozen=True, kw_only=True):
    """The result of one reconcile of an IgnitionSync, for its status."""

    ref: str = ""
    """The ref that gateways follow."""
    commit: str = ""
    """The commit of this ref; empty if it could not be resolved."""
    requested: RequestedRef | None = None
    rollout: RolloutStatus
    rollback: HeldRollback | None = None
    gateways: tuple[DiscoveredGateway, ...] | None = None
    """None if they are not known: then the status keeps its former entries."""
    findings: tuple[Finding, ...] = ()
    """The conditions that only this kind has."""
    completed: bool = False
    """Whether the commit of the rollout has just become healthy on all gateways."""
    profiles: int = 0
    """The number of profiles of the spec."""
    event: RolloutEvent = ""
    """The last action of the rollout."""
    message: str = ""
    """The message of its event."""
