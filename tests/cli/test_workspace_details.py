"""What `syncline get wss NAME` shows beside what it shows of every sync."""

from msgspec import to_builtins

from syncline.api.workspace_status import (
    MappedNamespace,
    NamespacePlacement,
    PathConflict,
    ResourceSyncStatus,
    WorkspaceSyncStatus,
)
from syncline.cli.workspace_details import workspace_sections


def test_resources_namespaces_and_conflicts_are_shown_with_their_causes() -> None:
    status = WorkspaceSyncStatus(
        resources=[
            ResourceSyncStatus(group="apps", resource="deployments", direction="Down", state="Synced", synced=3),
            ResourceSyncStatus(
                resource="secrets", direction="Bidirectional", state="Failed", failed=1, reason="Forbidden", message="m"
            ),
        ],
        namespaces=[
            MappedNamespace(cluster="c1", upstream="web", downstream="team-web", state="Synced"),
            MappedNamespace(cluster="c2", upstream="web", state="Refused", reason="NameTaken", message="of c1"),
        ],
        placement=[NamespacePlacement(cluster="c1", namespace="web", targets=["east", "west"], reason="Sticky")],
        conflicts=[
            PathConflict(
                resource="configmaps", namespace="web", name="app", cluster="east", paths=["/data/a", "/data/b"]
            )
        ],
    )
    resources, namespaces, conflicts = (rows for _, rows in workspace_sections(to_builtins(status)))
    assert resources == [
        ("deployments.apps", "Down", "Synced", "3", "0", "0", ""),
        ("secrets", "Bidirectional", "Failed", "0", "1", "0", "Forbidden: m"),
    ]
    assert namespaces == [
        ("c1/web", "team-web", "Synced", "east, west", "Sticky"),
        ("c2/web", "-", "Refused", "-", "NameTaken: of c1"),
    ]
    assert conflicts == [("configmaps", "web", "app", "east", "/data/a, /data/b", "")]


def test_each_row_is_as_wide_as_its_header() -> None:
    status = WorkspaceSyncStatus(
        resources=[ResourceSyncStatus(resource="a", direction="Down", state="NotServed")],
        namespaces=[MappedNamespace(upstream="a", state="Pending")],
        conflicts=[PathConflict(resource="a", name="b")],
    )
    for header, rows in workspace_sections(to_builtins(status)):
        assert [len(row) for row in rows] == [len(header)]


def test_a_sync_without_status_shows_nothing_more() -> None:
    assert [rows for _, rows in workspace_sections({})] == [[], [], []]
