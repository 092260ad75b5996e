"""Environments that meet: at one object, or when one takes the place of another."""

from tests.configmapsync.world import until
from tests.configsync.world import GitWorld, config_map, manifest
from tests.tenancy.accounts import ALL, Account


def test_of_two_environments_that_want_one_object_one_has_it_and_the_other_says_so(world: GitWorld) -> None:
    world.push({"one/app.yaml": config_map(colour="one"), "two/app.yaml": config_map(colour="two")})
    sync = world.csync(environments=[{"name": "one", "path": "one"}, {"name": "two", "path": "two"}])
    ready = sync.becomes("OwnedByOther", synced=1, conflicted=1)
    assert f"{world.home}/sync/one" in ready["message"]
    world.stays_quiet(sync)
    assert world.find("ConfigMap", world.home).at("data") == {"colour": "one"}
    sync.change(environments=[{"name": "two", "path": "two"}])
    world.find("ConfigMap", world.home).holds_data(colour="two")
    sync.becomes("Synced", synced=1)


def test_objects_pass_to_the_environment_that_takes_their_place_and_are_not_made_anew(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map(colour="red"), "other.yaml": config_map("other")})
    sync = world.csync()
    sync.at(commit)
    app = world.find("ConfigMap", world.home)
    uid = app.uid
    sync.change(environments=[{"name": "dev"}])
    sync.environment_at("dev", commit)
    sync.becomes("Synced", synced=2)
    assert app.uid == uid
    sync.change(environments=[{"name": "development"}])
    sync.environment_at("development", commit)
    assert sync.environment("dev") == {}
    assert app.uid == uid
    sync.change(environments=None)
    sync.at(commit)
    assert app.uid == uid
    sync.delete()
    app.gone()


def test_what_one_environment_lets_go_another_takes(world: GitWorld) -> None:
    world.push(
        {"a/app.yaml": config_map(colour="a"), "b/app.yaml": config_map(colour="b"), "c/x.yaml": config_map("x")}
    )
    first = {"name": "first", "path": "b"}
    sync = world.csync(environments=[first, {"name": "second", "path": "a"}])
    sync.becomes("OwnedByOther", synced=1, conflicted=1)
    sync.change(environments=[{**first, "path": "c"}, {"name": "second", "path": "a"}])
    sync.becomes("Synced", synced=2)
    world.find("ConfigMap", world.home).holds_data(colour="a")


def test_an_environment_keeps_its_objects_until_those_that_stay_are_applied(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(commit)
    app = world.find("ConfigMap", world.home)
    uid = app.uid
    sync.change(environments=[{"name": "dev", "path": "later"}])
    sync.becomes("PathNotFound")
    sync.now()
    assert app.uid == uid
    healed = world.push({"later/app.yaml": config_map(colour="blue")})
    sync.now()
    sync.environment_at("dev", healed)
    app.holds_data(colour="blue")
    assert app.uid == uid


def test_what_the_server_says_of_a_value_from_a_secret_is_not_repeated_for_an_environment(world: GitWorld) -> None:
    canary = "canary-environments"
    world.secret("values", values=f"affinity: {canary}")
    service = {"sessionAffinity": "{{ affinity }}", "ports": [{"port": 80}]}
    world.push({"app.yaml": manifest("v1", "Service", "app", spec=service)})
    account = Account(world)
    account.may(world.home, "secrets", "get")
    account.may(world.home, "services", *ALL)
    sync = world.csync(
        environments=[{"name": "dev"}],
        template={"enabled": True, "valuesFrom": [{"kind": "Secret", "name": "values", "key": "values"}]},
        serviceAccountName=account.name,
    )
    until(lambda: sync.environment("dev"), lambda dev: dev.get("ready") == "False" and dev.get("history"))
    assert canary not in str(sync.read())
