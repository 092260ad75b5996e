"""WorkspaceSync on a real API server: what it takes, what it refuses, and with which words."""

from typing import Any

import msgspec
import pytest
from tests.api.trial import Bad, Spec, create, report, stored, table

from syncline.api.common import Condition, TargetCounts
from syncline.api.connection import ClusterConnection, NameRef, WrittenCluster
from syncline.api.kinds import WORKSPACE_SYNC
from syncline.api.object_transforms import PROTECTED, ObjectTransform
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
from syncline.controllers.sources.copies import transform_step
from syncline.core.object_shapes import shape_of_kind
from syncline.core.object_transforms import ObjectTransformError, transformed
from syncline.sandbox import RequestError, Sandbox

pytestmark = pytest.mark.usefixtures("crds")

NOW = "2026-01-02T03:04:05Z"
KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "kcp"}}
TOKEN = {
    "type": "ServiceAccountToken",
    "serviceAccountTokenRef": {"name": "kcp"},
    "server": "https://kcp.example.com:6443/clusters/root:team",
}
BY_NAME = {"type": "SyncTarget", "syncTargetRef": {"name": "hub"}}
EU = {"matchLabels": {"region": "eu"}}
DEPLOYMENTS = {"group": "apps", "version": "v1", "resource": "deployments"}
CONFIG_MAPS = {"group": "", "version": "v1", "resource": "configmaps"}
TWO_WAY = {**CONFIG_MAPS, "direction": "Bidirectional"}


def spec(**more: Any) -> Spec:
    return {"downstream": {"syncTargets": ["east"]}, **more}


def upstream(**more: Any) -> Spec:
    return spec(upstream={"connection": KUBECONFIG, **more})


def downstream(**more: Any) -> Spec:
    return {"downstream": more}


def resources(*given: Spec, **more: Any) -> Spec:
    return spec(resources=list(given), **more)


def mapping(**given: Any) -> Spec:
    return spec(namespaces={"mapping": given})


def transform(**given: Any) -> Spec:
    return spec(transforms=[{"resource": "deployments.apps", **given}])


def operation(**given: Any) -> Spec:
    return transform(patch=[given])


def placement(**given: Any) -> Spec:
    return spec(placement=given)


CONTRACT: Spec = {
    "upstream": {"connection": KUBECONFIG, "workspace": "root:team"},
    "downstream": {"syncTargets": ["east"], "writer": "east"},
    "resources": [
        {**DEPLOYMENTS, "selector": {"matchLabels": {"sync": "yes"}}},
        {**TWO_WAY, "conflictStrategy": "MergeChanges"},
    ],
    "namespaces": {
        "selector": {"matchLabels": {"sync": "yes"}},
        "mapping": {"prefix": "team-"},
        "existing": "Refuse",
    },
    "conflictStrategy": "UpstreamWins",
    "onConflict": "UpstreamWins",
    "exact": False,
    "transforms": [
        {"resource": "deployments.apps", "remove": ["/spec/template/spec/nodeSelector"]},
        {"resource": "deployments.apps", "patch": [{"op": "add", "path": "/metadata/labels/from", "value": "kcp"}]},
        {"resource": "configmaps", "set": {"/data/cluster": "{{ target.cluster }}"}, "targets": EU},
    ],
    "statusSync": True,
    "endpoints": False,
    "retry": {"maxRetries": 5, "delay": "1s"},
    "placement": {"strategy": "All"},
    "deletePropagation": "Down",
}

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
    "any value": transform(
        set={"/spec/replicas": 2, "/spec/paused": True, "/spec/strategy": {"type": "Recreate"}},
        patch=[
            {"op": "add", "path": "/spec/template/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}},
            {"op": "replace", "path": "/spec/paused", "value": False},
            {"op": "test", "path": "/metadata/name", "value": "web"},
            {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/example.com~1name"},
            {"op": "move", "from": "/spec/a~0b", "path": "/spec/b"},
            {"op": "remove", "path": "/metadata/labels"},
        ],
    ),
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

ONE_UPSTREAM = "write at most one of workspace (one workspace) and apiExport (all workspaces that are bound to it)"
PATH = 'write the path of one workspace, such as root:team: names of lowercase letters, digits and "-", with ":"'
NAMES_OR_LABELS = "write exactly one of syncTargets (names) and selector (labels of SyncTargets)"
WRITER = "direction: Bidirectional needs one SyncTarget that writes upward: name exactly one in downstream.syncTargets"
NEVER = "events and leases are never synced, because they describe their own cluster: remove this resource"
UP_ONLY = "Endpoints and EndpointSlices are never sent down: remove this resource, and write spec.endpoints: true to"
PLURAL = "write a resource as `kubectl api-resources` shows it, in lower case and plural, such as deployments; write"
ONE_MAPPING = "write exactly one of prefix, template and fixed; for the same names, remove mapping"
KUBE = "namespaces whose names start with kube- belong to the cluster and are never written: write another name"
POINTER = "write a JSON pointer, such as /spec/template/spec/nodeSelector; in a key, write ~1 for / and ~0 for ~"
FROM = "move and copy need from, and the other operations take no from: write from, or remove it"
ABSENT = "a transform changes a resource that this sync does not have: add it to resources, or correct the transform"
NO_CHANGE = "a transform needs at least one of remove, set and patch: write one of them"
WEIGHTS = "strategy: Weighted needs weights, and other strategies take none: write weights with strategy: Weighted"
DELAY = "write a delay between 10ms and 1h"
BELOW = "the workspace is neither the workspace of the server nor below it: write a path that starts with the workspace"
FIXED_PATHS = (
    "/apiVersion",
    "/kind",
    "/metadata",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/ownerReferences/0",
    "/metadata/finalizers",
    "/metadata/labels/syncline.dev~1owner",
    "/metadata/annotations/syncline.dev~1copy",
    "/status",
    "/status/replicas",
)

RULES: dict[str, Bad] = {
    "a workspace and an export": (
        upstream(workspace="root", apiExport={"workspace": "root", "name": "apps"}),
        "spec.upstream",
        ONE_UPSTREAM,
    ),
    "every workspace": (upstream(workspace="*"), "spec.upstream.workspace", PATH),
    "a workspace as a URL": (upstream(workspace="/clusters/root"), "spec.upstream.workspace", PATH),
    "a workspace that leads elsewhere": (upstream(workspace="root:.."), "spec.upstream.workspace", PATH),
    "an empty step": (upstream(workspace="root::team"), "spec.upstream.workspace", PATH),
    "a workspace in capitals": (upstream(workspace="root:Team"), "spec.upstream.workspace", PATH),
    "an export of no workspace": (
        upstream(apiExport={"workspace": "", "name": "apps"}),
        "spec.upstream.apiExport.workspace",
        PATH,
    ),
    "a workspace above that of the server": (
        spec(upstream={"connection": TOKEN, "workspace": "root"}),
        "spec.upstream",
        BELOW,
    ),
    "a workspace beside that of the server": (
        spec(upstream={"connection": TOKEN, "workspace": "root:team-b"}),
        "spec.upstream",
        BELOW,
    ),
    "an export above the workspace of the server": (
        spec(upstream={"connection": TOKEN, "apiExport": {"workspace": "root", "name": "apps"}}),
        "spec.upstream",
        BELOW,
    ),
    "several upstreams": (
        spec(upstream={"connection": {"type": "SyncTarget", "selector": EU}}),
        "spec.upstream.connection.selector",
        "an upstream is one cluster, and a selector can select several: write syncTargetRef",
    ),
    "an upstream of another namespace": (
        spec(upstream={"connection": {**BY_NAME, "syncTargetNamespace": "fleet"}}),
        "spec.upstream.connection.syncTargetNamespace",
        "an upstream cannot be a SyncTarget of another namespace, because the right to write to a cluster would become",
    ),
    "no target": (downstream(), "spec.downstream", NAMES_OR_LABELS),
    "no names": (downstream(syncTargets=[]), "spec.downstream", NAMES_OR_LABELS),
    "names and labels": (downstream(syncTargets=["east"], selector=EU), "spec.downstream", NAMES_OR_LABELS),
    "every target by no label": (
        downstream(selector={}),
        "spec.downstream.selector",
        "an empty selector would select every cluster: write the labels of the SyncTargets",
    ),
    "a writer elsewhere": (
        downstream(syncTargets=["east"], writer="west"),
        "spec.downstream.writer",
        "the writer is not one of the syncTargets: write the name of one of them, or add it to syncTargets",
    ),
    "two-way without a writer": (
        {**downstream(syncTargets=["east", "west"]), "resources": [TWO_WAY]},
        "spec.downstream.writer",
        WRITER,
    ),
    "two-way by label": ({**downstream(selector=EU), "resources": [TWO_WAY]}, "spec.downstream.writer", WRITER),
    "two-way and Keep": (
        resources(TWO_WAY, resourceManagementPolicy="Keep"),
        "spec.resourceManagementPolicy",
        "Bidirectional cannot be combined with Keep",
    ),
    "deletes upward of what goes down": (
        resources(CONFIG_MAPS, deletePropagation="Both"),
        "spec.deletePropagation",
        "deletePropagation: Both deletes upstream, and no resource may write there: write direction: Bidirectional",
    ),
    "deletes upward by default": (
        spec(deletePropagation="Both"),
        "spec.deletePropagation",
        "deletePropagation: Both deletes upstream, and no resource may write there: write direction: Bidirectional",
    ),
    "exact and Skip": (
        spec(exact=True, conflictStrategy="Skip"),
        "spec.exact",
        "exact is a part of UpstreamWins: write conflictStrategy: UpstreamWins, or remove exact",
    ),
    "the same cluster": (
        {**downstream(syncTargets=["east", "hub"]), "upstream": {"connection": BY_NAME}},
        "spec.downstream.syncTargets",
        "upstream and downstream are the same cluster with the same names: write another SyncTarget, or namespaces",
    ),
    "events": (resources({"resource": "events"}), "spec.resources[0].resource", NEVER),
    "new events": (resources({"resource": "events", "group": "events.k8s.io"}), "spec.resources[0].resource", NEVER),
    "leases": (resources({"resource": "leases", "group": "coordination.k8s.io"}), "spec.resources[0].resource", NEVER),
    "endpoints": (resources({"resource": "endpoints"}), "spec.resources[0].resource", UP_ONLY),
    "endpoint slices": (
        resources({"resource": "endpointslices", "group": "discovery.k8s.io"}),
        "spec.resources[0].resource",
        UP_ONLY,
    ),
    "namespaces": (
        resources({"resource": "namespaces"}),
        "spec.resources[0].resource",
        "namespaces are created as needed: remove this resource, and select them with spec.namespaces",
    ),
    "a kind as a resource": (resources({"resource": "Deployment"}), "spec.resources[0].resource", PLURAL),
    "a resource with its group": (resources({"resource": "deployments.apps"}), "spec.resources[0].resource", PLURAL),
    "a subresource": (resources({"resource": "deployments/status"}), "spec.resources[0].resource", PLURAL),
    "a group that leads elsewhere": (
        resources({"resource": "a", "group": "../.."}),
        "spec.resources[0].group",
        "write an API group, such as apps or example.com",
    ),
    "a version with its group": (
        resources({"resource": "deployments", "version": "apps/v1"}),
        "spec.resources[0].version",
        "write one version of the API group, such as v1 or v1beta1",
    ),
    "objects by no label": (
        resources({**CONFIG_MAPS, "selector": {}}),
        "spec.resources[0].selector",
        "an empty selector selects every object: write labels, or remove selector",
    ),
    "namespaces by no label": (
        spec(namespaces={"selector": {"matchLabels": {}}}),
        "spec.namespaces.selector",
        "an empty selector selects every namespace: write labels, or remove selector",
    ),
    "no mapping": (mapping(), "spec.namespaces.mapping", ONE_MAPPING),
    "two mappings": (mapping(prefix="a-", fixed="b"), "spec.namespaces.mapping", ONE_MAPPING),
    "a prefix in capitals": (
        mapping(prefix="Team-"),
        "spec.namespaces.mapping.prefix",
        'write the start of a name: lowercase letters, digits and "-", such as team-',
    ),
    "a prefix of the system": (mapping(prefix="kube-"), "spec.namespaces.mapping", KUBE),
    "a namespace of the system": (mapping(fixed="kube-system"), "spec.namespaces.mapping", KUBE),
    "a template of the system": (mapping(template="kube-{{ namespace }}"), "spec.namespaces.mapping", KUBE),
    "a template that says nothing": (
        mapping(template="team"),
        "spec.namespaces.mapping.template",
        "a template needs an expression, such as {{ namespace }}: write fixed for one namespace",
    ),
    "many workspaces and one name": (
        {
            **upstream(apiExport={"workspace": "root", "name": "apps"}),
            "namespaces": {"mapping": {"template": "all-{{ namespace }}"}},
        },
        "spec.namespaces.mapping.template",
        "workspaces can have namespaces of the same name: use workspace.name or workspace.cluster in the template",
    ),
    "addresses of many workspaces": (
        {**upstream(apiExport={"workspace": "root", "name": "apps"}), "endpoints": True},
        "spec.endpoints",
        "Endpoints are written to one upstream, and an APIExport has several: write upstream.workspace",
    ),
    "an export of this cluster": (
        spec(upstream={"apiExport": {"workspace": "root", "name": "apps"}}),
        "spec.upstream.connection",
        "an APIExport is in a workspace of kcp: write upstream.connection, such as a kubeconfig of that workspace",
    ),
    "a transform of nothing": (transform(), "spec.transforms[0]", NO_CHANGE),
    "a transform of no path": (transform(remove=[], patch=[]), "spec.transforms[0]", NO_CHANGE),
    "a transform of another resource": (
        spec(transforms=[{"resource": "pods", "remove": ["/spec/a"]}]),
        "spec.transforms",
        ABSENT,
    ),
    "a transform without the group": (
        resources(DEPLOYMENTS, transforms=[{"resource": "deployments", "remove": ["/spec/a"]}]),
        "spec.transforms",
        ABSENT,
    ),
    "a transform of a kind": (
        spec(transforms=[{"resource": "Deployment", "remove": ["/spec/a"]}]),
        "spec.transforms[0].resource",
        "write a resource with its group, in lower case and plural, such as deployments.apps; without a group for the",
    ),
    "a transform for every target by no label": (
        transform(remove=["/spec/a"], targets={}),
        "spec.transforms[0].targets",
        "an empty selector selects every SyncTarget: write the labels of some SyncTargets, or remove targets",
    ),
    "a JSON path": (transform(remove=[".spec.replicas"]), "spec.transforms[0].remove[0]", POINTER),
    "a tilde": (transform(remove=["/spec/a~b"]), "spec.transforms[0].remove[0]", POINTER),
    "the whole object": (operation(op="replace", path="", value={}), "spec.transforms[0].patch[0].path", POINTER),
    **{
        f"remove {path}": (transform(remove=["/spec/a", path]), "spec.transforms[0].remove", PROTECTED)
        for path in FIXED_PATHS
    },
    **{
        f"patch {path}": (operation(op="add", path=path, value="a"), "spec.transforms[0].patch[0].path", PROTECTED)
        for path in FIXED_PATHS
    },
    "a name that is moved away": (
        operation(op="move", **{"from": "/metadata/name"}, path="/metadata/labels/name"),
        "spec.transforms[0].patch[0].from",
        f"{PROTECTED}, or write op: copy",
    ),
    "a copy of nothing": (operation(op="copy", path="/spec/a"), "spec.transforms[0].patch[0].from", FROM),
    "a value from elsewhere": (
        operation(op="add", path="/spec/a", **{"from": "/spec/b"}),
        "spec.transforms[0].patch[0].from",
        FROM,
    ),
    "a delay that is none": (spec(retry={"delay": "1ms"}), "spec.retry.delay", DELAY),
    "a delay of a day": (spec(retry={"delay": "24h"}), "spec.retry.delay", DELAY),
    "spread over nobody knows": (
        placement(strategy="Spread"),
        "spec.placement.count",
        "strategy: Spread needs count: write the number of SyncTargets for each namespace",
    ),
    "all two": (
        placement(count=2),
        "spec.placement.count",
        "strategy: All uses all SyncTargets: remove count, or write strategy: Spread",
    ),
    "all by zone": (
        placement(spreadBy="zone"),
        "spec.placement.spreadBy",
        "spreadBy needs strategy: Spread: write strategy: Spread, or remove spreadBy",
    ),
    "weighted without weights": (placement(strategy="Weighted"), "spec.placement.weights", WEIGHTS),
    "weights for all": (
        placement(weights=[{"matchLabels": {"a": "b"}, "weight": 1}]),
        "spec.placement.weights",
        WEIGHTS,
    ),
    "eviction at once": (
        placement(evictAfter="1ms"),
        "spec.placement.evictAfter",
        "write an evictAfter of at least 1s",
    ),
}
SCHEMA: dict[str, Bad] = {
    "no downstream": ({}, "spec.downstream", "Required value"),
    "an unknown strategy": (
        spec(conflictStrategy="newest-wins"),
        "spec.conflictStrategy",
        'supported values: "DownstreamWins", "LastWriteWins", "MergeChanges", "Skip", "UpstreamWins"',
    ),
    "an unknown strategy of a resource": (
        resources({**CONFIG_MAPS, "conflictStrategy": "theirs"}),
        "spec.resources[0].conflictStrategy",
        'supported values: "DownstreamWins", "LastWriteWins", "MergeChanges", "Skip", "UpstreamWins"',
    ),
    "an unknown answer to a conflict": (
        spec(onConflict="Ask"),
        "spec.onConflict",
        'supported values: "DownstreamWins"',
    ),
    "upward only": (
        resources({**CONFIG_MAPS, "direction": "Up"}),
        "spec.resources[0].direction",
        'supported values: "Bidirectional", "Down"',
    ),
    "the same resource twice": (resources(CONFIG_MAPS, TWO_WAY), "spec.resources[1]", "Duplicate value"),
    "the same resource in two versions": (
        resources(DEPLOYMENTS, {**DEPLOYMENTS, "version": "v1beta1"}),
        "spec.resources[1]",
        "Duplicate value",
    ),
    "the same target twice": (downstream(syncTargets=["a", "a"]), "spec.downstream.syncTargets[1]", "Duplicate value"),
    "the policy of other kinds": (spec(sourceDeletionPolicy="Orphan"), "sourceDeletionPolicy", "unknown field"),
    "a set of nothing": (transform(set={}), "spec.transforms[0].set", "should have at least 1 properties"),
    "an unknown operation": (
        operation(op="merge", path="/spec/a"),
        "spec.transforms[0].patch[0].op",
        'supported values: "add"',
    ),
    "a weight of nothing": (
        placement(strategy="Weighted", weights=[{"matchLabels": {"a": "b"}, "weight": 0}]),
        "spec.placement.weights[0].weight",
        "greater than or equal to 1",
    ),
    "a weight for nobody": (
        placement(strategy="Weighted", weights=[{"matchLabels": {}, "weight": 1}]),
        "spec.placement.weights[0].matchLabels",
        "should have at least 1 properties",
    ),
    "spread over none": (
        placement(strategy="Spread", count=0),
        "spec.placement.count",
        "greater than or equal to 1",
    ),
    "too many resources": (
        resources(*[{"resource": f"r{number}"} for number in range(51)]),
        "spec.resources",
        "must have at most 50 items",
    ),
    "status as a word": (spec(statusSync="yes"), "spec.statusSync", "must be of type boolean"),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: Spec) -> None:
    taken = create(sandbox, WORKSPACE_SYNC, spec)
    given = {name: value for name, value in spec.items() if value is not None}
    local = msgspec.convert({"metadata": taken["metadata"], "spec": given}, WorkspaceSync)
    assert msgspec.convert(taken, WorkspaceSync).spec == local.spec


@pytest.mark.parametrize(("spec", "where", "words"), BAD.values(), ids=BAD)
def test_a_bad_spec_is_refused_with_what_to_write_instead(sandbox: Sandbox, spec: Spec, where: str, words: str) -> None:
    with pytest.raises(RequestError) as refusal:
        create(sandbox, WORKSPACE_SYNC, spec)
    assert where in str(refusal.value)
    assert words in str(refusal.value)


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


def test_the_server_keeps_values_of_any_type(sandbox: Sandbox) -> None:
    values = [False, 0, 1.5, "text", ["a"], {"a": {"b": None}}]
    given = transform(
        set={f"/spec/{number}": value for number, value in enumerate(values)},
        patch=[{"op": "add", "path": f"/spec/{number}", "value": value} for number, value in enumerate(values)],
    )
    assert create(sandbox, WORKSPACE_SYNC, given)["spec"]["transforms"] == given["transforms"]


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


WEB: Spec = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"paused": True, "a~b": 1, "template": {"spec": {"tolerations": [{"key": "b"}]}}},
}


def change(*given: Spec) -> Spec:
    """Apply transforms as the operator does, and return the object."""
    transforms = msgspec.convert(given, list[ObjectTransform])
    steps = [transform_step(index, one) for index, one in enumerate(transforms)]
    return transformed(WEB, steps, {"target.cluster": "east"}, shape_of_kind("Deployment.apps")).manifest


@pytest.mark.parametrize("path", [*FIXED_PATHS, "", "spec", "/a~2", "/metadata/annotationsX"])
def test_the_operator_refuses_the_same_paths(path: str) -> None:
    with pytest.raises(ObjectTransformError, match=r"^transforms\[0\].set: "):
        change({"resource": "deployments.apps", "set": {path: "a"}})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"set": {"/data/a": "b", "/metadata/name": "c"}}, "/metadata/name is out of reach"),
        ({"set": {"data": "b"}}, "data is not a JSON pointer"),
        ({"patch": [{"op": "add", "path": "/data/a"}]}, "needs a value"),
        ({"patch": [{"op": "test", "path": "/data/a", "value": None}]}, "needs a value"),
    ],
)
def test_the_operator_refuses_what_the_rules_cannot_read(given: Spec, problem: str) -> None:
    with pytest.raises(ObjectTransformError, match=problem):
        change({"resource": "deployments.apps", **given})


def test_the_operator_applies_any_other_transform() -> None:
    assert change(*GOOD["any value"]["transforms"], *CONTRACT["transforms"]) != WEB


@pytest.mark.parametrize(
    "path", ["/spec", "/data/a~1b", "/metadata/labels", "/metadata/labels/a", "/kinds", "/statuses/0", "/"]
)
def test_the_operator_takes_the_same_paths(sandbox: Sandbox, path: str) -> None:
    change({"resource": "deployments.apps", "remove": [path]})
    assert create(sandbox, WORKSPACE_SYNC, transform(remove=[path]))


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
