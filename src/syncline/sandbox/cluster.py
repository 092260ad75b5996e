"""A sandbox as its user holds it: start, use, break, stop."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec

from syncline.sandbox import binaries, kubeconfig, locks, pki, state
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.line import Charge, Line, Order, Report
from syncline.sandbox.requests import Requests
from syncline.sandbox.state import Options

_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02


class Sandbox:
    """A running control plane.

    `Sandbox.create()` makes one that ends with this process, at the latest; `Sandbox.up(name)` one that stays until
    `stop()` or `syncline sandbox down`; `Sandbox.attach(name)` takes up one that is there.
    """

    def __init__(self, folder: Path, now: state.State, link: "_Link | None" = None) -> None:
        self.folder = folder
        self.server = now.server
        self.options = now.options
        self.kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit.log" if now.options.audit_log else None
        self.ca = (folder / "ca.crt").read_text(encoding="ascii")
        self.token = (folder / "token").read_text(encoding="ascii")
        self._link = link

    @classmethod
    def create(cls, options: Options | None = None) -> Self:
        """Start a sandbox that goes away with this process, however this process ends."""
        state.sweep()
        found = binaries.find()
        folder, lock = state.new_ephemeral()
        link = _launch(folder, lock, Charge("sandbox", found, options or Options(), detachable=False))
        return cls(folder, _ready(folder), link)

    @classmethod
    def up(cls, name: str, options: Options | None = None) -> Self:
        """Start a sandbox that stays until it is stopped; when it is up already, take it up."""
        wanted = options or Options()
        folder = state.named_folder(name)
        state.sweep()
        if not _is_up(folder):
            found = binaries.find()
            lock = _take(folder)
            if lock is not None:
                state.clear(folder)
                link = _launch(folder, lock, Charge(name, found, wanted, detachable=True))
                link.send(Order("detach"))
                link.close()
        now = _ready(folder)
        if now.options != wanted:
            raise SandboxError(
                f"sandbox {name} is up with other options; end it first: syncline sandbox down --name {name}"
            )
        return cls(folder, now)

    @classmethod
    def attach(cls, name: str) -> Self:
        """Take up a sandbox that is up."""
        folder = state.named_folder(name)
        state.sweep()
        now = state.load(folder)
        if now is None:
            raise SandboxError(f"there is no sandbox {name}; start it: syncline sandbox up --name {name}")
        if now.phase == "failed":
            raise SandboxError(f"sandbox {name} has failed: {now.failure}")
        return cls(folder, _ready(folder))

    @staticmethod
    def down(name: str) -> bool:
        """End a named sandbox, in whatever state it is; whether there was one."""
        folder = state.named_folder(name)
        there = folder.exists()
        end(folder)
        return there

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pids(self) -> dict[str, int]:
        """The process of each running component, and of the supervisor."""
        now = state.load(self.folder)
        return {} if now is None else {**now.pids, "supervisor": now.supervisor}

    @property
    def failure(self) -> str | None:
        """Why the sandbox ended by itself, if it did."""
        now = state.load(self.folder)
        return now.failure if now is not None and now.phase == "failed" else None

    def stop(self) -> None:
        """End the sandbox and remove its folder; fine when that has happened already."""
        if self._link is not None:
            self._link.close()
        else:
            end(self.folder)
        state.remove(self.folder)

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, token: str | None = None
    ) -> dict[str, Any]:
        """Send one JSON request, as admin or with another token, to prepare or to look at a scene (PATCH applies)."""
        return Requests(self.server, self.ca, token or self.token).send(method, path, body)

    def service_account_token(self, namespace: str, name: str, *, seconds: int = 3600) -> str:
        """Ask the API server for a token of a ServiceAccount."""
        path = f"/api/v1/namespaces/{quote(namespace)}/serviceaccounts/{quote(name)}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.request("POST", path, body)["status"]["token"])

    def kubeconfig_for(self, token: str, name: str) -> Path:
        """Write a self-contained kubeconfig for a token; it goes away with the sandbox."""
        return self._write_kubeconfig(name, kubeconfig.token_user(token))

    def kubeconfig_for_certificate(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a self-contained kubeconfig for a user known by a client certificate."""
        authority = pki.Authority.load(self.ca.encode(), (self.folder / "ca.key").read_bytes())
        return self._write_kubeconfig(user, kubeconfig.certificate_user(*authority.client(user, groups)))

    def kill(self, component: str) -> None:
        """End a component as a crash would; the others stay."""
        self._order(Order("kill", component))

    def start(self, component: str) -> None:
        """Start a component that was killed, on its old port and data; returns once it serves."""
        self._order(Order("start", component))

    def pause(self, component: str) -> None:
        """Freeze a component: it keeps its connections and answers nothing."""
        self._order(Order("pause", component))

    def resume(self, component: str) -> None:
        """Let a frozen component go on."""
        self._order(Order("resume", component))

    def _order(self, order: Order) -> None:
        if self._link is None:
            raise SandboxError("only the process that started a sandbox can break its components")
        self._link.send(order)

    def _write_kubeconfig(self, name: str, user: Mapping[str, str]) -> Path:
        folder = self.folder / "kubeconfigs"
        folder.mkdir(exist_ok=True)
        path = folder / quote(name, safe="")
        kubeconfig.write(path, server=self.server, authority=self.ca, user=user, name=name)
        return path


class _Link:
    """The starter's hold on a supervisor: its process and the line to it."""

    def __init__(self, process: subprocess.Popen[bytes], line: Line) -> None:
        self._process = process
        self._line = line
        self._turn = threading.Lock()

    def send(self, message: Charge | Order) -> None:
        """Tell the supervisor something and wait until it is done; SandboxError when it fails."""
        with self._turn:
            with contextlib.suppress(OSError):
                self._line.send(message)
            report = self._line.receive(Report)
        if report is None:
            raise SandboxError("the sandbox's supervisor has gone")
        if report.error:
            raise SandboxError(report.error)

    def close(self) -> None:
        """Let go of the supervisor and wait until this process's child has ended."""
        self._line.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def end(folder: Path) -> None:
    """Stop the supervisor of a folder, if there is one, and remove the folder."""
    deadline = time.monotonic() + _STOP_SECONDS
    told = False
    while locks.is_locked(folder):
        now = state.load(folder)
        overdue = time.monotonic() > deadline
        if now is not None and (overdue or not told):
            told = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(now.supervisor, signal.SIGKILL if overdue else signal.SIGTERM)
        time.sleep(_POLL_SECONDS)
    state.remove(folder)


def _launch(folder: Path, lock: int, charge: Charge) -> _Link:
    """Start a supervisor and return once its sandbox is ready."""
    ours, theirs = socket.socketpair()
    with theirs, (folder / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "syncline.sandbox.supervisor", str(folder), str(theirs.fileno()), str(lock)],
            pass_fds=[theirs.fileno(), lock],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(lock)
    link = _Link(process, Line(ours))
    try:
        link.send(charge)
    except BaseException:
        link.close()
        raise
    return link


def _is_up(folder: Path) -> bool:
    now = state.load(folder)
    return now is not None and now.phase == "ready" and locks.is_locked(folder)


def _take(folder: Path) -> int | None:
    """Lock the folder to start a sandbox in it; None when another process was faster and its sandbox is up."""
    deadline = time.monotonic() + _START_SECONDS
    while not _is_up(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = locks.try_lock(folder)
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            raise SandboxError(f"another process has been starting sandbox {folder.name} for {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
    return None


def _ready(folder: Path) -> state.State:
    """Wait for the state of a sandbox once it is ready."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        now = state.load(folder)
        if now is None:
            raise SandboxError(f"the sandbox in {folder} has just been stopped")
        if now.phase == "failed":
            raise SandboxError(now.failure)
        if now.phase == "ready":
            return now
        if time.monotonic() > deadline:
            raise SandboxError(f"the sandbox in {folder} is not ready after {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


class Status(msgspec.Struct, frozen=True):
    """One line of `syncline sandbox status`."""

    name: str
    folder: Path
    phase: str
    server: str


def statuses() -> list[Status]:
    """All named sandboxes; what killed ones have left is swept away first."""
    state.sweep()
    found = []
    for folder in state.named_folders():
        now = state.load(folder)
        found.append(Status(folder.name, folder, now.phase if now else "starting", now.server if now else ""))
    return found
