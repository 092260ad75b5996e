"""`syncline reconcile --wait`, `suspend` and `resume` with a running operator."""

from tests.cli.conftest import Command
from tests.manifestsync.world import Manifests


def test_a_sync_is_carried_out_while_the_command_waits(world: Manifests, syncline: Command) -> None:
    sync = world.msync("secrets", world.secret(), into=[world.namespace("a")])
    title = f"ManifestSync {world.home}/secrets"
    here = ("msync/secrets", "-n", world.home)
    assert syncline("reconcile", *here, "--wait").startswith(f"{title} is ready: ")
    assert syncline("suspend", *here) == f"{title} is suspended\n"
    sync.becomes("Suspended")
    assert syncline("resume", *here) == f"{title} is resumed\n"
    assert syncline("reconcile", *here, "--wait").startswith(f"{title} is ready: ")
    world.msync("broken", world.find("Secret", world.home, "none"), into=[world.namespace("b")])
    told = syncline("reconcile", "msync", "broken", "-n", world.home, "--wait", code=1)
    assert told.startswith(f"syncline: ManifestSync {world.home}/broken is not ready: SourceNotFound: ")


def test_a_failure_of_the_whole_ends_the_wait_though_it_is_tried_again(world: Manifests, syncline: Command) -> None:
    path = f"/api/v1/namespaces/{world.home}/serviceaccounts"
    world.sandbox.request("POST", path, {"metadata": {"name": "nobody"}})
    sync = world.msync("secrets", world.secret(), into=[world.namespace("a")], serviceAccountName="nobody")
    # Nobody waits for that long.
    told = syncline("reconcile", "msync/secrets", "-n", world.home, "--wait", "--timeout", "1h", code=1)
    assert told.startswith(f"syncline: ManifestSync {world.home}/secrets is not ready: SourceForbidden: ")
    assert sync.conditions["Reconciling"]["reason"] == "Retrying"
