"""What a turn would do is told without doing it."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command, syncline
from tests.configsync.test_adoption import brought, web
from tests.configsync.world import GitWorld, config_map

from syncline.api.common import API_VERSION

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


def changed(shown: str) -> list[str]:
    """Return the lines that go and the lines that come, but our own marks."""
    lines = [line for line in shown.splitlines() if line[:1] in "+-" and line[:4] not in ("+++ ", "--- ")]
    return [f"{line[0]}{line[1:].strip()}" for line in lines if "syncline.dev/" not in line]


def test_the_first_diff_after_a_creation_shows_what_changes_and_no_defaults_of_the_server(
    world: GitWorld, syncline: Command, flags: tuple[str, ...]
) -> None:
    world.push({"web.yaml": web(MODE="fast", OLD="1")})
    world.csync().becomes("Synced", synced=1)
    after = web(MODE="slow")
    del after["metadata"]["labels"]["tier"]
    world.push({"web.yaml": after})
    shown = syncline("diff", "csync", "sync", "-n", world.home, *flags, code=1)
    assert changed(shown) == ["-tier: front", "-value: fast", "-- name: OLD", "-value: '1'", "+value: slow"]


def test_the_diff_of_an_adoption_shows_what_the_former_tool_wrote_and_git_does_not_have(
    world: GitWorld, syncline: Command, flags: tuple[str, ...]
) -> None:
    world.push({"web.yaml": web(MODE="fast")})
    brought(world, "kubectl-client-side-apply", web(MODE="fast", OLD="1"))
    sync = world.csync(resourceManagementPolicy="Adopt", suspend=True)
    sync.becomes("Suspended")
    spec = {**sync.read()["spec"], "suspend": False}
    manifest = {"apiVersion": API_VERSION, "kind": "ConfigSync", "spec": spec}
    manifest["metadata"] = {"name": "sync", "namespace": world.home}
    shown = syncline("diff", "-f", "-", *flags, stdin=json.dumps(manifest), code=1)
    assert changed(shown) == ["-- name: OLD", "-value: '1'"]


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
