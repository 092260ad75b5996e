"""What becomes of a copy of ours that somebody changed: SourceWins, Skip, Merge."""

import msgspec
import pytest
from tests.core.server import ApiServer
from tests.core.strategies import Edit, happen
from tests.core.world import EARLIER, HOME, Sync, want

from syncline.core.ownership import BASE, OWNER_LABEL
from syncline.core.plan import MAX_BASE, Policy, Verb

SKIP = Policy(conflict="Skip")
MERGE = Policy(conflict="Merge")


def by_hand(sync: Sync, *edits: Edit) -> None:
    for edit in edits:
        happen(sync.server, HOME, edit)


def data(sync: Sync) -> dict[str, str]:
    return sync.server.objects[HOME].get("data", {})


def copied(policy: Policy, content: dict[str, str]) -> Sync:
    """Return a sync that has made its copy."""
    sync = Sync(ApiServer(), policy)
    sync.reconcile(want(content))
    return sync


@pytest.mark.parametrize("conflict", ["SourceWins", "Skip", "Merge"])
def test_an_untouched_copy_follows_the_source(conflict: str) -> None:
    sync = copied(Policy(conflict=conflict), {"a": "1", "gone": "1"})
    action = sync.reconcile(want({"a": "2", "new": "2"}))
    assert (action.verb, action.state, action.reason) == (Verb.UPDATE, "Synced", "SourceChanged")
    assert data(sync) == {"a": "2", "new": "2"}


class TestSkip:
    def test_an_edited_copy_stays_as_it_was_edited_and_is_reported(self) -> None:
        sync = copied(SKIP, {"a": "1"})
        by_hand(sync, Edit("set data", "a", "mine"))
        for source in ({"a": "1"}, {"a": "2"}):
            action = sync.reconcile(want(source))
            assert (action.verb, action.state, action.reason) == (Verb.LEAVE, "Conflict", "Edited")
        assert data(sync) == {"a": "mine"}

    def test_the_report_names_who_changed_it(self) -> None:
        sync = copied(SKIP, {"a": "1"})
        by_hand(sync, Edit("set data", "a", "mine"))
        assert "was changed; " in sync.reconcile(want({"a": "1"})).message
        sync.server.objects[HOME]["metadata"]["managedFields"] = [{"manager": "kubectl-edit"}]
        assert "was changed by kubectl-edit; " in sync.reconcile(want({"a": "1"})).message

    def test_the_report_ends_when_the_copy_equals_the_source_again(self) -> None:
        sync = copied(SKIP, {"a": "1"})
        by_hand(sync, Edit("set data", "a", "2"))
        assert sync.reconcile(want({"a": "2"})).state == "Synced"
        assert sync.reconcile(want({"a": "3"})).state == "Synced"
        assert data(sync) == {"a": "3"}

    def test_the_report_ends_when_the_copy_is_deleted(self) -> None:
        sync = copied(SKIP, {"a": "1"})
        by_hand(sync, Edit("set data", "a", "mine"), Edit("delete"))
        assert sync.reconcile(want({"a": "1"})).verb is Verb.CREATE

    def test_labels_are_repaired_on_a_copy_whose_content_nobody_changed(self) -> None:
        sync = copied(SKIP, {"a": "1"})
        labelled = want({"a": "1"}, labels={"team": "red"})
        assert sync.reconcile(labelled).verb is Verb.UPDATE
        by_hand(sync, Edit("unlabel", "team"))
        assert sync.reconcile(labelled).reason == "MetadataRepaired"


class TestMerge:
    def test_edits_of_other_keys_survive_a_change_of_the_source(self) -> None:
        sync = copied(MERGE, {"a": "1", "b": "1", "c": "1"})
        by_hand(sync, Edit("set data", "b", "mine"), Edit("set data", "app.yaml", "mine"), Edit("drop", "c"))
        action = sync.reconcile(want({"a": "2", "b": "1", "c": "1"}))
        assert (action.verb, action.state) == (Verb.UPDATE, "Synced")
        assert data(sync) == {"a": "2", "b": "mine", "app.yaml": "mine"}

    def test_an_edit_alone_writes_nothing(self) -> None:
        sync = copied(MERGE, {"a": "1"})
        by_hand(sync, Edit("set data", "a", "mine"))
        action = sync.reconcile(want({"a": "1"}))
        assert (action.verb, action.state) == (Verb.LEAVE, "Synced")

    def test_a_key_changed_on_both_sides_keeps_its_value_here_and_is_reported(self) -> None:
        sync = copied(MERGE, {"a": "1", "b": "1"})
        by_hand(sync, Edit("set data", "a", "mine"))
        action = sync.reconcile(want({"a": "2", "b": "2"}))
        assert (action.state, action.reason, action.conflicts) == ("Conflict", "EditedOnBothSides", ("data/a",))
        assert action.message.endswith(": a")
        assert data(sync) == {"a": "mine", "b": "2"}

    def test_the_report_stays_until_the_two_agree(self) -> None:
        sync = copied(MERGE, {"a": "1"})
        by_hand(sync, Edit("set data", "a", "mine"))
        for _ in range(3):
            assert sync.reconcile(want({"a": "2"})).state == "Conflict"
        by_hand(sync, Edit("set data", "a", "2"))
        assert sync.reconcile(want({"a": "2"})).state == "Synced"
        assert sync.reconcile(want({"a": "3"})).state == "Synced"
        assert data(sync) == {"a": "3"}

    def test_the_source_can_give_in_too(self) -> None:
        sync = copied(MERGE, {"a": "1"})
        by_hand(sync, Edit("set data", "a", "mine"))
        sync.reconcile(want({"a": "2"}))
        assert sync.reconcile(want({"a": "mine"})).state == "Synced"
        assert sync.reconcile(want({"a": "4"})).state == "Synced"
        assert data(sync) == {"a": "4"}

    def test_a_key_that_an_edit_holds_in_the_other_map_is_a_conflict(self) -> None:
        sync = copied(MERGE, {"a": "1"})
        by_hand(sync, Edit("set binaryData", "b", "AA=="))
        action = sync.reconcile(want({"a": "1", "b": "text"}))
        assert (action.state, action.conflicts) == ("Conflict", ("data/b",))
        by_hand(sync, Edit("drop", "b"))
        assert sync.reconcile(want({"a": "1", "b": "text"})).state == "Synced"
        assert data(sync) == {"a": "1", "b": "text"}

    def test_a_key_may_move_from_data_to_binary_data(self) -> None:
        sync = copied(MERGE, {"a": "1"})
        assert sync.reconcile(want({}, {"a": "AA=="})).state == "Synced"
        assert sync.server.objects[HOME]["binaryData"] == {"a": "AA=="}
        assert data(sync) == {}

    def test_the_base_holds_no_values(self) -> None:
        sync = copied(MERGE, {"password": "do not show"})
        base = sync.server.objects[HOME]["metadata"]["annotations"][BASE]
        assert msgspec.json.decode(base).keys() == {"data/password"}
        assert "do not show" not in base

    def test_without_a_base_an_untouched_copy_is_its_own_base(self) -> None:
        sync = copied(Policy(), {"a": "1", "b": "1"}).under(conflict="Merge")
        assert sync.reconcile(want({"a": "2", "b": "1"})).state == "Synced"
        by_hand(sync, Edit("set data", "b", "mine"))
        sync.reconcile(want({"a": "3", "b": "1"}))
        assert data(sync) == {"a": "3", "b": "mine"}

    @pytest.mark.parametrize("lost", [Edit("unannotate", BASE), Edit("annotate", BASE, "?")])
    def test_with_a_lost_base_a_difference_is_a_conflict_and_not_guessed(self, lost: Edit) -> None:
        sync = copied(MERGE, {"a": "1", "b": "1"})
        by_hand(sync, lost, Edit("set data", "a", "mine"))
        action = sync.reconcile(want({"a": "1", "b": "1"}))
        assert action.conflicts == ("data/a",)
        assert data(sync) == {"a": "mine", "b": "1"}

    def test_the_base_goes_when_the_policy_changes(self) -> None:
        sync = copied(MERGE, {"a": "1"})
        sync.under(conflict="SourceWins").reconcile(want({"a": "1"}))
        assert BASE not in sync.server.objects[HOME]["metadata"]["annotations"]

    def test_a_repaired_label_is_not_called_a_change_of_the_source(self) -> None:
        sync = Sync(ApiServer(), MERGE)
        labelled = want({"a": "1"}, labels={"team": "red"})
        sync.reconcile(labelled)
        by_hand(sync, Edit("set data", "a", "mine"), Edit("unlabel", "team"))
        action = sync.reconcile(labelled)
        assert (action.verb, action.reason) == (Verb.UPDATE, "MetadataRepaired")
        assert data(sync) == {"a": "mine"}

    def test_a_sync_made_anew_under_the_same_name_goes_on_merging(self) -> None:
        earlier = Sync(ApiServer(), MERGE, EARLIER)
        earlier.reconcile(want({"a": "1", "b": "1"}))
        sync = Sync(earlier.server, MERGE)
        by_hand(sync, Edit("set data", "a", "mine"))
        action = sync.reconcile(want({"a": "1", "b": "2"}))
        assert (action.verb, action.reason) == (Verb.UPDATE, "Reowned")
        assert data(sync) == {"a": "mine", "b": "2"}
        assert sync.server.objects[HOME]["metadata"]["labels"][OWNER_LABEL] == sync.owner.label

    def test_an_immutable_copy_is_made_anew_with_the_merged_content(self) -> None:
        sync = copied(MERGE, {"a": "1", "b": "1"})
        by_hand(sync, Edit("set data", "b", "mine"), Edit("freeze"))
        action = sync.reconcile(want({"a": "2", "b": "1"}))
        assert (action.verb, action.state) == (Verb.RECREATE, "Synced")
        assert data(sync) == {"a": "2", "b": "mine"}
        by_hand(sync, Edit("set data", "b", "1"))
        sync.reconcile(want({"a": "3", "b": "1"}))
        assert data(sync) == {"a": "3", "b": "1"}

    def test_many_conflicts_are_named_briefly(self) -> None:
        keys = [f"key-{number:02}" for number in range(13)]
        sync = copied(MERGE, dict.fromkeys(keys, "1"))
        by_hand(sync, *(Edit("set data", key, "mine") for key in keys))
        action = sync.reconcile(want(dict.fromkeys(keys, "2")))
        assert len(action.conflicts) == 13
        assert action.message.endswith("key-08, key-09 and 3 more")

    @pytest.mark.parametrize("exists", [False, True])
    def test_a_base_that_fits_no_annotation_is_refused_with_what_to_do(self, exists: bool) -> None:
        key = "k" * 240
        fits = MAX_BASE // (len("data/") + 240 + 24 + 6)
        many = want({f"{number:05}{key[5:]}": "" for number in range(fits + 1)})
        sync = Sync(ApiServer(), MERGE)
        if exists:
            sync.under(conflict="SourceWins").reconcile(many)
        action = sync.reconcile(many)
        assert (action.verb, action.state, action.reason) == (Verb.LEAVE, "Failed", "BaseTooLarge")
        assert "SourceWins or Skip" in action.message
        few = want(dict(list(many.content.data.items())[:-1]))
        assert sync.reconcile(few).state == "Synced"
        assert len(sync.server.objects[HOME]["metadata"]["annotations"][BASE]) <= MAX_BASE
