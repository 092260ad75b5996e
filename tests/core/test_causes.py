"""Causes: what is wrong, told apart from where, how often and when it was found."""

import pytest

from syncline.api.common import Condition, ConditionStatus, TargetState
from syncline.api.status import SyncStatus
from syncline.core.causes import causes
from syncline.core.objects import Target
from syncline.core.outcome import Outcome, listing, readiness

NOW = "2030-01-01T00:00:00Z"


def whole(message: str, status: ConditionStatus = "False", reason: str = "SourceUnreadable") -> SyncStatus:
    """Return the status of a sync that fails as a whole."""
    return SyncStatus(
        conditions=[Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=NOW)]
    )


def of_targets(*messages: tuple[str, str], state: TargetState = "Failed", reason: str = "Forbidden") -> SyncStatus:
    """Return the status of a sync whose targets fail: namespaces with messages."""
    outcomes = [
        Outcome(target=Target(namespace, "app"), state=state, reason=reason, message=message)
        for namespace, message in messages
    ]
    ready = readiness(outcomes)
    return SyncStatus(
        conditions=[
            Condition(
                type="Ready", status=ready.status, reason=ready.reason, message=ready.message, last_transition_time=NOW
            )
        ],
        target_statuses=listing(outcomes, (), NOW),
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("no answer after 3 s", "no answer after 17.5 s"),
        ("last seen 2030-01-01T00:00:00Z", "last seen 2031-12-24T17:30:05Z"),
        ("connect to 10.0.0.1:6443 refused", "connect to 10.0.0.2:6443 refused"),
        ("request 0f5c8d1e-6f67-4a5e-9d5b-0123456789ab failed", "request 1a2b3c4d-6f67-4a5e-9d5b-ba9876543210 failed"),
        ("commit 31f32ec5e3aa is gone", "commit 4241958f6abb is gone"),
        ("attempt 1\n  failed", "attempt 12 failed"),
    ],
)
def test_what_differs_from_one_retry_to_the_next_is_no_new_cause(first: str, second: str) -> None:
    assert causes(whole(first)) == causes(whole(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("403 Forbidden: exceeded quota", "403 Forbidden: denied by the webhook policy.example.com"),
        ("server disconnected", "certificate signed by unknown authority"),
        ("403 Forbidden: exceeded quota: small-1", "403 Forbidden: exceeded quota: small-2"),
        ("spec.v1: unknown field", "spec.v2: unknown field"),
        ("denied by deadbeef", "denied by facadebeef"),
    ],
)
def test_another_cause_under_the_same_reason_is_one(first: str, second: str) -> None:
    assert causes(whole(first)) != causes(whole(second))
    assert causes(of_targets(("team", first))) != causes(of_targets(("team", second)))


def test_the_same_at_more_targets_or_fewer_or_others_is_no_new_cause() -> None:
    def denied(*namespaces: str) -> SyncStatus:
        told = [(name, f"cannot create configmaps in namespace '{name}': 403 Forbidden: quota") for name in namespaces]
        return of_targets(*told)

    assert causes(denied("team-a")) == causes(denied("team-a", "team-b", "team-c", "team-d")) == causes(denied("red"))


def test_of_several_causes_each_is_one() -> None:
    both = causes(of_targets(("a", "quota"), ("b", "webhook")))
    assert causes(of_targets(("a", "quota"))) < both
    assert len(both) == 2


def test_targets_that_share_the_fate_of_the_sync_add_nothing_and_hide_nothing() -> None:
    def status(message: str) -> SyncStatus:
        shared = of_targets(("a", "not read: see the Ready condition of the sync"), state="Unknown")
        return SyncStatus(conditions=whole(message).conditions, target_statuses=shared.target_statuses)

    assert causes(status("no right to get")) != causes(status("no answer"))


def test_a_sync_that_is_ready_or_says_nothing_has_none() -> None:
    assert causes(SyncStatus()) == causes(whole("3 targets agree", "True", "Synced")) == frozenset()
