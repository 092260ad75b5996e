"""When a sync is reconciled again, and when it is settled."""

from typing import Any, cast

import pytest

from syncline.api.common import TargetState
from syncline.controllers.errors import SyncError
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.result import ReconcileResult, failed_result
from syncline.core.objects import Target
from syncline.core.outcome import Outcome

SYNC = cast("Any", None)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (NO_REQUEUE, NO_REQUEUE, NO_REQUEUE),
        (Requeue(after=5.0), NO_REQUEUE, Requeue(after=5.0)),
        (Requeue(after=5.0), Requeue(after=2.0), Requeue(after=2.0)),
        (Requeue(backoff=True), Requeue(after=0.0, pending=True), Requeue(after=0.0, backoff=True, pending=True)),
    ],
)
def test_two_wishes_come_to_the_sooner_and_stronger_one(one: Requeue, other: Requeue, both: Requeue) -> None:
    assert one | other == both
    assert other | one == both


@pytest.mark.parametrize(
    ("error", "clusters", "requeue"),
    [
        (SyncError("Any", "any"), NO_REQUEUE, NO_REQUEUE),
        (SyncError("Any", "any", retry=True), NO_REQUEUE, Requeue(backoff=True, pending=True)),
        (SyncError("Any", "any", again=9.0), Requeue(after=1.0), Requeue(after=9.0, pending=True)),
        (SyncError("Any", "any"), Requeue(after=1.0), Requeue(after=1.0, pending=True)),
    ],
)
def test_a_sync_that_failed_as_a_whole_is_tried_again_as_its_error_says(
    error: SyncError, clusters: Requeue, requeue: Requeue
) -> None:
    result = failed_result(SYNC, error, requeue=clusters)
    assert result.requeue == requeue
    assert not result.is_settled


@pytest.mark.parametrize(
    ("state", "changes", "settled"),
    [
        ("Synced", {}, True),
        ("Skipped", {}, True),
        ("Conflict", {}, False),
        ("Synced", {"complete": False}, False),
        ("Synced", {"requeue": Requeue(after=300.0)}, True),
        ("Synced", {"requeue": Requeue(pending=True)}, False),
        ("Synced", {"problem": SyncError("Any", "any")}, False),
    ],
)
def test_a_settled_sync_has_nothing_left_to_do(state: TargetState, changes: dict[str, Any], settled: bool) -> None:
    outcome = Outcome(target=Target("team", "app"), state=state, reason="", message="")
    result = ReconcileResult(**{"sync": SYNC, "outcomes": [outcome], "complete": True, **changes})
    assert result.is_settled is settled
