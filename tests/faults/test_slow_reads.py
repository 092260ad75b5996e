"""Reads that hang hold up nobody but the syncs that wait for them."""

from tests.faults.scene import NAME, Scene, wait_until

from syncline.testing.faults import Fault
from syncline.testing.operator import OperatorProcess
from syncline.testing.proxy import FaultProxy

# More than the operator begins with at once.
MANY = 20


def test_many_syncs_whose_source_cannot_be_read_hold_up_no_other(scene: Scene, proxy: FaultProxy) -> None:
    slow, target = scene.namespace("slow"), scene.namespace("target")
    scene.source("1")
    for number in range(MANY):
        scene.config_map(slow, f"app-{number}", value="1")
        scene.sync(f"slow-{number}", sourceNamespace=slow, configMapName=f"app-{number}", destinationNamespace=target)
    hanging = proxy.inject(
        Fault(delay=300),
        when=lambda asked: asked.verb == "get" and asked.resource == "configmaps" and asked.namespace == slow,
    )
    with OperatorProcess(proxy.kubeconfig(scene.kubeconfig)) as operator:
        try:
            wait_until(lambda: len(hanging.hits) >= MANY, "all of them to wait for their source", 60)
            scene.sync("quick", destinationNamespace=target)
            wait_until(lambda: (target, NAME) in scene.copies(), "the other sync", 20, instead=scene.ready)
            for value in ("2", "3"):
                scene.source(value)
                wait_until(
                    lambda want=value: scene.copies()[target, NAME]["data"]["value"] == want, f"edit {value}", 20
                )
        finally:
            operator.kill()
