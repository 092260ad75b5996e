"""The process that is the parent of a sandbox's components, and the reason why they never outlive their sandbox.

It is started by `syncline.sandbox.cluster` with two file descriptors: the lock of the sandbox's folder, held until it
exits, and a line to its starter, over which it is told what to do. When the line ends, because the starter has closed
it or has died in whatever way, the supervisor stops all components and removes the folder. A starter that sends
`detach` lets the sandbox live on, until a SIGTERM. Should the supervisor itself be killed, the kernel kills its
components (on Linux) and the next sweep removes the folder.

A component that ends by itself ends its sandbox: half a control plane would only mislead. What happened is kept in the
folder's state and is told to whoever asks next.
"""

import contextlib
import ctypes
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from syncline.sandbox import components, kubeconfig, pins, pki, state
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.line import Charge, Line, Order, Report
from syncline.sandbox.requests import Requests

READY_SECONDS = 60.0
_POLL_SECONDS = 0.02
_LOG_LINES = 15
_PR_SET_PDEATHSIG = 1


class Stopped(Exception):  # noqa: N818 - not an error: it ends the supervisor's story
    """The sandbox is no longer wanted."""


class ControlPlane:
    """The components of one sandbox, as processes."""

    def __init__(self, folder: Path, charge: Charge, wanted: Callable[[], None]) -> None:
        self._folder = folder
        self._wanted = wanted
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._reservation = _reserve_port(charge.options.port)
        port = self._reservation.getsockname()[1]
        self.server = f"https://127.0.0.1:{port}"
        self._commands = components.commands(charge.binaries, charge.options, port)
        self._authority = pki.Authority.create()
        self._token = secrets.token_urlsafe(32)

    @property
    def pids(self) -> dict[str, int]:
        """The process of each running component."""
        return {component: process.pid for component, process in self._running.items()}

    def start_all(self, options: state.Options, name: str) -> None:
        """Start everything and return once the cluster can be used."""
        self._launch(pins.ETCD)
        self._write_files(options, name)
        self._until(self._etcd_listens, pins.ETCD)
        self._launch(pins.APISERVER)
        self._until(self._answering("/livez/ping"), pins.APISERVER)
        self._launch(pins.CONTROLLER_MANAGER)
        self._until(self._answering("/readyz"), pins.APISERVER)
        self._until(self._answering("/api/v1/namespaces/default/serviceaccounts/default"), pins.CONTROLLER_MANAGER)

    def start(self, component: str) -> None:
        """Start a component that was killed, on its old port and data, and return once it serves."""
        if component in self._running:
            raise SandboxError(f"{component} is running already")
        self._launch(component)
        if component == pins.ETCD:
            self._until(self._etcd_listens, component)
        elif component == pins.APISERVER:
            self._until(self._answering("/readyz"), component)

    def kill(self, component: str) -> None:
        """End a component as a crash would."""
        process = self._process(component)
        del self._running[component]
        process.kill()
        process.wait()

    def signal(self, component: str, number: signal.Signals) -> None:
        """Send a signal to a component."""
        self._process(component).send_signal(number)

    def stop(self) -> None:
        """End all components at once; their data goes with the folder, so there is nothing to finish."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        self._reservation.close()

    def check(self) -> None:
        """Raise SandboxError when a component has ended by itself."""
        for component, process in self._running.items():
            if process.poll() is not None:
                raise SandboxError(f"{component} {_ending(process.returncode)}; {self._log_tail(component)}")

    def _launch(self, component: str) -> None:
        with (self._folder / f"{component}.log").open("ab") as log:
            self._running[component] = subprocess.Popen(
                self._commands[component],
                cwd=self._folder,
                env={name: value for name, value in os.environ.items() if not name.startswith("ETCD_")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - this process has one thread
            )

    def _write_files(self, options: state.Options, name: str) -> None:
        certificate, key = self._authority.serving()
        files = {
            "ca.crt": self._authority.certificate,
            "ca.key": self._authority.key,
            "serving.crt": certificate,
            "serving.key": key,
            "service-accounts.key": pki.signing_key(),
            "tokens.csv": f"{self._token},admin,admin,system:masters\n".encode(),
            "token": self._token.encode(),
        }
        for file, content in files.items():
            kubeconfig.write_private(self._folder / file, content)
        if options.audit_log:
            components.write_audit_policy(self._folder)
        kubeconfig.write(
            self._folder / "kubeconfig",
            server=self.server,
            authority=self._authority.certificate.decode(),
            user=kubeconfig.token_user(self._token),
            name=name,
        )

    def _etcd_listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(components.ETCD_SOCKET)
            except OSError:
                return False
        return True

    def _answering(self, path: str) -> Callable[[], bool]:
        requests = Requests(self.server, self._authority.certificate.decode(), self._token)
        return lambda: requests.answers(path)

    def _until(self, condition: Callable[[], bool], component: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            self._wanted()
            self.check()
            if time.monotonic() > deadline:
                raise SandboxError(f"{component} is not ready after {READY_SECONDS:g} s; {self._log_tail(component)}")
            time.sleep(_POLL_SECONDS)

    def _process(self, component: str) -> subprocess.Popen[bytes]:
        try:
            return self._running[component]
        except KeyError:
            raise SandboxError(f"{component} is not running") from None

    def _log_tail(self, component: str) -> str:
        path = self._folder / f"{component}.log"
        with contextlib.suppress(OSError):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
            if lines:
                return "its log ends:\n" + "\n".join(f"  {line[:400]}" for line in lines)
        return "its log is empty"


class Supervisor:
    """Serves one sandbox from its start to its end."""

    def __init__(self, folder: Path, line: Line, starter: int | None) -> None:
        self._folder = folder
        self._line: Line | None = line
        self._starter = starter
        self._terminated = False
        # Signals and ended children wake the wait for orders.
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        self._waker = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._terminate)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def run(self, charge: Charge) -> None:
        """Start the sandbox, serve it, stop it."""
        options = charge.options
        now = state.State(phase="starting", supervisor=os.getpid(), options=options)
        now.save(self._folder)
        plane: ControlPlane | None = None
        try:
            plane = ControlPlane(self._folder, charge, self._check_wanted)
            plane.start_all(options, charge.name)
            now = msgspec.structs.replace(now, phase="ready", server=plane.server, pids=plane.pids)
            now.save(self._folder)
            self._report(Report(pids=plane.pids))
            self._serve(plane, now)
        except Stopped:
            pass
        except SandboxError as error:
            if plane is not None:
                plane.stop()
            now = msgspec.structs.replace(now, phase="failed", pids={}, failure=str(error))
            now.save(self._folder)
            if self._mourn(str(error)):
                return
        finally:
            if plane is not None:
                plane.stop()
        state.remove(self._folder)

    def _serve(self, plane: ControlPlane, now: state.State) -> None:
        while True:
            order = self._next_order(plane.check)
            if order.do == "detach":
                self._report(Report(pids=plane.pids))
                self._line = None
                continue
            try:
                self._obey(plane, order)
            except SandboxError as error:
                plane.check()
                self._report(Report(error=str(error)))
            else:
                msgspec.structs.replace(now, pids=plane.pids).save(self._folder)
                self._report(Report(pids=plane.pids))

    def _obey(self, plane: ControlPlane, order: Order) -> None:
        match order.do:
            case "start":
                plane.start(order.component)
            case "kill":
                plane.kill(order.component)
            case "pause":
                plane.signal(order.component, signal.SIGSTOP)
            case "resume":
                plane.signal(order.component, signal.SIGCONT)

    def _next_order(self, check: Callable[[], None]) -> Order:
        """Wait for an order; `check` is called whenever a component may have ended."""
        while True:
            self._check_wanted()
            check()
            line = self._line
            waiting = [self._wake.fileno(), *([line.fileno()] if line else [])]
            # A process that the starter has forked may keep the line open: then only the clock brings the news.
            ready, _, _ = select.select(waiting, [], [], 1.0 if line else None)
            with contextlib.suppress(BlockingIOError):
                self._wake.recv(4096)
            if line is not None and line.fileno() in ready:
                order = line.receive(Order)
                if order is None:
                    raise Stopped
                return order

    def _mourn(self, failure: str) -> bool:
        """Tell the starter of a failure while it is there; True when the folder must stay to tell of it later."""
        if self._line is None:
            return True
        with contextlib.suppress(Stopped):
            while True:
                self._report(Report(error=failure))
                self._next_order(lambda: None)
        return False

    def _check_wanted(self) -> None:
        orphaned = self._starter is not None and os.getppid() != self._starter
        if self._terminated or orphaned or (self._line is not None and self._line.ended()):
            raise Stopped

    def _report(self, report: Report) -> None:
        if self._line is not None:
            try:
                self._line.send(report)
            except OSError:
                raise Stopped from None

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._terminated = True


def main() -> NoReturn:
    """Run as `python -m syncline.sandbox.supervisor FOLDER LINE_FD LOCK_FD`; being open is all the lock needs."""
    starter = os.getppid()
    folder, line = Path(sys.argv[1]), Line(socket.socket(fileno=int(sys.argv[2])))
    charge = line.receive(Charge)
    if charge is None:
        state.remove(folder)
        sys.exit(1)
    if charge.detachable and os.fork():
        # The starter waits for this process, not for the one that stays: it will have no zombie to reap.
        os._exit(0)
    os.chdir(folder)
    Supervisor(folder, line, None if charge.detachable else starter).run(charge)
    sys.exit(0)


def _reserve_port(port: int) -> socket.socket:
    """Bind a loopback port without listening; the API server shares it, and nobody else gets it while we live."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reservation.bind(("127.0.0.1", port))
    except OSError as error:
        reservation.close()
        raise SandboxError(f"port {port} of 127.0.0.1 cannot be had: {error.strerror}") from error
    return reservation


def _die_with_parent() -> Callable[[], None] | None:
    """Make what a child does first, so that it is killed when this process ends; None where the system cannot."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def arrange() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"exited with {code}"


if __name__ == "__main__":
    main()
