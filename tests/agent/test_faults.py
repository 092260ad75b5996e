"""What an agent does when it dies, and when what it needs is away, refuses it or belongs to somebody else."""

from pathlib import Path

from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess, ignition, until

from syncline.testing.gateway import GatewayDouble

VIEW = "projects/line/views/main/view.json"
PROJECT = {
    "projects/line/project.json": '{"title": "Line"}',
    "projects/line/views/main/resource.json": '{"files": ["view.json"]}',
    VIEW: '{"v": 0}',
}
API = "/data/api/v1"
STEPS = (
    f"GET {API}/designers",
    f"POST {API}/scan-lock/projects",
    f"POST {API}/scan/projects",
    f"GET {API}/scan/projects",
    f"GET {API}/projects/names",
)


def edited(version: int) -> dict[str, str]:
    """Return the files of a later commit."""
    return {**PROJECT, VIEW: f'{{"v": {version}}}'}


def test_an_agent_that_is_killed_at_any_step_ends_what_it_began(
    agent: AgentProcess, depot: PlanDepot, gateway: GatewayDouble
) -> None:
    agent.start()
    agent.until_synced(depot.publish(PROJECT, **ignition()).id)
    for number, step in enumerate(STEPS, 1):
        gateway.delays[step] = 600.0
        plan = depot.publish(edited(number), **ignition())
        until(lambda step=step: step in gateway.delayed, agent.log)
        agent.kill()
        gateway.delays.clear()
        gateway.delayed.clear()
        gateway.release_lock("projects")
        scans = len(gateway.scans)
        agent.start()
        agent.until_synced(plan.id)
        assert agent.files() == edited(number)
        assert len(gateway.scans) == scans + 1, step


def test_an_answer_that_breaks_off_or_is_damaged_publishes_nothing_and_is_fetched_again(
    plain: AgentProcess, depot: PlanDepot
) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    depot.cut = 10
    plan = depot.repository.plan(edited(1))
    blob = next(file.blob for file in plan.files if file.path == VIEW)
    depot.damage[blob] = b'{"v": 9}'
    depot.serve(plan)
    report = plain.until_reason("FetchFailed")
    assert report.state == "Error"
    assert plain.files() == PROJECT
    until(lambda: depot.fetched.count(blob) > 1, plain.log)
    assert plain.files() == PROJECT
    depot.damage.clear()
    plain.until_synced(plan.id)
    assert plain.files() == edited(1)


def test_a_gateway_that_is_away_scans_when_it_is_back(
    agent: AgentProcess, depot: PlanDepot, gateway: GatewayDouble
) -> None:
    agent.start()
    agent.until_synced(depot.publish(PROJECT, **ignition()).id)
    gateway.stop()
    plan = depot.publish(edited(1), **ignition())
    report = agent.until_reason("GatewayUnavailable")
    assert (report.state, report.plan) == ("Error", plan.id)
    gateway.start()
    agent.until_synced(plan.id)
    assert gateway.scans[-1].files.keys() == PROJECT.keys()


def test_a_refused_key_publishes_nothing_and_a_new_one_is_read_without_a_restart(
    agent: AgentProcess, depot: PlanDepot, gateway: GatewayDouble
) -> None:
    agent.start()
    agent.until_synced(depot.publish(PROJECT, **ignition()).id)
    gateway.api_key = "agent:another-key"
    plan = depot.publish(edited(1), **ignition())
    report = agent.until_reason("GatewayRefused")
    assert report.state == "Error"
    assert agent.files() == PROJECT
    (agent.folder / "key").write_text(gateway.api_key)
    agent.until_synced(plan.id)
    assert agent.files() == edited(1)
    assert "another-key" not in agent.log()


def test_a_lock_of_somebody_else_is_waited_for(agent: AgentProcess, depot: PlanDepot, gateway: GatewayDouble) -> None:
    agent.start()
    agent.until_synced(depot.publish(PROJECT, **ignition()).id)
    gateway.hold_lock("projects")
    plan = depot.publish(edited(1), **ignition())
    assert agent.until_reason("ScanLockHeld").state == "Pending"
    assert agent.files() == PROJECT
    gateway.release_lock("projects")
    agent.until_synced(plan.id)
    assert agent.files() == edited(1)


def test_of_two_agents_on_one_folder_one_waits_and_says_so(
    plain: AgentProcess, depot: PlanDepot, tmp_path: Path
) -> None:
    plain.start()
    first = depot.publish(PROJECT)
    plain.until_synced(first.id)
    (tmp_path / "second").mkdir()
    second = AgentProcess(tmp_path / "second", depot)
    second.data = plain.data
    second.start()
    try:
        report = second.until_reason("FolderInUse")
        assert report.state == "Error"
        assert plain.files() == PROJECT
        assert plain.stop() == 0
        second.until_synced(first.id)
        assert second.files() == PROJECT
    finally:
        second.kill()


def test_a_refused_token_keeps_the_files_and_a_new_one_is_read_without_a_restart(
    plain: AgentProcess, depot: PlanDepot
) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    depot.token = "token-2"
    plan = depot.publish(edited(1))
    depot.stop()
    depot.start()
    until(lambda: "the depot answers 401" in plain.log(), plain.log)
    assert plain.files() == PROJECT
    (plain.folder / "token").write_text(depot.token)
    plain.until_synced(plan.id)
    assert plain.files() == edited(1)


def test_a_depot_of_another_authority_is_not_believed(plain: AgentProcess, depot: PlanDepot) -> None:
    plain.start()
    plain.until_synced(depot.publish(PROJECT).id)
    depot.rotate()
    depot.publish(edited(1))
    until(lambda: "its certificate cannot be verified" in plain.log(), plain.log)
    assert plain.files() == PROJECT
    (plain.folder / "ca.crt").write_text(depot.ca)
    until(lambda: plain.files() == edited(1), plain.log)
