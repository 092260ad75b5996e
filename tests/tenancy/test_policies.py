"""A TenantPolicy limits what the syncs of its namespaces do, at run time and whatever was admitted before.

Where admission would refuse a sync already, it is written first, and the policy comes later.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.configmapsync.world import Sync, Thing, conditions, until
from tests.configsync.conftest import world
from tests.configsync.world import GitWorld, config_map, manifest
from tests.fleet.world import Remote
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.policies import NAME_LABEL, Govern, Policy
from tests.tenancy.tenants import Tenant

from syncline import deploy
from syncline.api.common import API_VERSION, GROUP, REQUESTED_AT
from syncline.api.tenantpolicy import PLURAL
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.audit import OPERATOR, AuditLog
from syncline.testing.operator import OperatorProcess

__all__ = ["world"]


class TestAccounts:
    @pytest.mark.own_rights
    def test_a_sync_without_an_account_is_refused_where_one_is_required(self, world: GitWorld, govern: Govern) -> None:
        world.source()
        target, account = world.namespace("a"), Account(world)
        account.may(world.home, "configmaps", "get")
        account.may(target, "configmaps", *ALL)
        sync = world.sync(destinationNamespace=target)
        sync.becomes("Synced")
        policy = govern(serviceAccount={"required": True})
        ready = sync.becomes("NotAllowed")
        assert ready["message"] == (
            policy.refusal("serviceAccount.required", "a sync without an account")
            + "set serviceAccountName to an account of this namespace that has the rights it needs, or ask its"
            " administrator"
        )
        assert sync.conditions["Stalled"]["status"] == "True"
        world.config_map(world.home).set(colour="blue")
        sync.now()
        assert world.config_map(target).data == {"colour": "red"}
        sync.change(serviceAccountName=account.name)
        world.config_map(target).becomes(colour="blue")

    @pytest.mark.own_rights
    def test_the_default_account_stands_in_for_none_and_cannot_be_escaped_by_naming_another(
        self, world: GitWorld, govern: Govern
    ) -> None:
        target, robot, admin = world.namespace("a"), Account(world, "robot"), Account(world, "admin")
        for account in (robot, admin):
            account.may(world.home, "configmaps", "get")
            account.may(target, "configmaps", *ALL)
        world.source()
        sync = world.sync("escaping", destinationNamespace=target, serviceAccountName="admin")
        sync.becomes("Synced", synced=1)
        policy = govern(serviceAccount={"default": "robot"})
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("serviceAccount.default", "service account admin"))
        mark = world.mark()
        sync.now()
        plain = world.sync(destinationNamespace=target, destinationName="plain")
        plain.becomes("Synced", synced=1)
        entries = [entry for entry in world.requests(mark) if entry.resource == "configmaps"]
        assert {entry.impersonated for entry in entries} == {robot.user}
        policy.change(serviceAccount={"default": "robot", "allowed": ["adm*"]})
        sync.becomes("Synced", synced=1)

    @pytest.mark.own_rights
    def test_deleting_a_sync_whose_account_is_no_longer_allowed_uses_nobodys_rights(
        self, world: GitWorld, govern: Govern
    ) -> None:
        world.source()
        target = world.namespace("a")
        sync = world.sync(destinationNamespace=target)
        sync.becomes("Synced", synced=1)
        govern(serviceAccount={"required": True})
        sync.becomes("NotAllowed")
        mark = world.mark()
        sync.delete()
        sync.gone()
        assert world.config_map(target).data == {"colour": "red"}
        assert [str(entry) for entry in world.requests(mark) if entry.changes and entry.resource == "configmaps"] == []


class TestDestinations:
    def test_a_namespace_that_is_not_listed_is_not_written_to_and_the_source_is_not_even_read(
        self, world: GitWorld, govern: Govern
    ) -> None:
        source = world.source()
        mine, theirs = world.namespaces("mine", "theirs")
        sync = world.sync(destinationNamespaces=[mine, theirs])
        sync.becomes("Synced", synced=2)
        policy = govern(destinationNamespaces=["{namespace}", f"{world.name}-mine*"])
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("destinationNamespaces", f"destination namespace {theirs}"))
        mark = world.mark()
        source.set(colour="blue")
        sync.now()
        assert [str(entry) for entry in world.requests(mark) if entry.resource == "configmaps"] == []
        assert world.config_map(mine).data == {"colour": "red"}

    def test_a_glob_reaches_what_is_allowed_and_says_of_the_rest_that_it_is_not(
        self, world: GitWorld, govern: Govern
    ) -> None:
        govern(destinationNamespaces=[f"{world.name}-mine*"])
        world.source()
        mine, theirs = world.namespaces("mine", "theirs")
        sync = world.sync(destinationNamespaces=[f"{world.name}-*e*s", f"{world.name}-mi*"])
        sync.becomes("NotAllowed", synced=1, failed=1)
        assert sync.target(theirs)["reason"] == "NotAllowed"
        assert world.config_map(mine).data == {"colour": "red"}
        assert world.config_map(theirs).look() is None

    def test_a_policy_that_is_tightened_stops_writing_and_deletes_nothing(
        self, world: GitWorld, govern: Govern
    ) -> None:
        policy = govern(destinationNamespaces=[f"{world.name}-*"])
        source = world.source()
        stays, goes = world.namespaces("stays", "goes")
        by_name = world.sync("by-name", destinationNamespaces=[stays, goes], destinationName="named")
        by_glob = world.sync("by-glob", destinationNamespaces=[f"{world.name}-?o*", f"{world.name}-st*"])
        for sync in (by_name, by_glob):
            sync.becomes("Synced")
        policy.change(destinationNamespaces=[stays])
        by_name.becomes("NotAllowed")
        by_glob.becomes("NotAllowed")
        source.set(colour="blue")
        world.config_map(stays).becomes(colour="blue")
        by_glob.now()
        by_name.now()
        assert world.config_map(goes).data == {"colour": "red"}
        assert world.config_map(goes, "named").data == {"colour": "red"}
        assert world.config_map(stays, "named").data == {"colour": "red"}
        policy.delete()
        world.config_map(goes).becomes(colour="blue")
        world.config_map(goes, "named").becomes(colour="blue")

    def test_a_two_way_sync_needs_its_source_to_be_allowed_too(self, world: GitWorld, govern: Govern) -> None:
        target = world.namespace("a")
        world.source()
        sync = world.sync(destinationNamespace=target, direction="Bidirectional", conflictPolicy="Merge")
        sync.becomes("Synced")
        policy = govern(destinationNamespaces=[target])
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(
            policy.refusal("destinationNamespaces", f"destination namespace {world.home}")
        )


class TestKinds:
    def test_a_kind_that_is_not_listed_is_not_copied(self, world: GitWorld, govern: Govern) -> None:
        target, source = world.namespace("a"), world.secret()
        secret = world.msync("secret", source, into=[target])
        secret.becomes("Synced")
        policy = govern(kinds=["ConfigMap", "*.apps"])
        ready = secret.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("kinds", "kind Secret"))
        source.keep(password="blue")
        secret.now()
        assert world.find("Secret", target).values == {"password": "red"}
        world.msync("deployment", world.deployment(), into=[target]).becomes("Synced", synced=1)

    def test_a_commit_with_one_object_that_is_not_allowed_is_not_applied_at_all(
        self, world: GitWorld, govern: Govern
    ) -> None:
        policy = govern(kinds=["ConfigMap"], destinationNamespaces=["{namespace}"])
        other = world.namespace("other")
        first = world.push({"a.yaml": config_map("a")})
        sync = world.csync()
        sync.at(first)
        world.push({"b.yaml": config_map("b"), "secret.yaml": manifest("v1", "Secret", "s", stringData={"x": "1"})})
        sync.now()
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("kinds", "kind Secret"))
        assert ready["message"].endswith(f"it is about Secret {world.home}/s")
        world.push({"secret.yaml": None, "b.yaml": config_map("b", other)})
        sync.now()
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("destinationNamespaces", f"destination namespace {other}"))
        assert world.config_map(world.home, "b").look() is None
        assert world.config_map(other, "b").look() is None
        assert world.config_map(world.home, "a").data == {"a": "1"}
        last = world.push({"b.yaml": config_map("b")})
        sync.now()
        sync.at(last)


class TestRepositories:
    def test_a_repository_that_is_not_listed_is_never_called(self, world: GitWorld, govern: Govern) -> None:
        commit = world.push({"a.yaml": config_map("a")})
        policy = govern(repositories=["https://git.example.com/**"])
        sync = world.csync()
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("repositories", f"repository {world.url}"))
        assert world.server.checks(world.name) == 0
        policy.change(repositories=[world.url.rpartition("/")[0] + "/*"])
        sync.at(commit)

    def test_a_repository_is_asked_no_more_once_it_is_not_allowed(self, world: GitWorld, govern: Govern) -> None:
        commit = world.push({"a.yaml": config_map("a")})
        sync = world.csync(refreshInterval="10s")
        sync.at(commit)
        govern(repositories=[])
        sync.becomes("NotAllowed")
        asked = world.server.checks(world.name)
        world.push({"a.yaml": config_map("a", a="2")})
        sync.now()
        assert world.server.checks(world.name) == asked
        assert world.config_map(world.home, "a").data == {"a": "1"}

    def test_submodules_are_no_way_around_the_list(self, world: GitWorld, govern: Govern) -> None:
        commit = world.push({"a.yaml": config_map("a")})
        sync = world.csync(git={"submodules": True})
        sync.at(commit)
        policy = govern(repositories=[world.url])
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("repositories", "source.git.submodules"))


@pytest.fixture
def remote(sandbox: Sandbox) -> Remote:
    remote = Remote(sandbox)
    remote.allow("namespaces", "secrets")
    return remote


class TestClusters:
    BY_SECRET = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "edge"}}  # noqa: RUF012 - a constant

    def reaching(self, world: Manifests, connection: dict[str, Any], namespace: str) -> Sync:
        place = {"clusterName": "edge", "connection": connection, "namespaces": [namespace]}
        return world.msync("sync", world.secret(), targets={"remoteClusters": [place]})

    def test_a_kubeconfig_to_a_server_that_is_not_listed_leads_nowhere(
        self, world: GitWorld, govern: Govern, remote: Remote
    ) -> None:
        policy = govern(clusters={"servers": ["https://api.example.com:6443"]})
        world.make("Secret", name="edge", data=dict(remote.secret().data or {}))
        there = world.namespace("there")
        log = AuditLog(world.sandbox)
        mark = log.mark()
        sync = self.reaching(world, self.BY_SECRET, there)
        ready = sync.becomes("NotAllowed")
        assert policy.refusal("clusters.servers", f"API server {world.sandbox.server}") in ready["message"]
        assert log.entries(f"system:serviceaccount:{remote.namespace}:syncline", since=mark) == []
        policy.change(clusters={"servers": [world.sandbox.server]})
        world.find("Secret", there).holds(password="red")
        policy.change(clusters={})
        sync.becomes("NotAllowed")
        assert world.find("Secret", there).values == {"password": "red"}

    def test_a_tenants_own_synctarget_leads_only_to_servers_that_are_listed(
        self, world: GitWorld, govern: Govern, remote: Remote
    ) -> None:
        policy = govern(clusters={"syncTargets": ["{namespace}/*"]})
        world.make("Secret", name="edge", data=dict(remote.secret().data or {}))
        target = Thing(world.sandbox, f"/apis/{API_VERSION}/namespaces/{world.home}/synctargets", "edge")
        spec = {"connection": self.BY_SECRET}
        target.create({"apiVersion": API_VERSION, "kind": "SyncTarget", "metadata": {"name": "edge"}, "spec": spec})
        refused = until(
            lambda: conditions(target.read()).get("Ready", {}), lambda ready: ready.get("status") == "False"
        )
        assert refused["reason"] == "NotAllowed"
        assert refused["message"].startswith(policy.refusal("clusters.servers", f"API server {world.sandbox.server}"))
        sync = self.reaching(world, {"type": "SyncTarget", "syncTargetRef": {"name": "edge"}}, world.home)
        sync.becomes("NotAllowed")
        policy.change(clusters={"servers": [world.sandbox.server]})
        until(lambda: conditions(target.read())["Ready"], lambda ready: ready["status"] == "True")
        refusal = policy.refusal("clusters.syncTargets", f"SyncTarget {world.home}/edge")
        until(lambda: sync.message, lambda message: message.startswith(refusal))
        target.delete()


class TestKeyServices:
    def test_a_key_service_that_is_not_listed_is_not_asked(self, world: GitWorld, govern: Govern) -> None:
        policy = govern(keyServices=["gcp-kms", "https://vault.example.com:8200"])
        commit = world.push({"a.yaml": config_map("a")})
        world.secret("keys", **{"vault-token": "t", "vault-address": "https://vault.example.org:8200"})
        sync = world.csync(decryption={"provider": "SOPS", "secretRef": {"name": "keys"}})
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("keyServices", "key service vault at its address"))
        assert world.config_map(world.home, "a").look() is None
        policy.change(keyServices=["vault"])
        sync.at(commit)


class TestSelection:
    def test_a_namespace_that_gets_the_label_is_governed_at_once_and_one_that_loses_it_no_more(
        self, world: GitWorld, govern: Govern
    ) -> None:
        govern(labels={"tenant": world.name}, destinationNamespaces=[])
        world.source()
        target = world.namespace("a")
        sync = world.sync(destinationNamespace=target)
        sync.becomes("Synced")
        world.namespace_object(world.home).label(tenant=world.name)
        sync.becomes("NotAllowed")
        world.namespace_object(world.home).label(tenant=None)
        sync.becomes("Synced")

    def test_of_several_policies_all_hold(self, world: GitWorld, govern: Govern) -> None:
        target = world.namespace("a")
        world.source()
        sync = world.sync(destinationNamespace=target)
        sync.becomes("Synced")
        govern("-wide", destinationNamespaces=["*"])
        narrow = govern("-narrow", destinationNamespaces=[world.home])
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(narrow.refusal("destinationNamespaces", f"destination namespace {target}"))
        narrow.delete()
        sync.becomes("Synced")

    def test_a_policy_of_others_changes_nothing(self, world: GitWorld, govern: Govern) -> None:
        govern(labels={NAME_LABEL: "somewhere-else"}, kinds=[], destinationNamespaces=[])
        world.source()
        world.sync(destinationNamespace=world.namespace("a")).becomes("Synced")

    def test_a_sync_with_an_interval_does_not_wait_for_it_when_a_policy_changes(
        self, world: GitWorld, govern: Govern
    ) -> None:
        target = world.namespace("a")
        sync = world.msync("sync", world.secret(), into=[target], syncPolicy={"mode": "Interval", "interval": "24h"})
        sync.becomes("Synced", synced=1)
        govern(kinds=["ConfigMap"])
        sync.becomes("NotAllowed")


class TestTiming:
    def test_what_a_slow_repository_brings_is_judged_by_the_policy_that_holds_when_it_comes(
        self, world: GitWorld, govern: Govern
    ) -> None:
        mallory, account = Tenant(world, world.home), Account(world, "deployer")
        theirs = world.namespace("theirs")
        account.may(world.home, "secrets", "get")
        account.may(theirs, "configmaps", *ALL)
        policy = govern(destinationNamespaces=["{namespace}", theirs])
        world.push({"app.yaml": config_map("app", theirs, colour="red")})
        sync = mallory.sync("ConfigSync", "slow", serviceAccountName=account.name, source=world.git())
        sync.becomes("Synced", synced=1)
        world.server.hold(world.name)
        try:
            world.push({"app.yaml": config_map("app", theirs, colour="blue")})
            sync.annotate({REQUESTED_AT: "now"})
            until(lambda: world.server.waiting(world.name), bool)
            policy.change(destinationNamespaces=["{namespace}"])
            policy.becomes("InForce", namespaces=1)
            mark = world.mark()
        finally:
            world.server.release(world.name)
        ready = sync.becomes("NotAllowed")
        assert ready["message"].startswith(policy.refusal("destinationNamespaces", f"destination namespace {theirs}"))
        assert world.config_map(theirs).data == {"colour": "red"}
        assert [str(entry) for entry in world.requests(mark) if entry.changes and entry.namespace == theirs] == []


class TestStatus:
    def test_a_policy_tells_how_much_it_governs_and_is_then_quiet(self, world: GitWorld, govern: Govern) -> None:
        log = AuditLog(world.sandbox)
        policy = govern(labels={"tenant": world.name}, kinds=["ConfigMap"])
        ready = policy.becomes("NoNamespaces", namespaces=0, syncs=0)
        assert ready["status"] == "True"
        world.namespace_object(world.home).label(tenant=world.name)
        policy.becomes("InForce", namespaces=1, syncs=0)
        world.source()
        target = world.namespace("a", tenant=world.name)
        syncs = [world.sync(f"sync-{number}", destinationNamespace=target) for number in range(3)]
        policy.becomes("InForce", namespaces=2, syncs=3)
        mark = log.mark()
        for sync in syncs:
            sync.now()
        assert [str(one) for one in log.writes(OPERATOR, since=mark) if one.resource == PLURAL] == []
        syncs[0].delete()
        policy.becomes("InForce", namespaces=2, syncs=2)


@pytest.fixture
def newer(alone: Manifests) -> Iterator[Manifests]:
    """A cluster that has the CRDs of a newer version: a policy there can say what this operator does not know."""
    crd = next(one for one in deploy.crds() if one["metadata"]["name"] == f"{PLURAL}.{GROUP}")
    changed = copy.deepcopy(crd)
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["speed"] = {"type": "string"}
    path = f"{deploy.resource(crd).path(None, crd['metadata']['name'])}?fieldManager=syncline&force=true"
    alone.sandbox.request("PATCH", path, changed)
    body = {
        "apiVersion": API_VERSION,
        "kind": "TenantPolicy",
        "metadata": {"name": "tried"},
        "spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}, "speed": "low"},
    }

    def knows() -> bool:
        try:
            alone.sandbox.request("POST", f"/apis/{API_VERSION}/{PLURAL}?dryRun=All&fieldValidation=Strict", body)
        except RequestError:
            return False
        return True

    until(knows, bool)
    yield alone
    alone.sandbox.request("PATCH", path, crd)
    until(knows, lambda known: not known)


def test_a_policy_that_cannot_be_read_allows_nothing_to_its_namespaces_and_everything_to_others(
    newer: Manifests, quiet: Path
) -> None:
    other = Manifests(newer.sandbox)
    policy = Policy(newer, speed="low")
    for each in (newer, other):
        each.source()
    with OperatorProcess(quiet, "--watch-namespaces", f"{newer.home},{other.home}"):
        other.sync(destinationNamespace=other.namespace("a")).becomes("Synced")
        target = newer.namespace("a")
        sync = newer.sync(destinationNamespace=target)
        ready = sync.becomes("NotAllowed")
        cause = f"anything is not allowed by TenantPolicy {policy.name}: an administrator must correct the policy"
        assert ready["message"].startswith(cause)
        broken = policy.becomes("InvalidSpec", namespaces=1, syncs=1)
        assert broken["status"] == "False"
        assert "speed" in broken["message"]
        assert newer.config_map(target).look() is None
        policy.delete()
        sync.becomes("Synced")
    other.end_alone()
