"""Since when a cluster is lost: placement takes its namespaces away after that time alone."""

from datetime import UTC, datetime

import pytest

from syncline.api.common import Condition, ConditionStatus, ObjectMeta
from syncline.api.connection import ClusterConnection
from syncline.api.synctarget import SyncTarget, SyncTargetSpec, SyncTargetStatus
from syncline.controllers.targets.connections import lost_cluster

EARLIER, LATER = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"
LABELS = {"zone": "a"}


def target(ready: ConditionStatus | None, *, turned: str = LATER, seen: str | None = EARLIER) -> SyncTarget:
    """Return a SyncTarget whose status says this."""
    conditions = [Condition(type="Ready", status=ready, reason="Said", last_transition_time=turned)] if ready else []
    return SyncTarget(
        metadata=ObjectMeta(name="west", labels=LABELS),
        spec=SyncTargetSpec(connection=ClusterConnection(type="KubeconfigSecret")),
        status=SyncTargetStatus(conditions=conditions, last_seen=seen),
    )


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_cluster_that_this_process_has_seen_is_lost_since_then() -> None:
    seen = datetime.now(UTC)
    lost = lost_cluster("west", target("False"), seen)
    assert (lost.since, lost.last_seen, lost.labels) == (seen, seen, LABELS)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_one_that_it_has_not_seen_is_lost_since_its_status_says_so(ready: ConditionStatus) -> None:
    lost = lost_cluster("west", target(ready))
    assert (lost.since, lost.last_seen) == (at(LATER), at(EARLIER))


@pytest.mark.parametrize("known", [target("True"), target(None), target("False", turned="soon"), None])
def test_one_of_which_nothing_is_known_has_just_been_lost(known: SyncTarget | None) -> None:
    assert lost_cluster("west", known).since is None


def test_one_that_nobody_has_seen_has_no_last_contact() -> None:
    assert lost_cluster("west", target("False", seen=None)).last_seen is None
