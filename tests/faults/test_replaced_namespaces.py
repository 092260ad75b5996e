"""A namespace that was deleted and created again is another one, also where the news of it come in the wrong order."""

from tests.faults.gates import WatchGate
from tests.faults.scene import Scene, calm_operator

from syncline.core.ownership import OWNER_LABEL
from syncline.testing.proxy import FaultProxy


def test_under_keep_a_copy_of_an_earlier_namespace_does_not_count_for_the_new_one(
    scene: Scene, proxy: FaultProxy
) -> None:
    target = scene.namespace("target")
    scene.source("1")
    copies = WatchGate(proxy, "configmaps", OWNER_LABEL)
    with calm_operator(proxy.kubeconfig(scene.kubeconfig)):
        scene.sync(**scene.selector, resourceManagementPolicy="Keep")
        scene.wait_for([target], "1")
        # For the operator the copy stays, while its namespace goes and comes back.
        copies.close()
        scene.delete_namespace(target)
        scene.namespace("target")
        # Namespaces come in order: who has seen this one has seen that one.
        later = scene.namespace("later")
        scene.wait_until_held(later, "1")
        copies.open()
        scene.wait_for([target, later], "1")
