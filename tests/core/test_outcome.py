"""Outcomes: counts, the list in the status, the conditions, and changes in words."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.sampling import quick

from syncline.api.common import TargetState, TargetStatus
from syncline.core.objects import Target
from syncline.core.outcome import (
    ORPHANED,
    UNPROVEN,
    Outcome,
    conflicted,
    count,
    describe_changes,
    listing,
    outcome_of,
    readiness,
)
from syncline.core.plan import Action, Verb

STATES: tuple[TargetState, ...] = ("Failed", "Conflict", "Unknown", "Pending", "Skipped", "Synced")
THEN, NOW = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"


def at(
    namespace: str,
    state: TargetState = "Synced",
    reason: str = "Reason",
    *,
    written: Verb | None = None,
    gone: bool = False,
) -> Outcome:
    return Outcome(
        target=Target(namespace, "settings"),
        state=state,
        reason=reason,
        message=f"why {namespace} is {state}",
        written=written,
        gone=gone,
    )


outcomes = st.lists(
    st.builds(
        lambda number, state, gone: at(f"team-{number}", state, gone=gone),
        st.integers(0, 99),
        st.sampled_from(STATES),
        st.booleans(),
    ),
    max_size=8,
    unique_by=lambda outcome: outcome.target,
)


class TestCounts:
    def test_each_state_is_counted(self) -> None:
        counts = count([at(f"{state}-{number}", state) for number, state in enumerate(STATES)] + [at("more")])
        assert structs.asdict(counts) == {
            "desired": 7,
            "synced": 2,
            "pending": 1,
            "failed": 1,
            "conflicted": 1,
            "skipped": 1,
            "unknown": 1,
            "unwanted": 0,
            "summary": "2/7",
        }

    @quick
    @given(outcomes)
    def test_the_states_add_up_to_the_targets(self, found: list[Outcome]) -> None:
        counts = structs.asdict(count(found))
        assert counts.pop("unwanted") <= sum(outcome.gone for outcome in found)
        assert counts.pop("summary") == f"{counts['synced']}/{counts['desired']}"
        assert counts.pop("desired") == sum(counts.values()) == sum(not outcome.gone for outcome in found)

    def test_nothing_is_counted_as_nothing(self) -> None:
        assert count([]).summary == "0/0"


class TestListing:
    def test_failures_come_first_and_then_by_name(self) -> None:
        found = [at(name, state) for state in reversed(STATES) for name in ("b", "a")]
        assert [(entry.status, entry.namespace) for entry in listing(found, [], NOW)] == [
            (state, name) for state in STATES for name in ("a", "b")
        ]

    def test_at_most_100_are_listed_and_a_failure_is_not_cut_off(self) -> None:
        found = [*(at(f"team-{number:03}") for number in range(150)), at("zz-last", "Failed")]
        entries = listing(found, [], NOW)
        assert len(entries) == 100
        assert (entries[0].namespace, entries[0].status) == ("zz-last", "Failed")

    def test_a_reason_is_given_where_something_is_not_as_it_should_be(self) -> None:
        synced, failed = at("a"), at("b", "Failed", "Forbidden")
        assert [(entry.reason, entry.message) for entry in listing([synced, failed], [], NOW)] == [
            ("Forbidden", "why b is Failed"),
            ("", ""),
        ]

    def test_the_time_moves_only_where_something_was_written(self) -> None:
        known = [
            TargetStatus(type="InCluster", namespace=name, name="settings", status="Synced", last_sync_time=THEN)
            for name in "ab"
        ]
        found = [at("a", written=Verb.UPDATE), at("b"), at("c")]
        assert [entry.last_sync_time for entry in listing(found, known, NOW)] == [NOW, THEN, ""]

    def test_a_target_that_is_no_longer_wanted_is_listed_only_while_it_cannot_be_removed(self) -> None:
        found = [at("removed", written=Verb.DELETE, gone=True), at("stuck", "Failed", gone=True)]
        assert [entry.namespace for entry in listing(found, [], NOW)] == ["stuck"]

    def test_a_target_that_stays_without_its_source_is_listed(self) -> None:
        unproven, orphaned = at("unproven", "Unknown", UNPROVEN, gone=True), at("kept", "Skipped", ORPHANED, gone=True)
        assert [entry.namespace for entry in listing([orphaned, unproven], [], NOW)] == ["unproven", "kept"]

    def test_a_long_message_is_cut_to_what_the_field_allows(self) -> None:
        long = structs.replace(at("a", "Failed"), message="x" * 5000)
        assert len(listing([long], [], NOW)[0].message) <= 1024


class TestReady:
    @pytest.mark.parametrize(
        ("states", "status"),
        [
            (("Synced",), "True"),
            (("Synced", "Skipped"), "True"),
            (("Skipped",), "True"),
            ((), "True"),
            (("Synced", "Unknown"), "Unknown"),
            (("Synced", "Unknown", "Failed"), "False"),
            (("Synced", "Unknown", "Conflict"), "False"),
            (("Unknown", "Pending"), "False"),
            (("Failed",), "False"),
            (("Conflict",), "False"),
            (("Pending",), "False"),
        ],
    )
    def test_false_beats_unknown_beats_true(self, states: tuple[TargetState, ...], status: str) -> None:
        assert readiness([at(f"team-{number}", state) for number, state in enumerate(states)]).status == status

    def test_one_common_reason_is_the_reason(self) -> None:
        assert readiness([at("a", "Conflict", "NotOurs"), at("b", "Conflict", "NotOurs")]).reason == "NotOurs"

    def test_several_reasons_have_a_common_name(self) -> None:
        mixed = [at("a", "Conflict", "NotOurs"), at("b", "Failed", "Forbidden")]
        assert readiness(mixed).reason == "TargetsNotSynced"

    def test_the_message_names_the_worst_targets_and_counts_the_rest(self) -> None:
        found = [at("ok"), *(at(name, "Conflict") for name in "dcba"), at("z", "Failed")]
        assert readiness(found).message == (
            "5 of 6 targets not in agreement: z/settings: why z is Failed; a/settings: why a is Conflict; "
            "b/settings: why b is Conflict; and 2 more"
        )

    def test_a_few_targets_are_all_named(self) -> None:
        assert readiness([at("a", "Unknown")]).message == (
            "1 of 1 targets not in agreement: a/settings: why a is Unknown"
        )

    def test_what_was_removed_is_not_counted_as_a_target(self) -> None:
        removed = [at("b", written=Verb.DELETE, gone=True), at("c", "Skipped", gone=True)]
        assert readiness([at("a"), *removed]).message == "1 target agrees with the source"

    def test_a_good_message_counts(self) -> None:
        assert readiness([at("a")]).message == "1 target agrees with the source"
        assert readiness([at("a"), at("b"), at("c", "Skipped")]).message == (
            "2 targets agree with the source, 1 skipped"
        )

    def test_a_copy_that_could_not_be_removed_is_not_ready(self) -> None:
        finding = readiness([at("a"), at("stuck", "Failed", "Forbidden", gone=True)])
        assert (finding.status, finding.reason) == ("False", "Forbidden")
        assert finding.message.startswith("1 of 2 targets")

    @quick
    @given(outcomes, st.randoms(use_true_random=False))
    def test_the_order_of_targets_does_not_matter(self, found: list[Outcome], random: Random) -> None:
        shuffled = list(found)
        random.shuffle(shuffled)
        assert readiness(shuffled) == readiness(found)
        assert conflicted(shuffled) == conflicted(found)
        assert listing(shuffled, [], NOW) == listing(found, [], NOW)


class TestConflicted:
    def test_it_is_there_only_while_there_is_a_conflict(self) -> None:
        assert conflicted([at("a"), at("b", "Failed")]) is None
        finding = conflicted([at("a"), at("b", "Conflict", "NotOurs")])
        assert finding is not None
        assert (finding.type, finding.status, finding.reason) == ("Conflicted", "True", "NotOurs")
        assert "b/settings" in finding.message


class TestChangesInWords:
    def test_what_was_written_is_counted_by_what_was_done(self) -> None:
        found = [
            at("a", written=Verb.CREATE),
            at("b", written=Verb.CREATE),
            at("c", written=Verb.DELETE, gone=True),
            at("d", written=Verb.ADOPT),
            at("e", written=Verb.RELEASE, gone=True),
            at("f", written=Verb.RECREATE),
            at("g", written=Verb.UPDATE),
            structs.replace(at("h", written=Verb.UPDATE), drift=True),
            at("i"),
        ]
        assert describe_changes(found) == (
            "1 adopted, 2 created, 1 deleted, 1 recreated, 1 released, 1 repaired, 1 updated"
        )

    def test_nothing_written_is_nothing_said(self) -> None:
        assert describe_changes([at("a"), at("b", "Failed")]) == ""


class TestUnmatched:
    def test_what_leads_to_no_target_is_said_and_ready_stays_true(self) -> None:
        ready = readiness([], ["no namespace matches a-*"])
        assert (ready.status, ready.reason) == ("True", "Synced")
        assert ready.message == "there is nothing to write yet: no namespace matches a-*"
        ready = readiness([at("a")], ["no namespace matches a-*"])
        assert ready.message == "1 target agrees with the source; no namespace matches a-*"

    def test_many_are_counted_and_a_failure_goes_before_them(self) -> None:
        assert readiness([], list("abcde")).message == "there is nothing to write yet: a; b; c; and 2 more"
        assert readiness([at("a", "Failed")], ["b"]).status == "False"
        assert "b" not in readiness([at("a", "Failed")], ["b"]).message.split()


class TestOfAnAction:
    ACTION = Action(
        verb=Verb.UPDATE,
        target=Target("a", "settings"),
        reason="DriftRepaired",
        message="changed by kubectl",
        drift=True,
    )

    def test_it_carries_the_reason_of_the_plan(self) -> None:
        outcome = outcome_of(self.ACTION, written=True)
        assert (outcome.state, outcome.reason, outcome.message) == ("Synced", "DriftRepaired", "changed by kubectl")
        assert (outcome.written, outcome.drift) == (Verb.UPDATE, True)

    def test_a_write_that_repairs_nothing_is_not_drift(self) -> None:
        assert not outcome_of(structs.replace(self.ACTION, drift=False), written=True).drift

    def test_what_was_only_planned_was_not_written(self) -> None:
        outcome = outcome_of(self.ACTION)
        assert (outcome.written, outcome.drift) == (None, False)

    def test_an_object_that_is_being_deleted_is_looked_at_again(self) -> None:
        waiting = Action(
            verb=Verb.LEAVE, target=Target("a", "settings"), reason="Terminating", message="waits", state="Pending"
        )
        assert outcome_of(waiting).retry
        assert not outcome_of(self.ACTION, written=True).retry


def test_a_config_map_among_other_kinds_is_named_with_its_kind() -> None:
    config_map = Outcome(target=Target("a", "web"), state="Failed", reason="R", message="no")
    secret = Outcome(target=Target("a", "web", "Secret"), state="Synced", reason="Synced")
    assert "targets not in agreement: a/web: no" in readiness([config_map]).message
    assert "targets not in agreement: ConfigMap a/web: no" in readiness([config_map, secret]).message
