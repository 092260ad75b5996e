"""When a sync acts: at once or every so often, on request, not while it is suspended."""

import time

from tests.manifestsync.world import Manifests

EVERY = {"mode": "Interval", "interval": "10s"}


def test_interval_delays_copying_repair_and_pruning_and_does_them_all_when_it_is_due(world: Manifests) -> None:
    source = world.secret()
    stays, leaves = world.namespaces("stays", "leaves", team=world.name)
    sync = world.msync(
        "sync",
        source,
        targets={"inCluster": {"namespaceSelector": {"matchLabels": {"team": world.name}}}},
        syncPolicy=EVERY,
    )
    sync.becomes("Synced", synced=2)
    began = time.monotonic()
    mark = world.mark()
    source.keep(password="blue")
    drifted = world.find("Secret", leaves)
    drifted.keep(extra="x")
    world.namespace_object(leaves).label(team="other")
    world.find("Secret", stays).holds(password="blue")
    drifted.gone()
    assert time.monotonic() - began > 5
    # One turn did it all, and nothing was tried before.
    assert [write.split()[0] for write in world.copying(mark)] == ["patch", "delete"]


def test_what_its_user_asks_for_does_not_wait_for_the_interval(world: Manifests) -> None:
    source = world.secret()
    first, second = world.namespaces("a", "b")
    sync = world.msync("sync", source, into=[first], syncPolicy={"mode": "Interval", "interval": "1h"})
    sync.becomes("Synced", synced=1)
    source.keep(password="blue")
    sync.into(first, second)
    world.find("Secret", second).holds(password="blue")
    world.find("Secret", first).holds(password="blue")
    sync.becomes("Synced", synced=2)
    source.keep(password="green")
    sync.now()
    world.find("Secret", first).holds(password="green")
    sync.delete()
    world.find("Secret", first).gone()


def test_an_interval_that_is_too_short_for_this_operator_is_refused(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], syncPolicy={"mode": "Interval", "interval": "1s"})
    ready = sync.becomes("InvalidSpec")
    assert ready["message"] == "interval 1s is shorter than this operator allows: at least 10s"
    assert "Stalled" in sync.conditions
    assert world.find("Secret", target).look() is None
    sync.change(syncPolicy=EVERY)
    sync.becomes("Synced")


def test_a_suspended_sync_reads_and_writes_nothing_until_it_goes_on(world: Manifests) -> None:
    source = world.deployment()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], suspend=True)
    ready = sync.becomes("Suspended")
    assert ready["status"] == "Unknown"
    mark = world.mark()
    source.put("spec", "replicas", value=3)
    sync.now()
    assert world.copying(mark) == []
    assert [entry for entry in world.requests(mark) if entry.resource == "deployments"] == []
    sync.change(suspend=False)
    copy = world.find("Deployment", target)
    copy.shows("spec", "replicas", value=3)
    sync.becomes("Synced")


def test_a_request_is_echoed_once_it_was_carried_out(world: Manifests) -> None:
    source = world.secret()
    target = world.namespace("a")
    sync = world.msync("sync", source, into=[target], metadata={"annotations": {"syncline.dev/requestedAt": "one"}})
    sync.becomes("Synced")
    assert sync.status["lastHandledRequest"] == "one"
    sync.now()
