"""What becomes of writes that the API server refuses, delays, or carries out without saying so."""

import itertools
import threading
import time
from collections import defaultdict

import pytest
from tests.faults.scene import NAME, Scene, calm_operator, wait_until

from syncline.testing.audit import OPERATOR
from syncline.testing.faults import Asked, Fault
from syncline.testing.proxy import FaultProxy


class FirstTime:
    """Picks out the first write of each kind to each object."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, str, str, str]] = set()

    def __call__(self, asked: Asked) -> bool:
        if not asked.changes or asked.resource == "events":
            return False
        write = (asked.verb, asked.resource, asked.subresource, asked.namespace, asked.name)
        first = write not in self._seen
        self._seen.add(write)
        return first


def is_copy(asked: Asked) -> bool:
    return asked.changes and asked.resource == "configmaps"


def live_through(scene: Scene) -> None:
    """Create, edit, repair, extend, shrink, delete."""
    targets = [scene.namespace(short) for short in ("a", "b", "c")]
    scene.source("1")
    scene.sync(destinationNamespaces=targets)
    scene.wait_for(targets, "1")
    scene.source("2")
    scene.wait_for(targets, "2")
    scene.delete_config_map(targets[0])
    scene.wait_for(targets, "2")
    scene.config_map(targets[1], NAME, value="edited")
    scene.wait_for(targets, "2")
    targets.append(scene.namespace("d"))
    scene.sync(destinationNamespaces=targets)
    scene.wait_for(targets, "2")
    del targets[:2]
    scene.sync(destinationNamespaces=targets)
    scene.wait_for(targets, "2")
    scene.wait_until_quiet(3)
    scene.delete_sync()
    wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
    assert scene.all_places() == {(scene.home, NAME)}


@pytest.mark.parametrize("status", [409, 500, 503, 504])
def test_a_write_that_is_refused_at_first_is_done_in_the_end(scene: Scene, proxy: FaultProxy, status: int) -> None:
    refusals = proxy.inject(Fault(status=status), when=FirstTime())
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        live_through(scene)
    assert len(refusals.hits) >= 12


def test_a_write_that_was_carried_out_without_an_answer_is_not_done_twice(scene: Scene, proxy: FaultProxy) -> None:
    began = scene.audit.mark()
    cuts = proxy.inject(Fault(cut=True), when=FirstTime())
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        live_through(scene)
    assert len(cuts.hits) >= 12
    done = [entry for entry in scene.audit.entries(OPERATOR, since=began) if entry.changes and entry.done]
    created = [entry.namespace for entry in done if entry.resource == "configmaps" and entry.verb == "create"]
    deleted = [entry.namespace for entry in done if entry.resource == "configmaps" and entry.verb == "delete"]
    a, b, c, d = (f"{scene.prefix}-{short}" for short in "abcd")
    assert sorted(created) == [a, a, b, c, d], "one of them was deleted and made again, once"
    assert sorted(deleted) == [a, b, c, d]


def test_a_burst_of_server_errors_on_everything_passes(scene: Scene, proxy: FaultProxy) -> None:
    targets = [scene.namespace(short) for short in ("a", "b", "c")]
    scene.source("1")
    scene.sync()
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)) as operator:
        scene.wait_for(targets, "1")
        bursts = [proxy.inject(Fault(status=status), when=lambda _: True, times=12) for status in (500, 503)]
        proxy.cut_watches()
        scene.source("2")
        scene.delete_config_map(targets[0])
        scene.wait_for(targets, "2", 180)
        for burst in bursts:
            burst.lift()
        wait_until(operator.is_ready, "the operator to be ready")
        scene.wait_until_quiet(3)


def test_an_overloaded_server_is_asked_less_and_no_sooner_than_it_wants(scene: Scene, proxy: FaultProxy) -> None:
    pause = 4
    targets = scene.namespaces(60)
    scene.source("1")
    throttle = proxy.inject(Fault(status=429, retry_after=pause), when=is_copy)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.sync()
        wait_until(lambda: len(throttle.hits) >= len(targets) + 20, "the first to be tried again")
        throttle.lift()
        scene.wait_for(targets, "1")
        scene.source("2")
        scene.wait_for(targets, "2")
    tries: dict[str, list[float]] = defaultdict(list)
    for asked in throttle.hits:
        tries[asked.namespace].append(asked.at)
    gaps = [later - earlier for times in tries.values() for earlier, later in itertools.pairwise(times)]
    assert gaps
    assert min(gaps) >= pause


def test_a_target_that_does_not_answer_holds_back_neither_the_others_nor_the_next_edits(
    scene: Scene, proxy: FaultProxy
) -> None:
    others = [scene.namespace(short) for short in ("a", "b", "c")]
    slow = scene.namespace("slow")
    scene.source("1")
    answered = threading.Event()
    proxy.inject(Fault(before=lambda: answered.wait(240)), when=lambda asked: asked.namespace == slow)
    try:
        with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
            scene.sync()
            for edit in ("1", "2", "3"):
                scene.source(edit)
                wait_until(lambda edit=edit: scene.all_hold(others, edit), f"the others to have {edit}")
            wait_until(lambda: scene.ready().get("reason") == "InProgress", f"the status to say it: {scene.ready()}")
            assert slow in scene.ready()["message"]
            answered.set()
            scene.wait_for([*others, slow], "3")
    finally:
        answered.set()


def test_a_status_that_cannot_be_written_for_a_while_does_not_disturb_the_writes(
    scene: Scene, proxy: FaultProxy
) -> None:
    targets = scene.namespaces(200)
    scene.source("1")
    proxy.inject(Fault(delay=0.5), when=is_copy)
    mute = proxy.inject(Fault(status=500), when=lambda asked: asked.subresource == "status")
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.sync()
        wait_until(lambda: len(mute.hits) >= 1, "the progress to be told")
        scene.source("2")
        wait_until(lambda: len(mute.hits) >= 3, "the progress to be told again")
        mute.lift()
        scene.wait_for(targets, "2")
        scene.wait_until_quiet(3)
    created = [asked.namespace for asked in proxy.requests if is_copy(asked) and asked.verb == "create"]
    assert len(created) == len(targets), "each was made once"


@pytest.mark.parametrize("status", [409, 500])
def test_one_object_that_is_refused_for_good_is_tried_ever_more_rarely_and_harms_no_other(
    scene: Scene, proxy: FaultProxy, status: int
) -> None:
    others = [scene.namespace(short) for short in ("a", "b", "c")]
    refused = scene.namespace("refused")
    scene.source("1")
    wall = proxy.inject(Fault(status=status), when=lambda asked: is_copy(asked) and asked.namespace == refused)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.sync()
        scene.sync("second", destinationNamespaces=others, destinationName="second")
        for edit in ("1", "2", "3"):
            scene.source(edit)
            wait_until(lambda edit=edit: _hold(scene, others, edit), f"the others to have {edit}")
        wait_until(lambda: scene.ready().get("status") == "False", "the status to say it", instead=scene.ready)
        assert refused in scene.ready()["message"]
        tried = len(wall.hits)
        time.sleep(6)
        assert len(wall.hits) - tried <= 30
        wall.lift()
        wait_until(lambda: _hold(scene, [*others, refused], "3"), "the last one to have it too")


def _hold(scene: Scene, namespaces: list[str], value: str) -> bool:
    values = {place: copy["data"]["value"] for place, copy in scene.copies().items()}
    expected = {(namespace, NAME): value for namespace in namespaces}
    return values == expected | {place: value for place in values if place[1] == "second"}
