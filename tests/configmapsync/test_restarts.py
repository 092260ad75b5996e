"""On control planes of their own: an operator that was away, and `syncline uninstall`."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.configmapsync.world import Thing, World

from syncline.api.common import API_VERSION
from syncline.api.configmapsync import PLURAL
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.fixtures import SandboxFactory
from syncline.testing.operator import OperatorProcess, install


def uninstall(sandbox: Sandbox, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("syncline"), "uninstall", "--kubeconfig", sandbox.kubeconfig, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def removed(sandbox: Sandbox) -> None:
    """Check that nothing of Syncline stays; the namespace takes the control plane a moment more."""
    namespace = Thing(sandbox, "/api/v1/namespaces", "syncline-system").look()
    assert namespace is None or namespace["status"]["phase"] == "Terminating"
    Thing(sandbox, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"{PLURAL}.syncline.dev").gone()
    for kind in ("clusterroles", "clusterrolebindings"):
        found = sandbox.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert not [one["metadata"]["name"] for one in found if one["metadata"]["name"].startswith("syncline")]
    with pytest.raises(RequestError, match="404"):
        sandbox.request("GET", f"/apis/{API_VERSION}/{PLURAL}")


def test_an_operator_that_was_away_finds_what_it_has_missed(sandbox_factory: SandboxFactory) -> None:
    sandbox = sandbox_factory(audit_log=True)
    kubeconfig = install(sandbox)
    world = World(sandbox)
    world.source()
    bases = ["changed", "replaced", "gone", "relabelled", "ended", "edited", "deleted", "quiet"]
    sources = {name: world.source(name) for name in bases}
    targets = {name: world.namespace(name, base=name) for name in bases}
    with OperatorProcess(kubeconfig):
        syncs = {
            name: world.sync(name, configMapName=name, destinationNamespaceSelector={"matchLabels": {"base": name}})
            for name in bases
        }
        for sync in syncs.values():
            sync.becomes("Synced", synced=1)
    copies = {name: world.config_map(targets[name], name) for name in bases}
    uids = {name: copy.uid for name, copy in copies.items()}

    sources["changed"].set(colour="blue")
    sources["replaced"].delete()
    world.source("replaced", colour="blue")
    sources["gone"].delete()
    world.namespace_object(targets["relabelled"]).label(base="none")
    syncs["ended"].delete()
    copies["edited"].set(colour="pink")
    copies["deleted"].delete()
    later = world.namespace("later", base="changed")
    mark = world.mark()
    with OperatorProcess(kubeconfig):
        for name in ("gone", "relabelled", "ended"):
            copies[name].gone()
        syncs["ended"].gone()
        for name in ("changed", "replaced"):
            copies[name].becomes(colour="blue")
        for name in ("edited", "deleted"):
            copies[name].becomes(colour="red")
        world.config_map(later, "changed").becomes(colour="blue")
        assert {name for name in bases if copies[name].look() and copies[name].uid != uids[name]} == {"deleted"}
        syncs["quiet"].now()
        assert not [write for write in world.writes(mark) if targets["quiet"] in write]


def test_an_operator_may_be_told_which_namespaces_syncs_it_acts_on(sandbox_factory: SandboxFactory) -> None:
    sandbox = sandbox_factory(audit_log=True)
    kubeconfig = install(sandbox)
    watched, unwatched = World(sandbox), World(sandbox)
    target = watched.namespace("a")
    for world in (watched, unwatched):
        world.source()
    with OperatorProcess(kubeconfig, "--watch-namespaces", watched.home):
        passed_over = unwatched.sync(destinationNamespace=target, destinationName="other")
        watched.sync(destinationNamespace=target).becomes("Synced")
    assert "status" not in passed_over.read()
    assert watched.config_map(target, "other").look() is None


def test_uninstall_waits_for_the_operator_to_let_go_of_the_copies_then_removes_everything(
    sandbox_factory: SandboxFactory,
) -> None:
    sandbox = sandbox_factory(audit_log=True)
    world = World(sandbox)
    world.source()
    goes, stays = world.namespaces("goes", "stays")
    with OperatorProcess(install(sandbox)):
        world.sync(destinationNamespace=goes).becomes("Synced")
        world.sync("orphaning", destinationNamespace=stays, deletionPolicy="Orphan").becomes("Synced")
        result = uninstall(sandbox)
        assert (result.returncode, result.stderr) == (0, "")
    assert f"deleting ConfigMapSync {world.home}/sync" in result.stdout
    assert "removed CustomResourceDefinition" in result.stdout
    removed(sandbox)
    assert world.config_map(goes).look() is None
    assert world.config_map(stays).data == {"colour": "red"}

    again = uninstall(sandbox)
    assert (again.returncode, again.stderr) == (0, "")
    assert not again.stdout.removeprefix("removed Namespace syncline-system\n")


def test_uninstall_without_an_operator_removes_nothing_unless_it_may_keep_the_copies(
    sandbox_factory: SandboxFactory,
) -> None:
    sandbox = sandbox_factory(audit_log=True)
    world = World(sandbox)
    world.source()
    target = world.namespace("a")
    with OperatorProcess(install(sandbox)):
        sync = world.sync(destinationNamespace=target)
        sync.becomes("Synced")
    result = uninstall(sandbox, "--timeout", "0.5")
    assert result.returncode == 1
    assert "1 syncs are still there: is the operator running? Start it, or give --keep-copies" in result.stdout
    assert sync.look() is not None
    result = uninstall(sandbox, "--keep-copies")
    assert (result.returncode, result.stderr) == (0, "")
    removed(sandbox)
    assert world.config_map(target).data == {"colour": "red"}
