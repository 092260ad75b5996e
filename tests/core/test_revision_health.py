"""The health of a revision over time, case by case."""

import pytest

from syncline.api.common import TargetState
from syncline.core.health import Health
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.revision_health import HealthVerdict, judge_health

WEB, API = Target("team", "web", "Deployment.apps"), Target("team", "api", "Deployment.apps")
GOOD, SLOW, BAD = Health("Current"), Health("InProgress", "1 of 2 replicas"), Health("Failed", "cannot pull")
TIMEOUT = 60.0


def outcome(target: Target, state: TargetState = "Synced", *, gone: bool = False) -> Outcome:
    return Outcome(target=target, state=state, reason="", message="", gone=gone)


def judged(*outcomes: Outcome, health: dict[Target, Health], waited: float = 0.0) -> HealthVerdict:
    return judge_health(outcomes, health.items(), waited=lambda: waited, timeout=TIMEOUT)


def test_a_revision_is_healthy_once_all_its_objects_are() -> None:
    assert judged(outcome(WEB), outcome(API), health={WEB: GOOD, API: GOOD}).state == "Healthy"


def test_an_object_that_needs_time_has_it() -> None:
    verdict = judged(outcome(WEB), health={WEB: SLOW}, waited=20.0)
    assert (verdict.state, verdict.reason, verdict.left) == ("Pending", "Progressing", 40.0)
    assert verdict.message == "waits until 1 object is healthy: Deployment.apps team/web: 1 of 2 replicas"


def test_a_revision_whose_time_is_over_has_failed() -> None:
    verdict = judged(outcome(WEB), health={WEB: SLOW}, waited=TIMEOUT)
    assert (verdict.state, verdict.reason, verdict.left) == ("Failed", "HealthCheckFailed", None)
    assert verdict.message.startswith("not healthy after 60 s: ")


def test_an_object_that_has_failed_needs_no_more_time_and_is_named_first() -> None:
    verdict = judged(outcome(WEB), outcome(API), health={WEB: SLOW, API: BAD})
    assert verdict.state == "Failed"
    assert verdict.message == "not healthy: Deployment.apps team/api: cannot pull"


@pytest.mark.parametrize(("waited", "state", "left"), [(10.0, "Pending", 50.0), (70.0, "Failed", None)])
def test_what_was_not_applied_cannot_be_healthy(waited: float, state: str, left: float | None) -> None:
    verdict = judged(outcome(WEB, "Failed"), health={WEB: GOOD}, waited=waited)
    assert (verdict.state, verdict.reason, verdict.left) == (state, "", left)


def test_an_unreachable_cluster_says_nothing_and_costs_no_time() -> None:
    def never() -> float:
        raise AssertionError("nobody asks how long it has waited")

    assert judge_health([outcome(WEB, "Unknown")], [(WEB, BAD)], waited=never, timeout=TIMEOUT) == HealthVerdict()


def test_skipped_and_removed_objects_do_not_count() -> None:
    verdict = judged(
        outcome(WEB), outcome(API, "Skipped"), outcome(API, "Failed", gone=True), health={WEB: GOOD, API: BAD}
    )
    assert verdict.state == "Healthy"


def test_of_many_objects_three_are_named() -> None:
    many = {Target("team", f"app-{number}"): SLOW for number in range(5)}
    assert judged(*map(outcome, many), health=many).message.endswith("; and 2 more")
