"""The history of a sync: each change enters, each failure once; a rollback finds what was applied."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.api.common import HistoryEntry, TargetState
from syncline.core.conditions import Finding
from syncline.core.history import LENGTH, WAITING, Attempt, applied, attempt_of, extend, is_certain_failure, is_failure
from syncline.core.objects import Target
from syncline.core.outcome import Outcome, readiness
from syncline.core.plan import Verb

NOW, LATER = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"
READY = Finding("Ready", "True", "Synced", "1 target agrees with the source")
FORBIDDEN = Attempt(revision="1", result="Failed", reason="Forbidden", message="quota")


def synced(revision: str, changes: str = "") -> Attempt:
    return Attempt(revision=revision, changes=changes)


def failed(revision: str, reason: str = "Forbidden", changes: str = "") -> Attempt:
    return Attempt(revision=revision, result="Failed", reason=reason, message="why", changes=changes)


def played(*attempts: Attempt | None, by_revision: bool = False) -> list[tuple[str, str, str]]:
    """Return revision, result and changes of the entries that come of attempts in this order."""
    history: list[HistoryEntry] = []
    for attempt in attempts:
        history = extend(history, attempt, NOW, by_revision=by_revision)
    return [(entry.revision, entry.result, entry.changes) for entry in history]


def at(state: TargetState, reason: str = "Reason", written: Verb | None = None) -> Outcome:
    return Outcome(target=Target("team", state), state=state, reason=reason, message="why", written=written)


class TestOutcomes:
    @pytest.mark.parametrize(
        ("outcomes", "result"),
        [
            ([at("Synced")], "Synced"),
            ([at("Synced"), at("Failed")], "Failed"),
            ([at("Conflict"), at("Unknown")], "Failed"),
            ([at("Synced"), at("Conflict")], "Conflict"),
            ([at("Synced", written=Verb.CREATE), at("Pending")], "Synced"),
        ],
    )
    def test_the_worst_target_is_the_result(self, outcomes: list[Outcome], result: str) -> None:
        attempt = attempt_of(outcomes, readiness(outcomes), failed=False, revision="1")
        assert attempt is not None
        assert attempt.result == result
        assert bool(attempt.reason) == (result != "Synced")

    @pytest.mark.parametrize("reason", sorted(WAITING))
    def test_what_is_waited_for_is_no_failure(self, reason: str) -> None:
        waiting = Finding("Ready", "Unknown", reason, "waits")
        assert not is_failure(waiting)
        assert attempt_of([at("Unknown", reason)], waiting, failed=is_failure(waiting), revision="1") is None

    def test_a_target_that_waits_leaves_the_end_open(self) -> None:
        outcomes = [at("Pending", "NamespaceNotFound")]
        assert attempt_of(outcomes, readiness(outcomes), failed=False, revision="1") is None

    def test_a_sync_that_fails_as_a_whole_has_failed_though_no_target_was_looked_at(self) -> None:
        ready = Finding("Ready", "False", "SourceForbidden", "no right")
        attempt = attempt_of((), ready, failed=is_failure(ready), revision=None)
        assert attempt == Attempt(result="Failed", reason="SourceForbidden", message="no right")

    @pytest.mark.parametrize(
        ("outcomes", "certain"),
        [
            ([at("Failed", "Forbidden")], True),
            ([at("Failed", "Forbidden"), at("Synced")], True),
            ([at("Conflict", "NotOurs")], True),
            ([at("Failed", "Forbidden"), at("Pending", "NamespaceNotFound")], False),
            ([at("Failed", "Forbidden"), at("Unknown", "Unreachable")], False),
            ([at("Pending", "NamespaceNotFound")], False),
            ([at("Pending", "InProgress")], False),
            ([at("Unknown", "Unreachable")], False),
            ([at("Synced")], False),
        ],
    )
    def test_a_failure_is_certain_when_nothing_is_awaited(self, outcomes: list[Outcome], certain: bool) -> None:
        assert is_certain_failure(readiness(outcomes), outcomes, whole=False) is certain

    @pytest.mark.parametrize("reason", ["RenderFailed", "SourceForbidden", "KindNotWatched", "RevisionNotFound"])
    def test_a_failure_of_the_whole_is_certain_whatever_targets_say(self, reason: str) -> None:
        outcomes = [at("Unknown", reason)]
        assert is_certain_failure(Finding("Ready", "False", reason, "no"), outcomes, whole=True)
        assert not is_certain_failure(Finding("Ready", "Unknown", reason, "cannot tell"), outcomes, whole=True)

    @pytest.mark.parametrize("reason", sorted(WAITING))
    def test_what_is_waited_for_is_no_certain_failure(self, reason: str) -> None:
        assert not is_certain_failure(Finding("Ready", "False", reason, "waits"), [], whole=True)


class TestEntries:
    def test_each_change_has_an_entry(self) -> None:
        assert played(synced("1", "1 created"), synced("1", "1 repaired"), synced("2", "1 updated")) == [
            ("2", "Synced", "1 updated"),
            ("1", "Synced", "1 repaired"),
            ("1", "Synced", "1 created"),
        ]

    def test_a_failure_has_one_entry_however_often_it_is_tried(self) -> None:
        assert played(synced("1", "1 created"), *[failed("2")] * 5) == [
            ("2", "Failed", ""),
            ("1", "Synced", "1 created"),
        ]

    def test_its_end_has_one_too_though_nothing_was_written(self) -> None:
        assert played(failed("1"), *[synced("1")] * 3) == [("1", "Synced", ""), ("1", "Failed", "")]

    def test_another_reason_and_another_revision_are_other_failures(self) -> None:
        assert len(played(failed("1"), failed("1", "Invalid"), failed("2", "Invalid"))) == 3

    def test_what_is_so_from_the_start_needs_no_entry(self) -> None:
        assert played(synced("1"), synced("2"), None) == []

    def test_the_entry_of_a_lasting_failure_keeps_its_time_and_has_the_latest_cause(self) -> None:
        history = extend([], FORBIDDEN, NOW)
        (entry,) = extend(history, Attempt(revision="1", result="Failed", reason="Forbidden", message="webhook"), LATER)
        assert (entry.time, entry.message) == (NOW, "webhook")

    def test_texts_fit_the_schema(self) -> None:
        (entry,) = extend([], Attempt(result="Failed", reason="R" * 999, message="m" * 999), NOW)
        assert (len(entry.reason), len(entry.message)) == (64, 256)
        assert len(extend([entry], Attempt(result="Failed", reason="R" * 999, message="other"), NOW)) == 1


class TestRevisions:
    def test_repairs_of_one_revision_are_one_entry(self) -> None:
        assert played(synced("a", "3 created"), synced("a", "1 repaired"), by_revision=True) == [
            ("a", "Synced", "3 created, 1 repaired")
        ]

    def test_what_an_attempt_says_in_its_own_words_stays_when_it_is_amended(self) -> None:
        begun = extend([], synced("a", "3/3 gateways synced"), NOW)
        amended = extend(begun, synced("a"), NOW, amend=True)
        assert [entry.changes for entry in amended] == ["3/3 gateways synced"]

    def test_a_revision_that_took_several_passes_says_all_that_they_wrote(self) -> None:
        cut = synced("a", "1 created, 9 updated")
        assert played(cut, synced("a", "4 updated"), synced("a", "1 deleted"), by_revision=True) == [
            ("a", "Synced", "1 created, 1 deleted, 13 updated")
        ]

    def test_a_commit_that_cannot_be_built_is_told_once_and_is_nowhere_to_go_back_to(self) -> None:
        history: list[HistoryEntry] = []
        for attempt in (synced("a", "1 created"), *[failed("b", "BuildFailed")] * 3):
            history = extend(history, attempt, NOW, by_revision=True)
        assert [(entry.revision, entry.reason) for entry in history] == [("b", "BuildFailed"), ("a", "")]
        assert [entry.revision for entry in applied(history)] == ["a"]

    def test_an_outage_of_git_is_told_once_also_while_drift_is_repaired(self) -> None:
        away = failed("", "GitUnreachable")
        repaired = failed("a", "GitUnreachable", "1 repaired")
        assert played(synced("a", "1 created"), away, away, repaired, away, repaired, away, by_revision=True) == [
            ("a", "Failed", "2 repaired"),
            ("", "Failed", ""),
            ("a", "Synced", "1 created"),
        ]

    def test_a_revision_that_turns_out_unhealthy_has_never_been_good(self) -> None:
        history = extend([], synced("a", "1 created"), NOW, by_revision=True)
        history = extend(history, failed("a", "HealthCheckFailed"), LATER, by_revision=True, amend=True)
        assert [(entry.time, entry.result, entry.changes) for entry in history] == [(NOW, "Failed", "1 created")]


attempts = st.lists(
    st.builds(
        lambda revision, result, changes, reason: Attempt(
            revision=revision, result=result, changes=changes, reason="" if result == "Synced" else reason
        ),
        st.sampled_from(["", "a", "b", "c"]),
        st.sampled_from(["Synced", "Failed", "Conflict"]),
        st.sampled_from(["", "1 updated"]),
        st.sampled_from(["Forbidden", "Invalid"]),
    ),
    max_size=40,
)


@thorough
@given(attempts, st.booleans())
def test_it_is_short_says_the_latest_and_changes_nothing_when_tried_again(
    tried: list[Attempt], by_revision: bool
) -> None:
    history: list[HistoryEntry] = []
    for number, attempt in enumerate(tried):
        history = extend(history, attempt, f"2030-01-01T00:00:{number:02}Z", by_revision=by_revision)
        assert len(history) <= LENGTH
        if history:
            assert history[0].result == attempt.result
        again = Attempt(
            revision=attempt.revision, result=attempt.result, reason=attempt.reason, message=attempt.message
        )
        assert extend(history, again, LATER, by_revision=by_revision) == history
        assert all(newer.time >= older.time for newer, older in pairwise(history))


@thorough
@given(attempts)
def test_failures_push_out_no_change_before_all_others_have_gone(tried: list[Attempt]) -> None:
    history: list[HistoryEntry] = []
    for number, attempt in enumerate(tried):
        before, history = history, extend(history, attempt, f"2030-01-01T00:00:{number:02}Z")
        lost = [entry for entry in before if entry not in history and entry.changes]
        if lost and not attempt.changes:
            assert all(entry.changes for entry in history[1:])
