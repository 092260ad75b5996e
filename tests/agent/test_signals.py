"""An application that reloads its files after a signal: real processes, found by name."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent.depot import PlanDepot
from tests.agent.scene import AgentProcess, until

from syncline.agent.adapters import ApplyError, signals
from syncline.agent.adapters.signals import SignalAdapter, find_processes
from syncline.core.gateway_plan import PlannedApply, SignalApply

FILES = {"conf.d/site.conf": "one"}
PROGRAM = """
import os, signal, sys
def note(number, _):
    with open(sys.argv[1], "a") as file:
        file.write(f"{signal.Signals(number).name}\\n")
signal.signal(signal.SIGHUP, note)
signal.signal(signal.SIGUSR1, note)
workers = [os.fork()] if "worker" in sys.argv[2:] else []
with open(sys.argv[1], "a") as file:
    file.write("started\\n")
while True:
    signal.pause()
"""


class Application:
    """A process with a name of its own."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.name = name
        self.notes = folder / "notes"
        program = folder / name
        if not program.exists():
            program.symlink_to(sys.executable)
        command = [str(program), "-c", PROGRAM, str(self.notes), *arguments]
        # A group of its own, so that it ends with its worker.
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        self.until(1 + len(arguments), "started")

    def count(self, line: str) -> int:
        return self.notes.read_text().splitlines().count(line) if self.notes.exists() else 0

    def until(self, times: int, line: str) -> None:
        until(lambda: self.count(line) >= times)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    started: list[Application] = []

    def start(*arguments: str, name: str = "") -> Application:
        started.append(Application(tmp_path, name or f"app-{os.getpid()}", *arguments))
        return started[-1]

    yield start
    for one in started:
        one.end()


async def test_a_process_is_found_by_its_name_and_gets_the_signal(start: Callable[..., Application]) -> None:
    application = start()
    assert find_processes(application.name) == (application.process.pid,)
    adapter = SignalAdapter(SignalApply(application.name, "SIGUSR1"))
    assert (await adapter.availability()).running
    assert adapter.send() == f"SIGUSR1 sent to {application.name} ({application.process.pid})"
    application.until(1, "SIGUSR1")


async def test_a_worker_of_the_same_name_gets_no_signal(start: Callable[..., Application]) -> None:
    application = start("worker")
    assert find_processes(application.name) == (application.process.pid,)
    SignalAdapter(SignalApply(application.name)).send()
    application.until(1, "SIGHUP")


async def test_a_long_name_is_compared_as_a_whole_where_the_program_tells_it(start: Callable[..., Application]) -> None:
    application = start(name=f"application-{os.getpid()}-with-a-long-name")
    assert find_processes(application.name) == (application.process.pid,)


def test_the_agent_itself_is_never_meant() -> None:
    own = Path("/proc/self/comm").read_text().strip()
    assert os.getpid() not in find_processes(own)


async def test_a_process_that_does_not_run_is_waited_for() -> None:
    adapter = SignalAdapter(SignalApply(f"none-{os.getpid()}"))
    assert (await adapter.availability()).message == f"no process of the pod has the name none-{os.getpid()}"
    with pytest.raises(ApplyError, match=r"correct apply\.signal\.process"):
        adapter.send()


async def test_a_pod_that_does_not_share_its_processes_is_told_before_anything_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals, "_is_alone", lambda: True)
    adapter = SignalAdapter(SignalApply("nginx"))
    assert (await adapter.availability()).running
    async with adapter.session() as session:
        with pytest.raises(ApplyError, match="set shareProcessNamespace: true in the pod") as failed:
            await session.acquire(frozenset({"signal"}), ())
    assert (failed.value.reason, failed.value.waits) == ("ApplyFailed", False)


def test_an_agent_sends_the_signal_after_each_publish_and_only_then(
    plain: AgentProcess, depot: PlanDepot, start: Callable[..., Application]
) -> None:
    name = f"app-{os.getpid()}"
    apply = {"apply": PlannedApply(signal=SignalApply(name))}
    plain.start()
    depot.publish(FILES, **apply)
    report = plain.until_reason("GatewayStarting")
    assert report.state == "Pending"
    assert name in report.message
    assert plain.files() == FILES
    application = start()
    plain.until_reported(lambda report: report.state == "Synced")
    application.until(1, "SIGHUP")
    second = depot.publish({"conf.d/site.conf": "two"}, **apply)
    assert plain.until_synced(second.id).scan.startswith(f"SIGHUP sent to {name}")
    application.until(2, "SIGHUP")
    assert application.count("SIGHUP") == 2
