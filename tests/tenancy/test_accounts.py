"""A sync with a service account reads and writes as that account, and with no other rights: all that it names."""

import pytest
from tests.configmapsync.world import Sync
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account

from syncline.testing.audit import Entry


def asked(world: Manifests, mark: int, *resources: str) -> list[Entry]:
    """Return what the operator's process asked about these since then, whoever it was in whose name."""
    return [entry for entry in world.requests(mark) if entry.resource in resources]


def test_all_reads_and_writes_of_a_manifestsync_are_those_of_its_account(world: Manifests, account: Account) -> None:
    patch = world.make("ConfigMap", name="patch", data={"it": "metadata: {labels: {patched: 'yes'}}"})
    stays, leaves = world.namespaces("stays", "leaves")
    theirs = world.secret(namespace=leaves, theirs="1")
    account.may(world.home, "secrets", "get")
    account.may(world.home, "configmaps", "get")
    for target in (stays, leaves):
        account.may(target, "secrets", *ALL)
    source = world.secret(password="red")
    mark = world.mark()
    sync = world.msync(
        "sync",
        source,
        into=[stays, leaves],
        serviceAccountName=account.name,
        patch={"patchContentRef": {"name": "patch", "key": "it"}},
    )
    sync.becomes("NotOurs", synced=1)
    theirs.delete()
    sync.becomes("Synced", synced=2)
    source.keep(password="blue")
    world.find("Secret", stays).holds(password="blue")
    world.find("Secret", stays).keep(password="pink")
    world.find("Secret", stays).holds(password="blue")
    patch.put("data", "it", value="metadata: {labels: {patched: again}}")
    world.find("Secret", stays).shows("metadata", "labels", "patched", value="again")
    sync.into(stays)
    world.find("Secret", leaves).gone()
    sync.delete()
    sync.gone()
    entries = asked(world, mark, "secrets", "configmaps")
    assert {entry.impersonated for entry in entries} == {account.user}
    assert {entry.verb for entry in entries if entry.resource == "secrets"} == {"get", "create", "patch", "delete"}
    assert {(entry.verb, entry.name) for entry in entries if entry.resource == "configmaps"} == {("get", "patch")}
    assert not [str(entry) for entry in entries if entry.denied]


def test_a_kind_that_is_applied_is_written_as_the_account_too(world: Manifests, account: Account) -> None:
    target = world.namespace("a")
    account.may(world.home, "deployments", "get")
    account.may(target, "deployments", *ALL)
    source = world.deployment()
    mark = world.mark()
    sync = world.msync("sync", source, into=[target], serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    source.put("spec", "replicas", value=3)
    world.find("Deployment", target).shows("spec", "replicas", value=3)
    sync.delete()
    sync.gone()
    entries = asked(world, mark, "deployments")
    assert {entry.impersonated for entry in entries} == {account.user}
    assert not [str(entry) for entry in entries if entry.denied]


def test_both_sides_of_a_two_way_sync_are_read_and_written_as_the_account(world: Manifests, account: Account) -> None:
    source, target = world.source(colour="red"), world.namespace("a")
    account.may(world.home, "configmaps", *ALL)
    account.may(target, "configmaps", *ALL)
    mark = world.mark()
    sync = world.sync(
        destinationNamespace=target, direction="Bidirectional", conflictPolicy="Merge", serviceAccountName=account.name
    )
    sync.becomes("Synced", synced=1)
    world.config_map(target).set(size="big")
    source.becomes(colour="red", size="big")
    source.set(colour="blue")
    world.config_map(target).becomes(colour="blue", size="big")
    entries = asked(world, mark, "configmaps")
    assert {entry.impersonated for entry in entries} == {account.user}
    assert {entry.namespace for entry in entries if entry.changes and entry.done} == {world.home, target}


def test_a_two_way_sync_whose_account_may_not_write_the_source_says_so(world: Manifests, account: Account) -> None:
    source, target = world.source(colour="red"), world.namespace("a")
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    sync = world.sync(
        destinationNamespace=target, direction="Bidirectional", conflictPolicy="Merge", serviceAccountName=account.name
    )
    sync.becomes("Synced", synced=1)
    world.config_map(target).set(colour="pink", size="big")
    ready = sync.becomes("Forbidden")
    assert f'User "{account.user}" cannot patch resource "configmaps"' in ready["message"]
    assert source.data == {"colour": "red"}


def test_an_account_that_may_not_read_the_source_gets_nothing(world: Manifests, account: Account) -> None:
    source, target = world.secret(), world.namespace("a")
    account.may(target, "secrets", *ALL)
    sync = world.msync("sync", source, into=[target], serviceAccountName=account.name)
    ready = sync.becomes("SourceForbidden", unknown=1)
    assert ready["status"] == "False"
    assert f"cannot get secrets 'app' in namespace '{world.home}': 403 Forbidden" in ready["message"]
    assert account.user in ready["message"]
    assert world.find("Secret", target).look() is None
    account.may(world.home, "secrets", "get")
    world.find("Secret", target).holds(password="red")


def test_to_select_sources_by_label_takes_the_right_to_list(world: Manifests, account: Account) -> None:
    world.make("Secret", metadata={"labels": {"copy": "yes"}}, stringData={"password": "red"})
    target = world.namespace("a")
    account.may(world.home, "secrets", "get")
    account.may(target, "secrets", *ALL)
    selected = {"apiVersion": "v1", "kind": "Secret", "selector": {"matchLabels": {"copy": "yes"}}}
    sync = world.msync("sync", into=[target], sourceRefs=[selected], serviceAccountName=account.name)
    ready = sync.becomes("SourceForbidden")
    assert f"give {account.user} the right to list secrets" in ready["message"]
    assert world.find("Secret", target).look() is None
    account.may(world.home, "secrets", "list")
    world.find("Secret", target).holds(password="red")


def test_an_account_that_may_not_write_is_named_with_verb_kind_and_namespace(
    world: Manifests, account: Account
) -> None:
    source, closed = world.secret(), world.namespace("closed")
    account.may(world.home, "secrets", "get")
    sync = world.msync("sync", source, into=[closed], serviceAccountName=account.name)
    ready = sync.becomes("Forbidden", failed=1)
    assert f"cannot create secrets in namespace '{closed}': 403 Forbidden" in ready["message"]
    assert world.find("Secret", closed).look() is None


@pytest.mark.parametrize(("kind", "resource"), [("ConfigMap", "configmaps"), ("Secret", "secrets")])
def test_a_patch_that_the_account_may_not_read_is_not_used(
    world: Manifests, account: Account, kind: str, resource: str
) -> None:
    source, target = world.source(), world.namespace("a")
    text = "data: {colour: green}"
    body = {"stringData": {"it": text}} if kind == "Secret" else {"data": {"it": text}}
    world.make(kind, name="patch", **body)
    account.may(target, "configmaps", *ALL)
    account.may(world.home, "configmaps", "get")
    if kind == "ConfigMap":  # at home the account may read the source, and nothing else
        account.may(world.home, "configmaps")
        source = world.put(world.namespace("source"), colour="red")
        account.may(source.namespace, "configmaps", "get")
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "app", "namespace": source.namespace}
    patch = {"patchContentRef": {"kind": kind, "name": "patch", "key": "it"}}
    sync = world.msync("sync", into=[target], sourceRef=ref, patch=patch, serviceAccountName=account.name)
    ready = sync.becomes("PatchUnreadable", unknown=1)
    assert f"cannot get {resource} 'patch' in namespace '{world.home}': 403 Forbidden" in ready["message"]
    assert world.config_map(target).look() is None
    account.may(world.home, resource, "get")
    account.may(world.home, "configmaps", "get")
    world.config_map(target).becomes(colour="green")


@pytest.mark.parametrize("kind", ["ConfigMapSync", "ManifestSync"])
def test_rights_that_were_taken_away_are_noticed_and_copies_stay(world: Manifests, account: Account, kind: str) -> None:
    source, target = world.source(), world.namespace("a")
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    if kind == "ConfigMapSync":
        sync: Sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    else:
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": source.name}
        sync = world.msync("sync", into=[target], sourceRef=ref, serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    account.may(world.home, "configmaps")
    sync.now()  # as the timer does
    ready = sync.becomes("SourceForbidden", unknown=1)
    assert account.user in ready["message"]
    source.set(colour="blue")
    sync.now()
    assert world.config_map(target).data == {"colour": "red"}
    account.may(world.home, "configmaps", "get")
    world.config_map(target).becomes(colour="blue")
    sync.becomes("Synced")


def test_an_account_that_does_not_exist_has_no_rights_and_borrows_none(world: Manifests, account: Account) -> None:
    source, target = world.secret(), world.namespace("a")
    sync = world.msync("sync", source, into=[target], serviceAccountName="nobody")
    ready = sync.becomes("SourceForbidden")
    assert f"system:serviceaccount:{world.home}:nobody" in ready["message"]
    account.may(world.home, "secrets", "get")
    account.may(target, "secrets", *ALL)
    sync.now()
    sync.becomes("SourceForbidden")  # nobody else's rights are used for it
    assert world.find("Secret", target).look() is None
