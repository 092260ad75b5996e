"""What a turn would do is told without doing it."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command, syncline
from tests.configsync.test_adoption import brought, web
from tests.configsync.world import GitWorld, config_map, definition, manifest, stateful_set

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
    metadata = {"name": "sync", "namespace": world.home}
    wanted = json.dumps({"apiVersion": API_VERSION, "kind": "ConfigSync", "metadata": metadata, "spec": spec})
    shown = syncline("diff", "-f", "-", *flags, stdin=wanted, code=1)
    assert changed(shown) == ["-- name: OLD", "-value: '1'"]


def planned(told: str) -> dict[str, list[str]]:
    """Return the rows of a plan by target: action, kind, state and why."""
    rows = [line.split(maxsplit=5) for line in told.splitlines() if line.count("  ") >= 4]
    return {row[3]: [row[0], row[2], row[4], row[5]] for row in rows[1:]}


def described(world: GitWorld, **spec: object) -> str:
    """Write a ConfigSync of the repository that need not exist."""
    body = {"apiVersion": API_VERSION, "kind": "ConfigSync", "metadata": {"name": "sync", "namespace": world.home}}
    return json.dumps({**body, "spec": {"source": world.git(), **spec}})


@pytest.mark.own_rights
def test_a_plan_promises_nothing_in_a_namespace_that_does_not_exist_and_then_removes_nothing(
    world: GitWorld, syncline: Command, flags: tuple[str, ...]
) -> None:
    world.push({"app.yaml": config_map("app"), "old.yaml": config_map("old")})
    sync = world.csync()
    sync.becomes("Synced", synced=2)
    nowhere = f"{world.name}-nowhere"
    world.push({"app.yaml": config_map("app"), "web.yaml": config_map("web", nowhere), "old.yaml": None})
    told = syncline("plan", "-f", "-", *flags, stdin=described(world), code=1)
    rows = planned(told)
    assert rows[f"{nowhere}/web"][:3] == ["-", "ConfigMap", "Pending"]
    assert "does not exist: create it, or have it in the repository too" in rows[f"{nowhere}/web"][3]
    assert f"{world.home}/old" not in rows
    assert told.splitlines()[-1] == "1 to leave, 1 cannot be done"
    sync.now()
    assert sync.says(nowhere, "NamespaceNotFound")["status"] == "Pending"
    assert world.find("ConfigMap", world.home, "old").look() is not None


@pytest.mark.own_rights
def test_a_plan_counts_on_namespaces_and_kinds_that_the_same_commit_brings(
    world: GitWorld, syncline: Command, flags: tuple[str, ...]
) -> None:
    fresh, plural, kind = f"{world.name}-fresh", f"gadgets{world.name}", f"Gadget{world.name}"
    world.push(
        {
            "namespace.yaml": manifest("v1", "Namespace", fresh),
            "definition.yaml": definition(plural, kind),
            "gadget.yaml": manifest("example.com/v1", kind, "one", fresh),
            "app.yaml": config_map("app", fresh),
        }
    )
    told = syncline("plan", "-f", "-", *flags, stdin=described(world))
    assert [row[:3:2] for row in planned(told).values()] == [["create", "Synced"]] * 4
    assert told.splitlines()[-1] == "4 to create"
    shown = syncline("diff", "-f", "-", *flags, stdin=described(world), code=1)
    assert f"+kind: {kind}" in shown


@pytest.mark.own_rights
@pytest.mark.parametrize("existing", [True, False], ids=["changed", "new"])
def test_without_validation_a_plan_names_the_fields_that_no_server_takes(
    world: GitWorld, syncline: Command, flags: tuple[str, ...], existing: bool
) -> None:
    wrong = stateful_set()
    wrong["spec"]["template"]["spec"]["containers"][0]["imagee"] = "example.com/app:2"
    if existing:
        commit = world.push({"set.yaml": stateful_set(), "map.yaml": config_map("map")})
        (sync := world.csync(validation="None")).at(commit)
    world.push({"set.yaml": wrong, "map.yaml": config_map("map", colour="blue")})
    told = syncline("plan", "-f", "-", *flags, stdin=described(world, validation="None"), code=1)
    rows = planned(told)
    assert rows[f"{world.home}/app"][:3] == ["update" if existing else "create", "StatefulSet.apps", "Failed"]
    assert "imagee" in rows[f"{world.home}/app"][3]
    assert rows[f"{world.home}/map"][2] == "Synced"
    if not existing:
        sync = world.csync(validation="None")
    sync.now()
    assert "imagee" in sync.becomes("InvalidManifest")["message"]


@pytest.mark.own_rights
def test_a_plan_that_lacks_rights_of_the_operator_removes_nothing(
    world: GitWorld, syncline: Command, flags: tuple[str, ...]
) -> None:
    world.push({"old.yaml": config_map("old")})
    sync = world.csync()
    sync.becomes("Synced", synced=1)
    cron = manifest("batch/v1", "CronJob", "tick", spec={"schedule": "@daily", "jobTemplate": {}})
    world.push({"cron.yaml": cron, "old.yaml": None})
    told = syncline("plan", "-f", "-", *flags, stdin=described(world), code=1)
    assert list(planned(told)) == [f"{world.home}/tick"]
    assert f"may not create cronjobs.batch in namespace '{world.home}'" in told
    assert told.splitlines()[-1] == "1 cannot be done"


def test_a_preview_reports_what_validation_would_refuse(
    world: GitWorld, syncline: Command, flags: tuple[str, ...], tmp_path: Path
) -> None:
    world.push({"app.yaml": config_map(), "svc.yaml": manifest("v1", "Service", "web", spec={"prots": []})})
    sync = world.csync()
    sync.becomes("InvalidManifest")
    told = f"svc.yaml:1: Service {world.home}/web: spec.prots: unknown field: did you mean ports?"
    assert told in sync.message
    shown = syncline("diff", "csync", "sync", "-n", world.home, *flags, code=2)
    assert f"InvalidManifest: {sync.message}" in shown
    body = sync.read()
    asked = {**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": {"name": "other"}}
    file = tmp_path / "sync.yaml"
    file.write_text(json.dumps(asked))
    shown = syncline("plan", "-f", str(file), "-n", world.home, *flags, code=1)
    assert told in shown
    assert "create" not in shown


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
