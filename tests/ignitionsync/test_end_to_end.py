"""From a push to three gateways: real Git over https, a real operator, agents as processes, gateways that listen."""

import json
from collections.abc import Iterator

import pytest
from tests.agent.scene import until
from tests.commands import run_command
from tests.ignitionsync.agents import Plant
from tests.ignitionsync.world import MAPPINGS, PROJECT, PlantWorld

from syncline.sandbox import Sandbox
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess

LINES = ("line-0", "line-1", "line-2")
ROLLBACK = {"enabled": True, "triggers": ["scanFailure", "verifyFailure"]}
VIEW = "projects/Plant/views/main.json"
CANARY = {"strategy": "canary", "stages": [{"name": "canary", "gatewaySelector": {"tier": "canary"}}]}


@pytest.fixture(scope="module")
def plant(
    sandbox: Sandbox, operator: OperatorProcess, git_server: GitServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plant]:
    """Three gateways of one sync, whose agents run; each test leaves them in sync."""
    world = PlantWorld(sandbox, git_server)
    with Plant(world, tmp_path_factory.mktemp("plant"), operator) as plant:
        commit = world.push(PROJECT)
        plant.create()
        for name in LINES:
            labels = {"tier": "canary"} if name == LINES[0] else {}
            plant.gateway(name, labels=labels).agent.start()
        plant.until_synced(commit)
        yield plant
    world.end()
    assert operator.returncode is None, operator.log()[-2000:]


@pytest.fixture(autouse=True)
def whole(plant: Plant) -> Iterator[None]:
    """Have all gateways in sync again after a test, however it ended."""
    yield
    for one in plant.gateways.values():
        one.double.broken_projects.clear()
        one.double.designers.clear()
        one.double.delays.clear()


def test_a_push_reaches_three_gateways_by_one_fetch(plant: Plant) -> None:
    fetches = plant.world.server.fetches(plant.world.name)
    commit = plant.push(main='{"a": "push"}')
    plant.until_synced(commit)
    assert plant.sync.condition("AllGatewaysSynced", status="True")["message"] == "3/3 gateways synced"
    assert plant.sync.condition("AgentsReady", status="True")["message"] == "3 agents report"
    for name, gateway in plant.gateways.items():
        assert gateway.files["projects/Plant/views/main.json"] == '{"a": "push"}'
        scanned = gateway.double.scans[-1]
        assert scanned.locked
        assert gateway.double.projects == ["Plant"]
        said = plant.sync.gateway(name)
        assert (said["filesChanged"], said["files"], said["projectsSynced"]) == (1, 2, ["Plant"])
    assert plant.world.server.fetches(plant.world.name) == fetches + 1
    metadata = plant.world.metadata().data
    assert metadata["commit"] == commit
    assert metadata["depotURL"].startswith("https://127.0.0.1:")


def test_a_broken_gateway_rolls_the_others_back(plant: Plant) -> None:
    good = plant.push(main='{"a": "good"}')
    plant.until_synced(good)
    plant.sync.change(deployment={"autoRollback": ROLLBACK})
    plant.sync.condition("Ready", status="True")
    plant.gateways["line-2"].double.broken_projects.add("Plant")
    bad = plant.push(main='{"a": "bad"}')
    assert "line-2" in plant.sync.tells("RolloutRolledBack")["note"]
    for name in LINES:
        plant.gateways[name].until_files(main='{"a": "good"}')
    plant.sync.gateway_at("line-2", "Error", reason="VerifyFailed", syncedCommit=good)
    failed = plant.sync.condition("Ready", status="False", reason="SyncFailed")["message"]
    assert "line-2 (pod line-2): VerifyFailed" in failed
    assert f"commit {bad[:12]} failed" in failed
    plant.gateways["line-2"].double.broken_projects.clear()
    ready = plant.sync.condition("Ready", status="False", reason="RolledBackOnFailure")
    assert bad[:12] in ready["message"]
    for name in LINES:
        plant.sync.gateway_at(name, "Synced", syncedCommit=good)
    plant.until_synced(plant.push(main='{"a": "better"}'))
    plant.sync.change(deployment=None)


def test_a_stage_waits_for_the_canary(plant: Plant) -> None:
    before = plant.push(main='{"a": "before"}')
    plant.until_synced(before)
    plant.sync.change(deployment=CANARY)
    plant.sync.condition("Ready", status="True")
    canary = plant.gateways["line-0"]
    canary.double.designers.append(("somebody", "Plant"))
    commit = plant.push(main='{"a": "canary"}')
    plant.sync.gateway_at("line-0", "Pending", reason="DesignerSessionsOpen")
    for name in ("line-1", "line-2"):
        plant.sync.gateway_at(name, "Pending", reason="WaitingForStage", syncedCommit=before)
        assert plant.gateways[name].files["projects/Plant/views/main.json"] == '{"a": "before"}'
    canary.double.designers.clear()
    plant.until_synced(commit)
    plant.sync.change(deployment=None)


def test_a_rollback_of_a_person_holds_all_gateways_until_it_is_cleared(plant: Plant) -> None:
    first = plant.push(main='{"a": "first"}')
    plant.until_synced(first)
    second = plant.push(main='{"a": "second"}')
    plant.until_synced(second)
    place = ("isync/plant", "-n", plant.world.home, "--kubeconfig", plant.world.sandbox.kubeconfig)
    done = run_command(["rollback", *place, "--to", first])
    assert done.returncode == 0, done.stderr
    for name in LINES:
        plant.gateways[name].until_files(main='{"a": "first"}')
        plant.sync.gateway_at(name, "Synced", syncedCommit=first)
    plant.sync.condition("Ready", status="True", reason="RolledBack")
    done = run_command(["rollback", *place, "--clear"])
    assert done.returncode == 0, done.stderr
    plant.until_synced(second)


def test_a_requested_ref_of_a_webhook_reaches_the_gateways(plant: Plant) -> None:
    commit = plant.push(main='{"a": "main"}')
    plant.until_synced(commit)
    release = plant.world.push({"projects/Plant/views/main.json": '{"a": "v1"}'}, ref="refs/heads/release")
    plant.world.repository.tag("v1", release)
    plant.deliver({"ref": "refs/tags/v1"}, **{"X-Delivery": release})
    plant.until_synced(release)
    for gateway in plant.gateways.values():
        gateway.until_files(main='{"a": "v1"}')
    assert plant.sync.requested["ignition-sync.io/requested-ref"] == "refs/tags/v1"
    for tag, time, taken in (("v2", "02", "v2"), ("v1", "01", "v2"), ("v3", "03", "v3"), ("v2", "02", "v3")):
        # Signatures do not cover the id of a delivery: an old release is sent again under a new one.
        body = {"action": "published", "release": {"tag_name": tag, "published_at": f"2026-01-{time}T00:00:00Z"}}
        plant.deliver(body, **{"X-GitHub-Event": "release", "X-GitHub-Delivery": f"{tag}-{taken}"})
        assert plant.sync.requested["ignition-sync.io/requested-ref"] == f"refs/tags/{taken}"
    plant.sync.annotate({"ignition-sync.io/requested-ref": None})
    plant.until_synced(commit)
    until(lambda: not plant.sync.requested)


def test_plan_and_diff_say_what_would_change_in_which_gateway(plant: Plant) -> None:
    before = plant.push(main='{"a": "planned"}', old="{}")
    plant.until_synced(before)
    files = {"main": '{"a": "previewed"}', "old": None, "new": "{}"}
    plant.world.push({f"projects/Plant/views/{name}.json": content for name, content in files.items()})
    place = ("-n", plant.world.home, "--kubeconfig", plant.world.sandbox.kubeconfig, "--allow-loopback")
    done = run_command(["diff", "isync/plant", *place])
    assert done.returncode == 1, done.stderr
    views = "projects/Plant/views"
    changes = [f"+ {views}/new.json", f"~ {views}/main.json", f"- {views}/old.json"]
    told = done.stdout.splitlines()
    assert [line for line in told if not line.startswith("#")] == changes * 3
    assert [line.split(":")[0] for line in told[1:] if line.startswith("#")] == [f"# {name}" for name in LINES]
    body = plant.sync.read()
    spec = {**body["spec"], "sync": {"profiles": {"other": {"mappings": MAPPINGS}}}}
    wanted = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {"name": "plant"}, "spec": spec}
    done = run_command(["plan", "-f", "-", *place], stdin=json.dumps(wanted))
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("ProfileNotFound") == 3
    plant.until_synced(plant.push(new=None))


def test_a_pod_made_later_catches_up(plant: Plant) -> None:
    commit = plant.push(main='{"a": "late"}')
    plant.until_synced(commit)
    late = plant.gateway("late-0")
    try:
        plant.sync.condition("AllGatewaysSynced", status="False", message="3/4 gateways synced")
        late.agent.start("--once")
        assert late.agent.wait() == 0, late.agent.log()
        assert "Synced" in late.agent.log()
        plant.until_synced(commit)
        assert late.files["projects/Plant/views/main.json"] == '{"a": "late"}'
    finally:
        del plant.gateways["late-0"]
        late.pod.remove()
    plant.sync.condition("AllGatewaysSynced", status="True", message="3/3 gateways synced")
    plant.world.report("late-0").gone()


def test_an_agent_that_is_killed_between_its_fetch_and_its_report_ends_what_it_began(plant: Plant) -> None:
    line = plant.gateways["line-1"]
    line.double.delays["POST /data/api/v1/scan/projects"] = 600.0
    commit = plant.push(main='{"a": "killed"}')
    line.until_files(main='{"a": "killed"}')
    until(lambda: line.double.lock_holder("projects"))
    line.agent.kill()
    assert plant.sync.gateway("line-1")["syncStatus"] != "Synced"
    line.double.delays.clear()
    line.double.release_lock("projects")
    scans = len(line.double.scans)
    line.agent.start()
    plant.until_synced(commit)
    assert len(line.double.scans) == scans + 1


def test_a_force_push_reaches_the_gateways(plant: Plant) -> None:
    plant.until_synced(plant.push(main='{"a": "forgotten"}'))
    commit = plant.world.repository.commit({**PROJECT, VIEW: '{"a": "anew"}'}, anew=True)
    plant.announce(commit)
    plant.until_synced(commit)
    for gateway in plant.gateways.values():
        assert gateway.files == {**PROJECT, VIEW: '{"a": "anew"}'}


def test_the_metrics_count_gateways_files_and_rollbacks(plant: Plant) -> None:
    plant.until_synced(plant.push(main='{"a": "counted"}', more='{"b": 1}'))
    labels = f'{{name="plant",namespace="{plant.world.home}"'
    synced = f"syncline_ignition_gateways_synced{labels}}}"

    def values() -> dict[str, str]:
        text = plant.operator.get("metrics", "/metrics")[1]
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    until(lambda: values().get(synced) == "3.0", values)  # they are counted after the status is written
    found = values()
    assert found[f"syncline_ignition_gateways_discovered{labels}}}"] == "3.0"
    assert found[f'syncline_ignition_gateway_status{labels},pod="line-1"}}'] == "1.0"
    assert float(found[f"syncline_ignition_last_sync_timestamp_seconds{labels}}}"]) > 0
    assert float(found["syncline_ignition_files_changed_total"]) >= 6
    assert float(found["syncline_ignition_sync_duration_seconds_count"]) >= 3
    assert float(found["syncline_ignition_scan_api_duration_seconds_count"]) >= 3
    assert float(found['syncline_depot_requests_total{code="200",request="plan"}']) >= 3
    assert float(found['syncline_depot_sent_bytes_total{request="blobs"}']) > 0
    plant.until_synced(plant.push(more=None))
