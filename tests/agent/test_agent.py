"""What an agent does from its start to its end, as a process."""

from pathlib import Path

from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess, ignition, until

from syncline.testing.gateway import GatewayDouble

PROJECT = {
    "projects/line/project.json": '{"title": "Line"}',
    "projects/line/views/main/resource.json": '{"files": ["view.json"]}',
    "projects/line/views/main/view.json": '{"v": 1}',
}


def test_a_push_reaches_the_folder_and_the_gateway(
    agent: AgentProcess, depot: PlanDepot, gateway: GatewayDouble
) -> None:
    first = depot.publish(PROJECT, **ignition())
    agent.start()
    report = agent.until_synced(first.id)
    assert agent.files() == PROJECT
    assert gateway.projects == ["line"]
    assert (report.commit, report.files, report.projects) == (first.commit, 3, ("line",))
    assert report.changed.added == 3
    second = depot.publish({**PROJECT, "projects/line/views/main/view.json": '{"v": 2}'}, **ignition())
    report = agent.until_synced(second.id)
    assert report.changed.modified == 1
    assert [scan.kind for scan in gateway.scans] == ["projects", "projects"]
    assert all(scan.locked for scan in gateway.scans)
    assert [entry.result for entry in report.history] == ["Synced", "Synced"]
    assert agent.stop() == 0
    until(lambda: gateway.lock_holder("projects") == "")


def test_an_agent_at_rest_takes_at_most_60_mb(agent: AgentProcess, depot: PlanDepot) -> None:
    agent.start()
    agent.until_synced(depot.publish(PROJECT, **ignition()).id)
    status = Path(f"/proc/{agent.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    assert resident * 1024 <= 60 * 1000**2, f"{resident} KiB"
