"""The resources, namespaces and strategies of a WorkspaceSync: what a real API server refuses."""

import pytest
from tests.api.trial import Bad
from tests.api.workspacesync_specs import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    TWO_WAY,
    mapping,
    refusal,
    resources,
    spec,
    upstream,
)

from syncline.sandbox import Sandbox

pytestmark = pytest.mark.usefixtures("crds")

NEVER = "events and leases are never synced, because they describe their own cluster: remove this resource"
UP_ONLY = "Endpoints and EndpointSlices are never sent down: remove this resource, and write spec.endpoints: true to"
PLURAL = "write a resource as `kubectl api-resources` shows it, in lower case and plural, such as deployments; write"
ONE_MAPPING = "write exactly one of prefix, template and fixed; for the same names, remove mapping"
KUBE = "namespaces whose names start with kube- belong to the cluster and are never written: write another name"

RULES: dict[str, Bad] = {
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
}
SCHEMA: dict[str, Bad] = {
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
    "too many resources": (
        resources(*[{"resource": f"r{number}"} for number in range(51)]),
        "spec.resources",
        "must have at most 50 items",
    ),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_resource_or_namespace_refusal_with_what_to_write_instead(sandbox: Sandbox, bad: Bad) -> None:
    given, where, words = bad
    told = refusal(sandbox, given)
    assert where in told
    assert words in told
