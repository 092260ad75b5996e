"""TenantPolicy on a real API server: what it takes, what it refuses, and with which words."""

import msgspec
import pytest
from tests.api.trial import Bad, Spec, create, report, stored, table

from syncline.api.common import Condition
from syncline.api.kinds import TENANT_POLICY
from syncline.api.tenantpolicy import TenantPolicy, TenantPolicyStatus
from syncline.core.url_patterns import parse
from syncline.sandbox import RequestError, Sandbox

pytestmark = pytest.mark.usefixtures("crds")

NOW = "2026-01-02T03:04:05Z"
SELECTOR = {"matchLabels": {"tenant": "a"}}


def spec(**more: object) -> Spec:
    return {"namespaceSelector": SELECTOR, **more}


REPOSITORIES = [
    "https://git.example.com/team-a/**",
    "https://git.example.com:8443/team-a/*.git",
    "https://*.example.com/{namespace}/config",
    "https://[2001:db8::1]/x",
    "ssh://git@git.example.com/team-a/.github",
    "git@git.example.com:team-a/*",
    "git@git.example.com:~team/x",
]
GOOD: dict[str, Spec] = {
    "a selector alone": spec(),
    "every namespace": {
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
    },
    "accounts": spec(serviceAccount={"required": True, "default": "robot", "allowed": ["deploy-*"]}),
    "repositories": spec(repositories=REPOSITORIES),
    "no repository at all": spec(repositories=[]),
    "clusters": spec(
        clusters={
            "syncTargets": ["platform/prod-*", "{namespace}/*"],
            "servers": ["https://*.example.com:6443", "https://kcp.example.com/clusters/root:team"],
        }
    ),
    "no other cluster": spec(clusters={}),
    "destinations": spec(destinationNamespaces=["team-a-*", "{namespace}", "{namespace}-?"]),
    "key services": spec(keyServices=["aws-kms", "vault", "https://*.vault.azure.net"]),
    "quotas": spec(quotas={"syncs": 0, "targets": 10, "buildSecondsPerHour": 3600, "mirrorBytes": 10_000_000_000}),
    "no quota": spec(quotas={}),
    "kinds": spec(kinds=["ConfigMap", "Deployment.apps", "*.networking.k8s.io", "*"]),
}
RULES: dict[str, Bad] = {
    "an empty selector": (
        {"namespaceSelector": {}},
        "spec.namespaceSelector",
        "an empty selector would select every namespace",
    ),
    "accounts without a word": (
        spec(serviceAccount={}),
        "spec.serviceAccount",
        "serviceAccount sets no limit: write required",
    ),
    "an account in capitals": (
        spec(serviceAccount={"allowed": ["Robot"]}),
        "spec.serviceAccount.allowed[0]",
        "write names or globs of service accounts",
    ),
    "a default that is a glob": (
        spec(serviceAccount={"default": "deploy-*"}),
        "spec.serviceAccount.default",
        "write the name of one object",
    ),
    "a repository without a path": (
        spec(repositories=["https://git.example.com"]),
        "spec.repositories[0]",
        "write URLs of repositories in lowercase up to the path",
    ),
    "a repository with dots": (
        spec(repositories=["https://git.example.com/team-a/../x"]),
        "spec.repositories[0]",
        "write URLs of repositories in lowercase up to the path",
    ),
    "a repository with an escape": (
        spec(repositories=["https://git.example.com/team%2da/x"]),
        "spec.repositories[0]",
        "write URLs of repositories in lowercase up to the path",
    ),
    "a SyncTarget without its namespace": (
        spec(clusters={"syncTargets": ["prod-eu"]}),
        "spec.clusters.syncTargets[0]",
        "write the namespace and the name of SyncTargets",
    ),
    "a server over http": (
        spec(clusters={"servers": ["http://api.example.com"]}),
        "spec.clusters.servers[0]",
        "write addresses of API servers in lowercase",
    ),
    "a destination in capitals": (
        spec(destinationNamespaces=["Team"]),
        "spec.destinationNamespaces[0]",
        "write names or globs of namespaces: lowercase letters",
    ),
    "a key service that is none": (
        spec(keyServices=["pgp"]),
        "spec.keyServices[0]",
        "write aws-kms, gcp-kms, azure-kv or vault, or addresses",
    ),
    "a kind as a resource": (spec(kinds=["deployments.apps"]), "spec.kinds[0]", "write kinds with their groups"),
}
SCHEMA: dict[str, Bad] = {
    "no selector": ({}, "spec.namespaceSelector", "Required value"),
    "a field that is none": (spec(speed="fast"), "spec.speed", "unknown field"),
}
BAD = RULES | SCHEMA


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_spec_is_taken_and_means_the_same_to_the_operator(sandbox: Sandbox, spec: Spec) -> None:
    taken = create(sandbox, TENANT_POLICY, spec)
    local = msgspec.convert({"metadata": taken["metadata"], "spec": spec}, TenantPolicy)
    assert msgspec.convert(taken, TenantPolicy).spec == local.spec


@pytest.mark.parametrize("pattern", REPOSITORIES)
def test_a_pattern_that_is_taken_can_be_read(pattern: str) -> None:
    assert parse(pattern.replace("{namespace}", "team-a")) is not None


@pytest.mark.parametrize(("spec", "where", "words"), BAD.values(), ids=BAD)
def test_a_bad_spec_is_refused_with_what_to_write_instead(sandbox: Sandbox, spec: Spec, where: str, words: str) -> None:
    with pytest.raises(RequestError) as refusal:
        create(sandbox, TENANT_POLICY, spec)
    assert where in str(refusal.value)
    assert words in str(refusal.value)


STATUS = TenantPolicyStatus(
    observed_generation=1,
    conditions=[Condition(type="Ready", status="True", reason="InForce", last_transition_time=NOW)],
    namespaces=3,
    syncs=12,
)


def test_the_server_keeps_every_field_of_the_status(sandbox: Sandbox) -> None:
    with stored(sandbox, TENANT_POLICY, spec()) as address:
        reported = report(sandbox, address, STATUS)
    assert msgspec.convert(reported, TenantPolicy).status == STATUS


def test_kubectl_get_shows_what_a_policy_governs(sandbox: Sandbox) -> None:
    with stored(sandbox, TENANT_POLICY, spec()) as address:
        columns, cells = table(sandbox, address, STATUS)
    assert columns == ["Name", "Namespaces", "Syncs", "Ready", "Reason", "Age"]
    assert cells[1:5] == [3, 12, "True", "InForce"]
