"""Nobody removes through a sync what they could not remove themselves; the end of a namespace is never held up."""

from typing import Any

import pytest
from tests.configmapsync.world import Sync, World
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import Account

from syncline.api.common import ABANDON, API_VERSION, CONFIRM_DELETION, REQUESTED_AT
from syncline.api.configmapsync import KIND
from syncline.sandbox import RequestError

Json = dict[str, Any]


class Bob:
    """Somebody with all rights over syncs and ConfigMaps of the namespace that the syncs are in, and none elsewhere."""

    def __init__(self, world: World, name: str = "bob") -> None:
        self._world = world
        self.account = Account(world, name)
        for resource in ("configmapsyncs", "configmaps"):
            self.account.may(world.home, resource, "get", "create", "update", "patch", "delete")
        self._token = world.sandbox.service_account_token(world.home, name)

    def deletes(self, sync: Sync) -> None:
        self._world.sandbox.request("DELETE", sync.path, token=self._token)

    def gives_owner(self, sync: Sync, uid: str) -> None:
        body = sync.read()
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        body["metadata"]["ownerReferences"] = [owner]
        self._world.sandbox.request("PUT", sync.path, body, token=self._token)

    def edits(self, sync: Sync, *, annotations: dict[str, str] | None = None, **spec: object) -> None:
        body = sync.read()
        merged = {**body["spec"], **spec}
        body["spec"] = {key: value for key, value in merged.items() if value is not None}
        body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), **(annotations or {})}
        self._world.sandbox.request("PUT", sync.path, body, token=self._token)


@pytest.fixture
def bob(world: World) -> Bob:
    """A user with `edit` in the namespace of an administrator's sync."""
    return Bob(world)


@pytest.mark.own_rights
def test_deleting_the_sync_of_an_administrator_does_not_remove_its_copies_elsewhere(world: World, bob: Bob) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced", synced=1)
    with pytest.raises(RequestError, match=f"you may not delete ConfigMaps in namespace {target}"):
        bob.deletes(sync)
    bob.account.may(target, "configmaps", "delete")
    bob.deletes(sync)
    world.config_map(target).gone()


@pytest.mark.own_rights
def test_an_owner_that_is_gone_does_not_have_the_garbage_collector_delete_the_sync_of_an_administrator(
    world: World, bob: Bob
) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced", synced=1)
    nobody = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(RequestError, match=f"you may not delete ConfigMaps in namespace {target}"):
        bob.gives_owner(sync, nobody)
    bob.account.may(target, "configmaps", "delete")
    bob.gives_owner(sync, nobody)


@pytest.mark.own_rights
def test_narrowing_the_sync_of_an_administrator_does_not_remove_its_copies_elsewhere(world: World, bob: Bob) -> None:
    world.source()
    sync = world.sync(destinationNamespaces=world.namespaces("a", "b", "c"))
    sync.becomes("Synced", synced=3)
    with pytest.raises(RequestError, match="you may not delete ConfigMaps in all namespaces"):
        bob.edits(sync, destinationNamespaces=[world.home], destinationName="mine")
    sync.now()
    assert sync.counts["synced"] == 3


@pytest.mark.own_rights
@pytest.mark.parametrize("annotation", [CONFIRM_DELETION, ABANDON, REQUESTED_AT, "syncline.dev/resolve"])
def test_an_annotation_that_acts_needs_the_rights_for_what_it_may_remove(
    world: World, bob: Bob, annotation: str
) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced", synced=1)
    with pytest.raises(RequestError, match=f"you may not delete ConfigMaps in namespace {target}"):
        bob.edits(sync, annotations={annotation: "x"})
    bob.edits(sync, annotations={"note": "x"})


def test_whoever_may_not_act_as_the_account_of_a_sync_does_not_remove_through_it(
    world: World, bob: Bob, account: Account
) -> None:
    world.source()
    target = world.namespace("a")
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", "get", "create", "update", "patch", "delete")
    sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    with pytest.raises(RequestError, match=f"you may not impersonate the service account {account.name}"):
        bob.deletes(sync)
    bob.account.may(world.home, "serviceaccounts", "impersonate")
    bob.deletes(sync)
    world.config_map(target).gone()


@pytest.mark.parametrize("spec", [{"deletionPolicy": "Orphan"}, {"suspend": True}], ids=["Orphan", "suspended"])
def test_a_sync_that_leaves_its_copies_may_be_deleted_by_whoever_may_delete_syncs(
    world: World, bob: Bob, spec: Json
) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced", synced=1)
    sync.change(**spec)
    bob.deletes(sync)
    sync.gone()
    assert world.config_map(target).data == {"colour": "red"}


@pytest.mark.own_rights
def test_the_author_of_a_sync_may_change_and_delete_it(world: World, bob: Bob) -> None:
    world.source()
    target, other = world.namespaces("a", "b")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced", synced=1)
    for namespace in (target, other):
        bob.account.may(namespace, "configmaps", "create", "update", "delete")
    bob.edits(sync, destinationNamespace=other, annotations={REQUESTED_AT: "1"})
    world.config_map(target).gone()
    world.config_map(other).becomes(colour="red")
    bob.deletes(sync)
    world.config_map(other).gone()


@pytest.mark.own_rights
def test_the_end_of_a_namespace_is_not_held_up(world: World) -> None:
    target, ending = world.namespaces("a", "ending")
    world.put(ending, colour="red")
    sync = Sync(world.sandbox, ending, "sync")
    spec = {"sourceNamespace": ending, "configMapName": "app", "destinationNamespace": target}
    sync.create({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "sync"}, "spec": spec})
    sync.becomes("Synced", synced=1)
    namespace = world.namespace_object(ending)
    namespace.delete()
    namespace.gone()
    world.config_map(target).gone()


def test_an_account_that_comes_and_goes_does_not_remove_the_copies_of_an_administrator(
    world: World, bob: Bob, account: Account
) -> None:
    world.source()
    targets = world.namespaces("a", "b")
    sync = world.sync(destinationNamespaces=targets)
    sync.becomes("Synced", synced=2)
    bob.account.may(world.home, "serviceaccounts", "impersonate")
    account.may(world.home, "configmaps", "get", "create", "update", "patch", "delete")
    # As the account nothing is removed elsewhere: it may not.
    bob.edits(
        sync,
        serviceAccountName=account.name,
        destinationNamespaces=None,
        destinationNamespace=world.home,
        destinationName="mine",
    )
    sync.becomes("Forbidden")
    with pytest.raises(RequestError, match="you may not delete ConfigMaps in all namespaces"):
        bob.edits(sync, serviceAccountName=None)
    for target in targets:
        assert world.config_map(target).data == {"colour": "red"}


def test_an_account_that_comes_and_goes_does_not_remove_the_secrets_of_an_administrator(
    world: Manifests, bob: Bob, account: Account
) -> None:
    target = world.namespace("a")
    sync = world.msync("sync", world.secret("shared"), into=[target])
    sync.becomes("Synced", synced=1)
    bob.account.may(world.home, "serviceaccounts", "impersonate")
    bob.account.may(world.home, "manifestsyncs", "get", "update")
    for resource in ("configmaps", "secrets"):
        account.may(world.home, resource, "get", "create", "update", "patch", "delete")
    # Of another kind, and in the own namespace: the former spec says nothing of what is left elsewhere.
    settings = world.source("settings")
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "name": settings.name}
    here = {"inCluster": {"namespaces": [world.home]}}
    bob.edits(sync, serviceAccountName=account.name, sourceRef=mine, targetName="mine", targets=here)
    sync.becomes("Forbidden")
    with pytest.raises(RequestError, match="you may not use all verbs on all resources, and without its account"):
        bob.edits(sync, serviceAccountName=None)
    assert world.find("Secret", target, "shared").look() is not None
