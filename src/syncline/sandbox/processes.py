"""The components of one sandbox as child processes: started in order, supervised, killed, restarted."""

import contextlib
import ctypes
import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from syncline.sandbox import components, kubeconfig, pki, versions
from syncline.sandbox.control_channel import StartRequest
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.requests import Requests

READY_SECONDS = 120.0
KCP_READY_SECONDS = 240.0
"""kcp makes its root workspace first, with half a minute of CPU."""
_ROOT = "/clusters/root"
_POLL_SECONDS = 0.02
_LOG_LINES = 15
_PR_SET_PDEATHSIG = 1


def freeze(process: "subprocess.Popen[bytes]") -> None:
    """Freeze a process, and return when all its threads are stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class ControlPlane:
    """The components of one sandbox, as processes."""

    def __init__(self, folder: Path, request: StartRequest, wanted: Callable[[], None]) -> None:
        self._folder = folder
        self._wanted = wanted
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._reservation = _reserve_port(request.options.port)
        port = self._reservation.getsockname()[1]
        self._address = f"https://127.0.0.1:{port}"
        self.server = self._address + _ROOT if request.options.kcp else self._address
        self._charge = request
        self._commands = components.commands(request.binaries, request.options, port)
        self._authority = pki.Authority.create()
        self._token = secrets.token_urlsafe(32)

    @property
    def pids(self) -> dict[str, int]:
        """The process of each running component."""
        return {component: process.pid for component, process in self._running.items()}

    def start_all(self) -> None:
        """Start all components, and return when the cluster is ready."""
        self._launch(versions.ETCD)
        self._write_files()
        self._until(self._etcd_listens, versions.ETCD)
        if self._charge.options.kcp:
            self._start_kcp()
        else:
            self._start_cluster()

    def _start_cluster(self) -> None:
        self._launch(versions.APISERVER)
        # The controller manager exits when the API server is not healthy 10 seconds after its own start, which happens
        # on a busy machine.
        for path in ("/readyz", "/healthz"):
            self._until(self._answering(path), versions.APISERVER)
        self._launch(versions.CONTROLLER_MANAGER)
        self._until(self._answering("/api/v1/namespaces/default/serviceaccounts/default"), versions.CONTROLLER_MANAGER)

    def _start_kcp(self) -> None:
        self._launch(versions.KCP)
        self._until(self._answering("/readyz"), versions.KCP)
        # What a workspace is made from comes after kcp says that it is ready.
        for path in ("/apis/tenancy.kcp.io/v1alpha1/workspacetypes/universal", "/api/v1/namespaces/default"):
            self._until(self._answering(_ROOT + path), versions.KCP)

    def start(self, component: str) -> None:
        """Start a killed component with its old port and data, and return when it is ready.

        The controller manager has no readiness endpoint: for it this returns when it runs.
        """
        if component in self._running:
            raise SandboxError(f"{component} is running already")
        self._launch(component)
        if component == versions.ETCD:
            self._until(self._etcd_serves, component)
        elif component in (versions.APISERVER, versions.KCP):
            self._until(self._answering("/readyz"), component)

    def kill(self, component: str) -> None:
        """Kill a component, like a crash."""
        process = self._process(component)
        del self._running[component]
        process.kill()
        process.wait()

    def pause(self, component: str) -> None:
        """Freeze a component."""
        freeze(self._process(component))

    def resume(self, component: str) -> None:
        """Resume a frozen component."""
        self._process(component).send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill all components. Their data is deleted with the folder, so no shutdown is needed."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        self._reservation.close()

    def check(self) -> None:
        """Raise SandboxError if a component has ended by itself."""
        for component, process in self._running.items():
            if process.poll() is not None:
                raise SandboxError(f"{component} {_ending(process.returncode)}; {self._log_tail(component)}")

    def _launch(self, component: str) -> None:
        if component not in self._commands:
            raise SandboxError(f"{component!r} is not a component: there are {', '.join(self._commands)}")
        command = self._commands[component]
        with (self._folder / f"{component}.log").open("ab") as log:
            try:
                self._running[component] = subprocess.Popen(
                    command,
                    cwd=self._folder,
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent(),  # noqa: PLW1509 - this process has one thread
                )
            except OSError as error:
                raise SandboxError(f"cannot run {command[0]}: {error.strerror}") from error

    def _write_files(self) -> None:
        controller_token = secrets.token_urlsafe(32)
        tokens = (
            f"{self._token},kcp-admin,kcp-admin,system:kcp:admin\n"
            if self._charge.options.kcp
            else f"{self._token},admin,admin,system:masters\n"
            # With its own name, so that its requests can be recognized in an audit log.
            f"{controller_token},system:kube-controller-manager,controller-manager,system:masters\n"
        )
        certificate, key = self._authority.serving()
        files = {
            "ca.crt": self._authority.certificate,
            "ca.key": self._authority.key,
            "serving.crt": certificate,
            "serving.key": key,
            "service-accounts.key": pki.signing_key(),
            "tokens.csv": tokens.encode(),
            "token": self._token.encode(),
        }
        for file, content in files.items():
            kubeconfig.write_private(self._folder / file, content)
        if self._charge.options.audit_log:
            components.write_audit_policy(self._folder)
        users = {"kubeconfig": self._token}
        if not self._charge.options.kcp:
            users[components.CONTROLLER_KUBECONFIG] = controller_token
        for file, token in users.items():
            kubeconfig.write(
                self._folder / file,
                server=self.server,
                authority=self._authority.certificate.decode(),
                user=kubeconfig.token_user(token),
                name=self._charge.name,
            )

    def _etcd_listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(components.ETCD_SOCKET)
            except OSError:
                return False
        return True

    def _etcd_serves(self) -> bool:
        connection = http.client.HTTPConnection("localhost", timeout=2.0)
        with socket.socket(socket.AF_UNIX) as connection.sock:
            connection.sock.settimeout(2.0)
            try:
                connection.sock.connect(components.ETCD_SOCKET)
                connection.request("GET", "/health")
                return connection.getresponse().status == http.client.OK
            except (OSError, http.client.HTTPException):
                return False

    def _answering(self, path: str) -> Callable[[], bool]:
        requests = Requests(self._address, self._authority.certificate.decode(), self._token)
        return lambda: requests.answers(path)

    def _until(self, condition: Callable[[], bool], component: str) -> None:
        seconds = KCP_READY_SECONDS if component == versions.KCP else READY_SECONDS
        deadline = time.monotonic() + seconds
        while not condition():
            self._wanted()
            self.check()
            if time.monotonic() > deadline:
                raise SandboxError(f"{component} is not ready after {seconds:g} s; {self._log_tail(component)}")
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


def _reserve_port(port: int) -> socket.socket:
    """Bind a loopback port without listening. The API server shares it, and no other process gets it."""
    if port not in range(1 << 16):
        raise SandboxError(f"{port} is not a port: use 1 to 65535, or 0 for a free one")
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reservation.bind(("127.0.0.1", port))
    except OSError as error:
        reservation.close()
        raise SandboxError(f"port {port} of 127.0.0.1 cannot be had: {error.strerror}") from error
    return reservation


def die_with_parent() -> Callable[[], None] | None:
    """Return the first function of a child, so that the kernel kills it with this process; None if not supported."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def arrange() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def _environment() -> dict[str, str]:
    """Return the environment of a component, without settings of etcd from our environment."""
    # Their heaps are small and they run for a short time: half the garbage collections save a tenth of their CPU.
    return {"GOGC": "200", **{name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}}


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
