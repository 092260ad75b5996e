"""`syncline uninstall` with syncs of all kinds, on a control plane of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.manifestsync.world import Manifests

from syncline.api.common import API_VERSION
from syncline.sandbox import RequestError, Sandbox
from syncline.testing.fixtures import SandboxFactory
from syncline.testing.operator import OperatorProcess, install


def uninstall(sandbox: Sandbox, *flags: str) -> str:
    command = [Path(sys.executable).with_name("syncline"), "uninstall", "--kubeconfig", sandbox.kubeconfig, *flags]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize("keep", [False, True], ids=["with its copies", "keeping copies"])
def test_uninstall_ends_the_syncs_of_every_kind(sandbox_factory: SandboxFactory, *, keep: bool) -> None:
    sandbox = sandbox_factory(audit_log=True)
    world = Manifests(sandbox)
    with OperatorProcess(install(sandbox)):
        target = world.namespace("a")
        world.source()
        world.sync("maps", destinationNamespace=target).becomes("Synced")
        world.msync("secrets", world.secret(), into=[target]).becomes("Synced")
        told = uninstall(sandbox, *(["--keep-copies"] if keep else []))
    assert f"deleting ConfigMapSync {world.home}/maps" in told
    assert f"deleting ManifestSync {world.home}/secrets" in told
    for copy in (world.config_map(target), world.find("Secret", target)):
        assert (copy.look() is not None) is keep
    with pytest.raises(RequestError, match="404"):
        sandbox.request("GET", f"/apis/{API_VERSION}/manifestsyncs")
