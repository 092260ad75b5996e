"""Attacks on claims, quotas and lists of a policy, by somebody with `edit` in one namespace that a policy governs."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.configmapsync.world import Json, Sync, conditions, until
from tests.configsync.conftest import world
from tests.configsync.world import GitWorld, config_map, manifest
from tests.ignitionsync.world import MAPPINGS
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.policies import NAME_LABEL, Govern, Policy
from tests.tenancy.tenants import Tenant

from syncline.core.ownership import RECONCILE
from syncline.sandbox import RequestError

__all__ = ["world"]


@pytest.fixture
def mallory(world: GitWorld) -> Tenant:
    # Syncs of one second are ordered by name: those of this namespace are always older than those at home.
    return Tenant(world, world.namespace("a-mallory"))


@pytest.fixture
def robot(world: GitWorld, mallory: Tenant) -> Account:
    """An account of mallory's namespace, with the rights that she has there."""
    robot = Account(world, mallory.account("robot"), home=mallory.namespace)
    robot.may(mallory.namespace, "configmaps", *ALL)
    robot.may(mallory.namespace, "secrets", *ALL)
    mallory.create("v1", "Secret", "secrets", "git-ca", stringData={"ca.crt": world.server.ca.decode()})
    return robot


@pytest.fixture
def govern(world: GitWorld, mallory: Tenant) -> Iterator[Govern]:
    """Write policies over mallory's namespace, for the time of the test."""
    written: list[Policy] = []

    def write(**spec: Any) -> Policy:
        written.append(Policy(world, labels={NAME_LABEL: mallory.namespace}, **spec))
        return written[-1]

    yield write
    for policy in written:
        policy.delete()


def end_of(sync: Sync) -> str:
    """Wait until a sync is ready or not, and return the reason."""

    def ended(body: Json) -> str:
        ready = conditions(body).get("Ready", {})
        return str(ready["reason"]) if ready.get("status") in ("True", "False") else ""

    return ended(until(sync.read, ended))


class TestClaims:
    """A claim ends when its sync can no longer be carried out, whatever keeps the sync."""

    @pytest.fixture
    def target(self, world: GitWorld, robot: Account) -> str:
        target = world.namespace("victim")
        robot.may(target, "configmaps", *ALL)
        return target

    @pytest.fixture
    def squatter(self, mallory: Tenant, robot: Account, target: str) -> Sync:
        source = {"sourceNamespace": mallory.namespace, "configMapName": "missing", "serviceAccountName": robot.name}
        squatter = mallory.sync("ConfigMapSync", "a", destinationNamespace=target, destinationName="app", **source)
        squatter.becomes("SourceNotFound")
        return squatter

    @pytest.fixture
    def victim(self, world: GitWorld, squatter: Sync, target: str) -> Sync:  # noqa: ARG002 - it is older
        world.source()
        victim = world.sync("victim", destinationNamespace=target)
        victim.becomes("ClaimedByOther", conflicted=1)
        return victim

    def test_a_sync_that_is_suspended_claims_nothing(self, victim: Sync, squatter: Sync) -> None:
        squatter.edit(lambda body: body["spec"].update(suspend=True))
        victim.becomes("Synced", synced=1)

    def test_a_deleted_sync_with_a_finalizer_of_its_author_claims_nothing(self, victim: Sync, squatter: Sync) -> None:
        squatter.edit(lambda body: body["metadata"]["finalizers"].append("example.com/stays"))
        squatter.delete()
        victim.becomes("Synced", synced=1)
        squatter.release()

    def test_a_sync_above_a_quota_claims_nothing(self, victim: Sync, squatter: Sync, govern: Govern) -> None:
        govern(quotas={"syncs": 0})
        squatter.becomes("NotAllowed")
        victim.becomes("Synced", synced=1)

    def test_a_sync_that_takes_another_name_leaves_the_former_one(self, victim: Sync, squatter: Sync) -> None:
        for name in ("b", "c", "d"):
            squatter.edit(lambda body: body["spec"].update(destinationName=name))  # noqa: B023 - called at once
        victim.becomes("Synced", synced=1)

    def test_a_manifestsync_without_rights_claims_nothing(self, world: GitWorld, mallory: Tenant) -> None:
        target = world.namespace("victim")
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "missing"}
        into = {"inCluster": {"namespaces": [target]}}
        account = mallory.account()
        squatter = mallory.sync(
            "ManifestSync", "a", serviceAccountName=account, sourceRef=ref, targetName="app", targets=into
        )
        squatter.becomes("SourceForbidden")
        world.source()
        world.sync("victim", destinationNamespace=target).becomes("Synced", synced=1)


def laborious(number: int) -> str:
    """Return jsonnet that takes a moment to build, and comes to a ConfigMap."""
    work = "if std.foldl(function(a, b) a + b, std.range(1, 50000), 0) < 0 then 'sum'"
    return f"{{apiVersion: 'v1', kind: 'ConfigMap', metadata: {{name: 'a'}}, data: {{n: '{number}', [{work}]: ''}}}}"


def test_build_seconds_are_not_forgotten_with_a_sync(
    world: GitWorld, mallory: Tenant, robot: Account, govern: Govern
) -> None:
    policy = govern(quotas={"buildSecondsPerHour": 1})
    world.push({"app/main.jsonnet": laborious(0)})
    spec = {"serviceAccountName": robot.name, "source": world.git(path="app"), "build": {"jsonnet": {}}}
    sync = mallory.sync("ConfigSync", "first", **spec)
    pushed = iter(range(1, 10_000))

    def push() -> str:
        world.push({"app/main.jsonnet": laborious(next(pushed))})
        sync.now()
        return sync.message

    until(push, lambda said: "quotas.buildSecondsPerHour" in said)
    sync.delete()
    sync.gone()
    for name in ("first", "second"):
        message = mallory.sync("ConfigSync", name, **spec).becomes("NotAllowed")["message"]
        what = f"to build for more than 1 s an hour in namespace {mallory.namespace}"
        assert message.startswith(policy.refusal("quotas.buildSecondsPerHour", what))


class TestCopiesThatAreLeft:
    """A copy counts for the quota of targets while it is the sync's, also where the sync no longer wants it."""

    @pytest.fixture
    def targets(self, world: GitWorld, robot: Account) -> list[str]:
        targets = world.namespaces("a", "b")
        for target in targets:
            robot.may(target, "configmaps", *ALL)
        return targets

    @pytest.fixture
    def policy(self, mallory: Tenant, govern: Govern) -> Policy:
        mallory.create("v1", "ConfigMap", "configmaps", "source", data={"a": "1"})
        return govern(quotas={"targets": 3})

    def sync(self, mallory: Tenant, robot: Account, targets: list[str], **spec: Any) -> Sync:
        source = {"sourceNamespace": mallory.namespace, "configMapName": "source", "serviceAccountName": robot.name}
        sync = mallory.sync("ConfigMapSync", "a", destinationNamespaces=targets, destinationName="x", **source, **spec)
        sync.becomes("Synced", synced=2)
        return sync

    def is_refused(self, world: GitWorld, sync: Sync, policy: Policy, targets: list[str]) -> None:
        what = f"to have 4 targets here and more than 3 in all of namespace {sync.namespace}"
        assert sync.becomes("NotAllowed")["message"].startswith(policy.refusal("quotas.targets", what))
        assert [world.config_map(target, "y").look() for target in targets] == [None, None]

    def test_a_sync_that_prunes_nothing_has_no_more_copies_after_it_was_renamed(
        self, world: GitWorld, mallory: Tenant, robot: Account, targets: list[str], policy: Policy
    ) -> None:
        sync = self.sync(mallory, robot, targets, prune=False)
        sync.change(destinationName="y")
        self.is_refused(world, sync, policy, targets)
        sync.change(prune=True)
        world.config_map(targets[0], "x").gone()
        sync.becomes("Synced", synced=2)

    def test_a_sync_whose_copies_are_annotated_to_stay_has_no_more_after_it_was_renamed(
        self, world: GitWorld, mallory: Tenant, robot: Account, targets: list[str], policy: Policy
    ) -> None:
        sync = self.sync(mallory, robot, targets)
        for target in targets:
            world.config_map(target, "x").annotate({RECONCILE: "Disabled"})
        until(lambda: sync.counts, lambda counts: counts.get("skipped") == len(targets))
        sync.change(destinationName="y")
        self.is_refused(world, sync, policy, targets)


def test_no_spelling_leads_to_a_repository_that_is_not_listed(
    world: GitWorld, mallory: Tenant, robot: Account, govern: Govern
) -> None:
    world.push({"a.yaml": config_map("a")})
    base, _, name = world.url.rpartition("/")
    host = base.removeprefix("https://")
    address, _, port = host.rpartition(":")
    govern(repositories=[f"{base}/team/**", f"{base}/team-*/**"])
    tricks = [
        *(f"{base}/{path}{name}" for path in ("", "/", "./", "team/../", "team-a/../", "team/./../", "team//../")),
        *(f"{base}/team/{up}/{name}" for up in ("%2e%2e", ".%2E", "%252e%252e", "..%2f", "..;", "%2E%2E%2F")),
        *(f"{base}/{name}{end}" for end in ("/", ".git", "#/team/x", "?/team/x", ";/team/x", "%00/team/x")),
        *(f"https://{at}/team/x" for at in (f"team@{host}", f"{host}\\@{host}", f"127.1:{port}", f"2130706433:{port}")),
        *(f"https://{at}/{name}" for at in (f"{host}@{host}", f"{address}.:{port}", f"[::ffff:127.0.0.1]:{port}")),
        *(f"{scheme}{host}/team/../{name}" for scheme in ("HTTPS://", "http://", "ssh://git@", "file://", "ext::")),
        f"git@{address}:team/../{name}",
        f"{address}:team/x",
    ]
    syncs: list[Sync] = []
    for number, url in enumerate(tricks):
        git = {"repo": url, "caSecretRef": {"name": "git-ca"}}
        gateway: Json = {
            "git": {**git, "ref": "main"},
            "gateway": {"apiKeySecretRef": {"name": "gw", "key": "apiKey"}},
            "sync": {"profiles": {"default": {"mappings": MAPPINGS}}},
        }
        for kind, spec in (("ConfigSync", {"source": {"git": git}}), ("IgnitionSync", gateway)):
            with suppress(RequestError):
                syncs.append(mallory.sync(kind, f"trick-{number}", serviceAccountName=robot.name, **spec))
    assert len(syncs) > len(tricks) // 2
    assert {end_of(sync) for sync in syncs} == {"NotAllowed"}
    assert world.server.checks(name) == 0


def test_nothing_leads_to_namespaces_and_kinds_that_are_not_listed(
    world: GitWorld, mallory: Tenant, robot: Account, govern: Govern
) -> None:
    """The account may write all of it: only the policy forbids it."""
    victim = world.namespace("victim")
    for resource in ("secrets", "configmaps"):
        robot.may(victim, resource, *ALL)
    secret, there = manifest("v1", "Secret", "x", stringData={"a": "1"}), config_map("x", victim)
    contents: dict[str, Json] = {
        "plain": there,
        "list": _list(config_map("y"), there),
        "nested": _list(_list(secret)),
        "typed": {**_list(secret), "kind": "SecretList"},
        "case": {**secret, "kind": "secret"},
        "space": {**secret, "kind": "Secret "},
        "version": {**secret, "apiVersion": "/v1"},
        "source": config_map("x"),
    }
    for name, content in contents.items():
        mallory.create("v1", "ConfigMap", "configmaps", name, data={"a.yaml": json.dumps(content)})
    mallory.create("v1", "Secret", "secrets", "source", stringData={"a": "1"})
    govern(destinationNamespaces=["{namespace}"], kinds=["ConfigMap"])
    copied = {"sourceNamespace": mallory.namespace, "configMapName": "source", "destinationName": "x"}
    ref, here = {"apiVersion": "v1", "kind": "Secret", "name": "source"}, {"inCluster": {"namespaces": [victim]}}
    attempts: list[tuple[str, Json]] = [
        *(("ConfigSync", {"source": {"configMapRef": {"name": name}}}) for name in contents if name != "source"),
        ("ConfigSync", {"source": {"configMapRef": {"name": "source"}}, "environments": [_environment(victim)]}),
        ("ConfigMapSync", {**copied, "destinationNamespaces": ["*"], "excludeNamespaces": [mallory.namespace]}),
        ("ConfigMapSync", {**copied, "destinationNamespaces": [f"{victim[:-1]}?"]}),
        ("ConfigMapSync", {**copied, "destinationNamespaceSelector": {"matchLabels": {NAME_LABEL: victim}}}),
        ("ManifestSync", {"sourceRef": ref, "targets": here}),
        ("ManifestSync", {"sourceRef": {**ref, "apiVersion": "/v1"}, "targets": here}),
        ("ManifestSync", {"sourceRef": {**ref, "kind": "ConfigMap"}, "targets": here}),
    ]
    syncs: list[Sync] = []
    for number, (kind, spec) in enumerate(attempts):
        with suppress(RequestError):
            syncs.append(mallory.sync(kind, f"try-{number}", serviceAccountName=robot.name, **spec))
    assert {end_of(sync) for sync in syncs} == {"NotAllowed", "InvalidManifest"}
    for plural in ("configmaps", "secrets"):
        assert world.sandbox.request("GET", f"/api/v1/namespaces/{victim}/{plural}")["items"] == []
    assert world.find("Secret", mallory.namespace, "x").look() is None


def _list(*items: Json) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def _environment(namespace: str) -> Json:
    return {"name": "e", "namespace": namespace}
