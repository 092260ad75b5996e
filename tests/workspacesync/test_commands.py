"""The command with WorkspaceSyncs: what it lists, plans, compares and waits for."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.test_get import rows
from tests.workspacesync.world import Workspaces, resource

CANARY = "canary-of-the-upstream-7"
# The clusters of the tests are this machine itself.
LOCAL = {"get": (), "plan": ("--allow-loopback",), "diff": ("--allow-loopback",)}


def test_get_lists_the_sync_and_shows_it_in_full(world: Workspaces, syncline: Command) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    world.wsync("team").is_ready()
    told = [row for row in rows(syncline("get", "wss", "-n", world.home)) if "team" in row]
    assert told[0][:3] == ["WorkspaceSync", world.home, "team"]
    assert "True" in told[0]
    full = syncline("get", "wss/team", "-n", world.home)
    assert full.splitlines()[0] == f"WorkspaceSync {world.home}/team"
    assert "east" in full
    assert namespace in full
    one = json.loads(syncline("get", "wss/team", "-n", world.home, "-o", "json"))
    assert one["status"]["targets"]["summary"]


@pytest.mark.parametrize("word", ["wss", "WorkspaceSync", "workspacesyncs", "workspacesyncs.syncline.dev"])
def test_get_takes_every_name_of_the_kind(world: Workspaces, syncline: Command, word: str) -> None:
    world.wsync("team").is_ready()
    assert [row[2] for row in rows(syncline("get", word, "-n", world.home))[1:]] == ["team"]


def test_get_and_diff_show_the_paths_of_a_conflict_and_no_values(
    world: Workspaces,
    syncline: Command,
) -> None:
    namespace = world.above("shop")
    source = world.keep(namespace, password="first-of-the-values")
    both = resource("secrets", direction="Bidirectional")
    sync = world.wsync("team", both, conflictStrategy="MergeChanges", onConflict="Report")
    sync.is_ready()
    with world.asleep(sync):
        source.keep(password=CANARY)
        world.down("Secret", namespace).keep(password=f"{CANARY}-too")
    sync.is_conflicted("password")
    for command in ("get", "diff"):
        told = syncline(command, "wss/team", "-n", world.home, *LOCAL[command])
        assert "password" in told
        assert CANARY not in told


def test_diff_shows_what_changes_in_a_two_way_copy_and_keeps_its_own_edits(
    world: Workspaces,
    syncline: Command,
    tmp_path: Path,
) -> None:
    namespace = world.above("shop")
    source = world.data(namespace, colour="red", size="small")
    both = resource("configmaps", direction="Bidirectional")
    sync = world.wsync("team", both, conflictStrategy="MergeChanges")
    sync.is_ready()
    with world.asleep(sync):
        source.put("data", "colour", value="blue")
        world.down("ConfigMap", namespace).put("data", "size", value="large")
        file = tmp_path / "sync.json"
        file.write_text(json.dumps(world.manifest("team", both, conflictStrategy="MergeChanges")))
        lines = syncline("diff", "-f", str(file), *LOCAL["diff"], code=1).splitlines()
        assert "-  colour: red" in lines
        assert "+  colour: blue" in lines
        assert "   size: large" in lines


def test_plan_shows_what_a_sync_would_do_and_does_nothing(world: Workspaces, syncline: Command) -> None:
    namespace, taken = world.above("shop"), world.above("taken")
    for name in (namespace, taken):
        world.data(name)
    world.namespace_at(world.clusters["east"], taken)
    below = world.mark_at(world.clusters["east"])
    told = syncline("plan", "-f", "-", *LOCAL["plan"], stdin=json.dumps(world.manifest("team")), code=1)
    assert told.splitlines()[0] == f"WorkspaceSync {world.home}/team"
    assert f"{namespace}/app" in told
    assert taken in told
    assert world.namespaces_at() == [taken]
    assert [str(entry) for entry in world.written_at(world.clusters["east"], below)] == []


def test_diff_of_a_sync_at_rest_is_empty_and_of_an_edit_shows_the_lines(
    world: Workspaces,
    syncline: Command,
) -> None:
    namespace = world.above("shop")
    source = world.data(namespace)
    sync = world.wsync("team")
    sync.is_ready()
    assert syncline("diff", "wss/team", "-n", world.home, *LOCAL["diff"]) == ""
    sync.change(suspend=True)
    sync.becomes("Suspended")
    source.put("data", "colour", value="blue")
    wanted = world.manifest("team", metadata={})
    told = syncline("diff", "-f", "-", *LOCAL["diff"], stdin=json.dumps(wanted), code=1)
    assert "+  colour: blue" in told
    assert world.down("ConfigMap", namespace).at("data", "colour") == "red"


def test_reconcile_waits_suspend_and_resume_hold_and_go_on(world: Workspaces, syncline: Command) -> None:
    namespace = world.above("shop")
    world.data(namespace)
    sync = world.wsync("team")
    title, here = f"WorkspaceSync {world.home}/team", ("wss/team", "-n", world.home)
    assert syncline("reconcile", *here, "--wait").startswith(f"{title} is ready: ")
    assert world.down("ConfigMap", namespace).look() is not None
    assert syncline("suspend", *here) == f"{title} is suspended\n"
    sync.becomes("Suspended")
    assert syncline("resume", *here) == f"{title} is resumed\n"
    sync.is_ready()
    world.wsync("lost", to=["nowhere"])
    told = syncline("reconcile", "wss/lost", "-n", world.home, "--wait", code=1)
    assert told.startswith(f"syncline: WorkspaceSync {world.home}/lost is not ready: ")
