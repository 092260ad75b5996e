"""The status of gateways: from pods, plans and reports, and the conditions over all of them."""

from typing import Any

import pytest
from msgspec import structs

from syncline.api.fitting import fit
from syncline.api.ignition_status import GatewaySnapshot, IgnitionSyncStatus
from syncline.core.gateway_plan import GatewayReport, HeldDeletion, ReportedDiff, ReportedSync
from syncline.core.gateway_status import (
    GatewayObservation,
    agents_ready,
    all_synced,
    describe_unsynced,
    discovered,
    outcomes_of,
    progress_of,
)

A, B = "a" * 40, "b" * 40
SYNCED = GatewayReport(state="Synced", reason="Synced", plan="p1", commit=A)


def gateway(pod: str = "gw-0", **fields: Any) -> GatewayObservation:
    given = {"commit": A, "plan": "p1", "report": SYNCED, "has_agent": True, **fields}
    return GatewayObservation(name=pod.upper(), pod=pod, namespace="site", labels={}, **given)


def test_what_a_plan_leaves_out_is_told_beside_a_gateway_that_is_synced() -> None:
    told = "the commit has no 'projcts'"
    assert discovered(gateway(omitted=told), A).message == told
    kept = structs.replace(SYNCED, message="view.json was edited")
    assert discovered(gateway(omitted=told, report=kept), A).message == f"view.json was edited; {told}"
    assert discovered(gateway(omitted=told, plan="p2"), A).message.startswith("the agent has not reported")


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "Synced", ""),
    ({"report": None}, "Pending", "NoReport"),
    ({"report": None, "wants_agent": True, "has_agent": False}, "MissingSidecar", "AgentMissing"),
    ({"wants_agent": True, "has_agent": False}, "Synced", ""),
    ({"silent": True}, "Error", "AgentSilent"),
    ({"plan": "p2"}, "Syncing", "NewPlan"),
    ({"plan": ""}, "Syncing", "NewPlan"),
    ({"report": structs.replace(SYNCED, commit=B)}, "Syncing", "NewPlan"),
    ({"report": structs.replace(SYNCED, commit=""), "dry_run": True}, "Synced", ""),
    ({"report": structs.replace(SYNCED, state="Error", reason="ScanFailed")}, "Error", "ScanFailed"),
    ({"report": structs.replace(SYNCED, state="Syncing", reason="Fetching")}, "Syncing", "Fetching"),
    ({"reason": "ProfileNotFound", "message": "no such profile"}, "Error", "ProfileNotFound"),
    ({"reason": "WaitingForStage"}, "Pending", "WaitingForStage"),
    ({"reason": "Suspended"}, "Pending", "Suspended"),
]


@pytest.mark.parametrize(("fields", "state", "reason"), CASES, ids=lambda one: str(one)[:40])
def test_a_gateway_is_judged_by_its_pod_its_plan_and_its_report(
    fields: dict[str, Any], state: str, reason: str
) -> None:
    entry = discovered(gateway(**fields), A)
    assert (entry.sync_status, entry.reason) == (state, reason)


def test_a_gateway_that_has_its_commit_waits_while_others_get_a_newer_one() -> None:
    entry = discovered(gateway(), B)
    assert (entry.sync_status, entry.reason) == ("Pending", "WaitingForStage")


def test_what_an_agent_reports_is_in_the_status() -> None:
    report = GatewayReport(
        state="Synced",
        reason="Synced",
        plan="p1",
        commit=A,
        ref="main",
        files=12,
        changed=ReportedDiff(1, 2, 3),
        projects=("Plant",),
        scan="ok",
        seconds=2.54,
        synced_at="2026-01-01T00:00:00Z",
        agent_version="1.2.3",
        drifted=("projects/a",),
        deletion=HeldDeletion("d1", 60, 100),
        snapshot="s1",
        snapshot_bytes=1500,
        snapshot_at="2026-01-01T00:00:00Z",
        history=(
            ReportedSync("2025-12-31T00:00:00Z", B, "Error", 3.0),
            ReportedSync("2026-01-01T00:00:00Z", A, "Synced", 1.0),
        ),
    )
    entry = discovered(gateway(report=report), A)
    assert (entry.files, entry.files_changed, entry.last_sync_duration) == (12, 6, "2.5s")
    assert (entry.projects_synced, entry.synced_commit, entry.synced_ref) == (["Plant"], A, "main")
    assert entry.held_deletion is not None
    assert entry.held_deletion.digest == "d1"
    assert [(one.commit, one.result, one.duration) for one in entry.sync_history] == [
        (A, "Synced", "1.0s"),
        (B, "Error", "3.0s"),
    ]
    assert entry.last_snapshot == GatewaySnapshot(id="s1", size="1500", timestamp="2026-01-01T00:00:00Z")


def test_bug_5_two_pods_with_one_gateway_name_are_two_gateways() -> None:
    failed = structs.replace(SYNCED, state="Error", reason="ScanFailed")
    pods = [structs.replace(gateway("a"), name="line"), structs.replace(gateway("b", report=failed), name="line")]
    entries = [discovered(one, A) for one in pods]
    assert [(one.name, one.pod_name, one.sync_status) for one in entries] == [
        ("line", "a", "Synced"),
        ("line", "b", "Error"),
    ]
    assert all_synced(entries).message == "1/2 gateways synced"
    assert "line (pod b): ScanFailed" in describe_unsynced(entries)
    assert [progress_of(one).pod for one in pods] == ["a", "b"]


def test_nonsense_of_an_agent_breaks_no_status() -> None:
    report = structs.replace(
        SYNCED,
        files=-5,
        seconds=float("nan"),
        synced_at="never",
        changed=ReportedDiff(-3, 0, 0),
        history=(ReportedSync("never", "x" * 500, "Synced", float("inf")),),
    )
    entry = discovered(gateway(report=report), A)
    fitted = fit(IgnitionSyncStatus(discovered_gateways=[entry]))
    assert fitted.discovered_gateways[0].name == "GW-0"
    assert fitted.discovered_gateways[0].last_sync_time is None
    assert fitted.discovered_gateways[0].files == 0


class TestProgress:
    def test_a_report_about_another_plan_says_nothing(self) -> None:
        progress = progress_of(gateway(plan="p2"))
        assert (progress.state, progress.commit, progress.failure) == ("Pending", "", None)

    @pytest.mark.parametrize(
        ("reason", "failure"),
        [("ScanFailed", "scanFailure"), ("VerifyFailed", "verifyFailure"), ("CheckFailed", None)],
    )
    def test_some_errors_are_failures_of_the_commit(self, reason: str, failure: str | None) -> None:
        report = structs.replace(SYNCED, state="Error", reason=reason, commit=B)
        progress = progress_of(gateway(report=report))
        assert (progress.state, progress.commit, progress.failure) == ("Error", A, failure)

    def test_a_gateway_that_still_has_another_commit_has_made_no_progress(self) -> None:
        assert progress_of(gateway(report=structs.replace(SYNCED, commit=B))).commit == ""


class TestConditions:
    def test_without_gateways_nothing_is_synced(self) -> None:
        finding = all_synced([])
        assert (finding.status, finding.reason, finding.message) == (
            "False",
            "NoGatewaysDiscovered",
            "0/0 gateways synced",
        )

    def test_all_gateways_are_counted(self) -> None:
        entries = [discovered(one, A) for one in (gateway("a"), gateway("b"), gateway("c", report=None))]
        finding = all_synced(entries)
        assert (finding.status, finding.reason, finding.message) == ("False", "SyncInProgress", "2/3 gateways synced")
        finding = all_synced(entries[:2])
        assert (finding.status, finding.reason, finding.message) == ("True", "SyncSucceeded", "2/2 gateways synced")

    def test_a_failure_is_named_first(self) -> None:
        failed = structs.replace(SYNCED, state="Error", reason="ScanFailed", message="408")
        entries = [discovered(one, A) for one in (gateway("a", report=None), gateway("b", report=failed))]
        assert all_synced(entries).reason == "SyncFailed"
        assert describe_unsynced(entries).startswith(
            "0/2 gateways synced; B (pod b): ScanFailed: 408; A (pod a): NoRep"
        )
        at_work = structs.replace(SYNCED, state="Syncing", reason="Syncing", message="")
        entries = [discovered(gateway("a", report=at_work), A)]
        assert describe_unsynced(entries) == "0/1 gateways synced; A (pod a): Syncing"

    def test_gateways_are_targets(self) -> None:
        entries = [discovered(one, A) for one in (gateway("a"), gateway("b", report=None))]
        assert [(one.target.name, one.state) for one in outcomes_of(entries)] == [("a", "Synced"), ("b", "Pending")]

    @pytest.mark.parametrize(
        ("pods", "status", "reason"),
        [
            ([], "Unknown", "NoGatewaysDiscovered"),
            ([gateway(running=False, report=None)], "Unknown", "NoGatewaysDiscovered"),
            ([gateway()], "True", "AgentsReporting"),
            ([gateway(), gateway("b", report=None)], "False", "NoReport"),
            ([gateway(), gateway("b", silent=True)], "False", "AgentSilent"),
            ([gateway("b", wants_agent=True, has_agent=False, report=None)], "False", "AgentMissing"),
        ],
    )
    def test_agents_are_ready_if_each_running_pod_has_one_that_reports(
        self, pods: list[GatewayObservation], status: str, reason: str
    ) -> None:
        finding = agents_ready(pods)
        assert (finding.status, finding.reason) == (status, reason)
