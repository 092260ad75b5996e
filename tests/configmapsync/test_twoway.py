"""A ConfigMapSync that goes both ways: what flows where, what is reported, and that it comes to rest."""

import json
import time

import pytest
from tests.configmapsync.world import ConfigMap, Sync, World, until

from syncline.core.ownership import BASE, MARKER
from syncline.testing.operator import OperatorProcess


class Pair:
    """The two sides of a sync."""

    def __init__(self, world: World, policy: str = "Merge", **spec: object) -> None:
        self.world = world
        self.there = world.namespace("there")
        self.source = world.source(colour="red", size="small", name="app")
        self.sync: Sync = world.sync(
            destinationNamespace=self.there, direction="Bidirectional", conflictPolicy=policy, **spec
        )
        self.copy: ConfigMap = world.config_map(self.there)
        self.copy.becomes(colour="red", size="small")
        self.sync.becomes("Synced")

    def both_become(self, **data: str) -> None:
        self.source.becomes(**data)
        self.copy.becomes(**data)

    def paused(self) -> "Pause":
        return Pause(self.sync)

    def comes_to_rest(self) -> None:
        """See that a turn with nothing to do writes nothing."""
        self.sync.now()
        since = self.world.mark()
        self.sync.now()
        writes = [one for one in self.world.writes(since) if " configmaps " in one]
        assert writes == []


class Pause:
    """Nothing is synced while users edit both sides."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    def __enter__(self) -> None:
        self._sync.change(suspend=True)
        self._sync.becomes("Suspended")

    def __exit__(self, *_: object) -> None:
        self._sync.change(suspend=None)


@pytest.mark.parametrize("policy", ["Merge", "LastWriteWins"])
def test_an_edit_on_either_side_reaches_the_other(world: World, policy: str) -> None:
    pair = Pair(world, policy)
    pair.copy.set(colour="blue")
    pair.both_become(colour="blue", size="small")
    pair.source.set(size="large")
    pair.both_become(colour="blue", size="large")
    pair.copy.set(shape="round")
    pair.both_become(colour="blue", size="large", shape="round")
    pair.copy.set(size=None)
    pair.both_become(colour="blue", shape="round")
    pair.sync.becomes("Synced")
    pair.comes_to_rest()


def test_edits_of_different_keys_at_the_same_time_both_survive(world: World) -> None:
    pair = Pair(world)
    with pair.paused():
        pair.source.set(size="large")
        pair.copy.set(colour="blue")
    pair.both_become(colour="blue", size="large")
    pair.sync.becomes("Synced")


def test_under_merge_a_key_changed_on_both_sides_is_left_and_reported_and_the_rest_flows(world: World) -> None:
    pair = Pair(world)
    with pair.paused():
        pair.source.set(colour="green", size="large")
        pair.copy.set(colour="blue")
    told = pair.sync.becomes("EditedOnBothSides")
    assert "colour" in told["message"]
    assert pair.sync.conditions["Conflicted"]["status"] == "True"
    pair.source.becomes(colour="green", size="large")
    pair.copy.becomes(colour="blue", size="large")
    pair.comes_to_rest()
    pair.copy.set(colour="green")
    pair.sync.becomes("Synced")
    assert "Conflicted" not in pair.sync.conditions
    pair.both_become(colour="green", size="large")


@pytest.mark.parametrize(("policy", "winner"), [("SourceWins", "green"), ("DestinationWins", "blue")])
def test_a_winner_settles_what_both_changed(world: World, policy: str, winner: str) -> None:
    pair = Pair(world, policy)
    with pair.paused():
        pair.source.set(colour="green")
        pair.copy.set(colour="blue")
    pair.both_become(colour=winner, size="small")
    pair.sync.becomes("Synced")
    pair.comes_to_rest()


def test_source_wins_reverts_an_edit_of_the_copy_and_destination_wins_takes_it(world: World) -> None:
    pair = Pair(world, "SourceWins")
    pair.copy.set(colour="blue")
    pair.both_become(colour="red", size="small")
    pair.sync.change(conflictPolicy="DestinationWins")
    pair.sync.becomes("Synced")
    pair.copy.set(colour="blue")
    pair.both_become(colour="blue", size="small")


@pytest.mark.parametrize(("last", "winner"), [("source", "green"), ("copy", "blue")])
def test_under_last_write_wins_the_later_edit_wins(world: World, last: str, winner: str) -> None:
    pair = Pair(world, "LastWriteWins")
    with pair.paused():
        if last == "source":
            pair.copy.set(colour="blue")
            pair.source.set(colour="green")
        else:
            pair.source.set(colour="green")
            pair.copy.set(colour="blue")
    pair.both_become(colour=winner, size="small")


def test_under_skip_edits_of_both_sides_stay_and_are_reported(world: World) -> None:
    pair = Pair(world, "Skip")
    pair.source.set(size="large")
    pair.both_become(colour="red", size="large")
    with pair.paused():
        pair.source.set(colour="green")
        pair.copy.set(colour="blue")
    pair.sync.becomes("EditedOnBothSides")
    pair.source.becomes(colour="green", size="large")
    pair.copy.becomes(colour="blue", size="large")


def test_an_edit_beats_a_deletion(world: World) -> None:
    pair = Pair(world)
    with pair.paused():
        pair.source.set(colour=None)
        pair.copy.set(colour="blue")
    pair.both_become(colour="blue", size="small")


def test_a_copy_that_is_deleted_comes_back_with_what_the_source_holds(world: World) -> None:
    pair = Pair(world)
    pair.copy.delete()
    pair.both_become(colour="red", size="small")


def test_an_edited_copy_survives_the_end_of_its_source(world: World) -> None:
    pair = Pair(world)
    with pair.paused():
        pair.copy.set(colour="blue")
        pair.source.delete()
    pair.sync.becomes("SourceNotFound")
    time.sleep(3)  # the grace of a source that is away; nothing is to happen after it
    pair.copy.becomes(colour="blue", size="small")


def test_an_unedited_copy_goes_with_its_source(world: World) -> None:
    pair = Pair(world)
    pair.source.delete()
    pair.copy.gone()


def test_at_first_contact_equal_values_agree_one_sided_ones_flow_and_nothing_is_removed(world: World) -> None:
    there = world.namespace("there")
    source = world.source(colour="red", size="small")
    copy = world.put(there, colour="red", shape="round")
    sync = world.sync(
        destinationNamespace=there,
        direction="Bidirectional",
        conflictPolicy="Merge",
        resourceManagementPolicy="Adopt",
    )
    sync.becomes("Synced")
    source.becomes(colour="red", size="small", shape="round")
    copy.becomes(colour="red", size="small", shape="round")


def test_at_first_contact_values_that_differ_are_a_conflict_under_merge(world: World) -> None:
    there = world.namespace("there")
    source = world.source(colour="red")
    copy = world.put(there, colour="blue")
    sync = world.sync(
        destinationNamespace=there,
        direction="Bidirectional",
        conflictPolicy="Merge",
        resourceManagementPolicy="Adopt",
    )
    assert "colour" in sync.becomes("EditedOnBothSides")["message"]
    source.becomes(colour="red")
    copy.becomes(colour="blue")


def test_a_foreign_object_is_not_touched_without_a_policy_that_says_so(world: World) -> None:
    there = world.namespace("there")
    source = world.source(colour="red")
    copy = world.put(there, colour="blue")
    sync = world.sync(destinationNamespace=there, direction="Bidirectional", conflictPolicy="DestinationWins")
    sync.becomes("NotOurs")
    source.becomes(colour="red")
    copy.becomes(colour="blue")


def test_renamed_keys_find_their_way_back_and_others_are_nobody_elses_business(world: World) -> None:
    there = world.namespace("there")
    source = world.source(colour="red", internal="x")
    sync = world.sync(
        destinationNamespace=there,
        direction="Bidirectional",
        conflictPolicy="Merge",
        keys={"exclude": ["internal"], "rename": {"colour": "COLOUR"}},
    )
    copy = world.config_map(there)
    copy.becomes(COLOUR="red")
    copy.set(COLOUR="blue", internal="mine")
    source.becomes(colour="blue", internal="x")
    sync.becomes("Synced")
    copy.becomes(COLOUR="blue", internal="mine")


def test_a_transformed_key_flows_one_way(world: World) -> None:
    there = world.namespace("there")
    source = world.source(colour="red", size="small")
    sync = world.sync(
        destinationNamespace=there,
        direction="Bidirectional",
        conflictPolicy="Merge",
        transforms=[{"key": "colour", "replace": {"pattern": "^", "with": "dark"}}],
    )
    copy = world.config_map(there)
    copy.becomes(colour="darkred", size="small")
    copy.set(colour="pink", size="large")
    copy.becomes(colour="darkred", size="large")
    source.becomes(colour="red", size="large")
    sync.becomes("Synced")


def test_the_record_holds_hashes_that_tell_nothing_without_the_key(world: World) -> None:
    pair = Pair(world)
    annotations = pair.copy.read()["metadata"]["annotations"]
    base = json.loads(annotations[BASE])
    assert set(base) == {"data/colour", "data/size"}
    assert "red" not in annotations[BASE]
    assert json.loads(annotations[MARKER])["key"]
    other = world.source(name="other", colour="red", size="small")
    world.sync("plain", configMapName="other", destinationNamespace=pair.there, conflictPolicy="Merge")
    twin = world.config_map(pair.there, other.name)
    until(twin.look, lambda seen: seen is not None)


def test_edits_that_were_made_while_the_operator_stood_still_flow(world: World, operator: OperatorProcess) -> None:
    pair = Pair(world)
    operator.pause()
    try:
        pair.copy.set(colour="blue")
        pair.source.set(size="large")
    finally:
        operator.resume()
    pair.both_become(colour="blue", size="large")


def test_each_key_flows_by_its_own_policy(world: World) -> None:
    rules = [
        {"keys": ["col*"], "conflictPolicy": "SourceWins"},
        {"keys": ["shape"], "conflictPolicy": "DestinationWins"},
    ]
    pair = Pair(world, keyPolicies=rules)
    with pair.paused():
        pair.source.set(colour="green", shape="square", size="large")
        pair.copy.set(colour="blue", shape="round", weight="light")
    pair.both_become(colour="green", shape="round", size="large", weight="light")
    pair.sync.becomes("Synced")
    pair.copy.set(colour="black", size="tiny")
    pair.both_become(colour="green", shape="round", size="tiny", weight="light")
    pair.comes_to_rest()
    with pair.paused():
        pair.source.set(size="huge", colour="white")
        pair.copy.set(size="small", colour="grey")
    told = pair.sync.becomes("EditedOnBothSides")
    assert "size" in told["message"]
    assert "colour" not in told["message"]
    pair.source.becomes(colour="white", shape="round", size="huge", weight="light")
    pair.copy.becomes(colour="white", shape="round", size="small", weight="light")
    pair.comes_to_rest()


def test_the_later_edit_wins_only_the_keys_under_last_write_wins(world: World) -> None:
    pair = Pair(world, keyPolicies=[{"keys": ["colour"], "conflictPolicy": "LastWriteWins"}])
    with pair.paused():
        pair.copy.set(colour="blue", size="large")
        pair.source.set(colour="green")
    pair.both_become(colour="green", size="large")
    pair.sync.becomes("Synced")


def test_an_edit_that_the_source_cannot_take_is_told_with_the_servers_words(world: World) -> None:
    there = world.namespace("there")
    source = world.source(colour="red", hidden="x" * 700_000)
    sync = world.sync(
        destinationNamespace=there, direction="Bidirectional", conflictPolicy="Merge", keys={"exclude": ["hidden"]}
    )
    copy = world.config_map(there)
    copy.becomes(colour="red")
    copy.set(large="x" * 500_000)
    told = sync.becomes("SourceRefused", failed=1)
    assert f"undo the change of large in the copy, since the source {world.home}/app cannot take it" in told["message"]
    assert "422 Invalid" in told["message"]
    assert "may not be more than 1048576 bytes" in told["message"]
    copy.set(large=None, colour="blue")
    sync.becomes("Synced")
    assert source.data["colour"] == "blue"
