"""Roles and bindings are copied only as an account: the API server then sees to it that nobody gives what they lack."""

from tests.configmapsync.world import Json, until
from tests.manifestsync.world import Manifests, Object
from tests.tenancy.accounts import ALL, RBAC, Account, is_allowed

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
VIEWER = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
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


def binding(world: Manifests, name: str = "app", role: Json = VIEWER) -> Object:
    """Let the account `viewer` of the sync's namespace have a role there; copies give it the role elsewhere too."""
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": world.home}
    return world.make("RoleBinding", name=name, roleRef=role, subjects=[subject])


def test_a_role_binding_is_copied_as_an_account_that_may_bind_its_role(world: Manifests, account: Account) -> None:
    target = world.namespace("a")
    account.may(world.home, "rolebindings", "get")
    account.may(target, "rolebindings", *ALL)
    account.may(target, "clusterroles", "bind")
    source = binding(world)
    sync = world.msync("sync", source, into=[target], serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    copy = world.find("RoleBinding", target)
    assert (copy.read()["roleRef"], copy.read()["subjects"]) == (source.read()["roleRef"], source.read()["subjects"])
    viewer = f"system:serviceaccount:{world.home}:viewer"
    until(lambda: is_allowed(world.sandbox, viewer, target, "configmaps", "list"), bool)
    copy.put("subjects", value=[])
    until(lambda: copy.read().get("subjects"), lambda subjects: subjects == source.read()["subjects"])
    sync.delete()
    copy.gone()
    until(lambda: is_allowed(world.sandbox, viewer, target, "configmaps", "list"), lambda allowed: not allowed)


def test_a_role_binding_that_its_account_may_not_make_is_refused_by_the_server_and_told(
    world: Manifests, account: Account
) -> None:
    target = world.namespace("a")
    account.may(world.home, "rolebindings", "get")
    account.may(target, "rolebindings", *ALL)
    sync = world.msync("sync", binding(world), into=[target], serviceAccountName=account.name)
    sync.becomes("Forbidden", failed=1)
    assert "attempting to grant RBAC permissions not currently held" in sync.target(target)["message"]
    assert sync.tells("Forbidden")["type"] == "Warning"
    assert sync.status["history"][0]["result"] == "Failed"
    assert world.find("RoleBinding", target).look() is None
    account.may(target, "clusterroles", "bind")
    sync.becomes("Synced", synced=1)
