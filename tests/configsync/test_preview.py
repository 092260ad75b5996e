"""What a turn would do is told without doing it."""

from pathlib import Path

import pytest
from tests.cli.conftest import Command, syncline
from tests.configsync.world import GitWorld, config_map

__all__ = ["syncline"]

FLAGS = ("--allow-loopback", "--git-cache")


@pytest.fixture
def flags(tmp_path: Path) -> tuple[str, ...]:
    """What the command must know of the operator's flags."""
    return (*FLAGS, str(tmp_path / "git"))


def test_diff_shows_git_against_the_cluster(world: GitWorld, syncline: Command, flags: tuple[str, ...]) -> None:
    world.push({"app.yaml": config_map(colour="red")})
    sync = world.csync()
    sync.becomes("Synced", synced=1)
    assert syncline("diff", "csync", "sync", "-n", world.home, *flags) == ""
    world.push({"app.yaml": config_map(colour="blue"), "new.yaml": config_map("new")})
    shown = syncline("diff", "csync", "sync", "-n", world.home, *flags, code=1)
    assert "-  colour: red" in shown
    assert "+  colour: blue" in shown
    assert f"# create {world.home}/new" in shown
    assert world.find("ConfigMap", world.home).at("data", "colour") == "red"


def test_a_dry_run_tells_and_writes_nothing(world: GitWorld) -> None:
    world.push({"app.yaml": config_map(), "other.yaml": config_map("other")})
    sync = world.csync(dryRun=True)
    sync.becomes("DryRun")
    assert sync.status["plan"] == [f"create ConfigMap {world.home}/app", f"create ConfigMap {world.home}/other"]
    assert world.find("ConfigMap", world.home).look() is None
    assert "finalizers" not in sync.read()["metadata"]
    sync.change(dryRun=False)
    sync.becomes("Synced", synced=2)
    assert "plan" not in sync.status
