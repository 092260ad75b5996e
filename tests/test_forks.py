"""The processes that tests fork end as those that they start, and their end is never lost."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import forks
from tests.commands import run_command
from tests.conftest import Eventually


@pytest.fixture
def waiting(tmp_path: Path) -> forks.Forked:
    """An operator that waits for a server which nobody runs."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {token: t}}]}"
    )
    binds = ("--health-bind", "127.0.0.1:0", "--metrics-bind", "127.0.0.1:0", "--allow-insecure-metrics")
    return forks.launch(["run", "--kubeconfig", str(kubeconfig), *binds], tmp_path / "log")


def test_a_command_has_its_arguments_its_input_its_output_and_its_exit_code() -> None:
    shown = run_command(["--version"])
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("syncline ")
    refused = run_command(["no-such-command"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no-such-command" in refused.stderr
    read = run_command(["plan", "-f", "-", "--kubeconfig", "/nowhere"], stdin="kind: [")
    assert (read.returncode, read.stdout) == (2, "")
    assert "kind: [" in read.stderr


def test_the_end_by_a_signal_is_told_as_often_as_asked(waiting: forks.Forked) -> None:
    assert waiting.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.01)
    waiting.kill()
    assert [waiting.wait(60), waiting.wait(), waiting.poll()] == [-9, -9, -9]
    waiting.send_signal(signal.SIGTERM)
    assert waiting.poll() == -9


def test_one_thread_may_wait_while_another_one_kills(waiting: forks.Forked) -> None:
    with ThreadPoolExecutor(3) as threads:
        ends = [threads.submit(waiting.wait, 60) for _ in range(2)]
        waiting.kill()
        assert [end.result() for end in ends] == [-9, -9]


def test_no_end_of_many_is_lost(tmp_path: Path) -> None:
    log = tmp_path / "log"
    running = [forks.launch(["run", "--kubeconfig", "/nowhere"], log) for _ in range(8)]
    killed = [forks.launch(["run", "--kubeconfig", "/dev/zero"], log) for _ in range(2)]
    for process in killed:
        process.kill()
    assert [process.wait(60) for process in running] == [1] * 8
    assert [process.wait(60) for process in killed] == [-9] * 2


def test_what_was_forked_ends_with_the_process_that_asked_for_it(tmp_path: Path, eventually: Eventually) -> None:
    program = f"""
import os, signal, sys, pathlib
from tests import forks
process = forks.launch(["sandbox", "status"], pathlib.Path({str(tmp_path / "log")!r}))
stopped = forks.start(["plan", "-f", "-"], [os.fdopen(os.pipe()[0]), sys.stderr, sys.stderr])
print(stopped.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    eventually(lambda: not Path(f"/proc/{int(done.stdout)}").exists())
