"""A claim counts only where it could be carried out: who has no rights there keeps nobody waiting."""

import json

import pytest
from tests.configmapsync.world import Sync, until
from tests.manifestsync.world import Manifests
from tests.tenancy.accounts import ALL, Account
from tests.tenancy.policies import NAME_LABEL, Govern
from tests.tenancy.tenants import Tenant

from syncline.kube.reviews import ACCESS_REVIEWS
from syncline.testing.audit import OPERATOR, AuditLog


@pytest.fixture
def mallory(world: Manifests) -> Tenant:
    # Syncs of one second are ordered by name: those of this namespace are always older than those at home.
    return Tenant(world, world.namespace("a-mallory"))


def squat(world: Manifests, mallory: Tenant, name: str = "a-squatter", **spec: object) -> Sync:
    """Have mallory want a ConfigMap of the name `pull-config` in every namespace, as an account without rights."""
    everywhere = {"destinationNamespaces": [f"{world.name}-*"], "serviceAccountName": "nobody"}
    source = {"sourceNamespace": mallory.namespace, "configMapName": "pull-config"}
    return mallory.sync("ConfigMapSync", name, **{**source, **everywhere, **spec})


def reviewed(world: Manifests, mark: int, *users: str) -> set[str]:
    """Return whose rights were asked for since then, of these users."""
    asked = AuditLog(world.sandbox).entries(OPERATOR, since=mark, until=world.mark())
    return {entry.reviewed for entry in asked if entry.resource == ACCESS_REVIEWS.plural} & set(users)


def test_a_sync_without_rights_that_claims_a_name_everywhere_keeps_it_from_nobody(
    world: Manifests, mallory: Tenant
) -> None:
    mallory.create("v1", "ConfigMap", "configmaps", "pull-config", data={"registry": "mallory"})
    mallory.account()
    squatter = squat(world, mallory)
    squatter.becomes("SourceForbidden")
    targets = world.namespaces("team-a", "team-b", "victim")
    world.source("pull-config", registry="platform")
    victim = world.sync("pull", configMapName="pull-config", destinationNamespaces=targets)
    victim.becomes("Synced", synced=3, desired=3)
    for target in targets:
        world.config_map(target, "pull-config").becomes(registry="platform")
    later = world.namespace("team-later")
    victim.change(destinationNamespaces=[*targets, later])
    world.config_map(later, "pull-config").becomes(registry="platform")


def test_a_configsync_that_names_a_secret_of_others_does_not_keep_it_from_a_sync_that_may_write_it(
    world: Manifests, mallory: Tenant
) -> None:
    victim = world.namespace("victim")
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry-pull", "namespace": victim}}
    mallory.create("v1", "ConfigMap", "configmaps", "content", data={"it.yaml": json.dumps(manifest)})
    nobody = mallory.account()
    may_read = Account(world, nobody, home=mallory.namespace)
    may_read.may(mallory.namespace, "configmaps", "get", "list")
    squatter = mallory.sync(
        "ConfigSync", "a-squatter", serviceAccountName=nobody, source={"configMapRef": {"name": "content"}}
    )
    squatter.becomes("Forbidden")
    source = world.secret("registry-pull", password="red")
    sync = world.msync("sync", source, into=[victim], resourceManagementPolicy="Overwrite")
    sync.becomes("Synced", synced=1)
    world.find("Secret", victim, "registry-pull").holds(password="red")


def test_a_sync_that_could_be_carried_out_keeps_its_claim_until_its_account_loses_the_right(
    world: Manifests, account: Account
) -> None:
    target = world.namespace("a")
    world.source("other", colour="blue")
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    shared = {"destinationNamespace": target, "destinationName": "shared"}
    older = world.sync("a-older", configMapName="missing", serviceAccountName=account.name, **shared)
    older.becomes("SourceNotFound")
    younger = world.sync("b-younger", configMapName="other", **shared)
    younger.becomes("ClaimedByOther", conflicted=1)
    account.may(target, "configmaps")
    world.config_map(target, "shared").becomes(colour="blue")
    younger.becomes("Synced", synced=1)


def test_a_claim_on_namespaces_that_a_policy_does_not_allow_keeps_them_from_nobody(
    world: Manifests, mallory: Tenant, govern: Govern
) -> None:
    govern(labels={NAME_LABEL: mallory.namespace}, destinationNamespaces=["{namespace}"])
    mallory.create("v1", "ConfigMap", "configmaps", "pull-config", data={"registry": "mallory"})
    account = Account(world, mallory.account("robot"), home=mallory.namespace)
    account.may("", "configmaps", *ALL)
    target = world.namespace("victim")
    squatter = squat(world, mallory, serviceAccountName=account.name)
    until(lambda: json.dumps(squatter.status), lambda told: "NotAllowed" in told)
    world.source("pull-config", registry="platform")
    victim = world.sync("pull", configMapName="pull-config", destinationNamespace=target)
    victim.becomes("Synced", synced=1)
    world.config_map(target, "pull-config").becomes(registry="platform")
    account.end()


def test_rights_that_a_squatter_gets_later_take_nothing_from_who_was_served(world: Manifests, mallory: Tenant) -> None:
    mallory.create("v1", "ConfigMap", "configmaps", "pull-config", data={"registry": "mallory"})
    nobody = Account(world, mallory.account(), home=mallory.namespace)
    nobody.may(mallory.namespace, "configmaps", "get")
    target = world.namespace("victim")
    squatter = squat(world, mallory, destinationNamespaces=[target])
    squatter.becomes("Forbidden", failed=1)
    world.source("pull-config", registry="platform")
    victim = world.sync("pull", configMapName="pull-config", destinationNamespace=target)
    victim.becomes("Synced", synced=1)
    nobody.may(target, "configmaps", *ALL)
    squatter.now()
    squatter.becomes("OwnedByOther", conflicted=1)
    assert world.config_map(target, "pull-config").data == {"registry": "platform"}


def test_accounts_that_are_invented_by_the_dozen_delay_a_victim_no_more_than_one(
    world: Manifests, mallory: Tenant
) -> None:
    target = world.namespace("victim")
    accounts = [f"invented-{number:02}" for number in range(12)]
    for account in accounts:
        squatter = squat(world, mallory, account, serviceAccountName=account, destinationNamespaces=[target])
        squatter.becomes("SourceForbidden")
    world.source("pull-config", registry="platform")
    mark = world.mark()
    victim = world.sync("pull", configMapName="pull-config", destinationNamespace=target)
    victim.becomes("Synced", synced=1)
    users = [f"system:serviceaccount:{mallory.namespace}:{account}" for account in accounts]
    assert reviewed(world, mark, *users) == {users[0]}


def test_nobody_is_asked_for_rights_where_nobody_else_claims_a_target(world: Manifests, account: Account) -> None:
    target = world.namespace("a")
    world.source()
    account.may(world.home, "configmaps", "get")
    account.may(target, "configmaps", *ALL)
    mark = world.mark()
    sync = world.sync(destinationNamespace=target, serviceAccountName=account.name)
    sync.becomes("Synced", synced=1)
    world.config_map(target).delete()
    world.config_map(target).becomes(colour="red")
    assert not reviewed(world, mark, account.user)
