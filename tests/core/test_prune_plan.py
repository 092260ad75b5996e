"""What is removed, what is only released, what is left, and when the deletion guard stops it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.server import ApiServer
from tests.core.strategies import ELSEWHERE, Edit, happen
from tests.core.world import CLUSTER, EARLIER, HOME, OTHER, OWNER, Sync, want
from tests.sampling import quick

from syncline.api.common import TargetState
from syncline.core.objects import Target
from syncline.core.ownership import MARKER, OWNER_LABEL, PRUNE, RECONCILE, Owner
from syncline.core.plan import Action, Policy, Verb
from syncline.core.prune_plan import deletion_guard, plan_prune, removal_digest

STRANGER = Edit("make anew", "", ({"a": "theirs"}, {}))


def arrange(*events: Edit | Policy, owner: Owner = OWNER) -> ApiServer:
    server = ApiServer()
    for event in events:
        if isinstance(event, Edit):
            happen(server, HOME, event)
        else:
            Sync(server, event, owner).reconcile(want({"a": "1"}))
    return server


def removal(server: ApiServer) -> Action | None:
    observed = server.see(HOME)
    assert observed is not None
    return plan_prune(observed, OWNER, CLUSTER, "Pruned", "its namespace no longer matches")


class TestOneObject:
    def test_a_copy_that_we_made_is_deleted(self) -> None:
        action = removal(arrange(Policy()))
        assert action is not None
        assert (action.verb, action.reason, action.message) == (
            Verb.DELETE,
            "Pruned",
            "its namespace no longer matches",
        )

    def test_a_copy_that_an_earlier_sync_of_this_name_left_behind_stays(self) -> None:
        assert removal(arrange(Policy(), owner=EARLIER)) is None

    def test_an_edited_copy_is_deleted_too(self) -> None:
        action = removal(arrange(Policy(), Edit("set data", "a", "by hand")))
        assert action is not None
        assert action.verb is Verb.DELETE

    def test_of_two_sides_an_edit_beats_a_deletion(self) -> None:
        for edits, stays in ((), False), ((Edit("set data", "a", "by hand"),), True), ((Edit("drop", "a"),), True):
            observed = arrange(Policy(), *edits).see(HOME)
            assert observed is not None
            action = plan_prune(observed, OWNER, CLUSTER, "SourceDeleted", "the source is gone", keep_edited=True)
            assert (action is None) == stays

    @pytest.mark.parametrize("management", ["Adopt", "Overwrite"])
    def test_what_was_taken_over_is_released_and_stays(self, management: str) -> None:
        server = arrange(STRANGER, Policy(management=management))
        action = removal(server)
        assert action is not None
        assert action.verb is Verb.RELEASE
        assert action.message.startswith("its namespace no longer matches; ")

        Sync(server).remove(HOME)

        assert server.objects[HOME]["data"] == {"a": "1"}
        assert "labels" not in server.objects[HOME]["metadata"]
        assert "annotations" not in server.objects[HOME]["metadata"]

    @pytest.mark.parametrize("annotation", [PRUNE, RECONCILE])
    @pytest.mark.parametrize("taken_over", [False, True])
    def test_a_copy_with_the_annotation_is_left(self, annotation: str, taken_over: bool) -> None:
        before = [STRANGER] if taken_over else []
        action = removal(arrange(*before, Policy(management="Adopt"), Edit("annotate", annotation, "Disabled")))
        assert action is not None
        assert (action.verb, action.state, action.reason) == (Verb.LEAVE, "Skipped", "PruneDisabled")
        assert f"{annotation}: Disabled" in action.message

    def test_another_value_of_the_annotation_does_not_hold_it(self) -> None:
        action = removal(arrange(Policy(), Edit("annotate", PRUNE, "disabled")))
        assert action is not None
        assert action.verb is Verb.DELETE

    def test_a_copy_that_is_being_deleted_is_waited_for(self) -> None:
        server = arrange(Policy())
        server.objects[HOME]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        action = removal(server)
        assert action is not None
        assert (action.verb, action.state) == (Verb.LEAVE, "Pending")

    @pytest.mark.parametrize(
        "server",
        [
            pytest.param(arrange(STRANGER), id="foreign"),
            pytest.param(arrange(Policy(), Edit("clone away and back")), id="a clone of another namespace's copy"),
            pytest.param(arrange(Policy(), Edit("unlabel", OWNER_LABEL)), id="without our label"),
            pytest.param(arrange(Policy(), Edit("label", OWNER_LABEL, "")), id="with an empty label"),
            pytest.param(arrange(Policy(), Edit("unannotate", MARKER)), id="without our annotation"),
            pytest.param(arrange(Policy(), Edit("annotate", MARKER, "{}")), id="with a broken annotation"),
            pytest.param(arrange(Policy(), owner=OTHER), id="of another sync"),
        ],
    )
    def test_what_is_not_ours_is_not_touched(self, server: ApiServer) -> None:
        assert removal(server) is None

    def test_a_copy_of_the_same_name_in_another_cluster_is_not_touched(self) -> None:
        observed = arrange(Policy()).see(HOME)
        assert observed is not None
        assert plan_prune(observed, OWNER, "another-cluster-uid", "Pruned", "is no longer wanted") is None


def removals(number: int, verb: Verb = Verb.DELETE, state: TargetState = "Synced") -> list[Action]:
    return [
        Action(verb=verb, target=Target(f"team-{index}", "settings"), reason="Pruned", message="gone", state=state)
        for index in range(number)
    ]


class TestBrake:
    @pytest.mark.parametrize(
        ("removed", "owned", "held"),
        [
            (0, 0, False),
            (10, 10, False),
            (11, 11, True),
            (11, 21, True),
            (11, 22, False),
            (50, 100, False),
            (51, 100, True),
            (1000, 1000, True),
        ],
    )
    def test_more_than_ten_and_more_than_half_are_held(self, removed: int, owned: int, held: bool) -> None:
        assert deletion_guard(removals(removed), owned, confirmed="").held is held

    def test_what_the_cluster_brought_about_is_derived(self) -> None:
        assert deletion_guard(removals(1), 10, confirmed="").derived

    @quick
    @given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 30))
    def test_a_shrinkage_in_small_steps_is_held_like_one_at_once(self, now: int, recent: int, stay: int) -> None:
        owned = now + stay
        at_once = deletion_guard(removals(now + recent), owned + recent, confirmed="")
        assert deletion_guard(removals(now), owned, confirmed="", recent=recent).held is at_once.held

    def test_nothing_to_remove_is_nothing_to_hold_or_to_confirm(self) -> None:
        nothing = deletion_guard([], 1, confirmed=removal_digest([]), recent=100)
        assert (nothing.held, nothing.derived) == (False, True)

    def test_the_message_counts_what_went_before(self) -> None:
        held = deletion_guard(removals(2), 10, confirmed="", recent=10)
        assert "after 10 that were removed already" in held.message

    def test_releases_count_too(self) -> None:
        assert deletion_guard(removals(11, Verb.RELEASE), 11, confirmed="").held

    def test_what_is_left_anyway_does_not_count(self) -> None:
        left = [*removals(10), *removals(20, Verb.LEAVE, "Skipped")[10:]]
        assert not deletion_guard(left, 20, confirmed="").held

    def test_the_message_says_what_to_write(self) -> None:
        held = deletion_guard(removals(30), 40, confirmed="")
        assert "30 of 40 copies" in held.message
        assert "removed already" not in held.message
        assert f"syncline.dev/confirm-deletion={held.digest}" in held.message
        confirmed = deletion_guard(removals(30), 40, confirmed=held.digest)
        assert (confirmed.held, confirmed.derived) == (False, False)

    @quick
    @given(st.integers(11, 40), st.integers(11, 40))
    def test_a_confirmation_is_for_this_set_and_no_other(self, confirmed: int, now: int) -> None:
        digest = deletion_guard(removals(confirmed), 40, confirmed="").digest
        held = deletion_guard(removals(now), now, confirmed=digest).held
        assert held is (now != confirmed)

    @pytest.mark.parametrize("confirmed", ["", "yes", "true"])
    def test_any_other_confirmation_is_none(self, confirmed: str) -> None:
        assert deletion_guard(removals(11), 11, confirmed=confirmed).held

    @quick
    @given(st.permutations(removals(12)))
    def test_the_digest_does_not_depend_on_the_order(self, shuffled: list[Action]) -> None:
        assert removal_digest(shuffled) == removal_digest(removals(12))

    def test_a_confirmation_is_not_for_other_objects_at_the_same_places(self) -> None:
        place = Target("team-a", "settings")
        first, second = (
            Action(verb=Verb.DELETE, target=place, reason="Pruned", message="gone", uid=uid) for uid in ("one", "two")
        )
        assert removal_digest([first]) != removal_digest([second])

    def test_the_digest_tells_places_apart(self) -> None:
        places = [HOME, ELSEWHERE, Target("team-a", "other"), Target("team-a", "settings", cluster="east")]
        digests = {
            removal_digest([Action(verb=Verb.DELETE, target=place, reason="Pruned", message="gone")])
            for place in places
        }
        assert len(digests) == len(places)
