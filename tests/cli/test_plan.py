"""`syncline plan` for syncs of any kind: what would be done where, and why."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.manifestsync.world import Json, Manifests, Object
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.policies import Policy

from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS, CONFIG_MAP_SYNC
from syncline.api.manifestsync import KIND
from syncline.cli import main

HEADER = ["ACTION", "CLUSTER", "KIND", "TARGET", "THEN", "WHY"]


def planned(told: str) -> dict[str, list[str]]:
    """Return the rows of the table, by the target."""
    lines = told.splitlines()
    assert lines[1].split() == HEADER
    return {line.split()[3]: line.split(maxsplit=5) for line in lines[2:-1]}


def manifest(world: Manifests, *sources: Object, into: list[str], **spec: object) -> str:
    refs = [source.ref for source in sources]
    spec = {"sourceRefs": refs, "targets": {"inCluster": {"namespaces": into}}, **spec}
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "sync", "namespace": world.home}}
    return json.dumps({**body, "spec": world.acting(spec)})


def test_plan_shows_the_kind_of_each_target(world: Manifests, syncline: Command) -> None:
    new, taken, missing = world.namespace("new"), world.namespace("taken"), f"{world.name}-missing"
    world.secret(name="key", namespace=taken, password="theirs")
    wanted = manifest(world, world.secret("key"), world.deployment(), into=[new, taken, missing])
    told = syncline("plan", "-f", "-", stdin=wanted, code=1)
    assert told.splitlines()[0] == f"ManifestSync {world.home}/sync"
    rows = planned(told)
    assert rows[f"{new}/key"] == [
        *("create", "-", "Secret", f"{new}/key", "Synced", "the target has no such object"),
    ]
    assert rows[f"{new}/app"][:3] == ["create", "-", "Deployment.apps"]
    assert rows[f"{taken}/key"][0] == "leave"
    assert "is not ours; delete it, or set resourceManagementPolicy" in rows[f"{taken}/key"][5]
    assert rows[f"{missing}/app"][::4] == ["-", "Pending"]
    assert told.splitlines()[-1] == "3 to create, 3 cannot be done"
    assert world.find("Secret", new, "key").look() is None


def test_plan_of_an_edit_shows_what_follows_the_source_and_what_is_let_go(world: Manifests, syncline: Command) -> None:
    source = world.deployment()
    stays, leaves = world.namespaces("stays", "leaves")
    sync = world.msync("sync", source, into=[stays, leaves])
    sync.becomes("Synced")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.put("spec", "replicas", value=5)
    rows = planned(syncline("plan", "-f", "-", stdin=manifest(world, source, into=[stays])))
    assert rows[f"{stays}/app"][0] == "update"
    assert rows[f"{leaves}/app"][0] == "delete"
    assert world.find("Deployment", stays).at("spec", "replicas") == 2


def test_plan_says_what_to_do_about_a_kind_that_is_not_served(world: Manifests, syncline: Command) -> None:
    unknown = Object(world.sandbox, "Widget", world.home, "app", ("none.example.com/v1", "widgets"))
    told = syncline("plan", "-f", "-", stdin=manifest(world, unknown, into=[world.namespace("a")]), code=1)
    assert "KindNotServed: " in told.splitlines()[-1]
    assert "nothing to do" not in told


@pytest.mark.own_rights
def test_plan_takes_the_flags_that_the_operator_has(world: Manifests, syncline: Command) -> None:
    secret = world.secret()
    closed, target = world.namespaces("closed", "open")
    wanted = manifest(world, secret, into=[f"{world.name}-*"])
    assert f"{closed}/app" in planned(syncline("plan", "-f", "-", stdin=wanted))
    rows = planned(syncline("plan", "-f", "-", "--protect-namespaces", f"*-closed,{world.home}", stdin=wanted))
    assert set(rows) == {f"{target}/app"}
    told = syncline("plan", "-f", "-", "--require-service-account", stdin=wanted, code=1)
    assert "AccountRequired: this operator acts only as service accounts" in told


def test_a_plan_that_can_be_carried_out_says_so_and_a_plan_of_nothing_too(world: Manifests, syncline: Command) -> None:
    target = world.namespace("a")
    wanted = manifest(world, world.secret("key"), into=[target])
    assert syncline("plan", "-f", "-", stdin=wanted).splitlines()[-1] == "1 to create"
    nowhere = manifest(world, world.secret("other"), into=[f"{world.name}-none-*"])
    told = syncline("plan", "-f", "-", stdin=nowhere).splitlines()
    assert told[-2].startswith(f"note: no namespace to write to matches {world.name}-none-*")
    assert told[-1] == "nothing to do"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("prunee", "there is no field spec.prunee: did you mean spec.prune?"),
        ("targets.inCluster.namespace", "did you mean spec.targets.inCluster.namespaces?"),
        ("sourceRefs.0.nam", "there is no field spec.sourceRefs[0].nam: did you mean spec.sourceRefs[0].name?"),
        ("xyzzy", "there is no field spec.xyzzy"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "diff"])
def test_a_field_that_does_not_exist_is_refused_with_the_one_that_was_meant(
    world: Manifests, syncline: Command, command: str, path: str, told: str
) -> None:
    source = world.secret("key")
    if command == "diff":  # of a sync that exists
        world.msync("sync", source, into=[world.namespace("a")]).becomes("Synced")
    body: Json = json.loads(manifest(world, source, into=[world.namespace("b")]))
    *way, last = path.split(".")
    place = body["spec"]
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = "x"
    said = syncline(command, "-f", "-", stdin=json.dumps(body), code=2)
    assert said.startswith(f"syncline: ManifestSync {world.home}/sync: ")
    assert told in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{apiVersion: syncline.dev/v1alpha1, kind: ConfigSink, metadata: {name: a}}",
            "- there is no kind ConfigSink of syncline.dev/v1alpha1: did you mean ConfigSync?",
        ),
        (
            "{apiVersion: syncline.dev/v1, kind: ConfigSync, metadata: {name: a}}",
            "there is no apiVersion syncline.dev/v1: write syncline.dev/v1alpha1",
        ),
        ("spec: {}\nkind: ConfigSync\nspec: {}", "'spec' is duplicate"),
    ],
    ids=["kind", "version", "twice"],
)
def test_a_file_that_would_be_passed_over_in_silence_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    assert main(["plan", "-f", str(file)]) == 2
    assert told.removeprefix("- ") in capsys.readouterr().err


@pytest.mark.own_rights
def test_a_kind_that_the_operator_may_not_watch_is_not_promised(world: Manifests, syncline: Command) -> None:
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    source = world.make("LimitRange", name="limits", spec=limits)
    target = world.namespace("a")
    told = syncline("plan", "-f", "-", stdin=manifest(world, source, into=[target]), code=1)
    row = planned(told)[f"{target}/limits"]
    assert row[::4] == ["-", "Failed"]
    assert row[5].startswith("run `syncline grant limitranges`: ")
    assert row[5].endswith("syncline-system:syncline may not get, list, watch limitranges in all namespaces")
    assert told.splitlines()[-1] == "1 cannot be done"
    shown = syncline("diff", "-f", "-", stdin=manifest(world, source, into=[target]), code=2)
    assert f"# Failed: LimitRange {target}/limits: run `syncline grant limitranges`: " in shown
    other = syncline(
        "plan", "-f", "-", "--operator-user", "kubernetes-admin", stdin=manifest(world, source, into=[target]), code=1
    )
    assert "kubernetes-admin may not" in other


def test_what_the_account_of_a_sync_may_not_write_is_not_promised(
    world: Manifests, syncline: Command, account: Account
) -> None:
    open_, closed = world.namespaces("open", "closed")
    source = world.secret("key")
    account.may(world.home, "secrets", "get")
    account.may(open_, "secrets", *ALL)
    wanted = manifest(world, source, into=[open_, closed], serviceAccountName=account.name)
    rows = planned(syncline("plan", "-f", "-", stdin=wanted, code=1))
    assert rows[f"{open_}/key"][0] == "create"
    assert rows[f"{closed}/key"][::4] == ["-", "Failed"]
    assert rows[f"{closed}/key"][5] == (
        f"run `syncline grant secrets --to {world.home}/{account.name} -n {closed}`: "
        f"{account.user} may not create secrets in namespace '{closed}'"
    )


def test_whoever_may_not_ask_for_the_rights_of_the_operator_is_told_that_they_were_not_checked(
    world: Manifests, account: Account, syncline: Command
) -> None:
    target = world.namespace("a")
    world.source()
    for resource in ("namespaces", "configmaps", *(kind.plural for kind in ALL_KINDS)):
        account.may("", resource, "get", "list", "watch")
    for namespace in (world.home, target):
        account.may(namespace, "configmaps", *ALL)
    account.may(world.home, CONFIG_MAP_SYNC.plural, "create")
    token = world.sandbox.request(
        "POST",
        f"/api/v1/namespaces/{world.home}/serviceaccounts/{account.name}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}},
    )["status"]["token"]
    spec = {"sourceNamespace": world.home, "configMapName": "app", "destinationNamespace": target}
    body = {"apiVersion": API_VERSION, "kind": CONFIG_MAP_SYNC.kind, "metadata": {"name": "maps"}, "spec": spec}
    kubeconfig = world.sandbox.kubeconfig_for(token, account.name)
    told = syncline("plan", "-f", "-", "-n", world.home, stdin=json.dumps(body), kubeconfig=kubeconfig).splitlines()
    assert told[-3] == "1 to create"
    operator = "system:serviceaccount:syncline-system:syncline"
    assert told[-2].startswith(f"note: the rights of {operator} were not checked: cannot create subjectaccessreviews")
    assert told[-1].startswith("note: the signatures of markers were not checked: you may not read the Secret")


def test_plan_tells_what_a_tenant_policy_does_not_allow(world: Manifests, syncline: Command) -> None:
    mine, theirs = world.namespaces("mine", "theirs")
    policy = Policy(world, destinationNamespaces=[mine])
    try:
        wanted = manifest(world, world.secret(), into=[f"{world.name}-mi*", f"{world.name}-th*"])
        rows = planned(syncline("plan", "-f", "-", stdin=wanted, code=1))
    finally:
        policy.delete()
    assert rows[f"{mine}/app"][0] == "create"
    assert policy.refusal("destinationNamespaces", f"destination namespace {theirs}") in rows[f"{theirs}/app"][5]
