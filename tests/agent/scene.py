"""An agent as a process, with its folder, its depot and its gateway."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.agent.depot import PlanDepot
from tests.files.scene import tree

from syncline.core.gateway_plan import GatewayReport, IgnitionApply, PlannedApply
from syncline.sandbox.processes import die_with_parent
from syncline.testing.gateway import GatewayDouble

SECONDS = 180
POLL = 0.02


def until(check: Callable[[], object], explain: Callable[[], object] = lambda: "") -> None:
    """Wait until a check holds."""
    deadline = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < deadline, explain()
        time.sleep(POLL)


class AgentProgram:
    """A running `syncline agent`. Ends with `stop()`; `kill()` is a crash."""

    def __init__(self, folder: Path, gateway: GatewayDouble | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(exist_ok=True)
        self.gateway = gateway
        (folder / "key").write_text(f"{gateway.api_key}\n" if gateway is not None else "")
        self.log_file = folder / "agent.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._written = 0

    def environment(self) -> dict[str, str]:
        return {
            "SYNCLINE_DATA": str(self.data),
            "SYNCLINE_API_KEY_FILE": str(self.folder / "key"),
            "SYNCLINE_HEALTH_BIND": "127.0.0.1:0",
            "SYNCLINE_LOG_FORMAT": "json",
            **({"SYNCLINE_GATEWAY_URL": self.gateway.url} if self.gateway is not None else {}),
        }

    def start(
        self,
        *flags: str,
        runner: Sequence[str] = ("-m", "syncline"),
        env: Mapping[str, str] | None = None,
    ) -> Self:
        self._written = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *runner, "agent", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment(), **(env or {})},
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it only calls prctl
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait(self, seconds: float = SECONDS) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        """What this start has written."""
        return self.log_file.read_bytes()[self._written :].decode()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{") and line.endswith("}")]

    def probe(self, path: str) -> tuple[int, str]:
        """Ask a probe; status 0 while nothing answers."""
        addresses = [event["health"] for event in self.events() if "health" in event]
        if not addresses:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://{addresses[-1]}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def files(self) -> dict[str, str]:
        return tree(self.data)


class AgentProcess(AgentProgram):
    """An agent with a depot of the test."""

    def __init__(self, folder: Path, depot: PlanDepot, gateway: GatewayDouble | None = None) -> None:
        super().__init__(folder, gateway)
        self.depot = depot
        (folder / "token").write_text(depot.token)
        (folder / "ca.crt").write_text(depot.ca)

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "SYNCLINE_DEPOT_URL": self.depot.url,
            "SYNCLINE_CA_FILE": str(self.folder / "ca.crt"),
            "SYNCLINE_TOKEN_FILE": str(self.folder / "token"),
        }

    def until_reported(self, check: Callable[[GatewayReport], object]) -> GatewayReport:
        """Wait for a report, and return it."""
        until(
            lambda: self.depot.reports and check(self.depot.last),
            lambda: f"the last report is {self.depot.reports[-1:]}\n{self.log()[-3000:]}",
        )
        return self.depot.last

    def until_synced(self, plan_id: str) -> GatewayReport:
        return self.until_reported(lambda report: report.plan == plan_id and report.state == "Synced")

    def until_reason(self, reason: str) -> GatewayReport:
        return self.until_reported(lambda report: report.reason == reason)


def ignition(**options: Any) -> dict[str, Any]:
    """Return the fields of a plan for an Ignition gateway."""
    return {"apply": PlannedApply(ignition=IgnitionApply(**options))}
