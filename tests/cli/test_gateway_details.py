"""What `syncline get isync NAME` shows beside what it shows of every sync."""

from typing import Any

import pytest
from msgspec import to_builtins

from syncline.api.common import TargetCounts
from syncline.api.ignition_status import (
    DiscoveredGateway,
    FileChanges,
    HeldFileDeletion,
    IgnitionSyncStatus,
    RequestedRef,
    RolloutStatus,
)
from syncline.api.kinds import IGNITION_SYNC
from syncline.cli.details import show_details
from syncline.cli.gateway_details import followed_ref, gateway_facts, gateway_sections

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLD = "fedcba9876543210fedcba9876543210fedcba98"


def sync(**status: Any) -> dict[str, Any]:
    return {
        "kind": "IgnitionSync",
        "metadata": {"name": "plant", "namespace": "site", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"git": {"repo": "https://git.example.com/plant.git", "ref": "main"}},
        "status": to_builtins(IgnitionSyncStatus(**status)),
    }


def test_the_ref_that_gateways_follow_goes_before_that_of_the_spec() -> None:
    assert followed_ref(sync()) == "main"
    assert followed_ref(sync(last_sync_ref="v2", last_sync_commit=COMMIT)) == f"v2 {COMMIT[:10]}"


def test_a_request_and_a_rollout_are_told() -> None:
    facts = gateway_facts(
        sync(
            last_sync_ref="v2",
            requested_ref=RequestedRef(ref="v2", at="2026-01-02T03:04:05Z", by="kargo"),
            rollout=RolloutStatus(commit=COMMIT, stage="first", failed_commits=[OLD]),
        )
    )
    assert facts == [
        ("Ref", "v2"),
        ("Requested", "v2, requested instead of main by kargo at 2026-01-02T03:04:05Z"),
        ("Rollout", f"{COMMIT[:10]} at first"),
        ("Failed", OLD[:10]),
    ]


def test_gateways_are_shown_with_their_causes() -> None:
    status = IgnitionSyncStatus(
        discovered_gateways=[
            DiscoveredGateway(
                name="site",
                pod_name="site-0",
                profile="site",
                sync_status="Error",
                reason="ScanFailed",
                message="look at the log",
                synced_commit=COMMIT,
                files=20,
                changes=FileChanges(added=1, deleted=2),
                last_scan_result="projects=500",
                drifted=["a", "b", "c", "d"],
                held_deletion=HeldFileDeletion(digest="d1", files=12, of=20),
            ),
            DiscoveredGateway(name="area", pod_name="area-0", service_path="services/area", sync_status="Synced"),
            DiscoveredGateway(name="dry", pod_name="dry-0", sync_status="Synced", dry_run=True),
        ]
    )
    gateways, drift, held = (rows for _, rows in gateway_sections(to_builtins(status)))
    assert gateways == [
        (
            "site",
            "site-0",
            "site",
            "Error",
            COMMIT[:10],
            "20",
            "+1 -2",
            "projects=500",
            "ScanFailed: look at the log",
        ),
        ("area", "area-0", "services/area", "Synced", "-", "0", "-", "-", "-"),
        ("dry", "dry-0", "-", "Synced (dry run)", "-", "0", "-", "-", "-"),
    ]
    assert drift == [("site-0", "a, b, c and 1 more")]
    assert held == [("site-0", "12 of 20", "annotation syncline.dev/confirm-deletion: d1")]


def test_a_gateway_without_a_report_is_pending() -> None:
    status = to_builtins(
        IgnitionSyncStatus(discovered_gateways=[DiscoveredGateway(name="a", pod_name="a-0", sync_status="Pending")])
    )
    ((_, rows), *_) = gateway_sections(status)
    assert rows[0][3] == "Pending"


def test_each_row_is_as_wide_as_its_header() -> None:
    held = HeldFileDeletion(digest="d")
    one = DiscoveredGateway(name="a", pod_name="b", sync_status="Error", drifted=["c"], held_deletion=held)
    for header, rows in gateway_sections(to_builtins(IgnitionSyncStatus(discovered_gateways=[one]))):
        assert [len(row) for row in rows] == [len(header)]


def test_all_details_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    gateways = [DiscoveredGateway(name="site", pod_name="site-0", sync_status="Synced")]
    one = sync(discovered_gateways=gateways, targets=TargetCounts(desired=1, synced=1, summary="1/1"))
    show_details(IGNITION_SYNC, one)
    told = capsys.readouterr().out
    assert "IgnitionSync site/plant\n" in told
    assert "Source:  https://git.example.com/plant.git\n" in told
    assert "GATEWAY  POD" in told
    assert "targets are listed" not in told
