"""A status tells of no namespace that the sync's account could not find itself."""

import json

import pytest
from tests.configmapsync.world import Thing, until
from tests.manifestsync.world import Manifests, ManifestSync
from tests.tenancy.accounts import ALL, Account

from syncline.sandbox import RequestError

LABEL = "tenancy-visible"


@pytest.fixture
def closed(world: Manifests) -> str:
    return world.namespace("x-closed", **{LABEL: world.name})


@pytest.fixture
def mine(world: Manifests, account: Account) -> str:
    name = world.namespace("x-mine", **{LABEL: world.name})
    account.may(world.home, "secrets", "get")
    account.may(name, "secrets", *ALL)
    return name


def everywhere(world: Manifests, how: str) -> dict[str, object]:
    """Return targets that mean both namespaces."""
    by_label = {"namespaceSelector": {"matchLabels": {LABEL: world.name}}}
    return {"inCluster": {"namespaces": [f"{world.name}-x-*"]} if how == "glob" else by_label}


def told(sync: ManifestSync) -> str:
    """Return all that a reader of the sync is told, but what they wrote themselves."""
    return json.dumps([sync.read().get("status", {}), [event.get("note") for event in sync.events()]])


@pytest.mark.parametrize("how", ["glob", "selector"])
def test_namespaces_that_are_found_are_told_of_only_where_the_account_may_go(
    world: Manifests, account: Account, closed: str, mine: str, how: str
) -> None:
    sync = world.msync("sync", world.secret(), targets=everywhere(world, how), serviceAccountName=account.name)
    sync.becomes("Synced", synced=1, desired=1)
    assert sync.target(mine)["status"] == "Synced"
    assert closed not in told(sync)
    assert world.find("Secret", closed).look() is None


@pytest.mark.parametrize("how", ["glob", "selector"])
def test_that_nothing_matches_is_said_alike_whether_or_not_a_hidden_namespace_does(
    world: Manifests, account: Account, how: str
) -> None:
    account.may(world.home, "secrets", "get")
    source = world.secret()
    sync = world.msync("sync", source, targets=everywhere(world, how), serviceAccountName=account.name)
    before = sync.becomes("Synced", desired=0)["message"]
    assert before.endswith(f", or none that {account.user} may see")
    world.namespace("x-closed", **{LABEL: world.name})
    sync.now()
    assert sync.becomes("Synced", desired=0)["message"] == before


def test_a_namespace_that_the_sync_spells_out_is_told_of(
    world: Manifests, account: Account, closed: str, mine: str
) -> None:
    targets = {"inCluster": {"namespaces": [f"{world.name}-x-*", closed]}}
    sync = world.msync("sync", world.secret(), targets=targets, serviceAccountName=account.name)
    sync.becomes("Forbidden", synced=1, failed=1)
    assert sync.target(closed)["reason"] == "Forbidden"
    assert sync.target(mine)["status"] == "Synced"


def test_an_account_that_may_list_namespaces_is_told_of_all(
    world: Manifests, account: Account, closed: str, mine: str
) -> None:
    account.may("", "namespaces", "list")
    sync = world.msync("sync", world.secret(), targets=everywhere(world, "glob"), serviceAccountName=account.name)
    sync.becomes("Forbidden", synced=1, failed=1)
    assert sync.target(closed)["reason"] == "Forbidden"
    assert sync.target(mine)["status"] == "Synced"


@pytest.mark.parametrize("how", ["glob", "selector"])
def test_trouble_with_the_source_is_no_way_to_learn_of_namespaces(
    world: Manifests, account: Account, closed: str, mine: str, how: str
) -> None:
    source = world.secret()
    account.may(world.home, "secrets")
    sync = world.msync("sync", source, targets=everywhere(world, how), serviceAccountName=account.name)
    sync.becomes("SourceForbidden", unknown=1)
    assert sync.target(mine)["reason"] == "SourceForbidden"
    assert closed not in told(sync)
    account.may(mine, "secrets")
    sync.now()
    sync.becomes("SourceForbidden", desired=0)
    assert mine not in told(sync)


def test_a_source_that_does_not_exist_is_no_way_either(
    world: Manifests, account: Account, closed: str, mine: str
) -> None:
    sync = world.msync(
        "sync", world.find("Secret", world.home), targets=everywhere(world, "glob"), serviceAccountName=account.name
    )
    sync.becomes("SourceNotFound", pending=1)
    assert sync.target(mine)["reason"] == "SourceNotFound"
    assert closed not in told(sync)


@pytest.mark.parametrize(
    "broken",
    [
        {"transforms": [{"key": "password", "template": "{{ nothing.there }}"}]},
        {"patch": {"patchStrategy": "JSONPatch", "patchContent": '[{"op": "test", "path": "/type", "value": "x"}]'}},
        {"targetName": "{{ nothing.there }}"},
    ],
    ids=lambda broken: next(iter(broken)),
)
def test_content_that_cannot_be_made_is_no_way_either(
    world: Manifests, account: Account, closed: str, mine: str, broken: dict[str, object]
) -> None:
    targets = everywhere(world, "glob")
    sync = world.msync("sync", world.secret(), targets=targets, serviceAccountName=account.name, **broken)
    until(sync.read, lambda body: body.get("status", {}).get("targets", {}).get("desired") == 1)
    assert sync.target(mine)["status"] in {"Failed", "Unknown"}
    assert closed not in told(sync)


def test_two_sources_for_one_name_are_no_way_either(world: Manifests, account: Account) -> None:
    account.may(world.home, "secrets", "get")
    sources = [world.secret(name) for name in ("one", "two")]
    sync = world.msync(
        "sync", *sources, targets=everywhere(world, "glob"), targetName="same", serviceAccountName=account.name
    )
    before = sync.becomes("Synced", desired=0)["message"]
    world.namespace("x-closed")
    sync.now()
    assert sync.becomes("Synced", desired=0)["message"] == before


def test_a_source_that_is_named_there_is_no_way_either(world: Manifests, account: Account) -> None:
    closed = f"{world.name}-x-closed"
    source = world.find("Secret", closed, "guess")
    sync = world.msync(
        "sync", source, targets=everywhere(world, "glob"), targetName="other", serviceAccountName=account.name
    )
    before = sync.becomes("SourceForbidden", desired=0)["message"]
    world.namespace("x-closed")
    sync.now()
    assert sync.becomes("SourceForbidden", desired=0)["message"] == before


def test_a_name_that_cannot_be_made_for_a_hidden_namespace_keeps_nothing_from_being_pruned(
    world: Manifests, account: Account, closed: str, mine: str
) -> None:
    left = world.namespace("left")
    account.may(left, "secrets", *ALL)
    name = f"{{{{ 'copy' if target.namespace != '{closed}' else nothing.there }}}}"
    everything = [f"{world.name}-x-*", left]
    sync = world.msync(
        "sync",
        world.secret(),
        targets={"inCluster": {"namespaces": everything}},
        targetName=name,
        serviceAccountName=account.name,
    )
    sync.becomes("Synced", synced=2)
    sync.change(targets={"inCluster": {"namespaces": everything[:1]}})
    world.find("Secret", left, "copy").gone()
    assert world.find("Secret", mine, "copy").look() is not None


def test_another_tenants_copy_is_not_told_of(world: Manifests, account: Account, closed: str, mine: str) -> None:
    source = world.secret()
    world.msync("older", source, into=[closed]).becomes("Synced", synced=1)
    sync = world.msync("sync", source, targets=everywhere(world, "glob"), serviceAccountName=account.name)
    sync.becomes("Synced", synced=1, desired=1)
    assert sync.target(mine)["status"] == "Synced"
    assert closed not in told(sync)
    assert "older" not in told(sync)


def test_a_namespace_that_keeps_every_sync_out_is_told_of_only_where_the_account_may_go(
    world: Manifests, account: Account, closed: str, mine: str
) -> None:
    for name in (closed, mine):
        world.namespace_object(name).edit(
            lambda body: body["metadata"]["labels"].update({"syncline.dev/ignore": "true"})
        )
    sync = world.msync("sync", world.secret(), targets=everywhere(world, "glob"), serviceAccountName=account.name)
    sync.becomes("Synced", skipped=1, desired=1)
    assert sync.target(mine)["reason"] == "NamespaceIgnored"
    assert closed not in told(sync)


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_a_full_quota_is_told_of_though_the_server_calls_it_forbidden(
    world: Manifests, account: Account, mine: str, kind: str
) -> None:
    resource = f"{kind.lower()}s"
    account.may(world.home, resource, "get")
    account.may(mine, resource, *ALL)
    quotas = Thing(world.sandbox, f"/api/v1/namespaces/{mine}/resourcequotas", "none")
    quota = quotas.create({"metadata": {"name": "none"}, "spec": {"hard": {resource: "0"}}})
    counted = {**quota, "status": {"hard": {resource: "0"}, "used": {resource: "0"}}}
    world.sandbox.request("PUT", f"{quotas.path}/status", counted)
    source = world.make(kind, data={"password": "cmVk"})
    until(lambda: _is_full(world, mine, kind), bool)
    sync = world.msync("sync", source, targets=everywhere(world, "glob"), serviceAccountName=account.name)
    sync.becomes("Forbidden", failed=1)
    assert sync.target(mine)["status"] == "Failed"


def _is_full(world: Manifests, namespace: str, kind: str) -> bool:
    try:
        world.make(kind, namespace, "probe").delete()
    except RequestError as error:
        return "exceeded quota" in str(error)
    return False


def test_copies_that_were_made_stay_in_the_list_when_the_account_loses_its_rights(
    world: Manifests, account: Account, mine: str
) -> None:
    source = world.secret()
    sync = world.msync("sync", source, targets=everywhere(world, "glob"), serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    account.may(mine, "secrets")
    source.keep(password="blue")
    sync.becomes("Forbidden", failed=1)
    assert sync.target(mine)["reason"] == "Forbidden"
    assert world.find("Secret", mine).values == {"password": "red"}


def test_the_same_holds_for_a_configmapsync(world: Manifests, account: Account, closed: str, mine: str) -> None:
    world.source()
    account.may(mine, "configmaps", *ALL)
    sync = world.sync(destinationNamespaces=[f"{world.name}-x-*"], serviceAccountName=account.name)
    sync.becomes("SourceForbidden", unknown=1)
    assert closed not in json.dumps(sync.status)
    account.may(world.home, "configmaps", "get")
    sync.becomes("Synced", synced=1, desired=1)
    assert sync.target(mine)["status"] == "Synced"
    assert closed not in json.dumps(sync.status)
