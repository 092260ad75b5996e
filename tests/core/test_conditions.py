"""Conditions: the truth as of now, with the time of the last change."""

from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import quick

from syncline.api.common import Condition
from syncline.core.conditions import MAX_MESSAGE, Finding, find, shorten, update_conditions

THEN, NOW, LATER = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z", "2030-01-03T00:00:00Z"
READY = Finding("Ready", "True", "Synced", "3 targets agree with the source")
NOT_READY = Finding("Ready", "False", "NotOurs", "1 of 3 targets not in agreement")
STILL_NOT_READY = Finding("Ready", "False", "Immutable", "2 of 3 targets not in agreement")
STALLED = Finding("Stalled", "True", "Invalid", "the transform has no such key")

findings = st.builds(
    Finding,
    st.sampled_from(("Ready", "Stalled", "Conflicted")),
    st.sampled_from(("True", "False", "Unknown")),
    st.sampled_from(("One", "Other")),
    st.text(max_size=5),
)


def test_a_first_finding_has_the_time_of_now() -> None:
    [ready] = update_conditions([], [READY], 7, NOW)
    assert ready == Condition(
        type="Ready",
        status="True",
        reason="Synced",
        message="3 targets agree with the source",
        observed_generation=7,
        last_transition_time=NOW,
    )


def test_the_time_moves_with_the_status() -> None:
    known = update_conditions([], [READY], 1, THEN)
    [ready] = update_conditions(known, [NOT_READY], 1, NOW)
    assert ready.last_transition_time == NOW


def test_the_time_stays_when_only_reason_message_and_generation_change() -> None:
    known = update_conditions([], [NOT_READY], 1, THEN)
    [ready] = update_conditions(known, [STILL_NOT_READY], 2, NOW)
    assert (ready.reason, ready.observed_generation, ready.last_transition_time) == ("Immutable", 2, THEN)


def test_what_is_no_longer_found_goes() -> None:
    known = update_conditions([], [READY, STALLED], 1, THEN)
    assert [condition.type for condition in update_conditions(known, [READY], 1, NOW)] == ["Ready"]


def test_what_comes_back_has_a_new_time() -> None:
    known = update_conditions([], [STALLED], 1, THEN)
    gone = update_conditions(known, [], 1, NOW)
    [stalled] = update_conditions(gone, [STALLED], 1, LATER)
    assert stalled.last_transition_time == LATER


@quick
@given(st.lists(findings, unique_by=lambda finding: finding.type), st.integers(0, 9))
def test_finding_the_same_again_changes_nothing(found: list[Finding], generation: int) -> None:
    known = update_conditions([], found, generation, THEN)
    assert update_conditions(known, found, generation, NOW) == known


def test_a_long_message_is_cut_in_the_middle() -> None:
    long = Finding("Ready", "False", "Failed", "a/b: " + "x" * MAX_MESSAGE + "; delete it")
    [condition] = update_conditions([], [long], 1, THEN)
    assert len(condition.message) == MAX_MESSAGE
    assert condition.message.startswith("a/b: x")
    assert condition.message.endswith("x; delete it")


def test_nothing_known_is_nothing_said() -> None:
    assert find([], "Ready") is None


def test_a_text_within_its_limit_is_not_cut() -> None:
    assert shorten("four", 4) == "four"
    assert shorten("fives", 4) == "fi…s"
