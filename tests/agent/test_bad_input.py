"""What an agent does with folders, clocks, certificates and plans that are not as they should be."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess, until

from syncline.core.gateway_plan import MAX_BLOB_BYTES, MAX_PLAN_FILES, GatewayPlan, PlannedFile

VIEW = "projects/line/views/main/view.json"
PROJECT = {"projects/line/project.json": '{"title": "Line"}', VIEW: '{"v": 0}'}
EDITED = {**PROJECT, VIEW: '{"v": 1}'}
GIGABYTE = 1024**3
MEMORY = 160 * 1024**2
"""What an agent may take at most, in bytes: its container has 256 MiB."""
WITHOUT_OVERRIDE = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "syncline", *sys.argv[1:]])
"""
"""Starts an agent that has to obey the modes of folders, also where the tests run as root."""
DAY = timedelta(days=1)


def peak(agent: AgentProcess) -> int:
    """Return the most memory that an agent has had, in bytes."""
    lines = Path(f"/proc/{agent.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def set_modes(data: Path, mode: int) -> None:
    """Set the mode of a folder, and of all folders below it."""
    for folder, _, _ in os.walk(data, topdown=mode & 0o200 != 0):
        Path(folder).chmod(mode)


@pytest.fixture
def confined(plain: AgentProcess) -> Iterator[AgentProcess]:
    """An agent whose folder can be made read-only."""
    yield plain
    set_modes(plain.data, 0o755)


def obey_modes(agent: AgentProcess) -> None:
    agent.start(runner=("-c", WITHOUT_OVERRIDE))


def test_a_folder_that_became_read_only_keeps_its_files_and_is_written_once_it_can_be(
    confined: AgentProcess, depot: PlanDepot
) -> None:
    obey_modes(confined)
    confined.until_synced(depot.publish(PROJECT).id)
    set_modes(confined.data, 0o555)
    plan = depot.publish(EDITED)
    report = confined.until_reason("FolderReadOnly")
    assert (report.state, report.plan) == ("Error", plan.id)
    assert "run it as the user of the gateway" in report.message
    assert confined.files() == PROJECT
    assert confined.probe("/startupz")[0] == 200
    set_modes(confined.data, 0o755)
    confined.until_synced(plan.id)
    assert confined.files() == EDITED


def test_an_agent_that_starts_on_a_read_only_folder_holds_the_start_and_says_why(
    confined: AgentProcess, depot: PlanDepot
) -> None:
    set_modes(confined.data, 0o555)
    plan = depot.publish(PROJECT)
    obey_modes(confined)
    assert confined.until_reason("FolderReadOnly").state == "Error"
    until(lambda: "run it as the user of the gateway" in confined.probe("/startupz")[1], confined.log)
    assert confined.probe("/startupz")[0] == 503
    set_modes(confined.data, 0o755)
    confined.until_synced(plan.id)
    assert confined.probe("/startupz")[0] == 200


@pytest.mark.parametrize(
    ("begin", "end", "cause"),
    [(-2 * DAY, -DAY, "certificate has expired"), (DAY, 2 * DAY, "certificate is not yet valid")],
    ids=["expired", "clock-behind"],
)
def test_a_certificate_of_another_time_is_not_believed_and_the_clock_is_named(
    plain: AgentProcess, depot: PlanDepot, begin: timedelta, end: timedelta, cause: str
) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    depot.restart((begin, end))
    depot.publish(EDITED)
    until(lambda: cause in plain.log(), plain.log)
    assert "check the clock of this node" in plain.log()
    assert plain.files() == PROJECT
    assert plain.stop() == 0
    plain.start()
    until(lambda: plain.probe("/startupz")[0] == 200, plain.log)
    assert plain.files() == PROJECT
    depot.restart()
    until(lambda: plain.files() == EDITED, plain.log)


def test_a_file_that_is_edited_again_is_repaired_again_whatever_the_clock_of_the_gateway_says(
    plain: AgentProcess, depot: PlanDepot
) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    for seconds in (0, 4_000_000_000):
        (plain.data / VIEW).write_text('{"v": 7}')
        os.utime(plain.data / VIEW, (seconds, seconds))
        until(lambda: plain.files() == PROJECT, plain.log)


def served(depot: PlanDepot, *files: PlannedFile) -> GatewayPlan:
    """Serve a plan that no operator would compose: the project, and these files."""
    plan = depot.repository.plan(EDITED)
    return depot.serve(msgspec.structs.replace(plan, id="f" * 64, files=(*plan.files, *files)))


def test_a_file_of_a_gigabyte_is_refused_before_its_first_byte(plain: AgentProcess, depot: PlanDepot) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    served(depot, PlannedFile("projects/line/video.bin", "a" * 40, GIGABYTE, 0))
    fetched = len(depot.fetched)
    report = plain.until_reason("InvalidPlan")
    assert report.state == "Error"
    assert f"at most {MAX_BLOB_BYTES} are allowed" in report.message
    assert plain.files() == PROJECT
    assert len(depot.fetched) == fetched


def test_the_largest_file_passes_through_the_agent_in_pieces(plain: AgentProcess, depot: PlanDepot) -> None:
    plain.start()
    video = bytes(MAX_BLOB_BYTES)
    plain.until_synced(depot.publish({**PROJECT, "projects/line/video.bin": video}).id)
    assert (plain.data / "projects/line/video.bin").stat().st_size == MAX_BLOB_BYTES
    assert peak(plain) < MEMORY


def test_a_hundred_thousand_files_are_refused_with_bounded_memory(plain: AgentProcess, depot: PlanDepot) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    blob = depot.repository.plan(PROJECT).files[0].blob
    served(depot, *(PlannedFile(f"projects/many/{number}", blob, 1, 0) for number in range(2 * MAX_PLAN_FILES)))
    report = plain.until_reason("InvalidPlan")
    assert f"at most {MAX_PLAN_FILES} are allowed" in report.message
    assert plain.files() == PROJECT
    assert peak(plain) < MEMORY


HOSTILE = (
    "../outside",
    "projects/../../outside",
    "/tmp/outside",
    "projects//outside",
    "projects/./outside",
    "projects\\..\\outside",
    "projects/out\nside",
    ".syncline/manifest.json",
    "projects/.resources/outside",
    "config/local/outside",
    "CONFIG/Local/outside",
    "x" * 300,
)


def test_a_plan_with_a_hostile_name_is_refused_as_a_whole(plain: AgentProcess, depot: PlanDepot) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    plan = depot.repository.plan(EDITED)
    for number, path in enumerate(HOSTILE):
        hostile = msgspec.structs.replace(plan.files[0], path=path)
        refused = depot.serve(msgspec.structs.replace(plan, id=f"{number:064x}", files=tuple({*plan.files, hostile})))
        report = plain.until_reported(lambda one, refused=refused: one.plan == refused.id)
        assert (report.state, report.reason) == ("Error", "InvalidPlan"), path
        assert plain.files() == PROJECT
    assert not list(plain.folder.rglob("outside"))
    plain.until_synced(depot.publish(EDITED).id)
