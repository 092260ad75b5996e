"""How sandboxes end: never by outliving whoever wanted them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from syncline.sandbox import RequestError, Sandbox, SandboxError, state, versions
from syncline.testing.fixtures import SandboxFactory

Eventually = Callable[[Callable[[], bool]], None]
Lives = Callable[[int], bool]

# Starts sandboxes, tells where they are, and stays.
STARTER = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from syncline.sandbox import Sandbox
with ThreadPoolExecutor() as pool:
    sandboxes = list(pool.map(lambda _: Sandbox.create(), range(int(sys.argv[1]))))
told = [{"folder": str(s.folder), "server": s.server, "pids": s.pids} for s in sandboxes]
print(json.dumps(told), flush=True)
sys.stdin.read()
"""


def test_killing_the_starter_leaves_no_process_and_no_folder(
    own_folders: Path, lives: Lives, eventually: Eventually
) -> None:
    with _starter(2) as (starter, sandboxes):
        assert len({told["server"] for told in sandboxes}) == 2
        pids = [pid for told in sandboxes for pid in told["pids"].values()]
        assert len(pids) == 8
        assert all(map(lives, pids))
        starter.kill()
    eventually(lambda: not any(map(lives, pids)))
    assert not list((own_folders / "TMPDIR").iterdir())


def test_killing_the_supervisor_ends_its_components_and_the_next_sweep_removes_its_folder(
    own_folders: Path, lives: Lives, eventually: Eventually
) -> None:
    with _starter(1) as (_, [told]):
        os.kill(told["pids"]["supervisor"], signal.SIGKILL)
        eventually(lambda: not any(map(lives, told["pids"].values())))
        assert Path(told["folder"]).exists()
        subprocess.run([sys.executable, "-c", "from syncline.sandbox import state; state.sweep()"], check=True)
        assert not list((own_folders / "TMPDIR").iterdir())


def test_a_component_can_be_killed_and_started_again_and_frozen(sandbox_factory: SandboxFactory) -> None:
    sandbox = sandbox_factory()
    path = "/api/v1/namespaces/default/configmaps"
    sandbox.request("POST", path, {"metadata": {"name": "kept"}})

    sandbox.kill(versions.APISERVER)
    with pytest.raises(ConnectionRefusedError):
        sandbox.request("GET", path)
    with pytest.raises(SandboxError, match="kube-apiserver is not running"):
        sandbox.pause(versions.APISERVER)
    sandbox.start(versions.APISERVER)
    assert sandbox.request("GET", f"{path}/kept")["metadata"]["name"] == "kept"

    sandbox.kill(versions.ETCD)
    sandbox.start(versions.ETCD)
    assert sandbox.request("GET", f"{path}/kept")["metadata"]["name"] == "kept"

    sandbox.pause(versions.APISERVER)
    with pytest.raises(TimeoutError):
        sandbox.request("GET", "/version", timeout=0.3)
    sandbox.resume(versions.APISERVER)
    assert sandbox.request("GET", "/version")["major"] == "1"

    with pytest.raises(SandboxError, match="'kubelet' is not a component"):
        sandbox.start("kubelet")


def test_a_component_that_ends_by_itself_ends_its_sandbox_which_says_so(
    sandbox_factory: SandboxFactory, lives: Lives, eventually: Eventually
) -> None:
    sandbox = sandbox_factory()
    pids = sandbox.pids
    os.kill(pids[versions.CONTROLLER_MANAGER], signal.SIGKILL)
    eventually(lambda: sandbox.failure is not None)
    assert sandbox.failure is not None
    assert sandbox.failure.startswith("kube-controller-manager was killed by signal 9; its log ends:\n")
    assert not any(lives(pids[component]) for component in versions.COMPONENTS)
    with pytest.raises(SandboxError, match="kube-controller-manager was killed by signal 9"):
        sandbox.kill(versions.ETCD)
    sandbox.stop()
    assert not sandbox.folder.exists()


def test_a_binary_that_cannot_run_is_named(own_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for component in versions.COMPONENTS:
        (tmp_path / component).write_text("not a program", encoding="utf-8")
        (tmp_path / component).chmod(0o755)
    monkeypatch.setenv("SYNCLINE_SANDBOX_BIN", str(tmp_path))
    with pytest.raises(SandboxError, match=r"cannot run .*/etcd: Exec format error"):
        Sandbox.create()
    assert not list((own_folders / "TMPDIR").iterdir())


def test_a_sweep_leaves_running_sandboxes_alone(sandbox: Sandbox) -> None:
    state.sweep()
    assert sandbox.request("GET", "/version")["major"] == "1"
    with pytest.raises(RequestError):
        sandbox.request("GET", "/no-such-path")


@contextmanager
def _starter(count: int) -> Iterator[tuple[subprocess.Popen[str], list[dict[str, Any]]]]:
    command = [sys.executable, "-c", STARTER, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()
