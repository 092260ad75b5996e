"""What the TenantPolicies of a namespace allow: all of them hold, and none means no limits."""

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.api.configmapsync import ConfigMapSyncSpec
from syncline.api.configsync import ConfigSyncSpec
from syncline.api.manifestsync import ManifestSyncSpec
from syncline.api.tenantpolicy import TenantPolicySpec
from syncline.api.workspacesync import WorkspaceSyncSpec
from syncline.core.tenancy import NO_LIMITS, PolicyRules, TenantLimits, TenantRequest
from syncline.core.tenant_requests import (
    configmapsync_request,
    configsync_request,
    manifestsync_request,
    workspacesync_request,
)

SELECTOR = {"matchLabels": {"tenant": "a"}}


def policy(name: str = "team-a", **spec: Any) -> PolicyRules:
    return PolicyRules(name=name, spec=msgspec.convert({"namespaceSelector": SELECTOR, **spec}, TenantPolicySpec))


def limits(*policies: PolicyRules) -> TenantLimits:
    return TenantLimits(namespace="team-a", policies=policies)


class TestAccounts:
    @pytest.mark.parametrize(
        ("rule", "named", "acts_as", "against"),
        [
            ({"required": True}, "", "", "serviceAccount.required"),
            ({"required": True}, "robot", "robot", ""),
            ({"required": True, "default": "robot"}, "", "robot", ""),
            ({"default": "robot"}, "", "robot", ""),
            ({"default": "robot"}, "robot", "robot", ""),
            ({"default": "robot"}, "admin", "", "serviceAccount.default"),
            ({"default": "robot", "allowed": ["deploy-*"]}, "deploy-web", "deploy-web", ""),
            ({"default": "robot", "allowed": ["deploy-*"]}, "robot", "robot", ""),
            ({"default": "robot", "allowed": ["deploy-*"]}, "admin", "", "serviceAccount.allowed"),
            ({"allowed": ["deploy-*"]}, "admin", "", "serviceAccount.allowed"),
            ({"allowed": ["deploy-*"]}, "", "", "serviceAccount.allowed"),
            ({"allowed": []}, "any", "", "serviceAccount.allowed"),
        ],
    )
    def test_a_sync_acts_as_its_account_or_the_default_and_as_no_other(
        self, rule: dict[str, Any], named: str, acts_as: str, against: str
    ) -> None:
        account, violation = limits(policy(serviceAccount=rule)).account(named)
        assert account == acts_as
        assert (violation.field if violation else "") == against

    def test_the_default_of_a_policy_goes_before_that_of_the_operator(self) -> None:
        assert limits(policy(serviceAccount={"default": "robot"})).account("", "flag") == ("robot", None)
        assert NO_LIMITS.account("", "flag") == ("flag", None)

    def test_the_default_of_the_operator_must_be_allowed_too(self) -> None:
        account, violation = limits(policy(serviceAccount={"allowed": ["robot"]})).account("", "flag")
        assert account == ""
        assert violation is not None

    def test_two_policies_with_two_defaults_leave_none(self) -> None:
        both = limits(policy("one", serviceAccount={"default": "a"}), policy("two", serviceAccount={"default": "b"}))
        account, violation = both.account("")
        assert account == ""
        assert "TenantPolicy one" in str(violation)
        assert "TenantPolicy two" in str(violation)
        assert both.account("a")[1] is not None

    def test_no_policy_asks_for_no_account(self) -> None:
        assert NO_LIMITS.account("") == ("", None)


class TestTargets:
    @pytest.mark.parametrize(
        ("spec", "kind", "namespace", "field"),
        [
            ({"destinationNamespaces": ["team-a-*"]}, "ConfigMap", "team-a-prod", ""),
            ({"destinationNamespaces": ["team-a-*"]}, "ConfigMap", "team-b", "destinationNamespaces"),
            ({"destinationNamespaces": ["{namespace}"]}, "ConfigMap", "team-a", ""),
            ({"destinationNamespaces": ["{namespace}-*"]}, "ConfigMap", "team-a-x", ""),
            ({"destinationNamespaces": ["{namespace}"]}, "ConfigMap", "team-b", "destinationNamespaces"),
            ({"destinationNamespaces": []}, "ConfigMap", "team-a", "destinationNamespaces"),
            ({"destinationNamespaces": ["*"]}, "ClusterRole.rbac.authorization.k8s.io", "", "destinationNamespaces"),
            ({"destinationNamespaces": ["*"], "kinds": ["ClusterRole.*"]}, "ClusterRole.rbac", "", ""),
            ({"kinds": ["ConfigMap", "*.apps"]}, "Deployment.apps", "x", ""),
            ({"kinds": ["ConfigMap", "*.apps"]}, "Secret", "x", "kinds"),
            ({"kinds": ["Deployment"]}, "Deployment.apps", "x", "kinds"),
            ({"kinds": ["ConfigMap"]}, "configmap", "x", "kinds"),
            ({"kinds": []}, "ConfigMap", "x", "kinds"),
            ({}, "Anything.example.com", "", ""),
        ],
    )
    def test_kinds_and_namespaces_are_those_of_the_lists(
        self, spec: dict[str, Any], kind: str, namespace: str, field: str
    ) -> None:
        violation = limits(policy(**spec)).target(kind, namespace)
        assert (violation.field if violation else "") == field

    def test_a_violation_names_the_policy_the_field_and_what_to_do(self) -> None:
        assert str(limits(policy(kinds=["ConfigMap"])).target("Secret", "x")) == (
            "kind Secret is not allowed by TenantPolicy team-a (spec.kinds): take objects of this kind out, or ask its"
            " administrator"
        )


class TestClusters:
    RULE: ClassVar[dict[str, Any]] = {
        "syncTargets": ["platform/prod-*", "{namespace}/*"],
        "servers": ["https://*.example.com:6443"],
    }

    @pytest.mark.parametrize(
        ("target", "is_allowed"),
        [
            ("platform/prod-eu", True),
            ("platform/staging", False),
            ("team-a/own", True),
            ("team-b/own", False),
            ("team-a/x/y", False),
        ],
    )
    def test_synctargets_are_known_by_namespace_and_name(self, target: str, is_allowed: bool) -> None:
        assert (limits(policy(clusters=self.RULE)).sync_target(target) is None) is is_allowed

    @pytest.mark.parametrize(
        ("server", "is_allowed"),
        [
            ("https://api.example.com:6443", True),
            ("https://API.example.com:6443/", True),
            ("https://api.example.com", False),
            ("https://api.example.com:6443@evil.org", False),
            ("https://evil.org:6443/.example.com:6443", False),
        ],
    )
    def test_servers_are_known_by_their_address(self, server: str, is_allowed: bool) -> None:
        assert (limits(policy(clusters=self.RULE)).server(server) is None) is is_allowed

    def test_a_server_is_listed_only_where_a_policy_names_it(self) -> None:
        assert limits(policy(clusters=self.RULE)).lists_server("https://api.example.com:6443")
        assert not limits(policy(clusters=self.RULE)).lists_server("https://api.example.com")
        assert not limits(policy()).lists_server("https://api.example.com:6443")
        assert not limits().lists_server("https://api.example.com:6443")

    def test_an_empty_rule_allows_no_other_cluster(self) -> None:
        none = limits(policy(clusters={}))
        assert none.server("https://api.example.com") is not None
        assert none.sync_target("team-a/own") is not None


@pytest.mark.parametrize(
    ("service", "address", "is_allowed"),
    [
        ("aws-kms", "", True),
        ("gcp-kms", "", False),
        ("vault", "https://vault.example.com:8200", True),
        ("vault", "https://evil.example.org:8200", False),
        ("vault", "", False),
        ("azure-kv", "https://vault.example.com:8200", True),
        ("azure-kv", "https://other.vault.azure.net", False),
    ],
)
def test_key_services_are_known_by_name_or_address(service: str, address: str, is_allowed: bool) -> None:
    listed = limits(policy(keyServices=["aws-kms", "https://vault.example.com:8200"]))
    assert (listed.key_service(service, address) is None) is is_allowed
    assert limits(policy(keyServices=[])).key_service(service, address) is not None
    assert NO_LIMITS.key_service(service, address) is None


def test_a_policy_that_cannot_be_read_allows_nothing() -> None:
    broken = limits(PolicyRules(name="broken", error="unknown field `speed`"))
    violation = broken.violation(TenantRequest())
    assert str(violation) == (
        "anything is not allowed by TenantPolicy broken: an administrator must correct the policy, which is not valid:"
        " unknown field `speed`"
    )
    assert broken.account("robot")[1] is not None
    assert broken.target("ConfigMap", "team-a") is not None


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "repositories": st.lists(st.sampled_from(["https://h/a/**", "https://h/b/**", "https://*/a/x"]), max_size=2),
        "destinationNamespaces": st.lists(st.sampled_from(["team-a", "team-*", "{namespace}", "x"]), max_size=2),
        "kinds": st.lists(st.sampled_from(["ConfigMap", "*", "*.apps"]), max_size=2),
        "clusters": st.fixed_dictionaries(
            {}, optional={"syncTargets": st.lists(st.sampled_from(["p/*", "*/x"]), max_size=2)}
        ),
        "serviceAccount": st.fixed_dictionaries(
            {},
            optional={
                "required": st.booleans(),
                "default": st.sampled_from(["a", "b"]),
                "allowed": st.lists(st.sampled_from(["a", "b*"]), max_size=2),
            },
        ),
    },
)
REQUESTS = st.builds(
    TenantRequest,
    repositories=st.lists(st.sampled_from(["https://h/a/x", "https://h/b/x", "https://h/c"]), max_size=2).map(tuple),
    sync_targets=st.lists(st.sampled_from(["p/x", "q/x", "q/y"]), max_size=2).map(tuple),
    namespaces=st.lists(st.sampled_from(["team-a", "team-b", "x", "y"]), max_size=2).map(tuple),
    kinds=st.lists(st.sampled_from(["ConfigMap", "Deployment.apps"]), max_size=2).map(tuple),
)


@quick
@given(st.lists(SPECS, max_size=3), REQUESTS)
def test_what_several_policies_allow_is_what_each_of_them_allows(
    specs: list[dict[str, Any]], request_: TenantRequest
) -> None:
    policies = [policy(f"p{number}", **spec) for number, spec in enumerate(specs)]
    together = limits(*policies).violation(request_) is None
    assert together is all(limits(one).violation(request_) is None for one in policies)


@quick
@given(st.lists(SPECS, max_size=3), SPECS, st.sampled_from(["a", "b", "bb", "c"]))
def test_one_more_policy_never_allows_another_account(
    specs: list[dict[str, Any]], more: dict[str, Any], named: str
) -> None:
    policies = [policy(f"p{number}", **spec) for number, spec in enumerate(specs)]
    before, refused = limits(*policies).account(named)
    after, refused_after = limits(*policies, policy("more", **more)).account(named)
    assert refused is None or refused_after is not None
    assert after in (before, "")


@quick
@given(REQUESTS, st.sampled_from(["", "robot"]))
def test_without_a_policy_everything_is_as_before(request_: TenantRequest, named: str) -> None:
    assert NO_LIMITS.violation(request_) is None
    assert NO_LIMITS.account(named, "flag") == (named or "flag", None)
    assert NO_LIMITS.target("ClusterRole.rbac.authorization.k8s.io", "") is None


class TestRequests:
    def test_a_configmapsync_asks_for_its_exact_destinations(self) -> None:
        spec = {"sourceNamespace": "a", "configMapName": "app", "destinationNamespaces": ["b", "team-*"]}
        request_ = configmapsync_request(msgspec.convert(spec, ConfigMapSyncSpec))
        assert request_ == TenantRequest(namespaces=("b",), kinds=("ConfigMap",))

    def test_a_two_way_configmapsync_writes_to_its_source_too(self) -> None:
        spec = {
            "sourceNamespace": "a",
            "configMapName": "app",
            "destinationNamespace": "b",
            "direction": "Bidirectional",
        }
        assert configmapsync_request(msgspec.convert(spec, ConfigMapSyncSpec)).namespaces == ("b", "a")

    def test_a_manifestsync_asks_for_kinds_namespaces_and_clusters(self) -> None:
        target = {"type": "SyncTarget", "syncTargetRef": {"name": "edge"}}
        token = {
            "type": "ServiceAccountToken",
            "serviceAccountTokenRef": {"name": "t"},
            "server": "https://api.example.com",
        }
        spec = {
            "sourceRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "targets": {
                "inCluster": {"namespaces": ["b"]},
                "remoteClusters": [
                    {"connection": target, "namespaces": ["c"]},
                    {"connection": {**target, "syncTargetNamespace": "platform"}},
                    {"clusterName": "far", "connection": token},
                ],
            },
        }
        assert manifestsync_request(msgspec.convert(spec, ManifestSyncSpec), "home") == TenantRequest(
            sync_targets=("home/edge", "platform/edge"),
            servers=("https://api.example.com",),
            namespaces=("b", "c"),
            kinds=("Deployment.apps",),
        )

    def test_a_workspacesync_asks_for_both_ends_for_known_kinds_and_for_a_fixed_namespace(self) -> None:
        spec = {
            "upstream": {"connection": {"type": "SyncTarget", "syncTargetRef": {"name": "hub"}}},
            "downstream": {"syncTargets": ["east", "west"], "syncTargetNamespace": "platform"},
            "resources": [
                {"group": "apps", "resource": "deployments"},
                {"group": "example.com", "resource": "widgets"},
            ],
            "namespaces": {"mapping": {"fixed": "team"}},
            "endpoints": True,
        }
        assert workspacesync_request(msgspec.convert(spec, WorkspaceSyncSpec), "home") == TenantRequest(
            sync_targets=("home/hub", "platform/east", "platform/west"),
            namespaces=("team",),
            kinds=("Deployment.apps", "Endpoints", "EndpointSlice.discovery.k8s.io"),
        )

    def test_a_workspacesync_in_short_asks_for_the_usual_kinds(self) -> None:
        token = {"type": "ServiceAccountToken", "serviceAccountTokenRef": {"name": "t"}, "server": "https://kcp.io"}
        spec = {"upstream": {"connection": token}, "downstream": {"syncTargets": ["east"]}}
        assert workspacesync_request(msgspec.convert(spec, WorkspaceSyncSpec), "home") == TenantRequest(
            sync_targets=("home/east",),
            servers=("https://kcp.io",),
            kinds=("Deployment.apps", "Service", "ConfigMap", "Secret"),
        )

    def test_a_configsync_asks_for_repositories_and_for_ways_around_them(self) -> None:
        spec = {
            "sources": [
                {"name": "a", "git": {"repo": "https://h/a", "submodules": True}},
                {"name": "b", "git": {"repo": "https://h/b", "proxySecretRef": {"name": "p"}}},
                {"name": "c", "configMapRef": {"name": "c"}},
            ],
            "targets": [{"type": "ConfigMap", "name": "x", "namespace": "n"}],
            "environments": [{"name": "dev", "namespace": "m"}],
        }
        request_ = configsync_request(msgspec.convert(spec, ConfigSyncSpec), "home")
        assert request_.repositories == ("https://h/a", "https://h/b")
        assert request_.detours == ("source.git.submodules", "source.git.proxySecretRef")
        assert request_.namespaces == ("n", "m")
        listed = limits(policy(repositories=["https://h/**"]))
        assert [one.what for one in listed.violations(request_)] == list(request_.detours)


class TestQuotas:
    def test_of_several_quotas_the_lowest_counts(self) -> None:
        both = limits(policy("wide", quotas={"syncs": 5, "targets": 1}), policy("narrow", quotas={"syncs": 2}))
        quota = both.quota("syncs")
        assert quota is not None
        assert (quota.policy, quota.limit, quota.namespace) == ("narrow", 2, "team-a")
        assert str(quota.exceeded("to have more than 2 syncs", "delete one")) == (
            "to have more than 2 syncs is not allowed by TenantPolicy narrow (spec.quotas.syncs): delete one, or ask"
            " its administrator"
        )

    def test_none_may_be_allowed_and_what_is_absent_is_not_limited(self) -> None:
        quota = limits(policy(quotas={"buildSecondsPerHour": 0})).quota("buildSecondsPerHour")
        assert quota is not None
        assert quota.limit == 0
        assert limits(policy(quotas={"syncs": 1})).quota("mirrorBytes") is None
        assert limits(policy()).quota("syncs") is None
        assert NO_LIMITS.quota("syncs") is None
