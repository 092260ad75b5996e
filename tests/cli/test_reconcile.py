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
