"""Composing the status of a sync: conditions, counts, history, and what stays from before."""

from typing import Any

import pytest

from syncline.api.common import TargetCounts
from syncline.api.configmapsync import ConfigMapSyncStatus
from syncline.api.status import SyncStatus
from syncline.core.conditions import find
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Verb
from syncline.core.sync_status import StatusInput, StatusProblem, compose_progress, compose_status

NOW = "2026-03-01T12:00:00Z"
BEFORE = "2026-03-01T11:00:00Z"
STALLED = StatusProblem(reason="InvalidSpec", message="write another", stalled=True)
PASSING = StatusProblem(reason="Unreachable", message="no answer", status="Unknown")


def outcome(state: Any = "Synced", reason: str = "Synced", **more: Any) -> Outcome:
    return Outcome(target=Target("team", "settings"), state=state, reason=reason, **more)


def conditions(status: SyncStatus) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in status.conditions}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param({"outcomes": [outcome()]}, {"Ready": ("True", "Synced")}, id="all targets are synced"),
        pytest.param(
            {"problem": STALLED},
            {"Ready": ("False", "InvalidSpec"), "Stalled": ("True", "InvalidSpec")},
            id="only an edit helps",
        ),
        pytest.param(
            {"problem": STALLED, "retries": True},
            {"Ready": ("False", "InvalidSpec"), "Stalled": ("True", "InvalidSpec")},
            id="a stalled sync is not reported as reconciling",
        ),
        pytest.param(
            {"problem": PASSING, "retries": True},
            {"Ready": ("Unknown", "Unreachable"), "Reconciling": ("True", "Progressing")},
            id="an unknown state is waited for",
        ),
        pytest.param(
            {"outcomes": [outcome("Failed", "Forbidden", message="no")], "retries": True},
            {"Ready": ("False", "Forbidden"), "Reconciling": ("True", "Retrying")},
            id="a failure is retried",
        ),
        pytest.param(
            {"outcomes": [outcome("Pending", "InProgress")]},
            {"Ready": ("False", "InProgress"), "Reconciling": ("True", "Progressing")},
            id="a write in progress is reported",
        ),
        pytest.param(
            {"outcomes": [outcome("Conflict", "NotOurs")]},
            {"Ready": ("False", "NotOurs"), "Conflicted": ("True", "NotOurs")},
            id="a conflict has its own condition",
        ),
        pytest.param(
            {"outcomes": [outcome()], "warnings": ["the token expires"]},
            {"Ready": ("True", "Synced"), "CredentialExpiring": ("True", "RenewSoon")},
            id="a credential expires soon",
        ),
    ],
)
def test_the_conditions_tell_how_a_reconcile_ended(
    result: dict[str, Any], expected: dict[str, tuple[str, str]]
) -> None:
    assert conditions(compose_status(SyncStatus(), StatusInput(**result), NOW)) == expected


def test_a_condition_that_no_longer_holds_goes() -> None:
    old = compose_status(SyncStatus(), StatusInput(problem=STALLED), BEFORE)
    new = compose_status(old, StatusInput(outcomes=[outcome()]), NOW)
    assert conditions(new) == {"Ready": ("True", "Synced")}


def test_the_time_of_a_condition_is_that_of_its_last_change_of_status() -> None:
    old = compose_status(SyncStatus(), StatusInput(outcomes=[outcome()]), BEFORE)
    same = compose_status(old, StatusInput(generation=2, outcomes=[outcome()]), NOW)
    ready = find(same.conditions, "Ready")
    assert ready is not None
    assert (ready.last_transition_time, ready.observed_generation) == (BEFORE, 2)


def test_targets_that_were_not_looked_at_stay_as_they_were() -> None:
    old = compose_status(
        SyncStatus(), StatusInput(outcomes=[outcome()], revision="1", scope="all", kept=["mark"]), BEFORE
    )
    new = compose_status(old, StatusInput(problem=PASSING), NOW)
    assert new.targets == old.targets == TargetCounts(desired=1, synced=1, summary="1/1")
    assert (new.target_statuses, new.source_revision, new.scope, new.kept) == (
        old.target_statuses,
        "1",
        "all",
        ["mark"],
    )


def test_marks_of_keep_are_replaced_as_a_whole() -> None:
    old = SyncStatus(kept=["gone"])
    assert compose_status(old, StatusInput(outcomes=[], kept=[]), NOW).kept == []


def test_a_request_is_answered_by_its_value() -> None:
    asked = compose_status(SyncStatus(), StatusInput(requested_at="now"), NOW)
    assert asked.last_handled_request == "now"
    assert compose_status(asked, StatusInput(), NOW).last_handled_request is None


def test_changes_are_added_to_the_history() -> None:
    written = compose_status(SyncStatus(), StatusInput(outcomes=[outcome(written=Verb.CREATE)], revision="7"), NOW)
    (entry,) = written.history
    assert (entry.revision, entry.result, entry.changes) == ("7", "Synced", "1 created")
    assert compose_status(written, StatusInput(outcomes=[outcome()], revision="7"), NOW).history == written.history


def test_fields_that_only_one_kind_has_stay() -> None:
    old = ConfigMapSyncStatus(last_sync_time=BEFORE)
    assert compose_status(old, StatusInput(outcomes=[outcome()]), NOW).last_sync_time == BEFORE


def test_progress_is_not_ready_and_keeps_the_rest() -> None:
    old = compose_status(SyncStatus(source_revision="1"), StatusInput(problem=STALLED), BEFORE)
    new = compose_progress(old, 3, "5 of 10 targets written", "2", NOW)
    assert conditions(new) == {"Ready": ("False", "Progressing"), "Reconciling": ("True", "Progressing")}
    assert (new.observed_generation, new.source_revision) == (3, "1")
