"""Several operators at once, by mistake or by election, and how one of them leaves."""

import threading

import pytest
from tests.faults.scene import Scene, calm_operator, metric, wait_until

from syncline import deploy
from syncline.testing.faults import Asked, Fault
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{deploy.NAMESPACE}/leases/syncline"


def writes(asked: Asked) -> bool:
    return asked.changes and asked.resource != "leases"


def holder(scene: Scene) -> str:
    return str(scene.sandbox.request("GET", _LEASE)["spec"].get("holderIdentity", ""))


def leads(operator: OperatorProcess) -> bool:
    return metric(operator, "syncline_leader") == 1


@pytest.fixture
def without_lease(scene: Scene) -> None:
    """No lease is left from an earlier test."""
    scene.sandbox.request("DELETE", f"{_LEASE.rpartition('/')[0]}")


def test_two_operators_without_election_agree_and_then_rest(scene: Scene) -> None:
    targets = scene.namespaces(40)
    scene.source("0")
    scene.sync()
    with calm_operator(scene.kubeconfig), calm_operator(scene.kubeconfig):
        for edit in range(1, 6):
            scene.source(str(edit))
            scene.delete_config_map(targets[edit])
        scene.wait_for(targets, "5")
        scene.wait_until_quiet(5)
        gone = targets.pop()
        scene.delete_namespace(gone)
        scene.source("6")
        scene.wait_for(targets, "6")
        scene.delete_sync()
        wait_until(lambda: scene.get_sync() is None, "the sync to be gone")
        # One of them may have written a copy while the other let go of the sync: it is found, and goes too.
        wait_until(lambda: not scene.copies(), "its copies to be gone", instead=scene.copies)


@pytest.mark.usefixtures("without_lease")
def test_one_replica_leads_and_another_takes_over_when_it_is_stopped_in_its_tracks(scene: Scene) -> None:
    targets = scene.namespaces(20)
    scene.source("1")
    scene.sync()
    with (
        FaultProxy(scene.sandbox) as one,
        FaultProxy(scene.sandbox) as other,
        calm_operator(one.kubeconfig(scene.kubeconfig), "--leader-elect") as leader,
    ):
        wait_until(lambda: leads(leader), "the first to lead")
        with calm_operator(other.kubeconfig(scene.kubeconfig), "--leader-elect") as standby:
            scene.wait_for(targets, "1")
            scene.source("2")
            scene.wait_for(targets, "2")
            assert leads(leader)
            assert not leads(standby)
            assert other.count(writes) == 0

            leader.pause()
            scene.source("3")
            scene.wait_for(targets, "3")
            assert leads(standby)
            written = one.count(writes)
            scene.source("4")
            leader.resume()
            scene.delete_config_map(targets[0])
            scene.wait_for(targets, "4")
            wait_until(lambda: not leads(leader), "the first to see that it no longer leads")
            scene.wait_until_quiet()
            assert one.count(writes) - written <= len(targets) + 5, "at most what it had in hand"
            scene.wait_until_quiet(3)


@pytest.mark.usefixtures("without_lease")
def test_a_leader_that_is_told_to_stop_hands_over_at_once(scene: Scene) -> None:
    targets = scene.namespaces(5)
    scene.source("1")
    scene.sync()
    with (
        OperatorProcess(scene.kubeconfig, "--leader-elect") as one,
        OperatorProcess(scene.kubeconfig, "--leader-elect") as other,
    ):
        scene.wait_for(targets, "1")
        wait_until(lambda: leads(one) or leads(other), "one of them to lead")
        first, second = (one, other) if leads(one) else (other, one)
        leader = holder(scene)
        assert leader
        assert first.stop() == 0
        assert holder(scene) != leader
        scene.source("2")
        scene.wait_for(targets, "2")
        assert leads(second)


@pytest.mark.usefixtures("without_lease")
def test_the_last_leader_leaves_a_lease_that_names_nobody(scene: Scene) -> None:
    with calm_operator(scene.kubeconfig, "--leader-elect") as operator:
        wait_until(lambda: leads(operator), "it to lead")
        assert holder(scene)
    assert not holder(scene)


def test_an_operator_with_nothing_in_hand_waits_for_nothing_when_it_stops(scene: Scene) -> None:
    targets = scene.namespaces(2)
    scene.source("1")
    scene.sync()
    operator = OperatorProcess(scene.kubeconfig)
    try:
        scene.wait_for(targets, "1")
        with operator.log_file.open(encoding="utf-8") as log:
            assert operator.stop() == 0
            assert "reconciles in hand are finished" in log.read()
    finally:
        operator.stop()


def test_an_operator_that_is_told_to_stop_in_a_fan_out_finishes_what_it_began(scene: Scene, proxy: FaultProxy) -> None:
    targets = scene.namespaces(150)
    scene.source("1")
    operator = OperatorProcess(proxy.kubeconfig(scene.kubeconfig))
    try:
        scene.sync()
        wait_until(lambda: len(scene.copies()) >= 10, "the fan-out to be under way")
        assert operator.stop() == 0
    finally:
        operator.stop()
    assert not [asked for asked in proxy.abandoned if asked.changes]
    with calm_operator(scene.kubeconfig):
        scene.wait_for(targets, "1")
        scene.wait_until_quiet(3)


@pytest.mark.usefixtures("without_lease")
@pytest.mark.parametrize("everything", [False, True], ids=["one-target", "nothing-answers"])
def test_a_stop_does_not_wait_longer_than_a_pod_is_given_for_answers_that_never_come(
    scene: Scene, proxy: FaultProxy, everything: bool
) -> None:
    slow = scene.namespace("slow")
    scene.source("1")
    answered = threading.Event()
    frozen = Fault(before=lambda: answered.wait(600))
    held = proxy.inject(frozen, when=lambda asked: asked.namespace == slow)
    operator = OperatorProcess(proxy.kubeconfig(scene.kubeconfig), "--leader-elect")
    try:
        scene.sync()
        wait_until(lambda: held.hits, "the write to be on its way")
        if everything:
            proxy.inject(frozen, when=lambda _: True)
        else:
            wait_until(lambda: scene.ready().get("reason") == "InProgress", "the turn to end without it")
        log = operator.log_file.open(encoding="utf-8")
        with log:
            # A pod is given 30 seconds, which a busy machine may make longer; the answers would come much later.
            assert operator.stop(120) == 0
            assert "Traceback" not in log.read()
        if not everything:
            assert not holder(scene)
    finally:
        answered.set()
        operator.stop()
