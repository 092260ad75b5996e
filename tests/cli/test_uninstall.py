"""`syncline uninstall` with syncs of all kinds, on a control plane of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configmapsync.world import Thing, until
from tests.manifestsync.world import Manifests

from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS
from syncline.cli import main
from syncline.cli.install import removal_order
from syncline.deploy.names import AGGREGATE_LABEL
from syncline.sandbox import Options, RequestError, Sandbox
from syncline.testing.operator import OperatorProcess, install


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A control plane for these tests: what others have installed there would go."""
    with Sandbox.create(Options(audit_log=True)) as running:
        yield running


@pytest.fixture
def world(sandbox: Sandbox) -> Manifests:
    return Manifests(sandbox)


def uninstall(sandbox: Sandbox, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("syncline"), "uninstall", "--kubeconfig", sandbox.kubeconfig, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def removed(sandbox: Sandbox) -> None:
    """Check that nothing of Syncline stays; the namespace takes the control plane a moment more."""
    namespace = Thing(sandbox, "/api/v1/namespaces", "syncline-system").look()
    assert namespace is None or namespace["status"]["phase"] == "Terminating"
    for kind in ALL_KINDS:
        Thing(sandbox, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"{kind.plural}.syncline.dev").gone()
        # The API server learns by a watch of its own that the CRD is gone, and serves the kind until then.
        Thing(sandbox, f"/apis/{API_VERSION}", kind.plural).gone()
    for plural in ("clusterroles", "clusterrolebindings"):
        found = sandbox.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{plural}")["items"]
        assert not [one["metadata"]["name"] for one in found if one["metadata"]["name"].startswith("syncline")]


def test_uninstall_waits_for_the_operator_to_let_go_of_the_copies_then_removes_everything(
    sandbox: Sandbox, world: Manifests
) -> None:
    world.source()
    goes, stays = world.namespaces("goes", "stays")
    with OperatorProcess(install(sandbox)):
        world.sync(destinationNamespace=goes).becomes("Synced")
        world.sync("orphaning", destinationNamespace=stays, deletionPolicy="Orphan").becomes("Synced")
        world.msync("secrets", world.secret(), into=[goes]).becomes("Synced")
        assert main(["grant", "limitranges", "--kubeconfig", str(sandbox.kubeconfig)]) == 0
        to_account = ["secrets", "--to", f"{world.home}/robot", "-n", stays]
        assert main(["grant", *to_account, "--kubeconfig", str(sandbox.kubeconfig)]) == 0
        result = uninstall(sandbox)
        assert (result.returncode, result.stderr) == (0, "")
    assert f"deleting ConfigMapSync {world.home}/sync" in result.stdout
    assert f"deleting ManifestSync {world.home}/secrets" in result.stdout
    assert "removed CustomResourceDefinition" in result.stdout
    removed(sandbox)
    for plural in ("roles", "rolebindings"):
        assert not sandbox.request("GET", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{stays}/{plural}")["items"]
    assert world.config_map(goes).look() is None
    assert world.find("Secret", goes).look() is None
    assert world.config_map(stays).data == {"colour": "red"}

    again = uninstall(sandbox)
    assert (again.returncode, again.stderr) == (0, "")
    assert not again.stdout.removeprefix("removed Namespace syncline-system\n")
    Thing(sandbox, "/api/v1/namespaces", "syncline-system").gone()


def test_uninstall_without_an_operator_removes_nothing_unless_it_may_keep_the_copies(
    sandbox: Sandbox, world: Manifests
) -> None:
    world.source()
    target = world.namespace("a")
    with OperatorProcess(install(sandbox)):
        sync = world.sync(destinationNamespace=target)
        sync.becomes("Synced")
        world.msync("secrets", world.secret(), into=[target]).becomes("Synced")
    result = uninstall(sandbox, "--timeout", "0.5")
    assert result.returncode == 1
    for name in ("ConfigMapSync {0}/sync", "ManifestSync {0}/secrets"):
        told = f"{name.format(world.home)}: the operator has not reported a status: check that it runs\n"
        assert told in result.stdout
    assert "2 syncs are not deleted yet, and nothing else was removed" in result.stdout
    assert sync.look() is not None
    result = uninstall(sandbox, "--keep-copies")
    assert (result.returncode, result.stderr) == (0, "")
    removed(sandbox)
    assert world.config_map(target).data == {"colour": "red"}
    assert world.find("Secret", target).values == {"password": "red"}
    Thing(sandbox, "/api/v1/namespaces", "syncline-system").gone()


def test_uninstall_names_the_syncs_that_are_left_and_what_they_wait_for(sandbox: Sandbox, world: Manifests) -> None:
    world.source()
    target = world.namespace("a")
    refusal = Refusal(sandbox, world.name, target)
    with OperatorProcess(install(sandbox)):
        world.sync(destinationNamespace=target).becomes("Synced")
        refusal.begin()
        result = uninstall(sandbox, "--timeout", "3")
        assert result.returncode == 1
        told = f"ConfigMapSync {world.home}/sync: CleanupFailed: 1 copies cannot be removed yet, "
        line = next(line for line in result.stdout.splitlines() if line.startswith(told))
        assert "the copy stays" in line
        assert "check that it runs" not in result.stdout
        refusal.end()
        assert uninstall(sandbox).returncode == 0
    Thing(sandbox, "/api/v1/namespaces", "syncline-system").gone()


class Refusal:
    """An admission policy that lets nobody delete the copies in one namespace."""

    def __init__(self, sandbox: Sandbox, name: str, namespace: str) -> None:
        folder = "/apis/admissionregistration.k8s.io/v1"
        self._policy = Thing(sandbox, f"{folder}/validatingadmissionpolicies", name)
        self._binding = Thing(sandbox, f"{folder}/validatingadmissionpolicybindings", name)
        self._copy = Thing(sandbox, f"/api/v1/namespaces/{namespace}/configmaps", "app")
        self._name = name
        self._rule = f"namespaceObject.metadata.name != '{namespace}'"

    def begin(self) -> None:
        """Refuse from now on: wait until the API server does."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": self._rule, "message": "the copy stays"}],
        }
        self._policy.create({"metadata": {"name": self._name}, "spec": spec})
        self._binding.create(
            {"metadata": {"name": self._name}, "spec": {"policyName": self._name, "validationActions": ["Deny"]}}
        )
        until(self._is_refused, bool)

    def end(self) -> None:
        """Let everybody delete again."""
        self._binding.delete()
        self._policy.delete()
        until(self._is_refused, lambda refused: not refused)

    def _is_refused(self) -> bool:
        try:
            self._copy.sandbox.request("DELETE", f"{self._copy.path}?dryRun=All")
        except RequestError as error:
            return error.status != 404
        return False


def test_the_aggregated_role_goes_before_the_roles_that_it_aggregates() -> None:
    """Else the control plane, which writes it anew for each that goes, could leave it behind."""
    first, rest = removal_order()
    assert [one["kind"] for one in first] == ["Deployment", "ClusterRole"]
    assert first[-1]["metadata"]["name"] == "syncline"
    labelled = [one for one in rest if AGGREGATE_LABEL in one["metadata"].get("labels", {})]
    assert labelled
    assert rest[-1]["kind"] == "Namespace"
