"""Roles are copied only as an account, so that the API server's own check holds: nobody gives what they lack."""

from tests.configmapsync.world import until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
READ_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}


def test_an_account_cannot_have_a_role_copied_with_rights_that_it_lacks(world: Manifests, account: Account) -> None:
    target = world.namespace("a")
    role = world.make("Role", rules=[READ_PODS, READ_SECRETS])
    account.may(world.home, "roles", "get")
    account.may(target, "roles", *ALL)
    account.may(target, "pods", "get")
    sync = world.msync("sync", role, into=[target], serviceAccountName=account.name)
    sync.becomes("Forbidden", failed=1)
    assert "attempting to grant RBAC permissions not currently held" in sync.target(target)["message"]
    assert world.find("Role", target).look() is None
    account.may(target, "secrets", "get")
    sync.becomes("Synced", synced=1)
    assert world.find("Role", target).read()["rules"] == [READ_PODS, READ_SECRETS]


def test_a_role_that_grows_beyond_the_account_is_not_copied_on(world: Manifests, account: Account) -> None:
    target = world.namespace("a")
    role = world.make("Role", rules=[READ_PODS])
    account.may(world.home, "roles", "get")
    account.may(target, "roles", *ALL)
    account.may(target, "pods", "get")
    sync = world.msync("sync", role, into=[target], serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    role.put("rules", value=[READ_PODS, READ_SECRETS])
    until(lambda: sync.conditions["Ready"]["status"], lambda status: status == "False")
    assert world.find("Role", target).read()["rules"] == [READ_PODS]
