"""What a TenantPolicy does not allow is refused when a sync is written, where the spec alone tells.

Each case says what admission answers. What it refuses, a reconcile refuses too: that is checked beside it.
"""

import json
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from tests.api.trial import Spec
from tests.configmapsync.world import Thing
from tests.conftest import Apply, Eventually

from syncline.api.common import API_VERSION, LabelSelector
from syncline.api.kinds import CONFIG_MAP_SYNC, CONFIG_SYNC, IGNITION_SYNC, MANIFEST_SYNC, WORKSPACE_SYNC, Kind
from syncline.api.tenantpolicy import PLURAL, TenantPolicySpec
from syncline.core.selectors import selector_matches
from syncline.core.tenancy import PolicyRules, TenantLimits
from syncline.core.tenant_requests import (
    configmapsync_request,
    configsync_request,
    ignitionsync_request,
    manifestsync_request,
    workspacesync_request,
)
from syncline.deploy.policy import tenants
from syncline.sandbox import RequestError, Sandbox

HOME = "admission-home"
NOTHING = ""
"""What is said of a spec that is taken."""


def copying(*namespaces: str, **more: Any) -> Spec:
    return {"sourceNamespace": HOME, "configMapName": "app", "destinationNamespaces": list(namespaces), **more}


def manifests(kind: str = "Secret", version: str = "v1", **targets: Any) -> Spec:
    ref = {"apiVersion": version, "kind": kind, "name": "app"}
    return {"sourceRef": ref, "targets": targets or {"inCluster": {"namespaces": ["team-a"]}}}


def following(repo: str, **git: Any) -> Spec:
    return {"serviceAccountName": "robot", "source": {"git": {"repo": repo, **git}}}


def gateways(repo: str, **auth: Any) -> Spec:
    git = {"repo": repo, "ref": "main", **({"auth": auth} if auth else {})}
    return {"serviceAccountName": "robot", "git": git, "gateway": {"apiKeySecretRef": {"name": "gw", "key": "a"}}}


def reaching(connection: Spec, **more: Any) -> Spec:
    return manifests(remoteClusters=[{"clusterName": "edge", "connection": connection, **more}])


def downward(connection: Spec, **more: Any) -> Spec:
    upstream, downstream = {"connection": connection}, {"syncTargets": ["edge"], "syncTargetNamespace": "platform"}
    return {"upstream": upstream, "downstream": downstream, **more}


EDGE = {"type": "SyncTarget", "syncTargetRef": {"name": "edge"}}
FAR = {**EDGE, "syncTargetNamespace": "platform"}
KUBECONFIG = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}
GIT = "https://git.example.com"

CASES: dict[str, tuple[Spec, Kind, Spec, str]] = {
    "no account": (
        {"serviceAccount": {"required": True}},
        CONFIG_MAP_SYNC,
        copying("a"),
        "a sync without an account is not allowed by TenantPolicy",
    ),
    "an account": (
        {"serviceAccount": {"required": True}},
        CONFIG_MAP_SYNC,
        copying("a", serviceAccountName="robot"),
        NOTHING,
    ),
    "a default": ({"serviceAccount": {"default": "robot", "required": True}}, CONFIG_MAP_SYNC, copying("a"), NOTHING),
    "another than the default": (
        {"serviceAccount": {"default": "robot"}},
        MANIFEST_SYNC,
        {**manifests(), "serviceAccountName": "admin"},
        "service account admin is not allowed",
    ),
    "one of those allowed": (
        {"serviceAccount": {"default": "robot", "allowed": ["ad*"]}},
        MANIFEST_SYNC,
        {**manifests(), "serviceAccountName": "admin"},
        NOTHING,
    ),
    "not one of those allowed": (
        {"serviceAccount": {"allowed": ["ad?"]}},
        CONFIG_SYNC,
        following(f"{GIT}/x"),
        "service account robot is not allowed",
    ),
    "a destination": ({"destinationNamespaces": ["team-?"]}, CONFIG_MAP_SYNC, copying("team-a", "team-b"), NOTHING),
    "its own namespace": ({"destinationNamespaces": ["{namespace}"]}, MANIFEST_SYNC, manifests(), "team-a is not"),
    "another destination": (
        {"destinationNamespaces": ["team-?"]},
        CONFIG_MAP_SYNC,
        copying("team-a", "team-bc"),
        "destination namespace team-bc is not allowed",
    ),
    "a dot is no wildcard": ({"kinds": ["ConfigMap.x"]}, CONFIG_MAP_SYNC, copying("a"), "kind ConfigMap is not"),
    "both ways": (
        {"destinationNamespaces": ["a"]},
        CONFIG_MAP_SYNC,
        {**copying(), "destinationNamespace": "a", "direction": "Bidirectional"},
        f"destination namespace {HOME} is not allowed",
    ),
    "a glob of destinations, left to the reconcile": (
        {"destinationNamespaces": ["team-a"]},
        CONFIG_MAP_SYNC,
        copying("team-*"),
        NOTHING,
    ),
    "a destination elsewhere": (
        {"destinationNamespaces": ["a"]},
        MANIFEST_SYNC,
        reaching(EDGE, namespaces=["b"]),
        "destination namespace b is not allowed",
    ),
    "a destination of an environment": (
        {"destinationNamespaces": ["a"]},
        CONFIG_SYNC,
        {**following(f"{GIT}/x"), "environments": [{"name": "dev", "namespace": "b"}]},
        "destination namespace b is not allowed",
    ),
    "a kind": ({"kinds": ["ConfigMap"]}, MANIFEST_SYNC, manifests(), "kind Secret is not allowed"),
    "a kind of a group": ({"kinds": ["*.apps"]}, MANIFEST_SYNC, manifests("Deployment", "apps/v1"), NOTHING),
    "a kind of another group": (
        {"kinds": ["Deployment"]},
        MANIFEST_SYNC,
        manifests("Deployment", "apps/v1"),
        "kind Deployment.apps is not allowed",
    ),
    "a SyncTarget": ({"clusters": {"syncTargets": ["platform/*"]}}, MANIFEST_SYNC, reaching(FAR), NOTHING),
    "a SyncTarget of its own": (
        {"clusters": {"syncTargets": ["platform/*"]}},
        MANIFEST_SYNC,
        reaching(EDGE),
        f"SyncTarget {HOME}/edge is not allowed",
    ),
    "a kubeconfig": (
        {"clusters": {}},
        MANIFEST_SYNC,
        reaching(KUBECONFIG),
        "a cluster with a credential of this namespace is not allowed",
    ),
    "a kubeconfig to some server, left to the reconcile": (
        {"clusters": {"servers": ["https://api.example.com"]}},
        MANIFEST_SYNC,
        reaching(KUBECONFIG),
        NOTHING,
    ),
    "another account than the default for a workspace": (
        {"serviceAccount": {"default": "robot"}},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, serviceAccountName="admin"),
        "service account admin is not allowed",
    ),
    "a downstream cluster": (
        {"clusters": {"syncTargets": ["platform/*"], "servers": ["https://kcp.example.com/**"]}},
        WORKSPACE_SYNC,
        downward(KUBECONFIG),
        NOTHING,
    ),
    "another downstream cluster": (
        {"clusters": {"syncTargets": ["other/*"], "servers": ["https://kcp.example.com/**"]}},
        WORKSPACE_SYNC,
        downward(KUBECONFIG),
        "SyncTarget platform/edge is not allowed",
    ),
    "a downstream cluster of its own": (
        {"clusters": {"syncTargets": ["platform/*"], "servers": ["https://kcp.example.com/**"]}},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, downstream={"syncTargets": ["edge"]}),
        f"SyncTarget {HOME}/edge is not allowed",
    ),
    "an upstream cluster": (
        {"clusters": {"syncTargets": ["platform/*"]}},
        WORKSPACE_SYNC,
        downward(EDGE),
        f"SyncTarget {HOME}/edge is not allowed",
    ),
    "an upstream by kubeconfig": (
        {"clusters": {"syncTargets": ["platform/*"]}},
        WORKSPACE_SYNC,
        downward(KUBECONFIG),
        "a cluster with a credential of this namespace is not allowed",
    ),
    "downstream clusters by label, left to the reconcile": (
        {"clusters": {"syncTargets": ["{namespace}/*"]}},
        WORKSPACE_SYNC,
        downward(EDGE, downstream={"selector": {"matchLabels": {"a": "b"}}}),
        NOTHING,
    ),
    "a fixed namespace": (
        {"destinationNamespaces": ["team-?"]},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, namespaces={"mapping": {"fixed": "team-bc"}}),
        "destination namespace team-bc is not allowed",
    ),
    "a template, left to the reconcile": (
        {"destinationNamespaces": ["team-?"]},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, namespaces={"mapping": {"template": "guarded{{ '' }}"}}),
        NOTHING,
    ),
    "the default resources": (
        {"kinds": ["Deployment.apps", "Service", "ConfigMap"]},
        WORKSPACE_SYNC,
        downward(KUBECONFIG),
        "kind Secret is not allowed",
    ),
    "some resources": (
        {"kinds": ["*.apps", "ConfigMap"]},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, resources=[{"group": "apps", "resource": "deployments"}, {"resource": "configmaps"}]),
        NOTHING,
    ),
    "another resource": (
        {"kinds": ["*.apps"]},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, resources=[{"group": "apps", "resource": "deployments"}, {"resource": "pods"}]),
        "kind Pod is not allowed",
    ),
    "endpoints upward": (
        {"kinds": ["ConfigMap"]},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, resources=[{"resource": "configmaps"}], endpoints=True),
        "kind Endpoints is not allowed",
    ),
    "a custom resource, left to the reconcile": (
        {"kinds": ["ConfigMap"]},
        WORKSPACE_SYNC,
        downward(KUBECONFIG, resources=[{"group": "example.com", "resource": "widgets"}]),
        NOTHING,
    ),
    "a repository": ({"repositories": [f"{GIT}/team-a/**"]}, CONFIG_SYNC, following(f"{GIT}/team-a/x/y.git"), NOTHING),
    "the port of https": ({"repositories": [f"{GIT}:443/a/*.git"]}, CONFIG_SYNC, following(f"{GIT}/a/b"), NOTHING),
    "another repository": (
        {"repositories": [f"{GIT}/team-a/**", f"{GIT}/{{namespace}}/*"]},
        CONFIG_SYNC,
        following(f"{GIT}/team-b/x"),
        f"repository {GIT}/team-b/x is not allowed",
    ),
    "a star within one folder": (
        {"repositories": [f"{GIT}/team-a/*"]},
        CONFIG_SYNC,
        following(f"{GIT}/team-a/x/y"),
        "is not allowed",
    ),
    "no repository": ({"repositories": []}, CONFIG_SYNC, following(f"{GIT}/team-a/x"), "is not allowed"),
    "a trick, left to the reconcile": (
        {"repositories": [f"{GIT}/team-a/**"]},
        CONFIG_SYNC,
        following(f"{GIT}/team-a/%2e%2e/team-b"),
        NOTHING,
    ),
    "a proxy": (
        {"repositories": [f"{GIT}/**"]},
        CONFIG_SYNC,
        following(f"{GIT}/x", proxySecretRef={"name": "p"}),
        "proxySecretRef or submodules is not allowed",
    ),
    "submodules": (
        {"repositories": [f"{GIT}/**"]},
        CONFIG_SYNC,
        following(f"{GIT}/x", submodules=True),
        "proxySecretRef or submodules is not allowed",
    ),
    "a repository for gateways": (
        {"repositories": [f"{GIT}/{{namespace}}/*"]},
        IGNITION_SYNC,
        gateways(f"{GIT}/{HOME}/plant.git"),
        NOTHING,
    ),
    "another repository for gateways": (
        {"repositories": [f"{GIT}/{{namespace}}/*"]},
        IGNITION_SYNC,
        gateways(f"{GIT}/other/plant.git"),
        f"repository {GIT}/other/plant.git is not allowed",
    ),
    "another account for gateways": (
        {"serviceAccount": {"allowed": ["ad?"]}},
        IGNITION_SYNC,
        gateways(f"{GIT}/x"),
        "service account robot is not allowed",
    ),
    "an API that no repository names": (
        {"repositories": [f"{GIT}/**"]},
        IGNITION_SYNC,
        gateways(
            f"{GIT}/x",
            githubApp={
                "appId": 1,
                "installationId": 2,
                "privateKeySecretRef": {"name": "a", "key": "b"},
                "apiBaseURL": "https://other.example.com/api/v3",
            },
        ),
        "git.auth.githubApp.apiBaseURL is not allowed",
    ),
    "a file of its own": (
        {"repositories": []},
        CONFIG_SYNC,
        {"serviceAccountName": "robot", "source": {"configMapRef": {"name": "a"}}},
        NOTHING,
    ),
}
REQUESTS = {
    CONFIG_MAP_SYNC.kind: configmapsync_request,
    MANIFEST_SYNC.kind: lambda spec: manifestsync_request(spec, HOME),
    CONFIG_SYNC.kind: lambda spec: configsync_request(spec, HOME),
    WORKSPACE_SYNC.kind: lambda spec: workspacesync_request(spec, HOME),
    IGNITION_SYNC.kind: ignitionsync_request,
}


@pytest.fixture(scope="module")
def admission(apply: Apply, crds: None) -> None:  # noqa: ARG001 - they are served
    """The API server obeys TenantPolicies."""
    apply(tenants.policy())


class Home:
    """A namespace of its own, under one policy."""

    def __init__(self, sandbox: Sandbox, policy: Spec, **labels: str) -> None:
        self.name = f"admission-{uuid4().hex[:8]}"
        self._sandbox = sandbox
        metadata = {"name": self.name, "labels": {"tenant": self.name, **labels}}
        sandbox.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        self.policy = Thing(sandbox, f"/apis/{API_VERSION}/{PLURAL}", self.name)
        body = {"apiVersion": API_VERSION, "kind": "TenantPolicy", "metadata": {"name": self.name}}
        self.policy.create({**body, "spec": {"namespaceSelector": {"matchLabels": {"tenant": self.name}}, **policy}})

    def attempt(self, kind: Kind, spec: Spec) -> str:
        """Return what the author of a sync is told."""
        body = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"name": "tried"}, "spec": spec}
        path = f"/apis/{API_VERSION}/namespaces/{self.name}/{kind.plural}?dryRun=All&fieldValidation=Strict"
        try:
            self._sandbox.request("POST", path, json.loads(json.dumps(body).replace(HOME, self.name)))
        except RequestError as refusal:
            return str(refusal)
        return NOTHING


def probe(kind: Kind) -> tuple[Spec, Kind, Spec]:
    """Return what to add to a policy for syncs of a kind, and what it then refuses to another: so it is in force."""
    if kind in (CONFIG_SYNC, IGNITION_SYNC):
        return {"clusters": {}}, MANIFEST_SYNC, {**reaching(KUBECONFIG), "serviceAccountName": "robot"}
    return {"repositories": []}, CONFIG_SYNC, following(f"{GIT}/probe")


@pytest.mark.usefixtures("admission")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_the_spec_alone_tells_is_refused_when_a_sync_is_written(
    sandbox: Sandbox, eventually: Eventually, case: tuple[Spec, Kind, Spec, str]
) -> None:
    policy, kind, spec, words = case
    more, other, refused = probe(kind)
    home = Home(sandbox, {**more, **policy})
    eventually(lambda: home.name in home.attempt(other, refused))
    told = home.attempt(kind, spec)
    home.policy.delete()
    assert words.replace(HOME, home.name) in told
    assert bool(told) == bool(words)
    if told:
        assert f"TenantPolicy {home.name} (spec." in told
        assert is_refused_by_a_reconcile(policy, kind, spec)


def is_refused_by_a_reconcile(policy: Spec, kind: Kind, spec: Spec) -> bool:
    read = msgspec.convert({"namespaceSelector": {"matchLabels": {"a": "b"}}, **policy}, TenantPolicySpec)
    limits = TenantLimits(namespace=HOME, policies=(PolicyRules(name="policy", spec=read),))
    # A credential leads to a server that no list has.
    servers = {"servers": ("https://unlisted.example.org",)} if KUBECONFIG in _connections(spec) else {}
    request_ = msgspec.structs.replace(REQUESTS[kind.kind](msgspec.convert(spec, kind.spec)), **servers)
    _, against = limits.account(spec.get("serviceAccountName", ""))
    return (against or limits.violation(request_)) is not None


def _connections(spec: Spec) -> list[Spec]:
    remotes = spec["targets"].get("remoteClusters", []) if isinstance(spec.get("targets"), dict) else []
    return [remote["connection"] for remote in [*remotes, spec.get("upstream")] if remote]


SELECTORS: dict[str, tuple[Spec, bool]] = {
    "In": ({"key": "tier", "operator": "In", "values": ["one", "two"]}, True),
    "not In": ({"key": "tier", "operator": "In", "values": ["two"]}, False),
    "NotIn": ({"key": "tier", "operator": "NotIn", "values": ["two"]}, True),
    "NotIn of what is not there": ({"key": "other", "operator": "NotIn", "values": ["two"]}, True),
    "not NotIn": ({"key": "tier", "operator": "NotIn", "values": ["one"]}, False),
    "Exists": ({"key": "tier", "operator": "Exists"}, True),
    "not Exists": ({"key": "other", "operator": "Exists"}, False),
    "DoesNotExist": ({"key": "other", "operator": "DoesNotExist"}, True),
    "not DoesNotExist": ({"key": "tier", "operator": "DoesNotExist"}, False),
}


@pytest.mark.usefixtures("admission")
def test_admission_tells_namespaces_by_labels_as_the_operator_does(sandbox: Sandbox, eventually: Eventually) -> None:
    home = Home(sandbox, {"kinds": ["*"]}, tier="one")
    for title, (requirement, is_governed) in SELECTORS.items():
        selector = msgspec.convert({"matchExpressions": [requirement]}, LabelSelector)
        assert selector_matches(selector, {"tenant": home.name, "tier": "one"}) is is_governed, title
        # Whether the other requirement holds or not, the edit has arrived once what it forbids by its kinds changes.
        home.policy.edit(lambda body: body["spec"].update(_spec(home, requirement, [])))  # noqa: B023 - called at once
        eventually(lambda: bool(home.attempt(CONFIG_MAP_SYNC, copying("a"))) is is_governed)  # noqa: B023
        home.policy.edit(lambda body: body["spec"].update(_spec(home, None, ["Nothing"])))
        eventually(lambda: bool(home.attempt(CONFIG_MAP_SYNC, copying("a"))))
        home.policy.edit(lambda body: body["spec"].update(_spec(home, None, ["*"])))
        eventually(lambda: not home.attempt(CONFIG_MAP_SYNC, copying("a")))
    home.policy.delete()


def _spec(home: Home, requirement: Spec | None, kinds: list[str]) -> Spec:
    more = {"matchExpressions": [requirement]} if requirement else {}
    return {"namespaceSelector": {"matchLabels": {"tenant": home.name}, **more}, "kinds": kinds}


@pytest.mark.usefixtures("admission")
def test_without_a_policy_over_the_namespace_everything_is_taken(sandbox: Sandbox) -> None:
    for _, kind, spec, _ in CASES.values():
        body = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"name": "tried"}, "spec": spec}
        taken = sandbox.request("POST", f"/apis/{API_VERSION}/namespaces/default/{kind.plural}?dryRun=All", body)
        assert (taken["kind"], taken["spec"].keys() >= spec.keys()) == (kind.kind, True)
