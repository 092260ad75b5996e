"""The upstream and the downstream of a WorkspaceSync: what a real API server refuses, and with which words."""

import pytest
from tests.api.trial import Bad
from tests.api.workspacesync_specs import BY_NAME, EU, TOKEN, TWO_WAY, downstream, refusal, spec, upstream

from syncline.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("crds")

ONE_UPSTREAM = "write at most one of workspace (one workspace) and apiExport (all workspaces that are bound to it)"
PATH = 'write the path of one workspace, such as root:team: names of lowercase letters, digits and "-", with ":"'
NAMES_OR_LABELS = "write exactly one of syncTargets (names) and selector (labels of SyncTargets)"
WRITER = "direction: Bidirectional needs one SyncTarget that writes upward: name exactly one in downstream.syncTargets"
BELOW = "the workspace is neither the workspace of the server nor below it: write a path that starts with the workspace"

RULES: dict[str, Bad] = {
    "a workspace and an export": (
        upstream(workspace="root", apiExport={"workspace": "root", "name": "apps"}),
        "spec.upstream",
        ONE_UPSTREAM,
    ),
    "a workspace of this cluster": (
        spec(upstream={"workspace": "root:team"}),
        "spec.upstream.connection",
        "a workspace is in a kcp, and without connection the upstream is this cluster: write connection",
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
    "the same cluster": (
        {**downstream(syncTargets=["east", "hub"]), "upstream": {"connection": BY_NAME}},
        "spec.downstream.syncTargets",
        "upstream and downstream are the same cluster with the same names: write another SyncTarget, or namespaces",
    ),
    "an export of this cluster": (
        spec(upstream={"apiExport": {"workspace": "root", "name": "apps"}}),
        "spec.upstream.connection",
        "an APIExport is in a workspace of kcp: write upstream.connection, such as a kubeconfig of that workspace",
    ),
}
SCHEMA: dict[str, Bad] = {
    "no downstream": ({}, "spec.downstream", "Required value"),
    "the same target twice": (downstream(syncTargets=["a", "a"]), "spec.downstream.syncTargets[1]", "Duplicate value"),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_side_refusal_with_what_to_write_instead(sandbox: Sandbox, bad: Bad) -> None:
    given, where, words = bad
    told = refusal(sandbox, given)
    assert where in told
    assert words in told
