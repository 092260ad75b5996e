"""What left Git leaves the cluster: what is ours, all of it, and nothing else."""

import pytest
from tests.configmapsync.world import until
from tests.configsync.world import ConfigSync, GitWorld, config_map, definition, manifest

from syncline.api.common import CONFIRM_DELETION


def test_losing_much_at_once_waits_for_a_person(world: GitWorld) -> None:
    many = {f"{number:02}.yaml": config_map(f"app-{number:02}") for number in range(20)}
    world.push(many)
    sync = world.csync()
    sync.becomes("Synced", synced=20)
    fewer = world.push(dict.fromkeys(list(many)[:11]))
    sync.now()
    ready = sync.becomes("DeletionHeld")
    assert "11 of 20" in ready["message"]
    assert len(world.copies()) == 20
    sync.annotate({CONFIRM_DELETION: ready["message"].rpartition("=")[2]})
    sync.at(fewer)
    assert len(world.copies()) == 9


def test_another_path_asks_for_what_it_removes_and_for_nothing_that_later_commits_remove(world: GitWorld) -> None:
    many = {f"new/{number:02}.yaml": config_map(f"app-{number:02}") for number in range(20)}
    old = {f"old/{number:02}.yaml": config_map(f"old-{number:02}") for number in range(12)}
    world.push({**many, **old})
    sync = world.csync(git={"path": "old"})
    sync.becomes("Synced", synced=12)
    with world.refusing_deletes(world.home, "old-00"):
        sync.change(source=world.git(path="new"))
        sync.becomes("Forbidden", synced=20)
        assert len(world.copies()) == 21
        world.push(dict.fromkeys(many) | {"new/stays.yaml": config_map("stays")})
        sync.now()
        assert "20 of 21" in sync.becomes("DeletionHeld")["message"]
        assert len(world.copies()) == 22
    sync.now()
    world.find("ConfigMap", world.home, "old-00").gone()


def test_an_edit_of_one_environment_asks_for_nothing_in_the_others(world: GitWorld) -> None:
    dev, prod = world.namespaces("dev", "prod")
    many = {f"live/{number:02}.yaml": config_map(f"app-{number:02}") for number in range(12)}
    world.push({**many, "live/stays.yaml": config_map("stays"), "next/app.yaml": config_map("next")})
    environments = [
        {"name": "dev", "namespace": dev, "path": "live"},
        {"name": "prod", "namespace": prod, "path": "live"},
    ]
    sync = world.csync(environments=environments)
    sync.becomes("Synced", synced=26)
    sync.change(suspend=True)
    sync.becomes("Suspended")
    world.push(dict.fromkeys(many))
    sync.change(suspend=False, environments=[{**environments[0], "path": "next"}, environments[1]])
    assert "12 of 13" in sync.becomes("DeletionHeld")["message"]
    world.find("ConfigMap", dev, "app-00").gone()
    assert world.find("ConfigMap", prod, "app-00").marked


def test_an_object_that_leaves_the_list_of_targets_goes_without_a_confirmation(world: GitWorld) -> None:
    many = {f"{number:02}.yaml": config_map(f"app-{number:02}") for number in range(12)}
    world.push(many)
    targets = [{"type": "ConfigMap", "name": f"app-{number:02}"} for number in range(12)]
    sync = world.csync(targets=targets)
    sync.becomes("Synced", synced=12)
    sync.change(targets=targets[:1])
    sync.becomes("Synced", synced=1)
    assert len(world.copies()) == 1


def test_without_prune_nothing_is_removed(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(), "other.yaml": config_map("other")})
    sync = world.csync(prune=False)
    sync.becomes("Synced", synced=2)
    commit = world.push({"other.yaml": None})
    sync.now()
    sync.at(commit)
    assert world.find("ConfigMap", world.home, "other").marked


def test_an_object_that_says_so_in_git_outlives_its_manifest(world: GitWorld) -> None:
    kept = config_map("kept")
    kept["metadata"]["annotations"] = {"syncline.dev/prune": "Disabled"}
    world.push({"app.yaml": config_map(), "kept.yaml": kept, "other.yaml": config_map("other")})
    sync = world.csync()
    sync.becomes("Synced", synced=3)
    commit = world.push({"kept.yaml": None, "other.yaml": None})
    sync.now()
    world.find("ConfigMap", world.home, "other").gone()
    sync.at(commit)
    assert world.find("ConfigMap", world.home, "kept").look() is not None


def test_an_object_that_moves_to_another_file_is_not_written_at_all(world: GitWorld) -> None:
    world.push({"one.yaml": config_map(), "other.yaml": config_map("other")})
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    uid = world.find("ConfigMap", world.home).uid
    moved = world.push({"one.yaml": None, "two/moved.yaml": config_map()})
    sync.now()
    sync.at(moved)
    assert world.find("ConfigMap", world.home).uid == uid


def test_a_renamed_object_is_there_under_its_new_name_before_the_old_one_goes(world: GitWorld) -> None:
    world.push({"app.yaml": config_map("old")})
    sync = world.csync()
    sync.becomes("Synced", synced=1)
    mark = world.mark()
    world.push({"app.yaml": config_map("new")})
    sync.now()
    world.find("ConfigMap", world.home, "old").gone()
    assert world.find("ConfigMap", world.home, "new").marked
    verbs = [entry.split()[0] for entry in world.copying(mark)]
    assert verbs == ["create", "delete"], world.copying(mark)


def test_a_sync_that_orphans_leaves_everything_when_it_is_deleted(world: GitWorld) -> None:
    commit = world.push({"app.yaml": config_map()})
    sync = world.csync(deletionPolicy="Orphan")
    sync.at(commit)
    sync.delete()
    sync.gone()
    assert world.find("ConfigMap", world.home).look() is not None


def test_what_was_only_ever_in_a_revision_that_failed_is_removed_with_the_next_one(world: GitWorld) -> None:
    world.push({"app.yaml": config_map()})
    sync = world.csync()
    sync.becomes("Synced", synced=1)
    world.push({"half.yaml": config_map("half"), "bad.yaml": manifest("example.com/v1", "Unheard", "bad")})
    sync.now()
    sync.becomes("KindNotServed", synced=2, failed=1)
    half = world.find("ConfigMap", world.home, "half")
    assert half.marked
    fixed = world.push({"half.yaml": None, "bad.yaml": None})
    sync.now()
    half.gone()
    sync.at(fixed)


def test_nothing_is_removed_while_a_revision_is_only_applied_in_part(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(), "old.yaml": config_map("old")})
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    world.push({"old.yaml": None, "bad.yaml": manifest("example.com/v1", "Unheard", "bad")})
    sync.now()
    sync.becomes("KindNotServed", synced=1, failed=1)
    assert world.find("ConfigMap", world.home, "old").marked


def _stays(sync: ConfigSync, kind: str, reason: str = "HoldsUnmanaged") -> str:
    """Wait until the status says that an object stays; return why."""

    def entry() -> str:
        found = sync.status.get("targetStatuses", [])
        return next(
            (str(one["message"]) for one in found if one.get("kind") == kind and one.get("reason") == reason), ""
        )

    return until(entry, bool)


@pytest.mark.own_rights
def test_a_namespace_that_holds_what_others_have_put_there_stays(world: GitWorld) -> None:
    namespace = f"{world.name}-made"
    made = world.find("Namespace", name=namespace)
    world.leave_behind(made)
    world.push(
        {
            "app.yaml": config_map(),
            "space.yaml": manifest("v1", "Namespace", namespace),
            "inside.yaml": config_map("inside", namespace),
        }
    )
    sync = world.csync()
    sync.becomes("Synced", synced=3)
    commit = world.push({"space.yaml": None, "inside.yaml": None})
    sync.now()
    assert "cannot list" in _stays(sync, "Namespace", "Unproven")
    assert world.find("ConfigMap", namespace, "inside").look() is None
    with world.seeing_everything():
        stranger = world.put(namespace, "precious", a="1")
        sync.now()
        assert "precious" in _stays(sync, "Namespace")
        assert "precious" in sync.message
        assert sync.conditions["Ready"]["status"] == "True"
        stranger.delete()
        sync.now()
        until(made.look, lambda seen: seen is None or "deletionTimestamp" in seen["metadata"])
    sync.at(commit)


def test_a_namespace_stays_while_git_still_wants_something_in_it(world: GitWorld) -> None:
    namespace = f"{world.name}-made"
    made = world.find("Namespace", name=namespace)
    world.leave_behind(made)
    world.push({"space.yaml": manifest("v1", "Namespace", namespace), "inside.yaml": config_map("inside", namespace)})
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    with world.seeing_everything():
        world.push({"space.yaml": None})
        sync.now()
        assert "still wants" in _stays(sync, "Namespace")
    assert world.find("ConfigMap", namespace, "inside").marked


def test_a_definition_stays_while_others_have_objects_of_its_kind_also_when_the_sync_goes(world: GitWorld) -> None:
    kind, plural = f"{world.name.title()}Kept", f"{world.name}kepts"
    crd = world.find("CustomResourceDefinition", name=f"{plural}.example.com")
    world.leave_behind(crd)
    commit = world.push({"kind.yaml": definition(plural, kind), "thing.yaml": manifest("example.com/v1", kind, "ours")})
    sync = world.csync()
    sync.at(commit)
    theirs = world.custom(kind, plural, world.home, "theirs")
    theirs.create(manifest("example.com/v1", kind, "theirs"))
    sync.delete()
    sync.gone()
    assert "theirs" in sync.tells("CopiesLeft")["note"]
    assert world.custom(kind, plural, world.home, "ours").look() is None
    assert theirs.look() is not None


def test_a_kind_that_could_never_be_watched_holds_up_no_deletion_and_is_not_on_record(world: GitWorld) -> None:
    quota = manifest("v1", "ResourceQuota", "quota", spec={"hard": {"pods": "1"}})
    world.push({"app.yaml": config_map("app"), "quota.yaml": quota})
    sync = world.csync()
    sync.becomes("KindNotWatched", synced=1, failed=1)
    assert sync.status["written"] == ["ConfigMap"]
    sync.delete()
    sync.gone()
    world.find("ConfigMap", world.home).gone()


def test_a_kind_that_the_same_commit_defines_is_on_record_before_it_is_written(world: GitWorld) -> None:
    plural, kind = f"gears{world.name}", f"Gear{world.name}"
    world.push(
        {
            "definition.yaml": definition(plural, kind),
            "gear.yaml": manifest("example.com/v1", kind, "one", world.home),
            "app.yaml": config_map("app"),
        }
    )
    sync = world.csync()
    sync.becomes("Synced", synced=3)
    assert sync.status["written"] == [
        "ConfigMap",
        "CustomResourceDefinition.apiextensions.k8s.io",
        f"{kind}.example.com",
    ]
    sync.delete()
    sync.gone()
    world.find("ConfigMap", world.home).gone()
    world.custom(kind, plural, world.home, "one").gone()
