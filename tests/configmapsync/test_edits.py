"""conflictPolicy: what becomes of a copy that somebody changed."""

import pytest
from tests.configmapsync.world import ConfigMap, Sync, World


def scene(world: World, policy: str, **data: str) -> tuple[ConfigMap, ConfigMap, Sync]:
    """Return a source, its copy and their sync, in agreement."""
    source = world.source(**data)
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, conflictPolicy=policy)
    sync.becomes("Synced")
    return source, world.config_map(target), sync


def test_source_wins_repairs_a_changed_copy_and_tells_who_had_changed_it(world: World) -> None:
    _, copy, sync = scene(world, "SourceWins", colour="red", size="big")
    uid = copy.uid
    copy.set("kubectl-edit", colour="pink", size=None, mine="x")
    copy.becomes(colour="red", size="big")
    assert copy.uid == uid
    event = sync.tells("DriftRepaired")
    assert event["type"] == "Normal"
    assert f"{copy.namespace}/app: changed by kubectl-edit" in event["note"]
    sync.did("1 repaired")


def test_source_wins_creates_a_deleted_copy_again(world: World) -> None:
    _, copy, sync = scene(world, "SourceWins", colour="red")
    copy.delete()
    copy.becomes(colour="red")
    sync.did("1 created")


def test_source_wins_removes_keys_that_others_added_to_an_empty_copy(world: World) -> None:
    world.put(world.home, body={"data": None})
    target = world.namespace("a")
    world.sync(destinationNamespace=target).becomes("Synced")
    copy = world.config_map(target)
    copy.set(mine="x")
    copy.becomes()


def test_skip_leaves_a_changed_copy_until_it_equals_the_source(world: World) -> None:
    source, copy, sync = scene(world, "Skip", colour="red", size="big")
    source.set(size="small")
    copy.becomes(colour="red", size="small")
    copy.set("kubectl-edit", colour="pink")
    ready = sync.becomes("Edited", conflicted=1)
    assert "changed by kubectl-edit; conflictPolicy Skip leaves it until it equals the source or is deleted" in str(
        ready
    )
    assert sync.conditions["Conflicted"]["reason"] == "Edited"
    source.set(size="tiny")
    sync.now()
    assert copy.data == {"colour": "pink", "size": "small"}
    copy.set(colour="red", size="tiny")
    sync.becomes("Synced")
    assert "Conflicted" not in sync.conditions
    source.set(colour="blue")
    copy.becomes(colour="blue", size="tiny")


def test_skip_creates_a_changed_copy_anew_once_it_is_deleted(world: World) -> None:
    _, copy, sync = scene(world, "Skip", colour="red")
    copy.set(colour="pink")
    sync.becomes("Edited")
    copy.delete()
    copy.becomes(colour="red")
    sync.becomes("Synced")


def test_skip_lets_the_source_catch_up_with_the_edit(world: World) -> None:
    source, copy, sync = scene(world, "Skip", colour="red")
    copy.set(colour="pink")
    sync.becomes("Edited")
    source.set(colour="pink")
    sync.becomes("Synced")
    source.set(colour="blue")
    copy.becomes(colour="blue")


def test_merge_keeps_edits_of_other_keys(world: World) -> None:
    source, copy, sync = scene(world, "Merge", colour="red", size="big", taste="sweet")
    copy.set(size="small", mine="x")
    source.set(colour="blue", new="1")
    copy.becomes(colour="blue", size="small", taste="sweet", mine="x", new="1")
    source.set(taste=None)
    copy.becomes(colour="blue", size="small", mine="x", new="1")
    assert sync.becomes("Synced")["status"] == "True"


def test_merge_keeps_what_changed_on_both_sides_reports_it_and_heals_when_they_agree(world: World) -> None:
    source, copy, sync = scene(world, "Merge", colour="red", size="big")
    copy.set(colour="pink")
    sync.now()
    source.set(colour="blue", size="small")
    copy.becomes(colour="pink", size="small")
    ready = sync.becomes("EditedOnBothSides", conflicted=1)
    assert "changed here and in the source, kept as it is here: colour" in ready["message"]
    assert sync.conditions["Conflicted"]["reason"] == "EditedOnBothSides"
    sync.now()
    assert copy.data == {"colour": "pink", "size": "small"}
    copy.set(colour="blue")
    sync.becomes("Synced")
    source.set(colour="green")
    copy.becomes(colour="green", size="small")


def test_merge_heals_when_the_source_takes_the_edit_over(world: World) -> None:
    source, copy, sync = scene(world, "Merge", colour="red")
    copy.set(colour="pink")
    source.set(colour="blue")
    sync.becomes("EditedOnBothSides")
    source.set(colour="pink")
    sync.becomes("Synced")
    source.set(colour="green")
    copy.becomes(colour="green")


def test_merge_leaves_a_key_that_was_deleted_at_the_destination_deleted(world: World) -> None:
    source, copy, sync = scene(world, "Merge", colour="red", size="big")
    copy.set(size=None)
    sync.now()
    source.set(colour="blue")
    copy.becomes(colour="blue")
    sync.becomes("Synced")


def test_merge_creates_a_deleted_copy_again(world: World) -> None:
    source, copy, sync = scene(world, "Merge", colour="red")
    copy.delete()
    copy.becomes(colour="red")
    copy.set(mine="x")
    source.set(colour="blue")
    copy.becomes(colour="blue", mine="x")
    sync.becomes("Synced")


def test_merge_works_on_binary_data_too(world: World) -> None:
    source = world.put(world.home, body={"binaryData": {"logo": "AAEC", "icon": "AwQF"}})
    target = world.namespace("a")
    copy = world.config_map(target)
    sync = world.sync(destinationNamespace=target, conflictPolicy="Merge")
    sync.becomes("Synced")
    copy.edit(lambda body: body["binaryData"].update(mine="/w=="))
    source.edit(lambda body: body.update(binaryData={"logo": "BgcI"}, data={"text": "x"}))
    copy.becomes(text="x")
    assert copy.read()["binaryData"] == {"logo": "BgcI", "mine": "/w=="}


@pytest.mark.parametrize("edited", [False, True], ids=["untouched", "edited meanwhile"])
def test_the_policy_may_be_switched_from_source_wins_to_merge_later(world: World, edited: bool) -> None:
    source, copy, sync = scene(world, "SourceWins", colour="red", size="big")
    sync.change(conflictPolicy="Merge", **({"suspend": True} if edited else {}))
    if edited:
        sync.becomes("Suspended")
        copy.set(mine="x")
        sync.change(suspend=False)
    sync.becomes("Synced")
    kept = {"mine": "x"} if edited else {}
    assert copy.data == {"colour": "red", "size": "big", **kept}
    copy.set(size="small")
    source.set(colour="blue")
    copy.becomes(colour="blue", size="small", **kept)


def test_the_policy_may_be_switched_from_merge_to_source_wins_later(world: World) -> None:
    _, copy, sync = scene(world, "Merge", colour="red")
    copy.set(mine="x", colour="pink")
    sync.now()
    sync.change(conflictPolicy="SourceWins")
    copy.becomes(colour="red")
    sync.becomes("Synced")
    assert copy.annotations == {}


def test_adopting_with_merge_keeps_foreign_keys_and_reports_those_that_differ(world: World) -> None:
    world.source(colour="red", size="big")
    target = world.namespace("a")
    theirs = world.put(target, theirs="1", colour="green")
    sync = world.sync(destinationNamespace=target, resourceManagementPolicy="Adopt", conflictPolicy="Merge")
    ready = sync.becomes("EditedOnBothSides", conflicted=1)
    assert "kept as it is here: colour" in ready["message"]
    assert theirs.data == {"theirs": "1", "colour": "green", "size": "big"}
    theirs.set(colour="red")
    sync.becomes("Synced")


def test_a_copy_may_be_taken_out_of_repair(world: World) -> None:
    source, copy, sync = scene(world, "SourceWins", colour="red")
    copy.annotate({"syncline.dev/reconcile": "Disabled"})
    assert sync.says(copy.namespace, "ReconcileDisabled")["status"] == "Skipped"
    copy.set(colour="pink")
    source.set(colour="blue")
    sync.now()
    assert copy.data == {"colour": "pink"}
    assert sync.becomes("Synced", skipped=1)["message"] == "0 targets agree with the source, 1 skipped"
    copy.annotate({"syncline.dev/reconcile": None})
    copy.becomes(colour="blue")


@pytest.mark.parametrize("policy", ["SourceWins", "Merge"])
def test_an_immutable_copy_that_differs_is_made_anew(world: World, policy: str) -> None:
    source, copy, sync = scene(world, policy, colour="red")
    uid = copy.uid
    copy.edit(lambda body: body.update(immutable=True))
    source.set(colour="blue")
    copy.becomes(colour="blue")
    assert copy.uid != uid
    assert not copy.read().get("immutable")
    sync.becomes("Synced")


def test_each_key_is_treated_by_its_own_policy(world: World) -> None:
    there = world.namespace("there")
    source = world.source(logo="reel", greeting="welcome", notice="open")
    rules = [{"keys": ["greet*"], "conflictPolicy": "Merge"}, {"keys": ["notice"], "conflictPolicy": "Skip"}]
    sync = world.sync(destinationNamespace=there, keyPolicies=rules)
    copy = world.config_map(there)
    sync.becomes("Synced")
    copy.set(logo="ours", greeting="hello", added="here")
    copy.becomes(logo="reel", greeting="hello", notice="open")
    assert "somebody" in sync.tells("DriftRepaired")["note"]
    sync.becomes("Synced")
    copy.set(notice="closed")
    told = sync.becomes("Edited")
    assert "notice" in told["message"]
    source.set(logo="film")
    copy.becomes(logo="film", greeting="hello", notice="closed")
    copy.set(notice="open")
    sync.becomes("Synced")
    sync.now()
    since = world.mark()
    sync.now()
    assert [one for one in world.writes(since) if " configmaps " in one] == []


def test_policies_of_keys_may_be_added_and_removed_later(world: World) -> None:
    there = world.namespace("there")
    world.source(colour="red", size="small")
    sync = world.sync(destinationNamespace=there)
    sync.becomes("Synced")
    sync.change(keyPolicies=[{"keys": ["colour"], "conflictPolicy": "Merge"}])
    sync.becomes("Synced")
    copy = world.config_map(there)
    copy.set(colour="blue", size="large")
    copy.becomes(colour="blue", size="small")
    sync.change(keyPolicies=None)
    copy.becomes(colour="red", size="small")
