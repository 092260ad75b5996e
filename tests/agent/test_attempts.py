"""One attempt after another, in the process of the test: what is published, scanned, retried and reported."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.agent.depot import PlanDepot
from tests.agent.scene import ignition
from tests.files.scene import Tree, tree

from syncline.agent.access import PodAccess
from syncline.agent.agent import Agent
from syncline.agent.gateway_sync import SyncOutcome
from syncline.agent.settings import AgentSettings
from syncline.core.gateway_plan import GatewayReport, PlannedCheck, PlannedSnapshots
from syncline.testing.gateway import API, GatewayDouble

CONFIG = "config/resources/external/ignition/x/config.json"
FILES = {"projects/line/project.json": '{"title": "Line"}', "projects/line/view.json": '{"v": 0}', CONFIG: '{"c": 0}'}


class OnceScene:
    """A depot, a gateway, and an agent that carries out one plan at a time."""

    def __init__(self, folder: Path, depot: PlanDepot, gateway: GatewayDouble) -> None:
        self.depot = depot
        self.gateway = gateway
        (folder / "token").write_text(depot.token)
        (folder / "key").write_text(gateway.api_key)
        self.data = folder / "data"
        self._settings = {
            "data": str(self.data),
            "depot_url": depot.url,
            "ca": depot.ca,
            "token_file": str(folder / "token"),
            "api_key_file": str(folder / "key"),
            "gateway_url": gateway.url,
        }

    def settings(self, **changed: str) -> AgentSettings:
        return AgentSettings(**{**self._settings, **changed})

    async def once(self, files: Tree | None = None, *, settings: dict[str, str] | None = None, **plan: Any) -> Any:
        """Carry out the newest plan as a new process of the agent does; return its outcome."""
        if files is not None:
            self.depot.publish(files, **{**ignition(), **plan})
        given = self.settings(**(settings or {}))
        return await Agent(given, PodAccess(given)).run_once()

    @property
    def report(self) -> GatewayReport:
        return self.depot.last

    def scanned(self) -> list[str]:
        """Return the kinds of the scans since the last call."""
        kinds = [scan.kind for scan in self.gateway.scans]
        self.gateway.scans.clear()
        return kinds


@pytest_asyncio.fixture
async def scene(tmp_path: Path, depot: PlanDepot, gateway: GatewayDouble) -> AsyncIterator[OnceScene]:
    yield OnceScene(tmp_path, depot, gateway)


async def test_only_what_changed_is_scanned_and_nothing_after_no_change(scene: OnceScene) -> None:
    assert (await scene.once(FILES)).state == "Synced"
    assert scene.scanned() == ["config", "projects"]
    asked = len(scene.gateway.requests)
    assert (await scene.once()).state == "Synced"
    assert (scene.scanned(), len(scene.gateway.requests)) == ([], asked)
    assert (await scene.once({**FILES, CONFIG: '{"c": 1}'})).state == "Synced"
    assert scene.scanned() == ["config"]
    assert (await scene.once({**FILES, CONFIG: '{"c": 1}', "projects/line/view.json": "{}"})).state == "Synced"
    assert scene.scanned() == ["projects"]
    assert (
        await scene.once({**FILES, CONFIG: '{"c": 1}', "projects/line/view.json": "{}", "user/a": "b"})
    ).state == "Synced"
    assert scene.scanned() == []


async def test_a_scan_that_failed_is_repeated_although_no_file_changes(scene: OnceScene) -> None:
    await scene.once(FILES)
    scene.scanned()
    scene.gateway.statuses[f"POST {API}/scan/config"] = 500
    outcome = await scene.once({**FILES, CONFIG: '{"c": 1}'})
    assert (outcome.state, outcome.reason, outcome.retry) == ("Error", "ScanFailed", "soon")
    assert (scene.report.state, scene.report.history[-1].result) == ("Error", "Error")
    scene.gateway.statuses.clear()
    scene.gateway.release_lock("config")
    assert (await scene.once()).state == "Synced"
    assert scene.scanned() == ["config"]
    assert scene.report.history[-1].result == "Synced"


@pytest.mark.parametrize("status", ["STARTING", "NEEDS_COMMISSIONING"])
async def test_a_gateway_that_starts_gets_its_files_and_is_scanned_once_it_runs(scene: OnceScene, status: Any) -> None:
    scene.gateway.status = status
    outcome = await scene.once(FILES)
    assert (outcome.state, outcome.reason, outcome.retry) == ("Pending", "GatewayStarting", "probe")
    assert status in outcome.message
    assert tree(scene.data) == FILES
    assert {one.path for one in scene.gateway.requests} == {"/system/gwinfo"}
    scene.gateway.status = "RUNNING"
    assert (await scene.once()).state == "Synced"
    assert scene.scanned() == ["config", "projects"]


async def test_the_first_publish_asks_nobody_before_the_files_are_there(scene: OnceScene) -> None:
    scene.gateway.designers = [("adam", "line")]
    scene.gateway.stop()
    outcome = await scene.once(FILES)
    assert outcome.reason == "GatewayStarting"
    assert tree(scene.data) == FILES


async def test_a_dry_run_is_synced_and_writes_and_scans_nothing(scene: OnceScene) -> None:
    outcome = await scene.once(FILES, check=PlannedCheck(dry_run=True))
    assert (outcome.state, outcome.reason) == ("Synced", "DryRun")
    assert (scene.report.changed.added, scene.report.commit) == (3, "")
    assert tree(scene.data) == {}
    assert not scene.gateway.requests


async def test_port_and_policy_are_those_of_the_newest_plan_and_not_of_the_pod(scene: OnceScene) -> None:
    at = {"port": scene.gateway.port, "tls": False}
    own = {"gateway_url": ""}
    assert (await scene.once(FILES, settings=own, **ignition(**at))).state == "Synced"
    changed = {**FILES, "projects/line/view.json": '{"v": 1}'}
    outcome = await scene.once(changed, settings=own, **ignition(port=1, tls=False))
    assert "127.0.0.1:1" in outcome.message
    scene.gateway.designers = [("adam", "line")]
    changed["projects/line/view.json"] = '{"v": 2}'
    outcome = await scene.once(changed, settings=own, **ignition(**at, designer_sessions="fail"))
    assert (outcome.state, outcome.reason) == ("Error", "DesignerSessionsOpen")
    assert (await scene.once(changed, settings=own, **ignition(**at, designer_sessions="proceed"))).state == "Synced"


async def test_a_first_publish_that_fails_leaves_no_good_copy(scene: OnceScene) -> None:
    outcome = await scene.once({**FILES, CONFIG: "no json"})
    assert (outcome.state, outcome.reason) == ("Error", "CheckFailed")
    assert tree(scene.data) == {}
    assert (scene.report.commit, scene.report.files) == ("", 0)


async def test_a_plan_of_other_settings_with_the_same_commit_is_carried_out(scene: OnceScene) -> None:
    await scene.once(FILES)
    first = scene.report
    plan = scene.depot.publish(FILES, **ignition(designer_sessions="proceed"))
    assert plan.commit == first.commit
    assert (await scene.once()).state == "Synced"
    assert (scene.report.plan, first.plan == plan.id) == (plan.id, False)


async def test_a_snapshot_is_reported_with_its_size_and_time(scene: OnceScene) -> None:
    keep = {"snapshots": PlannedSnapshots(2)}
    await scene.once(FILES, **keep)
    await scene.once({**FILES, CONFIG: '{"c": 100}'}, **keep)
    assert scene.report.snapshot.startswith("000002-")
    assert scene.report.snapshot_bytes == len(FILES[CONFIG])
    assert scene.report.snapshot_at


async def test_v0_4_3_no_folder_for_temporary_files_is_needed(
    scene: OnceScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert (await scene.once(FILES)).state == "Synced"
    assert tree(scene.data) == FILES


async def test_v0_5_0_a_failing_call_is_retried_after_5_s_up_to_60_s(scene: OnceScene) -> None:
    given = scene.settings()
    agent = Agent(given, PodAccess(given))
    try:
        agent._plan = scene.depot.publish(FILES, **ignition())
        agent._outcome = SyncOutcome(state="Error", reason="ScanFailed", retry="soon")
        assert [agent._next_wait(attempts) for attempts in range(1, 8)] == [5, 10, 20, 40, 60, 60, 60]
        agent._outcome = SyncOutcome(state="Pending", reason="GatewayStarting", retry="probe")
        assert [agent._next_wait(attempts) for attempts in (0, 1, 5, 50)] == [5, 6, 10, 15]
    finally:
        await agent._close()
