"""The processes of the stage: a control plane, a proxy before it, a Git server, and the operator, once or twice."""

import contextlib
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.acting import account_of_tests, empower
from tests.churn.api import Admin, Json
from tests.churn.lag import Lag
from tests.churn.names import HOME, LODGE

from syncline import deploy
from syncline.sandbox import Options, Sandbox
from syncline.testing.audit import OPERATOR
from syncline.testing.faults import Fault
from syncline.testing.gitserver import GitServer
from syncline.testing.operator import OperatorProcess, install
from syncline.testing.proxy import FaultProxy

_ALL = ["get", "list", "watch", "create", "patch", "update", "delete"]
_RIGHTS = [
    {"apiGroups": [""], "resources": ["services"], "verbs": _ALL},
    {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": _ALL},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": _ALL},
]
REPOSITORY = "churn"
_STOPPING = 40.0


@dataclass(frozen=True)
class Write:
    """A request of the operator that could have changed something, from the audit log."""

    at: float
    verb: str
    what: str
    namespace: str
    name: str
    code: int

    def __str__(self) -> str:
        return f"{self.verb} {self.what} {self.namespace}/{self.name}: {self.code}"


class World:
    """All processes, for as long as the `with` block lasts."""

    def __init__(self, folder: Path, *, replicas: int = 1, far: bool = False) -> None:
        self.folder = folder
        self.operators: list[OperatorProcess | None] = [None] * replicas
        self.starts: list[float] = []
        """When an operator was started, on the clock of the audit log."""
        self.ended: list[str] = []
        """Operators that ended by themselves."""
        self.lag = Lag()
        self.far: Sandbox | None = None
        """A second cluster, if there is one."""
        self.far_admin: Admin | None = None
        self._wants_far = far
        self._logs = 0
        # An operator ends with the thread that started it, so one thread starts all of them.
        self._starter = ThreadPoolExecutor(1, "starter")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.sandbox = stack.enter_context(Sandbox.create(Options(audit_log=True)))
            self.admin = Admin(self.sandbox)
            stack.callback(self.admin.close)
            self.audit = stack.enter_context(Audit(self.sandbox))
            self.git = stack.enter_context(GitServer())
            if self._wants_far:
                self.far = stack.enter_context(Sandbox.create())
                self.far_admin = Admin(self.far)
                stack.callback(self.far_admin.close)
            kubeconfig = install(self.sandbox)
            self._grant()
            if account := account_of_tests():
                for namespace in (HOME, LODGE):
                    empower(self.sandbox, namespace, account)
            self.proxy = stack.enter_context(FaultProxy(self.sandbox))
            self.proxy.inject(Fault(events=self.lag.edit), when=lambda asked: asked.verb == "watch")
            self._kubeconfig = self.proxy.kubeconfig(kubeconfig)
            stack.callback(self._starter.shutdown)
            stack.callback(self._end_operators)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start_operator(self, number: int, *, wait: bool = False) -> None:
        """Start one replica."""
        flags = ["--allow-loopback", "--min-interval", "1s", "--git-cache", str(self.sandbox.folder / f"git-{number}")]
        flags += ["--leader-elect"] if len(self.operators) > 1 else []
        self.starts.append(time.time())
        started = self._starter.submit(OperatorProcess, self._kubeconfig, *flags, wait=wait)
        self.operators[number] = started.result()

    def kill_operator(self, number: int) -> None:
        """End one replica as a crash would."""
        operator = self.operators[number]
        if operator is not None:
            operator.kill()
            self._keep_log(operator)
            with contextlib.suppress(Exception):
                operator.stop()
        self.operators[number] = None

    def stop_operator(self, number: int) -> None:
        """End one replica as Kubernetes would, and tell if it did not end well."""
        operator = self.operators[number]
        if operator is None or operator.returncode is not None:
            return
        os.kill(operator.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOPPING
        while operator.returncode is None and time.monotonic() < deadline:
            time.sleep(0.05)
        # Before it has begun there is nothing to end in order, and the signal itself ends it.
        begun = '"event": "started"' in operator.log()
        if operator.returncode != 0 and (begun or operator.returncode != -signal.SIGTERM):
            self.ended.append(f"operator {number} was stopped and ended with {operator.returncode}")
        self.kill_operator(number)

    def mend(self) -> None:
        """Have everything run that should; an operator that ended by itself is told of."""
        if self.far is not None:
            self.far.resume("kube-apiserver")
        running = self.sandbox.pids
        for component in ("etcd", "kube-apiserver", "kube-controller-manager"):
            if component not in running:
                self.sandbox.start(component)
            self.sandbox.resume(component)
        for number, operator in enumerate(self.operators):
            if operator is not None and operator.returncode is not None:
                self.ended.append(
                    f"operator {number} ended by itself with {operator.returncode}: {operator.log()[-1500:]}"
                )
                self.kill_operator(number)
            elif operator is not None:
                operator.resume()
            if self.operators[number] is None:
                self.start_operator(number)

    def logs(self) -> Iterator[tuple[str, str]]:
        """Yield the logs of all operators, gone ones first."""
        for path in sorted((self.folder / "logs").glob("*.log")):
            yield path.name, path.read_text(encoding="utf-8", errors="replace")
        for number, operator in enumerate(self.operators):
            if operator is not None:
                yield f"running-{number}", operator.log()

    def memory(self) -> list[int]:
        """Return the MiB of each operator."""
        sizes = []
        for operator in self.operators:
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{operator.pid}/status").read_text(encoding="ascii") if operator else ""
                sizes += [int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmRSS")]
        return sizes

    def watches(self) -> int:
        """Return how many watches are open."""
        return len(self.proxy._watches)

    def _keep_log(self, operator: OperatorProcess) -> None:
        self._logs += 1
        target = self.folder / "logs" / f"{self._logs:04}.log"
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            target.write_text(operator.log(), encoding="utf-8")

    def _end_operators(self) -> None:
        for operator in self.operators:
            if operator is not None:
                operator.resume()
                self._keep_log(operator)
                operator.stop()

    def _grant(self) -> None:
        role: Json = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "churn-kinds", "labels": {deploy.names.AGGREGATE_LABEL: "true"}},
            "rules": _RIGHTS,
        }
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        self.admin.send("POST", roles, role)
        while _RIGHTS[0] not in ((self.admin.get(f"{roles}/syncline") or {}).get("rules") or []):
            time.sleep(0.05)


class Audit:
    """Follows the audit log, and holds the operator's writes of the last while."""

    def __init__(self, sandbox: Sandbox) -> None:
        assert sandbox.audit_log is not None
        self.file = sandbox.audit_log
        self.writes: deque[Write] = deque(maxlen=400_000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="audit", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def since(self, at: float) -> list[Write]:
        """Return the writes since a time, leases and events aside."""
        found = []
        for write in reversed(tuple(self.writes)):
            if write.at < at:
                break
            if not write.what.startswith(("leases", "events")):
                found.append(write)
        return found[::-1]

    def _follow(self) -> None:
        while not self.file.exists() and not self._stop.wait(0.1):
            pass
        rest = b""
        with self.file.open("rb") as file:
            while not self._stop.wait(0.2):
                while chunk := file.read(1 << 20):
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._take(line)

    def _take(self, line: bytes) -> None:
        if (
            b'"verb":"watch"' in line
            or b'"verb":"get"' in line
            or b'"verb":"list"' in line
            or OPERATOR.encode() not in line
        ):
            return
        event = json.loads(line)
        if event["stage"] != "ResponseComplete" or event["user"].get("username") != OPERATOR:
            return
        about = event.get("objectRef") or {}
        what = "/".join(filter(None, (about.get("resource", ""), about.get("subresource", ""))))
        code = (event.get("responseStatus") or {}).get("code", 0)
        self.writes.append(
            Write(time.time(), event["verb"], what, about.get("namespace", ""), about.get("name", ""), code)
        )
