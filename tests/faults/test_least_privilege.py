"""The operator asks for nothing that it may not have, and may write nothing that it does not."""

import pytest
from tests.configmapsync.world import Thing
from tests.faults.scene import NAME, Scene, calm_operator, metric, wait_until

from syncline import deploy
from syncline.core.profiles import DEFAULT, SHARES
from syncline.deploy.rights import CORE, DIGEST_KEY_RIGHTS, LEASE, Grant, shared
from syncline.testing.audit import OPERATOR, Entry


def live_through_everything(scene: Scene) -> None:
    """Use each feature that needs a right."""
    targets = [scene.namespace(short) for short in ("a", "b", "c")]
    scene.config_map(targets[0], "adopted", value="foreign")
    scene.config_map(targets[0], NAME, value="in the way")
    scene.source("1")
    scene.sync()
    scene.sync("adopting", destinationNamespaces=targets, destinationName="adopted", resourceManagementPolicy="Adopt")
    reported = lambda: scene.ready().get("reason") == "NotOurs"  # noqa: E731
    wait_until(reported, "the stranger to be reported", instead=scene.status)
    scene.delete_config_map(targets[0])
    wait_until(lambda: (targets[0], NAME) in scene.copies(), "the copy to be made")
    scene.source("2")
    wait_until(scene.is_settled, "the edit to have arrived")
    scene.config_map(targets[1], NAME, value="edited")
    scene.delete_config_map(targets[2])
    wait_until(lambda: (targets[2], NAME) in scene.copies(), "the copy to be made again")
    scene.sync(destinationNamespaces=targets[1:])
    wait_until(lambda: (targets[0], NAME) not in scene.copies(), "the copy to be pruned")
    for name in (NAME, "adopting"):
        scene.delete_sync(name)
        wait_until(lambda name=name: scene.get_sync(name) is None, "the sync to be gone")
    assert scene.all_places() == {(scene.home, NAME), (targets[0], "adopted")}


# This life is that of a ConfigMapSync, and this operator serves no admission webhook: tests/admission does.
OTHER_KINDS = ("configsyncs", "ignitionsyncs", "manifestsyncs", "synctargets", "tenantpolicies", "workspacesyncs")
OTHER_KINDS += ("mutatingwebhookconfigurations",)

# Who oneself is, and what one may do, everybody may ask.
OPEN_TO_ALL = ("selfsubjectreviews", "selfsubjectaccessreviews")


def covers(grant: Grant, entry: Entry) -> bool:
    resource = f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
    return grant.group == entry.group and resource in grant.resources and entry.verb in grant.verbs


@pytest.fixture
def asked(scene: Scene) -> list[Entry]:
    """What the operator asked for, over a life with everything: it is the first one to lead."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{deploy.NAMESPACE}/leases"
    Thing(scene.sandbox, leases, "syncline").delete()
    before = scene.audit.mark()
    with calm_operator(scene.kubeconfig, "--leader-elect") as operator:
        wait_until(lambda: metric(operator, "syncline_leader") == 1, "the operator to lead")
        live_through_everything(scene)
    return scene.audit.entries(OPERATOR, since=before, until=scene.audit.mark())


def test_nothing_is_refused_and_nothing_is_asked_for_that_the_shipped_role_does_not_grant(asked: list[Entry]) -> None:
    assert asked
    assert not [str(entry) for entry in asked if entry.denied]
    everywhere, at_home = (*CORE, *shared(SHARES[0], DEFAULT)), (*LEASE, *DIGEST_KEY_RIGHTS)
    outside = [
        str(entry)
        for entry in asked
        if entry.resource not in OPEN_TO_ALL
        and not any(covers(grant, entry) for grant in everywhere)
        and not (entry.namespace == deploy.NAMESPACE and any(covers(grant, entry) for grant in at_home))
    ]
    assert not outside
    used = {(entry.group, entry.resource, entry.subresource, entry.verb) for entry in asked}
    unused = [
        (grant.group, resource, verb)
        for grant in (*everywhere, *LEASE)
        for resource in grant.resources
        if not resource.startswith(OTHER_KINDS)
        for verb in grant.verbs
        # Which reads are needed depends on the server; an impersonation is in the log as what was then asked for.
        if verb not in ("get", "list", "watch", "impersonate") and (grant.group, *_split(resource), verb) not in used
    ]
    assert not unused


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource
