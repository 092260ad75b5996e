"""Whoever may edit an object, and not delete it, cannot have Syncline delete it: marks that are made up are none."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.configmapsync.world import ConfigMap, Sync, World
from tests.tenancy.accounts import Account

from syncline.core.ownership import MARKER, OWNER_LABEL

Json = dict[str, Any]


class Mallory:
    """Somebody with a few rights, who has a copy of a sync in a namespace of her own and reads its marks."""

    def __init__(self, world: World, account: Account, copy: ConfigMap) -> None:
        self._world = world
        self._token = world.sandbox.service_account_token(world.home, account.name)
        self._copy = copy.read()["metadata"]

    def marks(self, namespace: str, name: str, **changes: str | None) -> Json:
        """Return the marks of her copy, made to name another object; None leaves a part of the marker out."""
        marker = json.loads(self._copy["annotations"][MARKER])
        cluster = marker["at"].partition("/")[0]
        marker |= {"at": f"{cluster}/ConfigMap/{namespace}/{name}", **changes}
        text = json.dumps({key: value for key, value in marker.items() if value is not None}, separators=(",", ":"))
        return {"labels": {OWNER_LABEL: self._copy["labels"][OWNER_LABEL]}, "annotations": {MARKER: text}}

    def patch(self, target: ConfigMap, metadata: Mapping[str, Any], **data: str) -> None:
        """Write metadata, and data if there is any, with her own rights."""
        content = {"data": data} if data else {}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": target.name}, **content}
        path = f"{target.path}?fieldManager=kubectl&force=true"
        self._world.sandbox.request("PATCH", path, body, token=self._token)

    def create(self, namespace: str, name: str, metadata: Mapping[str, Any]) -> None:
        body = {"metadata": {**metadata, "name": name}, "data": {"theirs": "1"}}
        self._world.sandbox.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body, token=self._token)


def notices(sync: Sync, copy: ConfigMap) -> None:
    """Wait until the operator has seen everything that was written to marked objects until now, and acted on it."""
    was = copy.data
    copy.set(drift="1")
    copy.becomes(**was)  # its watch told of this edit after all that went before
    sync.now()
    sync.now()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="with the proof of her own copy"),
        pytest.param({"proof": None}, id="without a proof, as an earlier version wrote them"),
        pytest.param({"proof": "deadbeef.00000000000000000000000000000000"}, id="with a key that she made up"),
    ],
)
def test_forged_marks_do_not_have_an_object_deleted_that_the_forger_may_only_patch(
    world: World, account: Account, changes: dict[str, str | None]
) -> None:
    world.source()
    hers, victim = world.namespaces("mallory", "victim")
    sync = world.sync(destinationNamespace=hers)
    sync.becomes("Synced", synced=1)
    theirs = world.put(victim, "vcm", precious="1")
    account.may(victim, "configmaps", "get", "patch")
    mallory = Mallory(world, account, world.config_map(hers))
    since = world.mark()
    mallory.patch(theirs, mallory.marks(victim, "vcm", **changes))
    notices(sync, world.config_map(hers))
    assert theirs.data == {"precious": "1"}
    assert not [entry for entry in world.requests(since) if entry.verb == "delete"]
    sync.delete()
    sync.gone()
    world.config_map(hers).gone()
    assert theirs.data == {"precious": "1"}


def test_the_kept_marks_of_a_former_copy_do_not_have_its_successor_deleted(world: World, account: Account) -> None:
    source = world.source()
    hers, victim = world.namespaces("mallory", "victim")
    sync = world.sync(destinationNamespaces=[hers, victim])
    sync.becomes("Synced", synced=2)
    source.set(colour="blue")  # the marks of an update name the UID of the copy
    copy = world.config_map(victim)
    copy.becomes(colour="blue")
    account.may(victim, "configmaps", "get", "patch")
    kept = copy.read()["metadata"]
    marks = {"labels": {OWNER_LABEL: kept["labels"][OWNER_LABEL]}, "annotations": {MARKER: kept["annotations"][MARKER]}}
    sync.change(destinationNamespaces=[hers])
    copy.gone()
    theirs = world.put(victim, "app", precious="1")
    since = world.mark()
    mallory = Mallory(world, account, world.config_map(hers))
    mallory.patch(theirs, marks)
    notices(sync, world.config_map(hers))
    assert theirs.data == {"precious": "1"}
    assert not [entry for entry in world.requests(since) if entry.verb == "delete"]
    sync.becomes("Synced", synced=1)
    sync.delete()
    sync.gone()
    world.config_map(hers).gone()
    assert theirs.data == {"precious": "1"}


def test_a_copy_that_is_put_back_with_its_marks_is_owned_again_where_it_is_wanted(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced", synced=1)
    source.set(colour="blue")
    copy = world.config_map(target)
    copy.becomes(colour="blue")
    sync.change(suspend=True)
    sync.becomes("Suspended")
    body = copy.read()
    world.sandbox.request("DELETE", copy.path)
    kept = {name: body["metadata"][name] for name in ("name", "labels", "annotations")}
    world.sandbox.request("POST", f"/api/v1/namespaces/{target}/configmaps", {**body, "metadata": kept})
    sync.change(suspend=False)
    sync.becomes("Synced", synced=1)
    sync.delete()
    sync.gone()
    copy.gone()


def test_forged_marks_do_not_count_for_the_deletion_guard(world: World, account: Account) -> None:
    world.source()
    hers = world.namespace("mallory", team=world.name)
    others = world.namespaces("a", "b", team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", synced=3)
    account.may(hers, "configmaps", "get", "create")
    mallory = Mallory(world, account, world.config_map(hers))
    for number in range(30):
        mallory.create(hers, f"forged-{number}", mallory.marks(hers, f"forged-{number}"))
    notices(sync, world.config_map(hers))
    sync.becomes("Synced", synced=3)
    world.namespace_object(others[0]).label(team=None)
    world.config_map(others[0]).gone()
    sync.becomes("Synced", synced=2)
    names = {f"forged-{number}" for number in range(30)}
    assert names <= {item["metadata"]["name"] for item in world.copies()}


def test_clones_of_a_copy_do_not_loosen_the_deletion_guard(world: World, account: Account) -> None:
    world.source()
    hers = world.namespace("mallory", team=world.name)
    others = world.namespaces(*(f"n{number}" for number in range(12)), team=world.name)
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    sync.becomes("Synced", synced=13)
    account.may(hers, "configmaps", "get", "create")
    mallory = Mallory(world, account, world.config_map(hers))
    copy = world.config_map(hers).read()["metadata"]
    marks = {"labels": copy["labels"], "annotations": copy["annotations"]}
    for number in range(30):
        mallory.create(hers, f"clone-{number}", marks)
    notices(sync, world.config_map(hers))
    for name in others:
        world.namespace_object(name).label(team=None)
    assert "of 13 copies would be removed" in sync.becomes("DeletionHeld")["message"]


def test_an_object_with_forged_marks_is_taken_over_like_any_other_where_the_policy_says_so(
    world: World, account: Account
) -> None:
    world.source()
    hers, wanted = world.namespaces("mallory", "wanted")
    first = world.sync("first", destinationNamespace=hers)
    first.becomes("Synced", synced=1)
    theirs = world.put(wanted, precious="1")
    account.may(wanted, "configmaps", "get", "patch")
    mallory = Mallory(world, account, world.config_map(hers))
    mallory.patch(theirs, mallory.marks(wanted, "app"))
    second = world.sync("second", destinationNamespace=wanted)
    second.becomes("NotOurs", conflicted=1)  # and does not belong to `first`, in whose name the marks are
    second.change(resourceManagementPolicy="Adopt")
    second.becomes("Synced", synced=1)
    second.delete()
    second.gone()
    theirs.becomes(colour="red")  # it was there before, so it is released


@pytest.mark.parametrize("named", ["its own sync", "another sync"])
def test_a_mark_with_a_key_that_was_made_up_does_not_keep_an_edit_from_being_put_right(
    world: World, account: Account, named: str
) -> None:
    world.source()
    hers, others = world.namespaces("mallory", "others")
    sync = world.sync(destinationNamespace=hers, resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    world.sync("other", destinationNamespace=others).becomes("Synced", synced=1)
    account.may(hers, "configmaps", "get", "update", "patch")
    mallory = Mallory(world, account, world.config_map(hers))
    changes = {} if named == "its own sync" else {"sync": f"ConfigMapSync/{world.home}/other"}
    marks = mallory.marks(hers, "app", proof="deadbeef.00000000000000000000000000000000", **changes)
    mallory.patch(world.config_map(hers), marks, colour="hers")
    world.config_map(hers).becomes(colour="red")
    sync.becomes("Synced", synced=1)
