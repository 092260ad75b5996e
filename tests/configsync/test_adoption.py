"""Objects that Flux, Argo CD, Helm or kubectl managed before, and that a ConfigSync adopts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.configmapsync.world import until
from tests.configsync.world import GitWorld
from tests.manifestsync.world import Json, Object

CONTAINER = ("spec", "template", "spec", "containers", 0)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
FLUX = "kustomize.toolkit.fluxcd.io/name"
APPLIED = ["kustomize-controller", "argocd-controller", "kubectl"]
POSTED = ["helm", "helm-controller", "argocd-application-controller", "kubectl-client-side-apply", "kubectl-create"]


def web(**env: str) -> Json:
    """Write the Deployment as it is in Git."""
    variables = [{"name": name, "value": value} for name, value in env.items()]
    container = {"name": "app", "image": "example.com/app:1", "env": variables}
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
    }
    metadata = {"name": "web", "labels": {"app": "web", "tier": "front"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def brought(world: GitWorld, manager: str, body: Mapping[str, Any]) -> Object:
    """Have a tool bring an object, as it does: by server-side apply, or by creating it."""
    thing = world.find("Deployment", world.home, "web")
    if manager in APPLIED:
        world.sandbox.request("PATCH", f"{thing.path}?fieldManager={manager}&force=true", body)
    else:
        folder = thing.path.rpartition("/")[0]
        world.sandbox.request("POST", f"{folder}?fieldManager={manager}", body)
    return thing


def env_of(thing: Object) -> dict[str, str]:
    return {one["name"]: one["value"] for one in thing.at(*CONTAINER, "env") or ()}


@pytest.mark.parametrize("manager", [*APPLIED, *POSTED])
def test_a_field_that_is_removed_from_git_after_a_migration_goes_and_no_pod_is_restarted(
    world: GitWorld, manager: str
) -> None:
    body = web(MODE="fast", OLD="1")
    body["metadata"]["labels"][FLUX] = "web"
    body["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(body)} if "client-side" in manager else {}
    theirs = brought(world, manager, body)
    spec, uid = theirs.spec, theirs.uid
    world.push({"web.yaml": web(MODE="fast", OLD="1")})
    sync = world.csync(resourceManagementPolicy="Adopt")
    sync.becomes("Synced", synced=1)
    assert theirs.spec == spec
    assert theirs.labels == {"app": "web", "tier": "front", FLUX: "web"}
    changed = web(MODE="fast")
    del changed["metadata"]["labels"]["tier"]
    world.push({"web.yaml": changed})
    sync.now()
    until(lambda: env_of(theirs), lambda env: env == {"MODE": "fast"})
    assert theirs.labels == {"app": "web", FLUX: "web"}
    assert theirs.uid == uid
    world.stays_quiet(sync)


def test_what_the_former_tool_wrote_and_git_does_not_have_goes_when_it_is_adopted(world: GitWorld) -> None:
    theirs = brought(world, "helm", web(MODE="fast", OLD="1"))
    world.push({"web.yaml": web(MODE="fast")})
    world.csync(resourceManagementPolicy="Adopt").becomes("Synced", synced=1)
    assert env_of(theirs) == {"MODE": "fast"}


def test_what_controllers_and_people_own_stays_when_an_object_is_adopted(world: GitWorld) -> None:
    body = web(MODE="fast")
    body["spec"]["replicas"] = 2
    theirs = brought(world, "kustomize-controller", body)
    scale: Json = theirs.sandbox.request("GET", f"{theirs.path}/scale")
    scale["spec"]["replicas"] = 5
    del scale["metadata"]["resourceVersion"]  # controllers write meanwhile
    theirs.sandbox.request("PUT", f"{theirs.path}/scale?fieldManager=kube-controller-manager", scale)
    theirs.put(*CONTAINER, "env", value=[{"name": "MODE", "value": "fast"}, {"name": "SIDE", "value": "1"}])
    world.push({"web.yaml": web(MODE="fast")})
    sync = world.csync(resourceManagementPolicy="Adopt")
    sync.becomes("Synced", synced=1)
    assert theirs.at("spec", "replicas") == 5
    assert env_of(theirs) == {"MODE": "fast", "SIDE": "1"}
    world.stays_quiet(sync)


def test_replicas_that_git_does_not_give_stay_though_the_former_tool_gave_them(world: GitWorld) -> None:
    body = web(MODE="fast")
    body["spec"]["replicas"] = 3
    theirs = brought(world, "helm", body)
    world.push({"web.yaml": web(MODE="fast")})
    world.csync(resourceManagementPolicy="Adopt").becomes("Synced", synced=1)
    assert theirs.at("spec", "replicas") == 3
