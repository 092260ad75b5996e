"""`syncline get`: readable tables over all kinds, and one object in full."""

import json

import pytest
from tests.cli.conftest import Command
from tests.configmapsync.world import Thing
from tests.manifestsync.world import Manifests
from tests.tenancy.policies import Policy

from syncline.api.common import API_VERSION
from syncline.cli import main
from syncline.cli.details import age


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell.strip()]


def rows(told: str) -> list[list[str]]:
    return [[cell.strip() for cell in cells(line)] for line in told.splitlines() if line]


def test_get_lists_the_syncs_of_all_kinds_and_the_clusters(world: Manifests, syncline: Command) -> None:
    source, secret = world.source(), world.secret()
    target, taken = world.namespaces("a", "taken")
    world.put(taken, theirs="1")
    world.sync("maps", destinationNamespaces=[target, taken]).becomes("NotOurs")
    world.msync("secrets", secret, into=[target]).becomes("Synced")
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "none"}}
    folder = f"/apis/{API_VERSION}/namespaces/{world.home}/synctargets"
    Thing(world.sandbox, folder, "edge").create(
        {
            "apiVersion": API_VERSION,
            "kind": "SyncTarget",
            "metadata": {"name": "edge"},
            "spec": {"connection": connection},
        }
    )
    told = rows(syncline("get", "-n", world.home))
    assert told[0] == ["KIND", "NAMESPACE", "NAME", "SOURCE", "TARGETS", "READY", "REASON", "AGE"]
    assert told[1][:-1] == [
        *("ConfigMapSync", world.home, "maps", f"{world.home}/{source.name}", "1/2", "False", "NotOurs")
    ]
    assert told[2][:-1] == [
        *("ManifestSync", world.home, "secrets", f"Secret {world.home}/app", "1/1", "True", "Synced")
    ]
    assert told[3] == ["KIND", "NAMESPACE", "NAME", "VERSION", "EXPIRES", "RESOURCES", "READY", "REASON", "AGE"]
    assert told[4][:3] == ["SyncTarget", world.home, "edge"]


@pytest.mark.parametrize("kind", ["msync", "ManifestSync", "manifestsyncs", "manifestsyncs.syncline.dev"])
def test_get_takes_every_name_of_a_kind(world: Manifests, syncline: Command, kind: str) -> None:
    target = world.namespace("a")
    world.source()
    world.sync("maps", destinationNamespace=target).becomes("Synced")
    world.msync("secrets", world.secret(), into=[target]).becomes("Synced")
    everywhere = rows(syncline("get", kind, "-A"))
    mine = [row[:3] for row in everywhere if row[1] == world.home]
    assert mine == [["ManifestSync", world.home, "secrets"]]


def test_get_shows_one_sync_in_full(world: Manifests, syncline: Command) -> None:
    secret = world.secret()
    target, taken, missing = world.namespace("a"), world.namespace("taken"), f"{world.name}-missing"
    world.secret(namespace=taken, password="theirs")
    world.msync("secrets", secret, into=[target, taken, missing]).becomes("TargetsNotSynced")
    told = syncline("get", "msync", "secrets", "-n", world.home)
    lines = rows(told)
    assert lines[0] == [f"ManifestSync {world.home}/secrets"]
    assert ["Targets: 1/3 synced, 1 conflicted, 1 pending"] in [[" ".join(" ".join(row).split())] for row in lines]
    header = lines.index(["CLUSTER", "KIND", "NAMESPACE", "NAME", "STATUS", "WHY", "WHEN"])
    places = {row[2]: row for row in lines[header + 1 : header + 4]}
    assert places[target][:2] == ["-", "Secret"]
    assert places[target][3:6] == ["app", "Synced", "-"]
    assert places[target][6].endswith(" ago")
    assert places[taken][4] == "Conflict"
    assert places[taken][5].startswith("NotOurs: an object of this name exists and is not ours; delete it, or set")
    assert places[missing][4:6] == [
        *("Pending", f"NamespaceNotFound: namespace '{missing}' does not exist; it gets its copy when it is created")
    ]
    conditions = {row[0]: row for row in lines[lines.index(["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]) :]}
    assert conditions["Ready"][1:3] == ["False", "TargetsNotSynced"]
    assert conditions["Degraded"][1] == "True"
    history = lines.index(["WHEN", "REVISION", "RESULT", "CHANGES", "WHY"])
    assert lines[history + 1][2:4] == ["Conflict", "1 created"]
    assert lines[history + 1][4].startswith("TargetsNotSynced: 2 of 3 targets not in agreement: ")


def test_get_shows_a_cluster_and_whose_syncs_may_use_it(world: Manifests, syncline: Command) -> None:
    connection = {"type": "KubeconfigSecret", "kubeconfigSecretRef": {"name": "none"}}
    thing = Thing(world.sandbox, f"/apis/{API_VERSION}/namespaces/{world.home}/synctargets", "edge")
    body = {"connection": connection, "allowedNamespaces": ["team-*"], "unschedulable": True}
    thing.create({"apiVersion": API_VERSION, "kind": "SyncTarget", "metadata": {"name": "edge"}, "spec": body})
    told = [" ".join(row) for row in rows(syncline("get", "st/edge", "-n", world.home))]
    assert told[0] == f"SyncTarget {world.home}/edge"
    assert any(line.split() == ["For", "syncs", "of:", "team-*"] for line in told)
    assert any(line.startswith("Unschedulable:") for line in told)


def test_get_prints_the_objects_as_json(world: Manifests, syncline: Command) -> None:
    target = world.namespace("a")
    world.source()
    world.sync("maps", destinationNamespace=target).becomes("Synced")
    one = json.loads(syncline("get", "cms/maps", "-n", world.home, "-o", "json"))
    assert (one["kind"], one["metadata"]["name"]) == ("ConfigMapSync", "maps")
    assert one["status"]["targets"]["summary"] == "1/1"
    assert "managedFields" not in one["metadata"]
    many = json.loads(syncline("get", "-n", world.home, "-o", "json"))
    assert many["kind"] == "List"
    assert [item["metadata"]["name"] for item in many["items"]] == ["maps"]


def test_get_says_where_nothing_is(world: Manifests, syncline: Command) -> None:
    assert syncline("get", "-n", world.home) == f"nothing found in namespace {world.home}; -A lists all namespaces\n"
    told = syncline("get", "cms", "none", "-n", world.home, code=1)
    assert told == f"syncline: there is no ConfigMapSync none in namespace {world.home}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["deployment", "a"],
            "'deployment' is not a kind of Syncline; write one of ConfigMapSync (cms), ManifestSync (msync)",
        ),
        (["cms/a", "b"], "write either cms/a or a kind and a name, not both"),
        (["cms/"], "write KIND/NAME with both parts"),
        (["cms", "a", "-A"], "-A cannot be combined with NAME: write -n NAMESPACE instead"),
    ],
    ids=["unknown kind", "two names", "no name", "everywhere"],
)
def test_get_refuses_what_makes_no_sense_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["get", *arguments]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err.startswith(f"syncline: {message}")


def test_ages_are_told_as_kubectl_tells_them() -> None:
    assert age("2001-01-01T00:00:00Z").endswith("d")
    assert age("") == "-"
    assert age("not a time") == "-"


def test_get_shows_what_the_tenants_of_a_policy_may_do(world: Manifests, syncline: Command) -> None:
    policy = Policy(
        world,
        serviceAccount={"default": "robot", "allowed": ["deploy-*"]},
        repositories=["https://git.example.com/**"],
        clusters={"syncTargets": ["platform/*"]},
        kinds=[],
        quotas={"syncs": 5, "buildSecondsPerHour": 60},
    )
    policy.becomes("InForce", namespaces=1)
    try:
        [row] = [row for row in rows(syncline("get", "tp")) if row[2] == policy.name]
        assert row[:-1] == ["TenantPolicy", "-", policy.name, "1", "0", "True", "InForce"]
        told = syncline("get", f"tenantpolicy/{policy.name}")
    finally:
        policy.delete()
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert lines[:9] == [
        f"TenantPolicy {policy.name}",
        f"Namespaces with: kubernetes.io/metadata.name={world.home} (1 now, with 0 syncs)",
        "Service account: default robot; allowed deploy-*",
        "Repositories: https://git.example.com/**",
        "Other clusters: platform/*",
        "Destinations: any",
        "Kinds: none",
        "Key services: any",
        "In each namespace: at most 5 syncs, 60 seconds of builds in an hour",
    ]


def test_get_without_a_kind_shows_no_policies(world: Manifests, syncline: Command) -> None:
    policy = Policy(world, kinds=[])
    try:
        assert policy.name not in syncline("get", "-A")
    finally:
        policy.delete()
