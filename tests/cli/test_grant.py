"""Rights that people choose: profiles, the kinds that tenants write, and the command that a message names."""

import shlex
from collections.abc import Iterator

import pytest
import yaml
from tests.cli.conftest import Command
from tests.configmapsync.world import until
from tests.conftest import Apply
from tests.deploy.test_install import ROLES, may
from tests.manifestsync.world import Manifests, deployment_spec
from tests.tenancy.accounts import ALL, Account

from syncline import deploy
from syncline.cli import main
from syncline.core.profiles import PROFILES, READ, SHARES, WRITE
from syncline.sandbox import Sandbox
from syncline.testing.operator import chosen_profile

GRANTED = "labelSelector=syncline.dev/granted=true"


@pytest.fixture
def installation(sandbox: Sandbox, world: Manifests, apply: Apply) -> Iterator[Sandbox]:  # noqa: ARG001 - an operator runs
    """A cluster whose rights a test may change."""
    yield sandbox
    for plural in ("clusterrolebindings", "clusterroles"):
        for one in sandbox.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{plural}?{GRANTED}")["items"]:
            sandbox.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{plural}/{one['metadata']['name']}")
    profile = chosen_profile()
    apply(deploy.rbac(deploy.Choice(profile=profile)))
    until(lambda: may(sandbox, "create", "", "configmaps"), lambda allowed: allowed == (profile != "none"))
    until(lambda: may(sandbox, "create", "others.example", "anything"), lambda allowed: not allowed)


def rights(sandbox: Sandbox, resource: str) -> set[str]:
    """Return what the operator may do with a resource in all namespaces."""
    plural, _, group = resource.partition(".")
    return {verb for verb in WRITE if may(sandbox, verb, group, plural)}


def test_the_profile_of_an_installation_is_changed_both_ways(installation: Sandbox, syncline: Command) -> None:
    kinds = ("configmaps", "cronjobs.batch", "poddisruptionbudgets.policy", "limitranges")
    data = set(WRITE) - {"update"}
    expected = {
        "admin": [set(WRITE)] * 4,
        "none": [set(READ)] * 3 + [set()],
        "workloads": [data, set(WRITE), set(WRITE), set()],
        "config": [data, set(READ), set(READ), set()],
    }
    assert set(expected) == set(PROFILES)
    for profile, wanted in expected.items():
        told = syncline("install", "--without-deployment", "--rights", profile)
        assert f"the operator has the rights of profile {profile}: " in told
        until(lambda: [rights(installation, kind) for kind in kinds], lambda have: have == wanted)  # noqa: B023


def test_an_upgrade_keeps_the_profile_and_the_kinds_that_were_chosen(installation: Sandbox, syncline: Command) -> None:
    syncline("install", "--without-deployment", "--rights", "none", "--tenant-kinds", "cms,ManifestSync")
    told = syncline("install", "--without-deployment")
    assert "profile none: it writes nothing in its own name" in told
    edit = installation.request("GET", f"{ROLES}/syncline-edit")
    assert edit["rules"][0]["resources"] == ["configmapsyncs", "manifestsyncs"]
    core = installation.request("GET", f"{ROLES}/syncline-core")
    assert core["metadata"]["labels"]["syncline.dev/rights"] == "none"


def test_an_installation_keeps_its_image_when_none_is_given(installation: Sandbox, syncline: Command) -> None:
    path = f"/apis/apps/v1/namespaces/{deploy.NAMESPACE}/deployments/syncline"

    def image() -> str:
        return str(installation.request("GET", path)["spec"]["template"]["spec"]["containers"][0]["image"])

    try:
        syncline("install", "--image", "registry.example.com/syncline:7")
        assert "its image is registry.example.com/syncline:7" in syncline("install")
        assert image() == "registry.example.com/syncline:7"
        syncline("install", "--image", "syncline:0.0.1")  # the default of another version: not somebody's choice
        syncline("install")
        assert image() == deploy.IMAGE
    finally:
        installation.request("DELETE", path)


def test_whoever_installs_chooses_the_kinds_that_edit_and_admin_may_write(
    installation: Sandbox, syncline: Command
) -> None:
    def writable(role: str) -> set[str]:
        rules = installation.request("GET", f"{ROLES}/{role}")["rules"] or []
        ours = [rule for rule in rules if rule.get("apiGroups") == ["syncline.dev"] and "create" in rule["verbs"]]
        return {resource for rule in ours for resource in rule["resources"]}

    everything = set(deploy.Choice().tenant_kinds)
    for chosen, expected in (("configsyncs", {"configsyncs"}), ("none", set()), ("all", everything)):
        syncline("install", "--without-deployment", "--tenant-kinds", chosen)
        for role in ("edit", "admin"):
            until(lambda: writable(role), lambda found: found == expected)  # noqa: B023
        assert writable("syncline-write") == everything
    told = syncline("install", "--without-deployment", "--tenant-kinds", "cms,pods", code=1)
    assert "'pods' is not a kind of Syncline; write one of ConfigMapSync (cms)" in told


def test_manifests_of_any_profile_have_the_same_objects_so_that_applying_them_takes_rights_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def printed(*flags: str) -> list[deploy.Manifest]:
        assert main(["manifests", *flags]) == 0
        return list(yaml.safe_load_all(capsys.readouterr().out))

    def names(manifests: list[deploy.Manifest]) -> list[str]:
        return [f"{one['kind']} {one['metadata']['name']}" for one in manifests]

    shipped = names(printed())
    for profile in PROFILES:
        manifests = printed("--rights", profile, "--tenant-kinds", "none")
        assert names(manifests) == shipped
        rules = {one["metadata"]["name"]: one.get("rules") for one in manifests if one["kind"] == "ClusterRole"}
        for share in SHARES:
            assert bool(rules[share.role]) == bool(share.verbs_in(profile))
        assert rules["syncline-edit"] == []
        template = manifests[-1]["spec"]["template"]["metadata"]
        assert template["annotations"]["syncline.dev/rights"] == profile


def command_of(message: str) -> list[str]:
    """Return the arguments of the command that a message begins with."""
    assert message.startswith("run `syncline grant ")
    return shlex.split(message.split("`")[1])[1:]


@pytest.mark.own_rights
def test_a_kind_that_is_not_watched_is_told_with_the_command_that_grants_it(
    world: Manifests, installation: Sandbox, syncline: Command
) -> None:
    source = world.make("PodTemplate", template=deployment_spec()["template"])
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    command = command_of(sync.becomes("KindNotWatched")["message"])
    assert command == ["grant", "podtemplates"]
    assert syncline(*command) == "applied ClusterRole syncline-grant-podtemplates\n"
    sync.becomes("Synced", synced=1)
    assert rights(installation, "podtemplates") == set(WRITE)
    sync.delete()
    sync.gone()


def test_with_an_account_the_operator_is_only_given_the_right_to_read(
    world: Manifests, installation: Sandbox, account: Account, syncline: Command
) -> None:
    source = world.make("ReplicationController", spec={**deployment_spec(), "selector": {"app": "app"}, "replicas": 0})
    target = world.namespace("a")
    account.may(world.home, "replicationcontrollers", "get")
    sync = world.msync("sync", source, into=[target], serviceAccountName=account.name)
    first = command_of(sync.becomes("KindNotWatched")["message"])
    assert first == ["grant", "--read", "replicationcontrollers"]
    syncline(*first)
    second = command_of(sync.becomes("Forbidden", failed=1) and sync.target(target)["message"])
    assert second == ["grant", "replicationcontrollers", "--to", f"{world.home}/{account.name}", "-n", target]
    syncline(*second)
    sync.becomes("Synced", synced=1)
    assert rights(installation, "replicationcontrollers") == set(READ)
    sync.delete()
    sync.gone()


def test_a_usual_application_as_an_account_needs_no_rights_of_the_operator(world: Manifests, account: Account) -> None:
    source = world.make("Ingress", spec={"defaultBackend": {"service": {"name": "app", "port": {"number": 80}}}})
    target = world.namespace("a")
    account.may(world.home, "ingresses", "get")
    account.may(target, "ingresses", *ALL)
    sync = world.msync("sync", source, into=[target], serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)


@pytest.mark.own_rights
def test_a_usual_application_without_an_account_is_told_with_the_profile_that_writes_it(world: Manifests) -> None:
    source = world.make("Ingress", spec={"defaultBackend": {"service": {"name": "app", "port": {"number": 80}}}})
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target])
    message = sync.becomes("Forbidden", failed=1) and sync.target(target)["message"]
    assert message.startswith(
        "run `syncline grant ingresses.networking.k8s.io` or install with --rights workloads: "
        f"cannot create ingresses in namespace '{target}': 403 Forbidden"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("*",), "write one resource"),
        (("*.apps",), "write one resource"),
        (("secrets", "-n", "a"), "-n and -A need --to"),
        (("secrets", "--to", "robot", "-A"), "write NAMESPACE/ACCOUNT"),
        (("secrets", "--to", "a/robot"), "add -n NAMESPACE, or -A"),
    ],
)
def test_a_grant_that_cannot_be_meant_is_refused(syncline: Command, arguments: tuple[str, ...], told: str) -> None:
    assert told in syncline("grant", *arguments, code=1)
