"""Which commit each gateway gets: stages, an order, failures that roll back, and commits that are not tried again."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.sampling import thorough

from syncline.api.ignition_rollout import RollbackTrigger as Trigger
from syncline.api.ignition_status import MAX_FAILED_COMMITS, MAX_GATEWAYS
from syncline.core.gateway_rollout import (
    GatewayProgress,
    RolloutDecision,
    RolloutStage,
    RolloutState,
    RolloutStrategy,
    decide,
)

A, B, C = (letter * 40 for letter in "abc")
ALL_AT_ONCE = RolloutStrategy()
CANARY = RolloutStrategy(stages=(RolloutStage("canary", {"tier": "canary"}), RolloutStage("east", {"tier": "east"})))
GUARDED = structs.replace(CANARY, triggers=frozenset(["scanFailure", "verifyFailure", "timeout"]), timeout=60.0)


class Fleet:
    """Gateways that do what they are told, apart from those that fail at a commit."""

    def __init__(self, strategy: RolloutStrategy, **tiers: str) -> None:
        self.strategy = strategy
        self.state = RolloutState()
        self.now = 1000.0
        self.failing: dict[tuple[str, str], Trigger] = {}
        self.broken: set[str] = set()
        self.gateways = {
            pod: GatewayProgress(pod=pod, name=pod, labels={"tier": tier} if tier else {})
            for pod, tier in tiers.items()
        }

    def decide(self, head: str, **options: Any) -> RolloutDecision:
        decision = decide(self.strategy, self.state, head, list(self.gateways.values()), self.now, **options)
        self.state = decision.state
        return decision

    def assigned(self) -> Mapping[str, str]:
        return {pod: self.state.commit_for(pod) for pod in self.gateways}

    def obey(self) -> None:
        """Have all gateways take up the commit that they are given."""
        for pod, one in self.gateways.items():
            commit = self.state.commit_for(pod)
            if not commit or pod in self.broken:
                continue
            failure = self.failing.get((pod, commit))
            state = "Error" if failure else "Synced"
            self.gateways[pod] = structs.replace(one, state=state, commit=commit, failure=failure)

    def settle(self, head: str) -> list[str]:
        """Decide and obey until nothing changes; return the events."""
        events: list[str] = []
        for _ in range(50):
            before = self.state, dict(self.gateways)
            decision = self.decide(head)
            events += [decision.event] if decision.event else []
            self.obey()
            if (self.state, self.gateways) == before:
                return events
        raise AssertionError("it does not come to rest")


class TestAllAtOnce:
    def test_all_gateways_get_a_commit_at_the_same_time(self) -> None:
        fleet = Fleet(ALL_AT_ONCE, one="", two="")
        assert fleet.decide(A).event == "RolloutStarted"
        assert fleet.assigned() == {"one": A, "two": A}
        assert fleet.state.assigned == {}

    def test_a_commit_is_healthy_once_all_running_gateways_have_it(self) -> None:
        fleet = Fleet(ALL_AT_ONCE, one="", two="")
        fleet.gateways["two"] = structs.replace(fleet.gateways["two"], running=False)
        fleet.broken = {"two"}
        assert fleet.settle(A) == ["RolloutStarted", "RolloutCompleted"]
        assert fleet.state.healthy_commit == A

    def test_a_commit_without_gateways_is_not_healthy(self) -> None:
        fleet = Fleet(ALL_AT_ONCE)
        assert fleet.settle(A) == ["RolloutStarted"]
        assert fleet.state.healthy_commit == ""

    def test_a_pod_that_comes_later_gets_the_same_commit(self) -> None:
        fleet = Fleet(ALL_AT_ONCE, one="")
        fleet.settle(A)
        assert fleet.state.commit_for("new") == A

    def test_a_failure_changes_nothing_without_triggers(self) -> None:
        fleet = Fleet(ALL_AT_ONCE, one="", two="")
        fleet.settle(A)
        fleet.failing["two", B] = "scanFailure"
        fleet.settle(B)
        assert fleet.assigned() == {"one": B, "two": B}
        assert (fleet.state.healthy_commit, fleet.state.failed_commits) == (A, ())


class TestStages:
    def test_a_stage_waits_for_the_stage_before(self) -> None:
        fleet = Fleet(CANARY, one="canary", two="east", three="")
        fleet.settle(A)
        fleet.decide(B)
        assert fleet.assigned() == {"one": B, "two": A, "three": A}
        assert fleet.state.stage == "canary"
        fleet.obey()
        assert fleet.decide(B).event == "RolloutAdvanced"
        assert fleet.assigned() == {"one": B, "two": B, "three": A}
        assert fleet.settle(B) == ["RolloutAdvanced", "RolloutCompleted"]
        assert fleet.assigned() == {"one": B, "two": B, "three": B}

    def test_a_gateway_of_a_later_stage_waits_with_nothing_at_first(self) -> None:
        fleet = Fleet(CANARY, one="canary", two="east")
        fleet.decide(A)
        assert fleet.assigned() == {"one": A, "two": ""}

    def test_a_stage_that_fails_holds_the_others_back(self) -> None:
        fleet = Fleet(CANARY, one="canary", two="east")
        fleet.settle(A)
        fleet.failing["one", B] = "scanFailure"
        fleet.settle(B)
        assert fleet.assigned() == {"one": B, "two": A}

    def test_a_stage_without_gateways_is_passed(self) -> None:
        fleet = Fleet(CANARY, two="east", three="")
        fleet.decide(A)
        assert fleet.assigned() == {"two": A, "three": ""}

    def test_a_pod_that_does_not_run_is_not_waited_for(self) -> None:
        fleet = Fleet(CANARY, one="canary", two="east")
        fleet.gateways["one"] = structs.replace(fleet.gateways["one"], running=False)
        fleet.decide(A)
        assert fleet.assigned() == {"one": A, "two": A}

    def test_a_new_head_begins_with_the_first_stage_and_takes_nothing_back(self) -> None:
        fleet = Fleet(CANARY, one="canary", two="east", three="")
        fleet.settle(A)
        fleet.decide(B)
        fleet.obey()
        fleet.decide(B)
        fleet.obey()
        fleet.decide(C)
        assert fleet.assigned() == {"one": C, "two": B, "three": A}
        fleet.settle(C)
        assert fleet.assigned() == {"one": C, "two": C, "three": C}

    def test_a_gateway_that_restarts_takes_the_commit_from_no_other(self) -> None:
        fleet = Fleet(CANARY, one="canary", two="east", three="")
        fleet.settle(A)
        fleet.decide(B)
        fleet.obey()
        fleet.decide(B)
        fleet.gateways["one"] = structs.replace(fleet.gateways["one"], state="Pending", commit="")
        assert fleet.decide(B).event == ""
        assert fleet.assigned() == {"one": B, "two": B, "three": A}
        fleet.settle(B)
        assert fleet.state.healthy_commit == B

    def test_gateways_of_the_order_go_one_after_another_and_before_the_others(self) -> None:
        fleet = Fleet(RolloutStrategy(order=("two", "one")), one="", two="", three="")
        fleet.decide(A)
        assert fleet.assigned() == {"one": "", "two": A, "three": ""}
        fleet.obey()
        fleet.decide(A)
        assert fleet.assigned() == {"one": A, "two": A, "three": ""}
        fleet.settle(A)
        assert fleet.assigned() == {"one": A, "two": A, "three": A}

    def test_the_order_holds_within_each_stage(self) -> None:
        strategy = structs.replace(CANARY, order=("two", "one"))
        fleet = Fleet(strategy, one="canary", two="east", three="east")
        fleet.decide(A)
        assert fleet.state.stage == "canary/one"
        fleet.obey()
        fleet.decide(A)
        assert fleet.assigned() == {"one": A, "two": A, "three": ""}

    def test_more_gateways_than_a_status_can_hold_are_not_rolled_out_in_stages(self) -> None:
        fleet = Fleet(CANARY, **{f"pod-{number}": "east" for number in range(MAX_GATEWAYS + 1)})
        decision = fleet.decide(A)
        assert (decision.held, decision.state) == (True, RolloutState())
        assert "at most 500 gateways" in decision.message


class TestRollback:
    def test_a_failure_brings_all_gateways_back(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.settle(A)
        fleet.failing["two", B] = "verifyFailure"
        assert fleet.settle(B) == ["RolloutStarted", "RolloutAdvanced", "RolloutRolledBack"]
        assert fleet.assigned() == {"one": A, "two": A}
        assert fleet.state.failed_commits == (B,)

    def test_a_failed_commit_is_not_tried_again_until_the_ref_moves(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.settle(A)
        fleet.failing["one", B] = "scanFailure"
        fleet.settle(B)
        fleet.failing.clear()
        assert fleet.settle(B) == []
        assert fleet.decide(B).held
        assert fleet.settle(C) == ["RolloutStarted", "RolloutAdvanced", "RolloutCompleted"]
        assert set(fleet.assigned().values()) == {C}

    def test_a_person_can_have_a_failed_commit_tried_again(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.settle(A)
        fleet.failing["one", B] = "scanFailure"
        fleet.settle(B)
        fleet.failing.clear()
        assert fleet.decide(B, retry=True).event == "RolloutStarted"
        fleet.settle(B)
        assert set(fleet.assigned().values()) == {B}
        assert fleet.state.failed_commits == ()

    def test_a_failure_that_is_no_trigger_rolls_nothing_back(self) -> None:
        fleet = Fleet(structs.replace(GUARDED, triggers=frozenset(["verifyFailure"])), one="canary", two="east")
        fleet.settle(A)
        fleet.failing["one", B] = "scanFailure"
        assert "RolloutRolledBack" not in fleet.settle(B)

    def test_a_step_that_takes_too_long_rolls_back(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.settle(A)
        fleet.broken = {"one"}
        assert fleet.decide(B).wait == 60.0
        fleet.now += 59
        assert fleet.decide(B).wait == 1.0
        fleet.now += 1
        decision = fleet.decide(B)
        assert decision.event == "RolloutRolledBack"
        assert "not synced within 60 s: one" in decision.message

    def test_each_step_has_its_own_time(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.settle(A)
        fleet.decide(B)
        fleet.now += 50
        fleet.obey()
        fleet.broken = {"two"}
        assert fleet.decide(B).wait == 60.0

    def test_without_a_healthy_commit_the_rollout_stops_where_it_is(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.failing["one", A] = "scanFailure"
        assert fleet.settle(A) == ["RolloutStarted", "RolloutFailed"]
        assert fleet.assigned() == {"one": A, "two": ""}

    def test_agents_that_succeed_later_make_the_first_commit_healthy(self) -> None:
        fleet = Fleet(GUARDED, one="canary")
        fleet.failing["one", A] = "scanFailure"
        fleet.settle(A)
        fleet.failing.clear()
        assert fleet.settle(A) == ["RolloutCompleted"]
        assert (fleet.state.healthy_commit, fleet.state.failed_commits) == (A, ())

    def test_a_healthy_commit_never_fails_later(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.settle(A)
        fleet.settle(B)
        fleet.failing["one", B] = "scanFailure"
        assert fleet.settle(B) == []
        assert fleet.assigned() == {"one": B, "two": B}

    def test_a_report_about_an_earlier_plan_fails_nothing(self) -> None:
        fleet = Fleet(GUARDED, one="canary", two="east")
        fleet.settle(A)
        fleet.gateways["one"] = structs.replace(fleet.gateways["one"], state="Error", commit="", failure="scanFailure")
        assert fleet.decide(B).event == "RolloutStarted"

    def test_only_a_few_failed_commits_are_remembered(self) -> None:
        fleet = Fleet(GUARDED, one="canary")
        fleet.settle(A)
        for number in range(15):
            commit = f"{number:040d}"
            fleet.failing["one", commit] = "scanFailure"
            fleet.settle(commit)
        assert len(fleet.state.failed_commits) == MAX_FAILED_COMMITS
        assert fleet.state.failed_commits[0] == f"{14:040d}"


strategies = st.builds(
    RolloutStrategy,
    stages=st.lists(
        st.sampled_from([RolloutStage("canary", {"tier": "canary"}), RolloutStage("east", {"tier": "east"})]),
        max_size=2,
        unique_by=lambda stage: stage.name,
    ).map(tuple),
    order=st.lists(st.sampled_from(["one", "two", "three", "other"]), max_size=3).map(tuple),
    triggers=st.frozensets(st.sampled_from(["scanFailure", "verifyFailure", "timeout"])),
    timeout=st.just(60.0),
)
progress = st.builds(
    lambda pod, tier, running, state, commit, failure: GatewayProgress(
        pod=pod,
        name=pod,
        labels={"tier": tier} if tier else {},
        running=running,
        state=state,
        commit=commit,
        failure=failure if state == "Error" else None,
    ),
    st.sampled_from(["one", "two", "three", "four"]),
    st.sampled_from(["", "canary", "east"]),
    st.booleans(),
    st.sampled_from(["Pending", "Syncing", "Synced", "Error"]),
    st.sampled_from(["", A, B, C]),
    st.sampled_from(["scanFailure", "verifyFailure", None]),
)
fleets = st.lists(progress, max_size=4, unique_by=lambda one: one.pod)
commits = st.sampled_from([A, B, C])
moves = st.lists(st.tuples(commits, fleets, st.floats(0, 100), st.booleans()), min_size=1, max_size=8)


@thorough
@given(strategies, moves)
def test_decisions_without_news_come_to_rest(strategy: RolloutStrategy, history: Any) -> None:
    state, now = RolloutState(), 0.0
    for head, gateways, passed, retry in history:
        now += passed
        state = decide(strategy, state, head, gateways, now, retry=retry).state
        for _ in range(3):
            state = decide(strategy, state, head, gateways, now).state
        assert decide(strategy, state, head, gateways, now).state == state


@thorough
@given(strategies, moves)
def test_no_gateway_gets_a_failed_commit_where_a_healthy_one_is_known(strategy: RolloutStrategy, history: Any) -> None:
    state, now = RolloutState(), 0.0
    for head, gateways, passed, _ in history:
        now += passed
        state = decide(strategy, state, head, gateways, now).state
        if state.healthy_commit and head in state.failed_commits:
            assert {state.commit_for(one.pod) for one in gateways} <= {state.healthy_commit}


@thorough
@given(strategies, moves)
def test_a_gateway_gets_a_commit_only_after_all_before_it_have_it(strategy: RolloutStrategy, history: Any) -> None:
    state, now = RolloutState(), 0.0
    for head, gateways, passed, _ in history:
        now += passed
        before = {one.pod: state.commit_for(one.pod) for one in gateways}
        was_healthy = state.healthy_commit
        state = decide(strategy, state, head, gateways, now).state
        if not strategy.is_staged or state.commit != head or was_healthy == head:
            continue
        ranked = sorted(gateways, key=lambda one: _rank(strategy, one))
        for one in ranked:
            gained = state.commit_for(one.pod) == head != before[one.pod]
            if gained:
                earlier = [other for other in ranked if _rank(strategy, other) < _rank(strategy, one)]
                assert all(not other.running or other.is_synced_at(head) for other in earlier)


@thorough
@given(
    strategies,
    st.dictionaries(st.sampled_from(["one", "two", "three"]), st.sampled_from(["", "canary", "east"]), min_size=1),
)
def test_gateways_that_obey_all_get_the_head(strategy: RolloutStrategy, tiers: dict[str, str]) -> None:
    fleet = Fleet(strategy, **tiers)
    for head in (A, B, A, C):
        fleet.settle(head)
        assert set(fleet.assigned().values()) == {head}
        assert fleet.state.healthy_commit == head
        assert (fleet.state.stage, fleet.state.assigned) == ("", {})


def _rank(strategy: RolloutStrategy, one: GatewayProgress) -> tuple[int, int]:
    stages = [place for place, stage in enumerate(strategy.stages) if stage.labels.items() <= one.labels.items()]
    order = [place for place, name in enumerate(strategy.order) if name == one.name]
    return min(stages, default=len(strategy.stages)), min(order, default=len(strategy.order))
