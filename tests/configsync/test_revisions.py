"""Which commit is applied: what the revision means now, what a person asked for, or the last healthy one."""

import pytest
from tests.configmapsync.world import until
from tests.configsync.world import ConfigSync, GitWorld, config_map, fares, stateful_set


def _applied(world: GitWorld, sync: ConfigSync, **files: str) -> str:
    """Push a ConfigMap that holds this, and wait until it is applied."""
    commit = world.push({"app.yaml": config_map(**files)})
    sync.now()
    sync.at(commit)
    return commit


def test_the_history_tells_which_commits_were_applied(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(first)
    second = _applied(world, sync, colour="blue")
    assert sync.history == [second, first]
    assert [entry["changes"] for entry in sync.status["history"]] == ["1 updated", "1 created"]


def test_the_history_tells_of_commits_that_failed_and_no_rollback_goes_to_one(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(first)
    second = _applied(world, sync, colour="blue")
    broken = world.push({"app.yaml": "{"})
    sync.now()
    sync.becomes("BuildFailed")
    sync.now()
    told = [(entry["revision"], entry["result"], entry.get("reason")) for entry in sync.status["history"]]
    assert told == [(broken, "Failed", "BuildFailed"), (second, "Synced", None), (first, "Synced", None)]
    assert "app.yaml" in sync.status["history"][0]["message"]
    sync.change(rollback={"to": "Previous"})
    sync.holds_at("RolledBack", first)
    world.find("ConfigMap", world.home).holds_data(colour="red")


def test_a_rollback_to_the_previous_commit_holds_until_it_is_cleared(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(first)
    _applied(world, sync, colour="blue")
    sync.change(rollback={"to": "Previous"})
    status = sync.holds_at("RolledBack", first)
    assert (status["rollback"]["to"], status["rollback"]["requested"]) == (first, "Previous")
    assert sync.conditions["Ready"]["status"] == "True"
    app = world.find("ConfigMap", world.home)
    app.holds_data(colour="red")
    third = world.push({"app.yaml": config_map(colour="green")})
    sync.now()
    assert sync.revision == first
    assert app.at("data") == {"colour": "red"}
    sync.change(rollback=None)
    status = sync.at(third)
    app.holds_data(colour="green")
    assert "rollback" not in status


def test_a_rollback_to_a_commit_may_be_abbreviated_and_may_bring_objects_back(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red"), "old.yaml": config_map("old")})
    sync = world.csync()
    sync.at(first)
    second = world.push({"app.yaml": config_map(colour="blue"), "old.yaml": None})
    sync.now()
    sync.at(second)
    world.find("ConfigMap", world.home, "old").gone()
    sync.change(rollback={"to": first[:9]})
    sync.holds_at("RolledBack", first)
    world.find("ConfigMap", world.home, "old").appears()
    world.find("ConfigMap", world.home).holds_data(colour="red")


def test_a_rollback_to_a_commit_from_before_the_sync_reads_it_from_the_repository(world: GitWorld) -> None:
    old = world.push({"app.yaml": config_map(colour="old")})
    head = world.push({"app.yaml": config_map(colour="new")})
    sync = world.csync()
    sync.at(head)
    sync.change(rollback={"to": old})
    sync.holds_at("RolledBack", old)
    world.find("ConfigMap", world.home).holds_data(colour="old")


@pytest.mark.parametrize("commit", ["0123456789abcdef0123456789abcdef01234567", "0123456"])
def test_a_rollback_to_a_commit_that_does_not_exist_changes_nothing_and_says_so(world: GitWorld, commit: str) -> None:
    head = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(head)
    sync.change(rollback={"to": commit})
    reason = "RevisionNotFound" if len(commit) == 40 else "RollbackNotFound"
    ready = sync.becomes(reason)
    assert commit[:7] in ready["message"]
    assert world.find("ConfigMap", world.home).at("data") == {"colour": "red"}
    sync.change(rollback=None)
    sync.at(head)


def test_a_commit_that_does_not_become_healthy_makes_way_for_the_last_healthy_one(world: GitWorld) -> None:
    good = world.push({"app.yaml": stateful_set(image="example.com/app:1")})
    sync = world.csync(wait=True, timeout="1s", failurePolicy="Rollback")
    app = world.find("StatefulSet", world.home)
    app.appears()
    fares(app)
    sync.at(good)
    image = ("spec", "template", "spec", "containers", 0, "image")
    bad = world.push({"app.yaml": stateful_set(image="example.com/app:2"), "more.yaml": config_map("more")})
    sync.now()
    app.shows(*image, value="example.com/app:2")
    app.shows(*image, value="example.com/app:1")
    world.find("ConfigMap", world.home, "more").gone()
    fares(app)
    status = sync.holds_at("RolledBackOnFailure", good)
    assert status["rollback"]["requested"] == bad
    assert bad[:12] in sync.message
    better = world.push({"app.yaml": stateful_set(image="example.com/app:3")})
    sync.now()
    app.shows(*image, value="example.com/app:3")
    fares(app)
    sync.at(better)


def test_environments_have_their_own_path_namespace_values_and_history(world: GitWorld) -> None:
    dev, prod = world.namespaces("dev", "prod")
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {size: '{{ size }}', folder: %s}\n"
    first = world.push({"dev/app.yaml": text % "dev", "prod/app.yaml": text % "prod"})
    sync = world.csync(
        template={"enabled": True, "values": {"size": "small"}},
        environments=[
            {"name": "dev", "namespace": dev, "path": "dev"},
            {"name": "prod", "namespace": prod, "path": "prod", "values": {"size": "large"}},
        ],
    )
    sync.becomes("Synced", synced=2)
    world.find("ConfigMap", dev).holds_data(size="small", folder="dev")
    world.find("ConfigMap", prod).holds_data(size="large", folder="prod")
    second = world.push({"dev/app.yaml": text % "changed"})
    sync.now()
    sync.environment_at("dev", second)
    assert [entry["revision"] for entry in sync.environment("dev")["history"]] == [second, first]
    assert [entry["revision"] for entry in sync.environment("prod")["history"]] == [first]
    world.stays_quiet(sync)


def test_an_environment_is_promoted_by_its_revision_and_rolled_back_alone(world: GitWorld) -> None:
    dev, prod = world.namespaces("dev", "prod")
    first = world.push({"app.yaml": config_map(colour="red")})
    world.repository.tag("v1", first)
    environments = [{"name": "dev", "namespace": dev}, {"name": "prod", "namespace": prod, "revision": "v1"}]
    sync = world.csync(environments=environments)
    sync.environment_at("prod", first)
    second = world.push({"app.yaml": config_map(colour="blue")})
    sync.now()
    sync.environment_at("dev", second)
    assert world.find("ConfigMap", prod).at("data") == {"colour": "red"}
    sync.change(environments=[environments[0], {**environments[1], "revision": second}])
    sync.environment_at("prod", second)
    world.find("ConfigMap", prod).holds_data(colour="blue")
    sync.change(environments=[{**environments[0], "rollback": {"to": "Previous"}}, environments[1]])
    sync.environment_at("dev", first)
    world.find("ConfigMap", dev).holds_data(colour="red")
    assert sync.environment("dev")["rollback"]["to"] == first
    assert "rollback" not in sync.environment("prod")


def test_an_environment_that_leaves_the_spec_takes_its_objects_along_and_no_others(world: GitWorld) -> None:
    dev, prod = world.namespaces("dev", "prod")
    commit = world.push({"app.yaml": config_map()})
    environments = [{"name": "dev", "namespace": dev}, {"name": "prod", "namespace": prod}]
    sync = world.csync(environments=environments)
    sync.becomes("Synced", synced=2)
    kept = world.find("ConfigMap", prod).uid
    sync.change(environments=environments[1:])
    world.find("ConfigMap", dev).gone()
    until(lambda: sync.environment("dev"), lambda seen: not seen)
    sync.environment_at("prod", commit)
    assert world.find("ConfigMap", prod).uid == kept


def test_an_object_of_a_former_environment_that_may_not_be_removed_stays_and_the_deletion_guard_holds_all_the_same(
    world: GitWorld,
) -> None:
    dev, prod = world.namespaces("dev", "prod")
    kept = config_map("kept")
    kept["metadata"]["annotations"] = {"syncline.dev/prune": "Disabled"}
    many = {f"{number:02}.yaml": config_map(f"app-{number:02}") for number in range(12)}
    world.push({"kept.yaml": kept, **many})
    environments = [{"name": "dev", "namespace": dev}, {"name": "prod", "namespace": prod}]
    sync = world.csync(environments=environments)
    sync.becomes("Synced", synced=26)
    sync.change(environments=environments[1:])
    world.find("ConfigMap", dev, "app-00").gone()
    sync.becomes("Synced", synced=13)
    assert world.find("ConfigMap", dev, "kept").marked
    assert "sourceRevision" in sync.environment("dev")
    world.push(dict.fromkeys(many))
    sync.now()
    sync.becomes("DeletionHeld")


def test_a_suspended_sync_neither_follows_nor_repairs(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.at(first)
    sync.change(suspend=True)
    assert sync.becomes("Suspended")["status"] == "Unknown"
    assert sync.conditions["InvalidSource"]["status"] == "Unknown", "what is not looked at is not called valid"
    app = world.find("ConfigMap", world.home)
    app.put("data", "colour", value="green")
    second = world.push({"app.yaml": config_map(colour="blue")})
    sync.now()
    assert app.at("data") == {"colour": "green"}
    sync.change(suspend=False)
    sync.at(second)
    app.holds_data(colour="blue")


def test_a_forced_push_is_followed_like_any_other(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(colour="red")})
    first = world.push({"app.yaml": config_map(colour="blue"), "more.yaml": config_map("more")})
    sync = world.csync()
    sync.at(first)
    anew = world.repository.commit(
        {"app.yaml": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"}}'}, anew=True
    )
    sync.now()
    sync.at(anew)
    world.find("ConfigMap", world.home, "more").gone()
    world.find("ConfigMap", world.home).holds_data()


def test_a_deleted_branch_prunes_nothing(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")}, ref="refs/heads/release")
    sync = world.csync(git={"revision": "release"})
    sync.at(first)
    world.repository.delete("refs/heads/release")
    sync.now()
    ready = sync.becomes("RevisionNotFound")
    assert (ready["status"], sync.conditions["InvalidSource"]["status"]) == ("False", "True")
    app = world.find("ConfigMap", world.home)
    app.put("data", "colour", value="green")
    app.holds_data(colour="red")
    again = world.push({"app.yaml": config_map(colour="blue")}, ref="refs/heads/release")
    sync.now()
    sync.at(again)
    app.holds_data(colour="blue")


def test_a_moved_tag_and_a_newer_version_are_followed(world: GitWorld) -> None:
    first = world.push({"app.yaml": config_map(colour="red")})
    world.repository.tag("v1.0.0", first)
    world.repository.tag("stable", first, annotated=True)
    tagged, ranged = world.namespaces("tagged", "ranged")
    sync = world.csync(
        environments=[
            {"name": "tagged", "namespace": tagged, "revision": "stable"},
            {"name": "ranged", "namespace": ranged, "revision": ">=1.0.0 <2.0.0"},
        ]
    )
    sync.becomes("Synced", synced=2)
    second = world.push({"app.yaml": config_map(colour="blue")})
    world.repository.tag("v1.1.0", second)
    world.repository.tag("v2.0.0", world.push({"app.yaml": config_map(colour="green")}))
    world.repository.tag("stable", second, annotated=True)
    sync.now()
    for name, namespace in (("tagged", tagged), ("ranged", ranged)):
        sync.environment_at(name, second)
        world.find("ConfigMap", namespace).holds_data(colour="blue")


def test_an_empty_repository_is_told_and_followed_from_its_first_commit_on(world: GitWorld) -> None:
    sync = world.csync()
    assert sync.becomes("RevisionNotFound")["status"] == "False"
    commit = world.push({"app.yaml": config_map()})
    sync.now()
    sync.at(commit)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"app/app.yaml": None}, "PathNotFound"),
        ({"app/app.yaml": "# nothing\n"}, "EmptySource"),
        ({"app/app.yaml": "kind: [unclosed\n"}, "BuildFailed"),
    ],
    ids=["no such path", "no object", "broken"],
)
def test_what_cannot_be_all_removes_nothing_and_a_push_heals_it(
    world: GitWorld, files: dict[str, str | None], reason: str
) -> None:
    first = world.push({"app/app.yaml": config_map(colour="red"), "other.yaml": config_map("other")})
    sync = world.csync(git={"path": "app"})
    sync.at(first)
    world.push(files)
    sync.now()
    sync.holds_at(reason, first)
    assert sync.conditions["InvalidSource"]["status"] == "True"
    app = world.find("ConfigMap", world.home)
    app.put("data", "colour", value="green")
    app.holds_data(colour="red")
    healed = world.push({"app/app.yaml": config_map(colour="blue")})
    sync.now()
    sync.at(healed)
    assert sync.conditions["InvalidSource"]["status"] == "False"
