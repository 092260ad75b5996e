"""WorkspaceSync on a real API server: what it takes, fills in, keeps and shows."""

from typing import Any

import msgspec
import pytest
from tests.api.trial import Spec, create, report, stored, table
from tests.api.workspacesync_specs import (
    ANY_VALUE,
    BY_NAME,
    CONFIG_MAPS,
    CONTRACT,
    DEPLOYMENTS,
    EU,
    TOKEN,
    TWO_WAY,
    downstream,
    mapping,
    placement,
    resources,
    spec,
    upstream,
)

from syncline.api.common import Condition, TargetCounts
from syncline.api.connection import ClusterConnection, NameRef, WrittenCluster
from syncline.api.kinds import WORKSPACE_SYNC
from syncline.api.workspace_status import (
    MappedNamespace,
    NamespacePlacement,
    PathConflict,
    ResourceSyncStatus,
    UpstreamStatus,
    WorkspaceSyncStatus,
)
from syncline.api.workspacesync import (
    WorkspaceSync,
    WorkspaceSyncSpec,
    conflict_strategy,
    resources_of,
    strategy_of,
)
from syncline.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("crds")

NOW = "2026-01-02T03:04:05Z"

GOOD: dict[str, Spec] = {
    "the least": spec(),
    "all fields": CONTRACT,
    "a workspace by token": spec(upstream={"connection": TOKEN, "workspace": "root:team"}),
    "a workspace below that of the token": spec(upstream={"connection": TOKEN, "workspace": "root:team:web"}),
    "a workspace of a server without one": spec(
        upstream={"connection": {**TOKEN, "server": "https://kcp.example.com"}, "workspace": "root:team"}
    ),
    "a SyncTarget as upstream": spec(upstream={"connection": BY_NAME}),
    "a workspace of a SyncTarget": spec(upstream={"connection": BY_NAME, "workspace": "root"}),
    "the same cluster, other names": {
        **downstream(syncTargets=["hub"]),
        "upstream": {"connection": BY_NAME},
        "namespaces": {"mapping": {"prefix": "copy-"}},
    },
    "a workspace by its logical cluster": upstream(workspace="2kcs1p9zdxb6yvzh"),
    "many workspaces": upstream(apiExport={"workspace": "root:provider", "name": "apps.example.com"}),
    "many workspaces by template": {
        **upstream(apiExport={"workspace": "root:provider", "name": "apps"}),
        "namespaces": {"mapping": {"template": "{{ workspace.cluster }}-{{ namespace }}"}},
    },
    "clusters by label": downstream(selector=EU, syncTargetNamespace="fleet"),
    "clusters by label, two-way": {**downstream(selector=EU, writer="east"), "resources": [TWO_WAY]},
    "a resource in short": resources({"resource": "widgets", "group": "example.com"}),
    "pods": resources({"resource": "pods"}),
    "events of another group": resources({"resource": "events", "group": "example.com"}),
    "two-way": resources(TWO_WAY, deletePropagation="Both"),
    "the same names in two groups": resources(
        {"resource": "services"}, {"resource": "services", "group": "serving.knative.dev"}
    ),
    "a template": mapping(template="{{ workspace.name }}-{{ namespace }}"),
    "one namespace": {**mapping(fixed="team"), "serviceAccountName": "robot"},
    "an existing namespace": spec(namespaces={"existing": "Use"}),
    **{
        f"the strategy {name}": spec(conflictStrategy=name, onConflict="Report")
        for name in ("DownstreamWins", "LastWriteWins", "MergeChanges", "Skip")
    },
    **{
        f"the spelling {name}": resources({**CONFIG_MAPS, "conflictStrategy": name}, conflictStrategy=name)
        for name in ("upstream-wins", "last-write-wins", "merge-changes")
    },
    "exact": spec(conflictStrategy="upstream-wins", exact=True),
    "exact for one resource": resources(
        {**CONFIG_MAPS, "conflictStrategy": "UpstreamWins"}, conflictStrategy="Skip", exact=True
    ),
    "any value": ANY_VALUE,
    "a transform of a custom resource": resources(
        {"resource": "widgets", "group": "example.com"},
        transforms=[{"resource": "widgets.example.com", "remove": ["/spec/size", "/kinds", "/statuses"]}],
    ),
    "status never": spec(statusSync=False),
    "retry at once": spec(retry={"maxRetries": 0, "delay": "10ms"}),
    "spread": placement(strategy="Spread", count=2, spreadBy="topology.kubernetes.io/zone", evictAfter="5m"),
    "weighted": placement(strategy="Weighted", weights=[{"matchLabels": {"zone": "a"}, "weight": 3}]),
    "divided": placement(replicas="Divide"),
    "no deletes": spec(deletePropagation="None"),
    "all policies": spec(
        resourceManagementPolicy="Adopt",
        deletionPolicy="Orphan",
        prune=False,
        suspend=True,
        serviceAccountName="robot",
        statusSync=False,
    ),
    "null for what is not meant": {**spec(), "upstream": None, "resources": None, "statusSync": None},
    "as much as can be": {
        "downstream": {"syncTargets": [f"{'t' * 250}{number:03}" for number in range(100)]},
        "resources": [
            {
                "group": "g" * 253,
                "resource": f"{'r' * 60}{number:03}",
                "selector": {
                    "matchExpressions": [
                        {"key": "k" * 63, "operator": "In", "values": ["v" * 63] * 10} for _ in range(10)
                    ]
                },
            }
            for number in range(50)
        ],
        "transforms": [
            {
                "resource": f"{'r' * 60}049.{'g' * 253}",
                "remove": [f"/{'p' * 511}"] * 30,
                "patch": [{"op": "add", "path": f"/{'p' * 511}", "value": "v"}] * 30,
            }
            for _ in range(50)
        ],
    },
}


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: Spec) -> None:
    taken = create(sandbox, WORKSPACE_SYNC, spec)
    given = {name: value for name, value in spec.items() if value is not None}
    local = msgspec.convert({"metadata": taken["metadata"], "spec": given}, WorkspaceSync)
    assert msgspec.convert(taken, WorkspaceSync).spec == local.spec


def test_the_server_fills_in_the_defaults(sandbox: Sandbox) -> None:
    given = resources({"resource": "configmaps"}, retry={}, placement={}, namespaces={})
    assert create(sandbox, WORKSPACE_SYNC, given)["spec"] == {
        **given,
        "resources": [{"group": "", "version": "v1", "resource": "configmaps", "direction": "Down"}],
        "namespaces": {"existing": "Refuse"},
        "conflictStrategy": "UpstreamWins",
        "onConflict": "UpstreamWins",
        "exact": False,
        "endpoints": False,
        "retry": {"maxRetries": 5, "delay": "1s"},
        "placement": {"strategy": "All", "replicas": "Duplicate"},
        "deletePropagation": "Down",
        "resourceManagementPolicy": "Sync",
        "deletionPolicy": "Delete",
        "prune": True,
        "suspend": False,
    }


@pytest.mark.parametrize(
    ("spelled", "strategy"),
    [
        ("upstream-wins", "UpstreamWins"),
        ("last-write-wins", "LastWriteWins"),
        ("merge-changes", "MergeChanges"),
        ("Skip", "Skip"),
    ],
)
def test_both_spellings_mean_the_same(spelled: Any, strategy: str) -> None:
    given = msgspec.convert(resources({**CONFIG_MAPS, "conflictStrategy": spelled}, DEPLOYMENTS), WorkspaceSyncSpec)
    assert conflict_strategy(spelled) == strategy
    assert [strategy_of(given, one) for one in resources_of(given)] == [strategy, "UpstreamWins"]


def test_without_resources_the_usual_ones_of_a_workload_are_synced() -> None:
    found = resources_of(msgspec.convert(spec(), WorkspaceSyncSpec))
    assert [(one.group, one.version, one.resource) for one in found] == [
        ("apps", "v1", "deployments"),
        ("", "v1", "services"),
        ("", "v1", "configmaps"),
        ("", "v1", "secrets"),
    ]


STATUS = WorkspaceSyncStatus(
    observed_generation=3,
    conditions=[Condition(type="Ready", status="False", reason="Failed", last_transition_time=NOW)],
    targets=TargetCounts(desired=2, synced=1, failed=1, summary="1/2"),
    upstream=UpstreamStatus(identity="u", workspace="root:team", version="v1.34.1", workspaces=2),
    namespaces=[
        MappedNamespace(
            cluster="2kcs1p9z",
            upstream="web",
            downstream="team-web",
            state="Refused",
            reason="NamespaceExists",
            message="another tool made it",
        )
    ],
    recorded_namespaces=["2kcs1p9z/web=team-web@east,west"],
    placement=[
        NamespacePlacement(cluster="2kcs1p9z", namespace="web", targets=["east"], reason="Sticky", message="as before")
    ],
    resources=[
        ResourceSyncStatus(
            group="apps",
            resource="deployments",
            direction="Bidirectional",
            state="Failed",
            synced=1,
            failed=2,
            conflicted=3,
            reason="Forbidden",
            message="no right",
        )
    ],
    conflicts=[
        PathConflict(
            resource="configmaps",
            namespace="web",
            name="app",
            cluster="east",
            paths=["/data/a"],
            message="annotate it",
        )
    ],
    copies_skipped=4,
    last_sync_time=NOW,
    clusters=[
        WrittenCluster(
            name="east", connection=ClusterConnection(type="SyncTarget", sync_target_ref=NameRef(name="east"))
        )
    ],
)


def test_the_server_keeps_every_field_of_the_status(sandbox: Sandbox) -> None:
    with stored(sandbox, WORKSPACE_SYNC, spec()) as address:
        reported = report(sandbox, address, STATUS)
    assert msgspec.convert(reported, WorkspaceSync).status == STATUS


@pytest.mark.parametrize(
    "given",
    [upstream(workspace="root:team"), upstream(apiExport={"workspace": "root:team", "name": "apps"})],
    ids=["workspace", "export"],
)
def test_kubectl_get_shows_the_upstream_and_the_outcome(sandbox: Sandbox, given: Spec) -> None:
    with stored(sandbox, WORKSPACE_SYNC, given) as address:
        columns, cells = table(sandbox, address, STATUS)
    assert columns == ["Name", "Upstream", "Targets", "Ready", "Reason", "Age"]
    assert cells[1:-1] == ["root:team", "1/2", "False", "Failed"]
