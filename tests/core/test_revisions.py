"""Which revision is applied: today's, yesterday's, or the last that worked."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.core.revisions import ActiveRollback, AppliedRevision, Decision, HeadRevision, RevisionState, decide


def sha(letter: str) -> str:
    return letter * 40


A, B, C, D = (sha(letter) for letter in "abcd")


def situation(head: str | None = C, current: str | None = C, **fields: Any) -> RevisionState:
    fields.setdefault("history", [AppliedRevision(C), AppliedRevision(B), AppliedRevision(A)])
    return RevisionState(head=HeadRevision(head, "" if head else "the host does not answer"), current=current, **fields)


def after(state: RevisionState, decision: Decision, **changes: Any) -> RevisionState:
    """What the next pass finds, once the decision was carried out."""
    history = [*state.history]
    if decision.commit is not None and decision.commit != state.current:
        history.insert(0, AppliedRevision(decision.commit))
    health = state.health if decision.commit == state.current else "Pending"
    found = {
        "active_rollback": decision.rollback,
        "current": decision.commit,
        "history": history[:10],
        "health": health,
        "requested": False,
        **changes,
    }
    return msgspec.structs.replace(state, **found)


class TestFollowing:
    def test_the_head_is_applied(self) -> None:
        decision = decide(situation(head=D))
        assert (decision.commit, decision.held, decision.reason, decision.rollback) == (D, False, "Head", None)

    def test_the_first_revision_is_applied(self) -> None:
        assert decide(situation(head=A, current=None, history=())).commit == A

    def test_an_unknown_head_changes_nothing(self) -> None:
        decision = decide(situation(head=None))
        assert (decision.commit, decision.reason, decision.why) == (C, "HeadUnknown", "the host does not answer")

    def test_without_head_and_revision_there_is_nothing_to_apply(self) -> None:
        assert decide(situation(head=None, current=None, history=())).commit is None

    def test_a_failing_revision_stays_under_hold(self) -> None:
        assert decide(situation(health="Failed", last_healthy=B)).commit == C


class TestPrevious:
    def test_it_is_the_revision_before_the_applied_one(self) -> None:
        decision = decide(situation(rollback_to="Previous"))
        assert (decision.commit, decision.held, decision.reason) == (B, True, "RolledBack")
        assert decision.rollback == ActiveRollback(B, "Previous")

    def test_it_is_found_once_and_stays_whatever_is_pushed(self) -> None:
        state = situation(rollback_to="Previous")
        for head in (D, A, None, C):
            state = msgspec.structs.replace(state, head=HeadRevision(head))
            decision = decide(state)
            assert decision.commit == B
            state = after(state, decision)

    def test_repairs_of_the_applied_revision_are_no_revisions(self) -> None:
        assert (
            decide(
                situation(rollback_to="Previous", history=[AppliedRevision(C), AppliedRevision(C), AppliedRevision(B)])
            ).commit
            == B
        )

    def test_revisions_that_failed_are_passed_over(self) -> None:
        history = [AppliedRevision(C), AppliedRevision(B, healthy=False), AppliedRevision(A, healthy=True)]
        assert decide(situation(rollback_to="Previous", history=history)).commit == A

    def test_a_revision_that_failed_once_and_was_healthy_later_counts(self) -> None:
        history = [
            AppliedRevision(C),
            AppliedRevision(B, healthy=True),
            AppliedRevision(A),
            AppliedRevision(B, healthy=False),
        ]
        assert decide(situation(rollback_to="Previous", history=history)).commit == B

    def test_after_a_failure_it_is_not_the_one_that_failed(self) -> None:
        state = situation(
            current=B,
            active_rollback=ActiveRollback(B, C),
            history=[AppliedRevision(B), AppliedRevision(C), AppliedRevision(B), AppliedRevision(A)],
        )
        assert decide(msgspec.structs.replace(state, rollback_to="Previous", policy="Rollback")).commit == A

    def test_where_there_is_none_the_failure_is_not_forgotten(self) -> None:
        state = situation(
            current=B, active_rollback=ActiveRollback(B, A), history=[AppliedRevision(A)], rollback_to="Previous"
        )
        for _ in range(3):
            assert (decide(state).commit, decide(state).reason, decide(state).rollback) == (
                B,
                "NotFound",
                ActiveRollback(B, A),
            )
            state = after(state, decide(state))

    def test_clearing_it_follows_the_head_again(self) -> None:
        decision = decide(situation(current=B, active_rollback=ActiveRollback(B, "Previous")))
        assert (decision.commit, decision.held, decision.rollback) == (C, False, None)

    def test_asking_for_a_commit_instead_takes_that(self) -> None:
        decision = decide(situation(current=B, active_rollback=ActiveRollback(B, "Previous"), rollback_to=A))
        assert (decision.commit, decision.rollback) == (A, ActiveRollback(A, A))

    @pytest.mark.parametrize(
        ("current", "history", "why"),
        [
            (None, [], "nothing was applied yet"),
            (C, [AppliedRevision(C)], "the history has no revision before cccccccccccc"),
            (C, [AppliedRevision(C), AppliedRevision(B, healthy=False)], "all revisions before have failed"),
        ],
    )
    def test_where_there_is_none_all_stays_and_the_message_says_what_to_write(
        self, current: str | None, history: list[AppliedRevision], why: str
    ) -> None:
        decision = decide(situation(current=current, history=history, rollback_to="Previous"))
        assert (decision.commit, decision.held, decision.reason, decision.rollback) == (current, True, "NotFound", None)
        assert why in decision.why


class TestNamed:
    @pytest.mark.parametrize("written", [A, A[:7], A[:39]])
    def test_a_commit_may_be_abbreviated(self, written: str) -> None:
        decision = decide(situation(rollback_to=written))
        assert (decision.commit, decision.rollback) == (A, ActiveRollback(A, written))

    def test_the_head_counts_too(self) -> None:
        assert decide(situation(head=D, rollback_to=D[:8])).commit == D

    @pytest.mark.parametrize("length", [40, 64])
    def test_a_whole_commit_need_not_be_known(self, length: int) -> None:
        assert decide(situation(rollback_to="9" * length)).commit == "9" * length

    def test_an_unknown_abbreviation_changes_nothing(self) -> None:
        decision = decide(situation(rollback_to="9999999"))
        assert (decision.commit, decision.reason) == (C, "NotFound")
        assert decision.why == "spec.rollback.to: 9999999 begins no revision of status.history: write the whole commit"

    def test_an_abbreviation_of_two_changes_nothing(self) -> None:
        twins = ["1234567" + "0" * 33, "1234567" + "1" * 33]
        decision = decide(situation(rollback_to="1234567", history=[AppliedRevision(twin) for twin in twins]))
        assert (decision.commit, decision.reason) == (C, "NotFound")
        assert decision.why.endswith(f"is short for {twins[0]} and {twins[1]}: write more of it")

    def test_what_was_found_stays_when_the_history_has_forgotten_it(self) -> None:
        state = situation(rollback_to=A[:7])
        state = after(state, decide(state), history=[], head=HeadRevision(D))
        assert decide(state).commit == A

    def test_a_named_commit_stays_though_it_fails(self) -> None:
        state = situation(rollback_to=A, policy="Rollback", last_healthy=B)
        state = after(state, decide(state), health="Failed")
        assert decide(state).commit == A


class TestAfterFailure:
    def failed(self, **fields: Any) -> RevisionState:
        return situation(**{"policy": "Rollback", "health": "Failed", "last_healthy": B, **fields})

    def test_the_last_healthy_revision_comes_back(self) -> None:
        decision = decide(self.failed())
        assert (decision.commit, decision.held, decision.reason) == (B, True, "RolledBackOnFailure")
        assert decision.rollback == ActiveRollback(B, C)
        assert decision.why.startswith(
            "cccccccccccc did not become healthy, so the last healthy revision, bbbbbbbbbbbb"
        )

    def test_it_stays_until_the_head_moves(self) -> None:
        state = self.failed()
        for _ in range(3):
            state = after(state, decide(state), health="Healthy")
            assert decide(state).commit == B
        decision = decide(msgspec.structs.replace(state, head=HeadRevision(D)))
        assert (decision.commit, decision.held, decision.rollback) == (D, False, None)

    def test_it_stays_while_the_head_cannot_be_read(self) -> None:
        state = after(self.failed(), decide(self.failed()), head=HeadRevision(None, "away"))
        assert decide(state).commit == B

    def test_it_stays_though_the_history_is_forgotten(self) -> None:
        assert decide(after(self.failed(), decide(self.failed()), history=[])).commit == B

    def test_a_failure_is_noticed_while_the_head_cannot_be_read(self) -> None:
        assert decide(self.failed(head=None)).commit == B

    def test_a_request_tries_the_head_again(self) -> None:
        state = after(self.failed(), decide(self.failed()), requested=True)
        decision = decide(state)
        assert (decision.commit, decision.rollback) == (C, None)
        again = after(state, decision)
        assert decide(again).commit == C
        assert decide(msgspec.structs.replace(again, health="Failed")).commit == B

    def test_a_fixed_head_is_taken_at_once(self) -> None:
        assert decide(self.failed(head=D)).commit == D

    def test_a_revision_that_once_was_healthy_is_not_left(self) -> None:
        assert decide(self.failed(last_healthy=C)).commit == C

    def test_where_nothing_was_healthy_the_revision_stays(self) -> None:
        decision = decide(self.failed(last_healthy=None))
        assert (decision.commit, decision.reason, decision.rollback) == (C, "NothingHealthy", None)

    @pytest.mark.parametrize("health", ["Pending", "Healthy"])
    def test_a_revision_that_has_not_failed_stays(self, health: str) -> None:
        assert decide(self.failed(health=health)).commit == C

    def test_hold_instead_of_rollback_follows_the_head_again(self) -> None:
        state = after(self.failed(), decide(self.failed()), policy="Hold")
        assert (decide(state).commit, decide(state).rollback) == (C, None)

    def test_a_person_may_ask_for_another_revision(self) -> None:
        state = after(self.failed(), decide(self.failed()), rollback_to=A)
        assert (decide(state).commit, decide(state).rollback) == (A, ActiveRollback(A, A))

    def test_asking_for_the_revision_that_failed_is_a_rollback_to_it(self) -> None:
        state = after(self.failed(), decide(self.failed()), rollback_to=C)
        assert (decide(state).commit, decide(state).rollback) == (C, ActiveRollback(C, C))


commits = st.sampled_from([A, B, C, D])
pasts = st.builds(AppliedRevision, commits, st.sampled_from([None, True, False]))
holds = st.builds(ActiveRollback, commits, commits | st.just("Previous") | commits.map(lambda commit: commit[:7]))
situations = st.builds(
    RevisionState,
    head=st.builds(HeadRevision, st.none() | commits, st.just("away")),
    rollback_to=st.none() | st.just("Previous") | commits | commits.map(lambda commit: commit[:7]),
    active_rollback=st.none() | holds,
    history=st.lists(pasts, max_size=6),
    current=st.none() | commits,
    health=st.sampled_from(["Healthy", "Pending", "Failed"]),
    last_healthy=st.none() | commits,
    policy=st.sampled_from(["Hold", "Rollback"]),
    requested=st.booleans(),
)


@thorough
@given(situations)
def test_deciding_again_decides_the_same(state: RevisionState) -> None:
    first = decide(state)
    second = decide(after(state, first, requested=state.requested))
    assert (second.commit, second.held, second.rollback) == (first.commit, first.held, first.rollback)


@thorough
@given(situations)
def test_nothing_is_applied_only_where_nothing_is_known(state: RevisionState) -> None:
    if decide(state).commit is None:
        assert state.current is None
        assert state.head.commit is None or state.rollback_to is not None


@thorough
@given(situations)
def test_without_a_wish_or_a_failure_the_head_is_followed(state: RevisionState) -> None:
    decision = decide(state)
    if state.rollback_to is None and state.head.commit is not None and not decision.held:
        assert decision.commit == state.head.commit
        assert decision.rollback is None
    if decision.held and state.rollback_to is None:
        assert state.policy == "Rollback"
        assert decision.rollback is not None
        assert decision.rollback.requested == (state.head.commit or decision.rollback.requested)


@thorough
@given(situations, st.lists(st.none() | commits, max_size=4))
def test_a_rollback_stays_whatever_is_pushed_until_the_spec_changes(
    now: RevisionState, heads: list[str | None]
) -> None:
    first = decide(now)
    if first.reason != "RolledBack":
        return
    state = after(now, first)
    for head in heads:
        state = msgspec.structs.replace(state, head=HeadRevision(head, "away"))
        decision = decide(state)
        assert (decision.commit, decision.rollback) == (first.commit, first.rollback)
        state = after(state, decision)
