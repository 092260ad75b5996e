"""An agent refuses a plan that leaves its folder or has no bounds, whoever composed it."""

import msgspec
import pytest

from syncline.core.gateway_plan import (
    MAX_BLOB_BYTES,
    MAX_PLAN_FILES,
    GatewayPlan,
    PlannedFile,
    PlannedMapping,
    PlannedSnapshots,
)
from syncline.core.plan_check import plan_problem

BLOB = "a" * 40
PLAN = GatewayPlan(id="1", sync="plant", gateway="gw", action="Publish", mappings=(PlannedMapping("s", ""),))


def with_files(*files: PlannedFile) -> GatewayPlan:
    return msgspec.structs.replace(PLAN, files=files)


def test_an_ordinary_plan_has_no_problem() -> None:
    assert plan_problem(with_files(PlannedFile("a/b", BLOB, 1, 0), PlannedFile("a/c", "b" * 64, 0, 0))) == ""


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (PlannedFile("../../etc/cron.d/x", BLOB, 1, 0), "empty name"),
        (PlannedFile("/etc/passwd", BLOB, 1, 0), "not relative"),
        (PlannedFile("a\nb", BLOB, 1, 0), "control character"),
        (PlannedFile(".syncline/manifest.json", BLOB, 1, 0), "protected"),
        (PlannedFile("projects/.resources/x", BLOB, 1, 0), "protected"),
        (PlannedFile("db/x", BLOB, 1, 0), "protected"),
        (PlannedFile("a", BLOB, MAX_BLOB_BYTES + 1, 0), "at most"),
        (PlannedFile("a", BLOB, -1, 0), "at most"),
        (PlannedFile("a", "../blob", 1, 0), "not one of a Git blob"),
        (PlannedFile("a", BLOB, 1, 1), "no mapping"),
        (PlannedFile("a", BLOB, 1, -1), "no mapping"),
    ],
)
def test_a_file_that_must_not_be_written_is_named(file: PlannedFile, problem: str) -> None:
    assert problem in plan_problem(with_files(PlannedFile("fine", BLOB, 1, 0), file))


def test_a_path_is_not_twice_and_not_a_file_and_a_folder() -> None:
    assert "same path" in plan_problem(with_files(PlannedFile("a", BLOB, 1, 0), PlannedFile("a", BLOB, 1, 0)))
    assert "a file and a folder" in plan_problem(
        with_files(PlannedFile("a", BLOB, 1, 0), PlannedFile("a/b/c", BLOB, 1, 0))
    )


def test_the_number_of_files_and_snapshots_is_bounded() -> None:
    files = tuple(PlannedFile(str(number), BLOB, 1, 0) for number in range(MAX_PLAN_FILES + 1))
    assert "at most" in plan_problem(with_files(*files))
    assert "snapshots" in plan_problem(msgspec.structs.replace(PLAN, snapshots=PlannedSnapshots(101)))
