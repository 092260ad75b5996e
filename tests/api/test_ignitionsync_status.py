"""The status of an IgnitionSync on a real API server."""

import msgspec
import pytest
from tests.api.ignition_specs import git, spec
from tests.api.trial import report, stored, table

from syncline.api.common import Condition, HistoryEntry, TargetCounts
from syncline.api.configsync import HeldRollback
from syncline.api.ignition_status import (
    DiscoveredGateway,
    FileChanges,
    GatewaySnapshot,
    HeldFileDeletion,
    IgnitionSyncStatus,
    RequestedRef,
    RolloutGateway,
    RolloutStatus,
    SyncHistoryEntry,
)
from syncline.api.ignitionsync import IgnitionSync
from syncline.api.kinds import IGNITION_SYNC
from syncline.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("crds")


NOW = "2026-01-02T03:04:05Z"

STATUS = IgnitionSyncStatus(
    observed_generation=3,
    conditions=[
        Condition(type="Ready", status="False", reason="SyncInProgress", last_transition_time=NOW),
        Condition(
            type="AllGatewaysSynced",
            status="False",
            reason="SyncInProgress",
            message="1/2 gateways synced",
            last_transition_time=NOW,
        ),
    ],
    targets=TargetCounts(desired=2, synced=1, summary="1/2"),
    last_sync_time=NOW,
    last_sync_ref="main",
    last_sync_commit="0123456789abcdef",
    last_sync_commit_short="0123456",
    ref_resolution_status="Resolved",
    repo_clone_status="Cloned",
    profile_count=2,
    discovered_gateways=[
        DiscoveredGateway(
            name="site",
            namespace="plant",
            pod_name="site-0",
            service_account_name="site",
            profile="site",
            service_path="services/site",
            sync_status="Error",
            reason="ScanFailed",
            message="look at the log of the gateway",
            last_sync_time=NOW,
            last_sync_duration="2.5s",
            synced_commit="0123",
            synced_ref="main",
            agent_version="0.1.0",
            last_scan_result="projects=200 config=500",
            files=20,
            files_changed=3,
            changes=FileChanges(added=1, modified=1, deleted=1),
            dry_run=True,
            projects_synced=["site"],
            drifted=["projects/site/project.json"],
            held_deletion=HeldFileDeletion(digest="d", files=12, of=20),
            last_snapshot=GatewaySnapshot(id="s", size="1Mi", timestamp=NOW),
            sync_history=[SyncHistoryEntry(timestamp=NOW, commit="0123", result="Synced", duration="1s")],
        )
    ],
    rollout=RolloutStatus(
        commit="0123",
        stage="first",
        since=NOW,
        healthy_commit="4567",
        failed_commits=["89ab"],
        gateways=[RolloutGateway(pod="site-0", commit="4567")],
    ),
    requested_ref=RequestedRef(ref="v2", at=NOW, by="kargo", instead_of="main"),
    rollback=HeldRollback(to="4567", requested="Previous", since=NOW),
    history=[HistoryEntry(time=NOW, revision="0123", result="Synced", changes="2 gateways")],
    last_handled_request="now",
    proof="mac",
)


def test_the_server_keeps_every_field_of_the_status(sandbox: Sandbox) -> None:
    with stored(sandbox, IGNITION_SYNC, spec()) as address:
        reported = report(sandbox, address, STATUS)
    assert msgspec.convert(reported, IgnitionSync).status == STATUS


def test_kubectl_get_shows_the_ref_that_gateways_follow_and_how_many_have_it(sandbox: Sandbox) -> None:
    with stored(sandbox, IGNITION_SYNC, git(ref="another")) as address:
        columns, cells = table(sandbox, address, STATUS)
    assert columns == ["Name", "Ref", "Synced", "Gateways", "Ready", "Age", "Reason", "Commit"]
    assert cells[1:5] == ["main", "False", "1/2 gateways synced", "False"]
