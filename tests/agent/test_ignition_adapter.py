"""The adapter of Ignition against a gateway over HTTP, without an agent: locks, scans, designers, states."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from tests.files.scene import Repository

from syncline.agent.adapters import ApplyError
from syncline.agent.adapters.ignition import HOLD_SECONDS, SCAN_SECONDS, IgnitionAdapter, IgnitionSession
from syncline.agent.local_http import LocalHttp
from syncline.core.gateway_plan import GatewayPlan
from syncline.testing.gateway import API, GatewayDouble, ScanKind

PROJECTS: frozenset[ScanKind] = frozenset({"projects"})
BOTH = frozenset({"projects", "config"})
PLAN = Repository().plan({"projects/line/project.json": "{}", "projects/line/view.json": "{}"})
VIEW = ("projects/line/view.json",)


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


class Scene(NamedTuple):
    gateway: GatewayDouble
    adapter: IgnitionAdapter
    key: Path

    def session(self, clock: Clock | None = None) -> IgnitionSession:
        return IgnitionSession(self.adapter, clock, clock.sleep) if clock is not None else IgnitionSession(self.adapter)

    def asked(self) -> list[str]:
        """Return what the gateway was asked about scans, without the polls of their status."""
        asked = [f"{one.method} {one.path.removeprefix(API)}" for one in self.gateway.requests]
        return [one for one in asked if "/scan" in one and not one.startswith("GET /scan/")]


@pytest_asyncio.fixture
async def scene(tmp_path: Path, gateway: GatewayDouble) -> AsyncIterator[Scene]:
    (tmp_path / "data/projects/line").mkdir(parents=True)
    (tmp_path / "data/projects/line/project.json").write_text("{}")
    key = tmp_path / "key"
    key.write_text(gateway.api_key)
    http = LocalHttp(gateway.url)
    yield Scene(gateway, IgnitionAdapter(http, str(key), "wait"), key)
    await http.close()


async def apply(scene: Scene, steps: frozenset[Any], plan: GatewayPlan = PLAN, clock: Clock | None = None) -> str:
    async with scene.session(clock) as session:
        await session.acquire(steps, VIEW)
        return await session.apply(steps, plan)


async def test_what_has_changed_is_locked_and_scanned_and_nothing_else(scene: Scene) -> None:
    assert (await apply(scene, PROJECTS)).startswith("projects scanned in ")
    assert scene.asked() == ["POST /scan-lock/projects", "POST /scan/projects"]
    [scan] = scene.gateway.scans
    assert (scan.kind, scan.locked) == ("projects", True)
    assert not scene.gateway.lock_holder("projects")


async def test_both_are_locked_before_the_first_is_scanned(scene: Scene) -> None:
    await apply(scene, BOTH)
    locks, scans = ["POST /scan-lock/config", "POST /scan-lock/projects"], ["POST /scan/config", "POST /scan/projects"]
    assert scene.asked() == locks + scans
    assert all(scan.locked for scan in scene.gateway.scans)


async def test_a_scan_that_hangs_is_a_failure_after_its_time_and_not_a_wait_for_ever(scene: Scene) -> None:
    scene.gateway.stuck.add("projects")
    clock = Clock()
    with pytest.raises(ApplyError, match="the scan of projects is still active after 120 s") as failed:
        await apply(scene, PROJECTS, clock=clock)
    assert (failed.value.reason, failed.value.waits) == ("ScanFailed", False)
    assert clock.now > SCAN_SECONDS


async def test_a_scan_that_the_gateway_never_records_is_a_failure(scene: Scene) -> None:
    scene.gateway.lag_seconds = 3600.0
    with pytest.raises(ApplyError, match="the scan of projects was not recorded after 120 s") as failed:
        await apply(scene, PROJECTS, clock=Clock())
    assert failed.value.reason == "ScanFailed"


async def test_the_end_of_an_earlier_scan_is_not_taken_for_the_end_of_this_one(scene: Scene) -> None:
    await apply(scene, PROJECTS)
    scene.gateway.lag_seconds = 3600.0
    with pytest.raises(ApplyError, match="was not recorded"):
        await apply(scene, PROJECTS, clock=Clock())


async def test_a_status_that_lags_is_waited_for(scene: Scene) -> None:
    scene.gateway.scan_seconds, scene.gateway.lag_seconds = 0.05, 0.05
    await apply(scene, PROJECTS)
    assert scene.gateway.count("GET", f"{API}/scan/projects") > 2


async def test_of_two_locks_the_first_is_given_back_if_the_second_cannot_be_had(scene: Scene) -> None:
    scene.gateway.hold_lock("projects")
    with pytest.raises(ApplyError) as held:
        await apply(scene, BOTH)
    assert (held.value.reason, held.value.waits) == ("ScanLockHeld", True)
    assert not scene.gateway.lock_holder("config")
    assert scene.gateway.lock_holder("projects") == "another"


async def test_a_lock_that_expired_during_the_publish_is_taken_again_before_the_scan(scene: Scene) -> None:
    clock = Clock()
    async with scene.session(clock) as session:
        await session.acquire(PROJECTS, VIEW)
        scene.gateway.release_lock("projects")
        clock.now += HOLD_SECONDS
        await session.apply(PROJECTS, PLAN)
    assert scene.asked() == ["POST /scan-lock/projects", "POST /scan-lock/projects", "POST /scan/projects"]
    assert [scan.locked for scan in scene.gateway.scans] == [True]


async def test_a_lock_that_somebody_else_took_after_ours_expired_is_left_alone(scene: Scene) -> None:
    clock = Clock()
    async with scene.session(clock) as session:
        await session.acquire(PROJECTS, VIEW)
        clock.now += HOLD_SECONDS
        scene.gateway.hold_lock("projects")
        with pytest.raises(ApplyError, match="somebody else changes the projects of the gateway"):
            await session.apply(PROJECTS, PLAN)
    assert scene.gateway.lock_holder("projects") == "another"
    assert not scene.gateway.scans


async def test_a_publish_that_ends_after_its_lock_expired_releases_no_lock_of_somebody_else(scene: Scene) -> None:
    clock = Clock()
    async with scene.session(clock) as session:
        await session.acquire(PROJECTS, VIEW)
        clock.now += HOLD_SECONDS
        scene.gateway.hold_lock("projects")
    assert scene.gateway.lock_holder("projects") == "another"
    assert not scene.gateway.scans


@pytest.mark.parametrize("status", [408, 409])
async def test_a_lock_that_cannot_be_had_is_waited_for(scene: Scene, status: int) -> None:
    scene.gateway.statuses[f"POST {API}/scan-lock/projects"] = status
    with pytest.raises(ApplyError, match="somebody else changes the projects of the gateway") as held:
        await apply(scene, PROJECTS)
    assert (held.value.reason, held.value.waits) == ("ScanLockHeld", True)
    assert not scene.gateway.scans


@pytest.mark.parametrize(
    ("route", "status", "reason", "words"),
    [
        ("POST /scan-lock/projects", 400, "ScanFailed", "answers 400 to the scan lock of projects"),
        ("POST /scan-lock/projects", 404, "ScanFailed", "needs Ignition 8.3 or newer"),
        ("POST /scan/projects", 500, "ScanFailed", "answers 500 to the scan of projects"),
        ("POST /scan/projects", 503, "GatewayUnavailable", "not ready (503 for POST /scan/projects)"),
        ("GET /scan/projects", 500, "ScanFailed", "answers 500 to the status of the scan of projects"),
        ("GET /projects/names", 500, "ScanFailed", "answers 500 to the names of projects"),
        ("GET /designers", 500, "ScanFailed", "answers 500 to designers"),
        ("GET /designers", 401, "GatewayRefused", "401 for GET /designers"),
        ("POST /scan-lock/projects", 403, "GatewayRefused", "may access, read and write"),
    ],
)
async def test_a_call_that_fails_is_an_error_and_leaves_no_lock(
    scene: Scene, route: str, status: int, reason: str, words: str
) -> None:
    method, _, path = route.partition(" ")
    scene.gateway.statuses[f"{method} {API}{path}"] = status
    with pytest.raises(ApplyError) as failed:
        await apply(scene, PROJECTS)
    assert (failed.value.reason, failed.value.waits) == (reason, False)
    assert words in str(failed.value)
    if route != "POST /scan/projects":  # the way to release a lock; else it ends by itself
        assert not scene.gateway.lock_holder("projects")


async def test_an_agent_that_is_stopped_between_lock_and_scan_releases_the_lock(scene: Scene) -> None:
    locked = asyncio.Event()

    async def publish() -> None:
        async with scene.session() as session:
            await session.acquire(PROJECTS, VIEW)
            locked.set()
            await asyncio.Event().wait()

    work = asyncio.create_task(publish())
    await locked.wait()
    assert scene.gateway.lock_holder("projects") == "agent"
    work.cancel()
    await asyncio.wait([work])
    assert not scene.gateway.lock_holder("projects")


async def test_a_project_that_the_gateway_does_not_load_is_named(scene: Scene) -> None:
    scene.gateway.broken_projects.add("line")
    with pytest.raises(ApplyError, match="the gateway does not list line after the scan") as failed:
        await apply(scene, PROJECTS)
    assert failed.value.reason == "VerifyFailed"


async def test_only_designers_of_a_changed_project_are_waited_for(scene: Scene) -> None:
    scene.gateway.designers = [("eve", "other")]
    await apply(scene, PROJECTS)
    scene.gateway.designers.append(("adam", "line"))
    with pytest.raises(ApplyError, match="designer sessions are open in line") as waiting:
        await apply(scene, PROJECTS)
    assert (waiting.value.reason, waiting.value.waits) == ("DesignerSessionsOpen", True)
    assert len(scene.gateway.scans) == 1


async def test_the_policy_fail_does_not_wait_and_proceed_does_not_ask(scene: Scene) -> None:
    scene.gateway.designers = [("adam", "line")]
    scene.adapter.designer_sessions = "fail"
    with pytest.raises(ApplyError, match="publishes nothing while they are open") as failed:
        await apply(scene, PROJECTS)
    assert failed.value.waits is False
    scene.adapter.designer_sessions = "proceed"
    scene.gateway.requests.clear()
    await apply(scene, PROJECTS)
    assert scene.gateway.count("GET", f"{API}/designers") == 0


@pytest.mark.parametrize(
    ("status", "words"), [("STARTING", "in state STARTING"), ("NEEDS_COMMISSIONING", "commission it, or wait")]
)
async def test_a_gateway_that_starts_is_not_available_and_says_its_state(scene: Scene, status: Any, words: str) -> None:
    scene.gateway.status = status
    available = await scene.adapter.availability()
    assert not available.running
    assert words in available.message
    assert scene.gateway.count("GET", "/system/gwinfo") == 1


async def test_only_running_counts_and_not_any_answer(scene: Scene) -> None:
    assert (await scene.adapter.availability()).running
    scene.gateway.statuses["GET /system/gwinfo"] = 200  # without a body
    assert (await scene.adapter.availability()).message == "the gateway answers 200 and no state"
    scene.gateway.statuses["GET /system/gwinfo"] = 503
    assert not (await scene.adapter.availability()).running
    scene.gateway.stop()
    assert "cannot be reached" in (await scene.adapter.availability()).message


@pytest.mark.parametrize(
    ("content", "words"), [("", "empty"), ("two\nlines", "not one line"), ("kéy", "cannot be read"), (None, "cannot")]
)
async def test_a_key_that_cannot_be_used_is_named_and_never_sent(scene: Scene, content: str | None, words: str) -> None:
    scene.key.unlink() if content is None else scene.key.write_text(content)
    with pytest.raises(ApplyError, match=words) as failed:
        await apply(scene, PROJECTS)
    assert failed.value.reason == "GatewayRefused"
    assert not scene.gateway.requests


async def test_the_key_is_read_for_each_call(scene: Scene) -> None:
    await apply(scene, PROJECTS)
    scene.gateway.api_key = "agent:another"
    with pytest.raises(ApplyError, match="refuses the API key"):
        await apply(scene, PROJECTS)
    scene.key.write_text("agent:another\n")
    await apply(scene, PROJECTS)


def test_scans_are_for_files_that_a_gateway_reads(scene: Scene) -> None:
    assert scene.adapter.steps(VIEW) == PROJECTS
    assert scene.adapter.steps(["config/resources/external/a/config.json"]) == {"config"}
    assert scene.adapter.steps(["user-lib/x.jar", "projects.txt"]) == frozenset()
