"""The operator as a process, with its ServiceAccount and the shipped roles."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

from syncline import deploy
from syncline.api.common import API_VERSION
from syncline.api.kinds import ALL_KINDS
from syncline.core.profiles import DEFAULT, Profile, known
from syncline.sandbox import RequestError, Sandbox
from syncline.sandbox.processes import die_with_parent

READY_SECONDS = 180.0
POLL = 0.05
ENDPOINTS = ("health", "metrics", "webhooks", "depot", "admission")


def chosen_profile() -> Profile:
    """Return the profile of rights in SYNCLINE_TEST_RIGHTS, or the shipped one."""
    return known(os.environ.get("SYNCLINE_TEST_RIGHTS", "")) or DEFAULT


def install(sandbox: Sandbox, profile: Profile | None = None) -> Path:
    """Install all but the Deployment, and return a kubeconfig for the operator's own ServiceAccount."""
    for manifest in deploy.everything(choice=deploy.Choice(profile=profile or chosen_profile())):
        if manifest["kind"] != "Deployment":
            metadata = manifest["metadata"]
            path = deploy.resource(manifest).path(metadata.get("namespace"), metadata["name"])
            sandbox.request("PATCH", f"{path}?fieldManager=install&force=true", manifest)
    _wait(lambda: _installed(sandbox), "the CRDs to be served and the roles to be aggregated")
    token = sandbox.service_account_token(deploy.NAMESPACE, deploy.SERVICE_ACCOUNT, seconds=86400)
    return sandbox.kubeconfig_for(token, "operator")


class StartedProgram(Protocol):
    """A process, with the interface of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """The process."""

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code; raise subprocess.TimeoutExpired when it takes longer."""

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""

    def kill(self) -> None:
        """Send SIGKILL."""


Launch = Callable[[Sequence[str], Path], StartedProgram]
"""Starts `syncline` with these arguments, and has it write to this file."""


def execute(arguments: Sequence[str], log: Path, *, runner: Sequence[str] = ()) -> StartedProgram:
    """Start `syncline` in a new interpreter; the kernel kills it with this process.

    `runner`: what goes before the command, to run it in an environment of its own.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [*runner, sys.executable, "-m", "syncline", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - it only calls prctl
        )


class OperatorProcess:
    """A running `syncline run`. Ends with `stop()` or the `with` block; `kill()` is a crash."""

    launch: ClassVar[Launch] = staticmethod(execute)
    """How operators are started by default."""

    def __init__(
        self,
        kubeconfig: Path,
        *flags: str,
        wait: bool = True,
        secure_metrics: bool = False,
        launch: Launch | None = None,
    ) -> None:
        """`launch`: how to start this one."""
        # Next to the kubeconfig of a sandbox: that folder goes away even when this process is killed.
        self._log = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed by stop
            prefix="syncline-operator-", suffix=".log", dir=kubeconfig.parent
        )
        self.log_file = Path(self._log.name)
        self._addresses: dict[str, str] = {}
        arguments = [
            *("run", "--kubeconfig", str(kubeconfig)),
            *("--health-bind", "127.0.0.1:0", "--metrics-bind", "127.0.0.1:0", "--log-format", "json"),
            *(() if secure_metrics else ("--allow-insecure-metrics",)),
            *flags,
        ]
        self._process = (launch or type(self).launch)(arguments, self.log_file)
        if wait:
            try:
                _wait(self.is_ready, "the operator to be ready", self._explain)
            except BaseException:
                self.stop()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, or None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """All that it has written."""
        return self.log_file.read_text(encoding="utf-8")

    def events(self) -> list[dict[str, Any]]:
        """All log lines, parsed."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{") and line.endswith("}")]

    def address(self, endpoint: str) -> str | None:
        """Where `health`, `metrics`, `webhooks` or the `depot` is served, once it is."""
        if not self._addresses:
            serving = next((event for event in self.events() if event.get("event") == "serving"), {})
            self._addresses = {name: str(serving[name]) for name in ENDPOINTS if name in serving}
        return self._addresses.get(endpoint)

    def get(self, endpoint: str, path: str) -> tuple[int, str]:
        """GET a path of `health` or `metrics`; status 0 while nothing answers."""
        address = self.address(endpoint)
        if address is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def is_ready(self) -> bool:
        """Whether /readyz says so."""
        return self.get("health", "/readyz")[0] == 200  # noqa: PLR2004 - HTTP's OK

    def stop(self, seconds: float = 120.0) -> int:
        """End it as Kubernetes would: SIGTERM, and SIGKILL after a while. Returns its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        with contextlib.suppress(FileNotFoundError):
            self._log.close()
        return code

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Freeze it, and return when all its threads are stopped."""
        self._process.send_signal(signal.SIGSTOP)
        _wait(lambda: self.returncode is not None or _is_stopped(self.pid), "the operator to be frozen")

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def _explain(self) -> str:
        if self._process.poll() is not None:
            raise RuntimeError(f"the operator ended with {self.returncode}:\n{self.log()[-2000:]}")
        return self.log()[-2000:]


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        states = [
            path.read_text(encoding="utf-8").rpartition(")")[2] for path in Path("/proc").glob(f"{pid}/task/*/stat")
        ]
        return all(state.split()[0] == "T" for state in states)
    return False


def _installed(sandbox: Sandbox) -> bool:
    try:
        for kind in ALL_KINDS:
            sandbox.request("GET", f"/apis/{API_VERSION}/{kind.plural}")
        role = sandbox.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/syncline")
    except RequestError:
        return False
    return bool(role.get("rules"))


def _wait(check: Callable[[], bool], what: str, explain: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not check():
        explanation = explain()
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {READY_SECONDS:.0f} s for {what}\n{explanation}")
        time.sleep(POLL)
