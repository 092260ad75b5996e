"""Edits on the gateway go to the depot: once, after a rest, guarded, and by the strategy where Git has changed too."""

import json
import os
from typing import Any

import pytest
from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess, until

from syncline.core.gateway_plan import (
    ChangeAnswer,
    ChangedFile,
    FileRules,
    PlannedMapping,
    PlannedReturn,
    ReportedEdits,
    ReportedRefusal,
)

VIEW, CODE, TEXT = "projects/line/view.json", "projects/line/code.py", "projects/line/text.txt"
PROJECT = {VIEW: '{"v": 1}', CODE: "print(1)\n", TEXT: "one\n", "config/x.json": "{}"}
MAPPINGS = (PlannedMapping("projects", "projects"), PlannedMapping("config", "config"))
KEY = "-----BEGIN " + "RSA PRIVATE KEY-----\nabc\n"


def back(conflict: str = "gitWins", **more: Any) -> dict[str, Any]:
    """Return the fields of a plan that sends edits back."""
    fields = {"debounce_seconds": 1.0, "branch": "edits", "conflict": conflict, **more}
    return {
        "mappings": MAPPINGS,
        "rules": FileRules(watched=("projects/**",)),
        "send_back": PlannedReturn(**fields),
    }


def sent(depot: PlanDepot, number: int = -1) -> dict[str, str | None]:
    """Return what one request has: the contents of files, None for those that were deleted."""
    request, contents = depot.changes[number]
    return {
        file.path: None if file.deleted else content.decode()
        for file, content in zip(request.files, contents, strict=True)
    }


def edits(agent: AgentProcess) -> ReportedEdits:
    return agent.depot.last.edits or ReportedEdits()


def test_edits_are_sent_once_and_not_repaired(plain: AgentProcess, depot: PlanDepot) -> None:
    plan = depot.publish(PROJECT, **back())
    plain.start()
    plain.until_synced(plan.id)
    data = plain.data
    (data / VIEW).write_text('{"v": "edited"}')
    (data / CODE).unlink()
    (data / "projects/line/new").mkdir()
    (data / "projects/line/new/view.json").write_text("{}")
    (data / "projects/line/.hidden").write_text("not sent")
    (data / "projects/.resources").mkdir()
    (data / "projects/.resources/cache").write_text("not sent")
    (data / "projects/line/link").symlink_to("/etc/passwd")
    (data / "config/x.json").write_text('{"not": "watched"}')
    report = plain.until_reported(lambda report: report.edits is not None and report.edits.sent == 3)
    assert sent(depot) == {VIEW: '{"v": "edited"}', CODE: None, "projects/line/new/view.json": "{}"}
    request = depot.changes[0][0]
    assert (request.plan, request.commit) == (plan.id, plan.commit)
    assert request.files[0] == ChangedFile(CODE, deleted=True, base=plan.files[1].blob)
    assert report.edits is not None
    assert (report.edits.branch, report.edits.commit, report.edits.waiting) == ("edits", "c" * 40, 0)
    assert set(report.edits.files) == {VIEW, CODE, "projects/line/new/view.json"}
    until(lambda: (data / "config/x.json").read_text() == "{}", plain.log)
    plain.stop()
    count = len(depot.changes)
    plain.start()
    plain.until_reported(lambda report: report.edits is not None and report.edits.sent == 3)
    assert (data / VIEW).read_text() == '{"v": "edited"}'
    (data / TEXT).write_text("two\n")
    until(lambda: len(depot.changes) > count, plain.log)
    assert sent(depot) == {TEXT: "two\n"}
    merged = {**PROJECT, VIEW: '{"v": "edited"}', TEXT: "two\n", "projects/line/new/view.json": "{}"}
    merged.pop(CODE)
    plan = depot.publish(merged, **back())
    plain.until_reported(lambda report: report.plan == plan.id and report.edits is not None and not report.edits.sent)
    assert depot.last.state == "Synced"
    assert plain.files()[VIEW] == '{"v": "edited"}'
    assert len(depot.changes) == count + 1


def test_what_may_not_be_sent_is_named_and_stays(plain: AgentProcess, depot: PlanDepot) -> None:
    mappings = (*MAPPINGS, PlannedMapping("made", "projects/made", template=True))
    fields = {**back(max_file_bytes=1000), "mappings": mappings}
    plan = depot.publish({**PROJECT, "projects/made/a.txt": "a\n"}, **fields)
    plain.start()
    plain.until_synced(plan.id)
    (plain.data / VIEW).write_text(json.dumps({"key": KEY}).replace("\\n", "\n"))
    (plain.data / TEXT).write_text("x" * 1001)
    (plain.data / "projects/made/a.txt").write_text("edited\n")
    (plain.data / "projects/line/server.key").write_text("abc")
    report = plain.until_reported(lambda report: report.edits is not None and len(report.edits.refused) == 4)
    assert report.edits is not None
    why = {one.path: one.why for one in report.edits.refused}
    assert why[VIEW] == "it looks like a private key"
    assert "guardrails.maxFileSize" in why[TEXT]
    assert "cannot be undone" in why["projects/made/a.txt"]
    assert "credentials" in why["projects/line/server.key"]
    assert depot.changes == []
    assert (plain.data / TEXT).read_text() == "x" * 1001
    assert KEY not in plain.log()
    newer = depot.publish({**PROJECT, TEXT: "git\n", "projects/made/a.txt": "a\n"}, **fields)
    plain.until_reported(lambda report: report.plan == newer.id)
    until(lambda: (plain.data / TEXT).read_text() == "git\n", plain.log)
    assert (plain.data / f".syncline/replaced/{TEXT}.kept").read_text() == "x" * 1001


def test_a_name_that_is_not_utf8_is_named_and_harms_nothing(plain: AgentProcess, depot: PlanDepot) -> None:
    plan = depot.publish(PROJECT, **back())
    plain.start()
    plain.until_synced(plan.id)
    (plain.data / "projects/line" / os.fsdecode(b"caf\xe9.json")).write_text("{}")
    (plain.data / VIEW).write_text('{"v": "edited"}')
    report = plain.until_reported(lambda report: report.edits is not None and report.edits.refused)
    assert report.edits is not None
    assert report.edits.refused == (ReportedRefusal("projects/line/caf\\xe9.json", "the path is not UTF-8"),)
    plain.until_reported(lambda report: report.edits is not None and report.edits.sent == 1)
    assert plain.is_running()


def test_too_many_edits_are_not_sent(plain: AgentProcess, depot: PlanDepot) -> None:
    plan = depot.publish(PROJECT, **back(max_files=2))
    plain.start()
    plain.until_synced(plan.id)
    for number in range(3):
        (plain.data / f"projects/line/{number}.txt").write_text("new")
    report = plain.until_reported(lambda report: report.edits is not None and report.edits.problem)
    assert report.edits is not None
    assert "3 edits are more than guardrails.maxFilesPerPR (2)" in report.edits.problem
    assert report.edits.waiting == 3
    assert depot.changes == []


@pytest.mark.parametrize("strategy", ["gitWins", "gatewayWins", "manual"])
def test_both_sides_changed(plain: AgentProcess, depot: PlanDepot, strategy: str) -> None:
    plan = depot.publish(PROJECT, **back(strategy))
    plain.start()
    plain.until_synced(plan.id)
    depot.answer = ChangeAnswer("edits", "d" * 40, "https://git.example.com/pulls/1")
    (plain.data / VIEW).write_text('{"v": "gateway"}')
    newer = depot.publish({**PROJECT, VIEW: '{"v": "git"}', TEXT: "git\n"}, **back(strategy))
    until(lambda: depot.changes, plain.log)
    assert sent(depot) == {VIEW: '{"v": "gateway"}'}
    wins = "git" if strategy == "gitWins" else "gateway"
    until(lambda: (plain.data / VIEW).read_text() == f'{{"v": "{wins}"}}', plain.log)
    until(lambda: (plain.data / TEXT).read_text() == "git\n", plain.log)
    reason = {"gitWins": "Synced", "gatewayWins": "EditsLeft", "manual": "EditConflict"}[strategy]
    report = plain.until_reported(
        lambda report: report.plan == newer.id and report.reason == reason and report.edits is not None
    )
    assert (report.state, report.commit) == ("Synced", newer.commit)
    conflicts = (VIEW,) if strategy == "manual" else ()
    plain.until_reported(lambda _: edits(plain).pull_request == depot.answer.pull_request)
    plain.until_reported(lambda _: edits(plain).conflicts == conflicts)
    assert (plain.data / VIEW).read_text() == f'{{"v": "{wins}"}}'
    assert len(depot.changes) == 1


def test_a_depot_that_refuses_is_reported_and_nothing_is_lost(plain: AgentProcess, depot: PlanDepot) -> None:
    plan = depot.publish(PROJECT, **back(branch=""))
    plain.start()
    plain.until_synced(plan.id)
    (plain.data / VIEW).write_text('{"v": "edited"}')
    report = plain.until_reported(lambda report: report.edits is not None and report.edits.problem)
    assert report.edits is not None
    assert "BidirectionalReady" in report.edits.problem
    assert (plain.data / VIEW).read_text() == '{"v": "edited"}'
    assert depot.changes == []
