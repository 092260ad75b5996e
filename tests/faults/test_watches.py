"""What becomes of a watch that falls silent, is cut, or tells lies; with the real operator and a real API server."""

import itertools
import time
from collections import defaultdict
from collections.abc import Callable

import pytest
from tests.faults.scene import NAME, Scene, calm_operator, metric, wait_until

from syncline.testing.faults import (
    Asked,
    Fault,
    Lines,
    broken,
    doubled,
    expired,
    garbled,
    replayed,
    swallowed,
    swapped,
    without,
)
from syncline.testing.proxy import FaultProxy

WATCHED = {
    "configmaps",
    "configmapsyncs",
    "configsyncs",
    "customresourcedefinitions",
    "ignitionsyncs",
    "manifestsyncs",
    "namespaces",
    "secrets",
    "synctargets",
    "tenantpolicies",
    "workspacesyncs",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
}
# ConfigMaps by label and without. Of Secrets, the one with the keys of marks.
WATCHES = len(WATCHED) + 1


def follows(asked: Asked) -> bool:
    return asked.follows


def of_a_watch(asked: Asked) -> bool:
    """Whether it is the list that a watch begins with; a sync that ends, in whatever scene, lists its copies too."""
    return asked.lists and "limit" not in asked.query and asked.query.get("resourceVersionMatch") != "Exact"


def of_a_watch_of_others(asked: Asked) -> bool:
    """The same, for kinds that the operator has not written meanwhile: its cache has nothing newer than their watch."""
    return of_a_watch(asked) and asked.resource not in ("configmaps", "configmapsyncs")


def test_a_silent_watch_is_found_and_healed_within_a_minute(scene: Scene, proxy: FaultProxy) -> None:
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "1")
        wait_until(lambda: proxy.count(follows) >= WATCHES, "all watches to be open")
        # On a busy machine the first one may have been too slow, and was repeated.
        lists = proxy.count(of_a_watch_of_others)
        silence = proxy.inject(Fault(silent=True), when=lambda asked: asked.verb == "watch")
        silence.lift()
        assert {asked.resource for asked in silence.hits} == WATCHED

        scene.source("2")
        scene.delete_config_map(targets[0])
        targets.append(scene.namespace("c"))
        found = lambda: metric(operator, "syncline_watch_restarts_total", reason="Unreachable") >= WATCHES  # noqa: E731
        wait_until(found, "the silence to be noticed", 60)
        scene.wait_for(targets, "2")
        wait_until(operator.is_ready, "the operator to be ready again")
        assert proxy.count(of_a_watch_of_others) == lists, "resumed, not listed anew"


def test_a_watch_that_opens_and_brings_nothing_is_found_and_healed_within_two_minutes(
    scene: Scene, proxy: FaultProxy
) -> None:
    """A proxy that holds all events back; the server ends each watch in time, and lists are answered."""
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "1")
        mute = proxy.inject(Fault(events=swallowed), when=follows)
        proxy.cut_watches()
        wait_until(lambda: proxy.count(follows) >= 2 * WATCHES, "all watches to be open again")
        scene.delete_config_map(targets[0])
        scene.source("2")
        wait_until(lambda: not operator.is_ready(), "the operator to say that it cannot see", 120)
        wait_until(lambda: is_held(scene, targets, "2"), "the lists to find what the watches held back", 120)
        mute.lift()
        wait_until(operator.is_ready, "the operator to be ready again")
        assert metric(operator, "syncline_watch_restarts_total", reason="NothingDelivered") >= 1


def is_held(scene: Scene, targets: list[str], value: str) -> bool:
    copies = scene.copies()
    return all(copies.get((target, NAME), {}).get("data") == {"value": value} for target in targets)


def test_watches_that_end_every_two_seconds_are_resumed_without_a_list(scene: Scene, proxy: FaultProxy) -> None:
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("0")
    scene.sync()
    ends = proxy.inject(Fault(closed_after=2), when=follows)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "0")
        lists = proxy.count(of_a_watch)
        for edit in range(1, 6):
            scene.source(str(edit))
            scene.wait_for(targets, str(edit))
            scene.delete_config_map(targets[0])
            scene.wait_for(targets, str(edit))
        wait_until(lambda: len(ends.hits) >= 20, "many watches to have ended")
        assert operator.is_ready()
        assert proxy.count(of_a_watch) == lists


@pytest.mark.parametrize("edit", [doubled, swapped, replayed, broken, garbled, expired], ids=lambda edit: edit.__name__)
def test_the_end_state_is_right_whatever_a_watch_says(
    scene: Scene, proxy: FaultProxy, edit: Callable[[Lines], Lines]
) -> None:
    targets = [scene.namespace("a"), scene.namespace("b")]
    stranger = scene.namespace("stranger")
    scene.config_map(stranger, NAME, value="foreign")
    scene.source("1")
    scene.sync(destinationNamespaces=[f"{scene.prefix}-?"])
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for(targets, "1")
        lie = proxy.inject(Fault(events=edit), when=follows)
        proxy.cut_watches()
        for number in range(2, 5):
            scene.source(str(number))
            scene.delete_config_map(targets[0])
            targets.append(scene.namespace(str(number)))
            wait_until(lambda: len(lie.hits) >= 4, "the watches to be opened again")
        time.sleep(2)  # lies that have an effect have it now, before all watches are honest again
        lie.lift()
        proxy.cut_watches()
        scene.wait_for(targets, "4")
        scene.wait_until_quiet(3)
        assert (stranger, NAME) in scene.all_places()
        assert (stranger, NAME) not in scene.copies()


def test_a_version_that_is_too_old_costs_one_list_and_deletions_are_noticed(scene: Scene, proxy: FaultProxy) -> None:
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "1")
        away = proxy.inject(Fault(status=503), when=lambda asked: asked.verb == "watch" or asked.lists)
        proxy.cut_watches()
        wait_until(lambda: not operator.is_ready(), "the operator to say that it cannot see")
        scene.delete_config_map(targets[0])
        scene.source("2")
        newest = int(scene.sandbox.request("GET", "/api/v1/configmaps")["metadata"]["resourceVersion"])
        forgotten = lambda asked: asked.follows and int(asked.query["resourceVersion"]) < newest  # noqa: E731
        proxy.inject(Fault(status=410), when=forgotten)
        away.lift()
        scene.wait_for(targets, "2")
        wait_until(operator.is_ready, "the operator to be ready again")
        assert metric(operator, "syncline_watch_restarts_total", reason="Gone") >= 4


def test_an_event_that_never_comes_is_found_by_the_next_change(scene: Scene, proxy: FaultProxy) -> None:
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("1")
    scene.sync()
    proxy.inject(Fault(events=without("DELETED")), when=follows)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.wait_for(targets, "1")
        scene.delete_config_map(targets[0])
        scene.source("2")
        scene.wait_for(targets, "2")


def test_an_overloaded_server_is_not_asked_for_a_watch_sooner_than_it_wants(scene: Scene, proxy: FaultProxy) -> None:
    pause = 3
    targets = [scene.namespace("a"), scene.namespace("b")]
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "1")
        throttle = proxy.inject(Fault(status=429, retry_after=pause), when=lambda asked: asked.verb == "watch")
        proxy.cut_watches()
        wait_until(lambda: len(throttle.hits) >= 2 * WATCHES, "each watch to have been tried twice")
        throttle.lift()
        scene.source("2")
        scene.wait_for(targets, "2")
        wait_until(operator.is_ready, "the operator to be ready again")
    tries: dict[tuple[str, str | None], list[float]] = defaultdict(list)
    for asked in throttle.hits:
        tries[asked.resource, asked.query.get("labelSelector")].append(asked.at)
    gaps = [later - earlier for times in tries.values() for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= pause
