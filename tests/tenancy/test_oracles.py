"""An account learns nothing of objects, namespaces and syncs that it may not read: one answer for all of them."""

import json
from collections.abc import Iterator

import pytest
from tests.configmapsync.world import Json, Sync, Thing, World, until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.tenants import Tenant

from syncline.api.common import API_VERSION


@pytest.fixture
def mallory(world: Manifests) -> Tenant:
    return Tenant(world, world.namespace("mallory"))


@pytest.fixture
def nobody(world: Manifests, mallory: Tenant) -> Iterator[Account]:
    """An account of mallory's that may read what is hers, and nothing else."""
    account = Account(world, mallory.account(), home=mallory.namespace)
    for resource in ("configmaps", "secrets"):
        account.may(mallory.namespace, resource, "get")
    yield account
    account.end()


@pytest.fixture
def victim(world: Manifests) -> str:
    return world.namespace("victim")


def told(sync: Sync, *names: str) -> str:
    """Return all that a sync says when it has come to rest, with one word for the names that it was asked about."""

    def parts(body: Json) -> list[object]:
        status = body.get("status", {})
        conditions = [
            {part: one.get(part) for part in ("type", "status", "reason", "message")}
            for one in status.get("conditions", [])
        ]
        targets = [{**one, "lastSyncTime": ""} for one in status.get("targetStatuses", [])]
        return [conditions, status.get("targets"), targets, status.get("plan")]

    def is_done(body: Json) -> bool:
        generations = {one.get("observedGeneration") for one in body.get("status", {}).get("conditions", [])}
        return generations == {body["metadata"]["generation"]}

    text = json.dumps(parts(until(sync.read, is_done)), sort_keys=True)
    for name in names:
        text = text.replace(name, "IT")
    return text


def probe(mallory: Tenant, kind: str, name: str, **spec: object) -> Sync:
    """Have mallory ask about a Secret or ConfigMap `name`, by a sync as an account that may nothing."""
    return mallory.sync(kind, f"probe-{name}", serviceAccountName="nobody", **spec)


@pytest.mark.usefixtures("nobody")
def test_a_secret_that_a_sync_of_others_manages_is_told_like_one_that_is_not_there(
    world: Manifests, mallory: Tenant, victim: str
) -> None:
    mallory.create("v1", "Secret", "secrets", "mine", stringData={"a": "b"})
    world.msync("payroll-rollout", world.secret("payroll-key"), into=[victim]).becomes("Synced", synced=1)
    world.make("Secret", victim, "foreign-key")
    answers = set()
    for name in ("payroll-key", "foreign-key", "missing-key"):
        source = {"apiVersion": "v1", "kind": "Secret", "name": "mine"}
        sync = probe(
            mallory,
            "ManifestSync",
            name,
            sourceRef=source,
            targetName=name,
            targets={"inCluster": {"namespaces": [victim]}},
        )
        sync.becomes("Forbidden", failed=1)
        answers.add(told(sync, name))
    assert len(answers) == 1
    assert "payroll-rollout" not in answers.pop()


def test_an_account_that_may_read_an_object_is_told_whose_it_is(
    world: Manifests, account: Account, victim: str
) -> None:
    world.source()
    world.source("other")
    world.sync("owner", destinationNamespace=victim, destinationName="shared").becomes("Synced", synced=1)
    account.may(world.home, "configmaps", "get")
    account.may(victim, "configmaps", "get")
    sync = world.sync(
        configMapName="other", destinationNamespace=victim, destinationName="shared", serviceAccountName=account.name
    )
    ready = sync.becomes("OwnedByOther", conflicted=1)
    assert f"belongs to ConfigMapSync/{world.home}/owner" in ready["message"]


def test_the_sync_with_the_better_claim_is_named_only_to_who_may_read_it(
    world: Manifests, mallory: Tenant, nobody: Account, victim: str
) -> None:
    mallory.create("v1", "ConfigMap", "configmaps", "mine", data={"a": "b"})
    shared = {"destinationNamespace": victim, "destinationName": "shared"}
    # Syncs of one second are ordered by name: this one, at home, is always the older.
    older = world.sync("a-older", configMapName="missing", **shared)
    older.becomes("SourceNotFound")
    nobody.may(victim, "configmaps", *ALL)
    younger = probe(
        mallory, "ConfigMapSync", "shared", sourceNamespace=mallory.namespace, configMapName="mine", **shared
    )
    ready = younger.becomes("ClaimedByOther", conflicted=1)
    assert "another sync wants the same object" in ready["message"]
    assert "a-older" not in json.dumps(younger.status)
    nobody.may(world.home, "configmapsyncs", "get")
    until(lambda: younger.message, lambda message: f"ConfigMapSync/{world.home}/a-older wants" in message)


@pytest.fixture
def namespaces(world: Manifests) -> Iterator[list[str]]:
    """One namespace that is open, one that is closed to syncs, one that is being deleted, and one that is not there.

    Their names are of one length: long messages are cut.
    """
    there, ignored, going = world.namespaces("n-there", "n-close", "n-going")
    world.namespace_object(ignored).label(**{"syncline.dev/ignore": "true"})
    held = world.put(going, "held", metadata={"finalizers": ["example.com/held"]})
    world.namespace_object(going).delete()
    yield [there, ignored, going, f"{world.name}-n-never"]
    held.edit(lambda body: body["metadata"].update(finalizers=[]))


@pytest.mark.parametrize("trouble", ["", "missing", "forbidden", "broken"])
def test_a_namespace_that_is_absent_closed_or_ending_is_told_like_any_other(
    mallory: Tenant, nobody: Account, namespaces: list[str], trouble: str
) -> None:
    mallory.create("v1", "ConfigMap", "configmaps", "mine", data={"a": "b"})
    if trouble == "forbidden":
        nobody.may(mallory.namespace, "configmaps")
    source = {"sourceNamespace": mallory.namespace, "configMapName": "absent" if trouble == "missing" else "mine"}
    broken = {"transforms": [{"key": "a", "template": "{{ nothing.there }}"}]} if trouble == "broken" else {}
    reason = {"": "Forbidden", "missing": "SourceNotFound", "forbidden": "SourceForbidden", "broken": "InvalidContent"}
    answers = set()
    for name in namespaces:
        sync = probe(mallory, "ConfigMapSync", name, destinationNamespace=name, **source, **broken)
        sync.becomes(reason[trouble])
        answers.add(told(sync, name))
    assert len(answers) == 1, answers
    assert "exist" not in answers.pop() or trouble == "missing"


@pytest.mark.parametrize("rights", [(), ("get",)])
def test_a_two_way_sync_that_names_an_absent_closed_or_ending_namespace_is_told_like_of_any_other(
    mallory: Tenant, nobody: Account, namespaces: list[str], rights: tuple[str, ...]
) -> None:
    mallory.create("v1", "ConfigMap", "configmaps", "mine", data={"a": "b"})
    nobody.may(mallory.namespace, "configmaps", *ALL)
    if rights:
        nobody.may("", "configmaps", *rights)
    answers = set()
    for name in namespaces:
        source = {"sourceNamespace": mallory.namespace, "configMapName": "mine"}
        sync = probe(mallory, "ConfigMapSync", name, destinationNamespace=name, direction="Bidirectional", **source)
        sync.becomes("Forbidden")
        answers.add(told(sync, name))
    assert len(answers) == 1, answers


def test_an_account_that_may_read_a_namespace_is_told_what_is_the_matter_with_it(
    world: Manifests, account: Account, namespaces: list[str]
) -> None:
    world.source()
    account.may(world.home, "configmaps", "get")
    account.may("", "namespaces", "get")
    sync = world.sync(destinationNamespaces=namespaces, serviceAccountName=account.name)
    there, ignored, going, nowhere = namespaces
    sync.says(there, "Forbidden")
    sync.says(ignored, "NamespaceIgnored")
    sync.says(going, "NamespaceTerminating")
    assert "does not exist" in sync.says(nowhere, "NamespaceNotFound")["message"]


def test_an_account_that_may_write_to_a_namespace_is_told_that_it_does_not_exist_yet(
    world: Manifests, account: Account
) -> None:
    world.source()
    account.may(world.home, "configmaps", "get")
    account.may("", "configmaps", *ALL)
    later = f"{world.name}-later"
    sync = world.sync(destinationNamespace=later, serviceAccountName=account.name)
    sync.becomes("NamespaceNotFound", pending=1)
    world.namespace("later")
    world.config_map(later).becomes(colour="red")


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("dry_run", [False, True])
def test_what_a_configsync_names_in_a_closed_namespace_is_told_like_in_any_other(
    world: Manifests, mallory: Tenant, namespaces: list[str], dry_run: bool
) -> None:
    answers = set()
    for name in namespaces:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app", "namespace": name}}
        mallory.create("v1", "ConfigMap", "configmaps", name, data={"it.yaml": json.dumps(manifest)})
        sync = probe(mallory, "ConfigSync", name, source={"configMapRef": {"name": name}}, dryRun=dry_run)
        sync.becomes("DryRun" if dry_run else "Forbidden")
        answers.add(told(sync, name))
    assert len(answers) == 1, answers
    assert world.config_map(namespaces[1]).look() is None


def platform(world: World, name: str, **spec: object) -> Sync:
    """Create a ConfigSync at home, of a ConfigMap that is there, as the account that may write there."""
    found = Sync(world.sandbox, world.home, name)
    Thing.__init__(found, world.sandbox, f"/apis/{API_VERSION}/namespaces/{world.home}/configsyncs", name)
    source = {"source": {"configMapRef": {"name": "content"}}, "serviceAccountName": "robot"}
    found.create(
        {"apiVersion": API_VERSION, "kind": "ConfigSync", "metadata": {"name": name}, "spec": {**source, **spec}}
    )
    world.remember(found)
    return found


@pytest.fixture
def robot(account: Account, world: Manifests) -> None:
    """Let the account at home write ConfigMaps there."""
    account.may(world.home, "configmaps", *ALL)


def manifest(name: str) -> dict[str, str]:
    return {"it.yaml": json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})}


@pytest.mark.usefixtures("robot")
def test_a_sync_of_another_namespace_that_may_not_be_depended_upon_is_told_like_one_that_does_not_exist(
    world: Manifests, mallory: Tenant, nobody: Account
) -> None:
    world.put(world.home, "content", **manifest("made"))
    platform(world, "ready")
    platform(world, "suspended", suspend=True)
    platform(world, "open-to-others", dependentNamespaces=["other-*"])
    until(world.config_map(world.home, "made").look, bool)
    mallory.create("v1", "ConfigMap", "configmaps", "content", data=manifest("mine"))
    nobody.may(mallory.namespace, "configmaps", *ALL)
    answers = set()
    for name in ("ready", "suspended", "open-to-others", "absent"):
        dependencies = [{"name": name, "namespace": world.home}]
        sync = probe(mallory, "ConfigSync", name, source={"configMapRef": {"name": "content"}}, dependsOn=dependencies)
        sync.becomes("DependencyNotReady")
        answers.add(told(sync, name))
    assert len(answers) == 1, answers
    assert f"list namespace {mallory.namespace} in its dependentNamespaces" in answers.pop()


@pytest.mark.usefixtures("robot")
def test_a_sync_that_lists_a_namespace_may_be_depended_upon_from_there(
    world: Manifests, mallory: Tenant, nobody: Account
) -> None:
    world.put(world.home, "content", **manifest("made"))
    base = platform(world, "base")
    mallory.create("v1", "ConfigMap", "configmaps", "content", data=manifest("mine"))
    nobody.may(mallory.namespace, "configmaps", *ALL)
    source = {"configMapRef": {"name": "content"}}
    top = probe(mallory, "ConfigSync", "top", source=source, dependsOn=[{"name": "base", "namespace": world.home}])
    top.becomes("DependencyNotReady")

    def allow(body: Json) -> None:
        body["spec"]["dependentNamespaces"] = [f"{world.name}-m*"]

    base.edit(allow)
    top.becomes("Synced", synced=1)
    world.config_map(mallory.namespace, "mine").appears()


@pytest.mark.usefixtures("nobody", "robot")
def test_who_may_not_depend_on_a_sync_does_not_learn_that_it_depends_on_theirs(
    world: Manifests, mallory: Tenant
) -> None:
    world.put(world.home, "content", **manifest("made"))
    mallory.create("v1", "ConfigMap", "configmaps", "content", data=manifest("mine"))
    source = {"configMapRef": {"name": "content"}}
    mine = probe(
        mallory,
        "ConfigSync",
        "mine",
        source=source,
        dependsOn=[{"name": "theirs", "namespace": world.home}],
        dependentNamespaces=["*"],
    )
    before = mine.becomes("DependencyNotReady")["message"]
    theirs = platform(world, "theirs", dependsOn=[{"name": "probe-mine", "namespace": mallory.namespace}])
    theirs.becomes("DependencyNotReady")
    mine.now()
    assert mine.becomes("DependencyNotReady")["message"] == before
