"""Who acts: the account that a sync names, with its rights and no others; and what is said where rights are missing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from tests.configmapsync.world import Json, Thing, World, until

from syncline.api.common import ABANDON

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALL = ("get", "create", "update", "patch", "delete")
CONFIG_MAPS_ROLE = f"{RBAC}/clusterroles/syncline-configmaps"


class Account:
    """A service account at home, and what it may do with ConfigMaps."""

    def __init__(self, world: World, name: str = "robot") -> None:
        self._world = world
        self.name = name
        self.user = f"system:serviceaccount:{world.home}:{name}"
        Thing(world.sandbox, f"/api/v1/namespaces/{world.home}/serviceaccounts", name).create(
            {"metadata": {"name": name}}
        )

    def may(self, namespace: str, *verbs: str) -> None:
        """Have exactly these rights in a namespace from now on."""
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}] if verbs else []
        self._put(namespace, "roles", {"rules": rules})
        self._put(
            namespace,
            "rolebindings",
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.name},
                "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self._world.home}],
            },
        )

    def _put(self, namespace: str, plural: str, body: Json) -> None:
        kind = {"roles": "Role", "rolebindings": "RoleBinding"}[plural]
        path = f"{RBAC}/namespaces/{namespace}/{plural}/{self.name}?fieldManager=tests&force=true"
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": self.name}}
        self._world.sandbox.request("PATCH", path, {**head, **body})


@pytest.fixture
def account(world: World) -> Account:
    return Account(world)


def test_all_reads_and_writes_of_a_sync_are_those_of_its_account(world: World, account: Account) -> None:
    source = world.source()
    stays, leaves = world.namespaces("stays", "leaves")
    theirs = world.put(leaves, theirs="1")
    account.may(world.home, "get")
    for target in (stays, leaves):
        account.may(target, *ALL)
    mark = world.mark()
    sync = world.sync(destinationNamespaces=[stays, leaves], serviceAccountName=account.name)
    sync.becomes("NotOurs", synced=1)
    theirs.delete()
    sync.becomes("Synced", synced=2)
    source.set(colour="blue")
    world.config_map(stays).becomes(colour="blue")
    world.config_map(stays).set(colour="pink")
    world.config_map(stays).becomes(colour="blue")
    sync.change(destinationNamespaces=[stays])
    world.config_map(leaves).gone()
    sync.delete()
    sync.gone()
    asked = [entry for entry in world.requests(mark) if entry.resource == "configmaps"]
    assert {entry.impersonated for entry in asked} == {account.user}
    assert {entry.verb for entry in asked} == {"get", "create", "patch", "delete"}
    assert not [str(entry) for entry in asked if entry.denied]


def test_an_account_that_may_not_read_the_source_is_named_and_heals_once_it_may(world: World, account: Account) -> None:
    world.source()
    target = world.namespace("a")
    account.may(target, *ALL)
    sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    ready = sync.becomes("SourceForbidden", unknown=1)
    assert ready["status"] == "False"
    assert f"cannot get configmaps 'app' in namespace '{world.home}': 403 Forbidden" in ready["message"]
    assert f'User "{account.user}" cannot get resource "configmaps"' in ready["message"]
    assert sync.conditions["Reconciling"]["status"] == "True"
    account.may(world.home, "get")
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")


def test_an_account_that_may_not_write_is_named_with_verb_kind_and_namespace_and_heals_once_it_may(
    world: World, account: Account
) -> None:
    world.source()
    open_, closed = world.namespaces("open", "closed")
    account.may(world.home, "get")
    account.may(open_, *ALL)
    sync = world.sync(destinationNamespaces=[open_, closed], serviceAccountName=account.name)
    sync.becomes("Forbidden", synced=1, failed=1)
    assert world.config_map(open_).data == {"colour": "red"}
    message = sync.target(closed)["message"]
    assert message.startswith("run `syncline grant configmaps --to ")
    assert f" -n {closed}`: cannot create configmaps in namespace '{closed}': 403 Forbidden" in message
    assert account.user in message
    account.may(closed, *ALL)
    world.config_map(closed).becomes(colour="red")
    sync.becomes("Synced", synced=2)


def test_the_operators_own_rights_never_stand_in_for_those_of_an_account_that_lost_them(
    world: World, account: Account
) -> None:
    source = world.source()
    target = world.namespace("a")
    account.may(world.home, "get")
    account.may(target, *ALL)
    sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    sync.becomes("Synced")
    account.may(target, "get")
    source.set(colour="blue")
    ready = sync.becomes("Forbidden")
    assert f"cannot patch configmaps 'app' in namespace '{target}'" in ready["message"]
    assert world.config_map(target).data == {"colour": "red"}
    sync.delete()
    ready = sync.becomes("CleanupFailed")
    assert ready["message"].startswith("1 copies cannot be removed yet, they are left where they are after 5 minutes")
    assert f": {target}/app: " in ready["message"]
    assert f": cannot delete configmaps 'app' in namespace '{target}'" in ready["message"]
    assert world.config_map(target).data == {"colour": "red"}
    account.may(target, *ALL)
    sync.gone()
    assert world.config_map(target).look() is None


def test_copies_stay_when_the_account_may_no_longer_read_the_source(world: World, account: Account) -> None:
    source = world.source()
    target = world.namespace("a")
    account.may(world.home, "get")
    account.may(target, *ALL)
    sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    sync.becomes("Synced")
    account.may(world.home)
    source.delete()
    sync.becomes("SourceForbidden", unknown=1)
    sync.now()
    assert world.config_map(target).data == {"colour": "red"}
    account.may(world.home, "get")
    world.config_map(target).gone()
    sync.becomes("SourceNotFound")


def test_a_sync_that_cannot_clean_up_goes_at_once_when_it_is_abandoned(world: World, account: Account) -> None:
    world.source()
    target = world.namespace("a")
    account.may(world.home, "get")
    account.may(target, *ALL)
    sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    sync.becomes("Synced")
    account.may(target, "get")
    sync.delete()
    sync.becomes("CleanupFailed")
    sync.annotate({ABANDON: "true"})
    sync.gone()
    assert world.config_map(target).data == {"colour": "red"}


def test_an_account_that_does_not_exist_has_no_rights(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, serviceAccountName="nobody")
    ready = sync.becomes("SourceForbidden")
    assert f"system:serviceaccount:{world.home}:nobody" in ready["message"]
    assert world.config_map(target).look() is None


@contextmanager
def operator_may(world: World, verbs: Sequence[str]) -> Iterator[None]:
    """Let the operator itself do only this with ConfigMaps."""
    sandbox = world.sandbox
    role = sandbox.request("GET", CONFIG_MAPS_ROLE)

    def grant(granted: Sequence[str]) -> None:
        now = sandbox.request("GET", CONFIG_MAPS_ROLE)
        sandbox.request("PUT", CONFIG_MAPS_ROLE, {**now, "rules": [{**now["rules"][0], "verbs": list(granted)}]})
        until(
            lambda: sandbox.request("GET", f"{RBAC}/clusterroles/syncline")["rules"],
            lambda rules: [rule["verbs"] for rule in rules if "configmaps" in rule["resources"]] == [list(granted)],
        )

    grant(verbs)
    try:
        yield
    finally:
        grant(role["rules"][0]["verbs"])


@pytest.mark.own_rights
def test_where_the_operator_itself_may_not_write_the_target_says_so_and_heals(world: World) -> None:
    world.source()
    target = world.namespace("a")
    with operator_may(world, ("get", "list", "watch", "delete")):
        sync = world.sync(destinationNamespace=target)
        ready = sync.becomes("Forbidden", failed=1)
        assert f"cannot create configmaps in namespace '{target}': 403 Forbidden" in ready["message"]
        assert sync.tells("Forbidden")["type"] == "Warning"
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")
