"""The client of a supervisor: starts it, sends commands, waits for its end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from syncline.sandbox import locks, state
from syncline.sandbox.control_channel import Command, ControlChannel, Reply, StartRequest
from syncline.sandbox.errors import SandboxError

# Longer than the supervisor's own timeout for a component, so that its more precise message comes first.
_START_SECONDS = 270.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02


class Link:
    """A running supervisor: its process and the channel to it."""

    def __init__(self, process: subprocess.Popen[bytes], channel: ControlChannel) -> None:
        self._process = process
        self._line = channel
        self._turn = threading.Lock()

    def send(self, message: StartRequest | Command) -> None:
        """Send a command and wait until it is done. Raises SandboxError if it fails."""
        with self._turn:
            with contextlib.suppress(OSError):
                self._line.send(message)
            reply = self._line.receive(Reply)
        if reply is None:
            raise SandboxError("the sandbox's supervisor has ended")
        if reply.error:
            raise SandboxError(reply.error)

    def close(self) -> None:
        """Close the channel, and wait for the end of the started process."""
        self._line.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def launch(folder: Path, lock: int, request: StartRequest) -> Link:
    """Start a supervisor in a locked folder, pass the lock to it, and return when its sandbox is ready."""
    ours, theirs = socket.socketpair()
    try:
        with theirs, (folder / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "syncline.sandbox.supervisor", folder, str(theirs.fileno()), str(lock)],
                pass_fds=[theirs.fileno(), lock],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        state.remove(folder)
        raise
    finally:
        os.close(lock)
    link = Link(process, ControlChannel(ours))
    try:
        link.send(request)
    except BaseException:
        crash = _crash(folder)
        link.close()
        end(folder)
        if crash:
            raise SandboxError(f"the sandbox's supervisor has crashed: {crash}") from None
        raise
    return link


def end(folder: Path) -> None:
    """Stop the supervisor of a folder, if there is one, and wait until the folder is gone."""
    deadline = time.monotonic() + _STOP_SECONDS
    notified = False
    with locks.watched(folder) as held:
        while held():
            now = state.load(folder)
            overdue = time.monotonic() > deadline
            # A supervisor with a recorded failure is about to end.
            if now is not None and (overdue or (not notified and now.phase != "failed")):
                notified = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(now.supervisor, signal.SIGKILL if overdue else signal.SIGTERM)
            if time.monotonic() > deadline + _STOP_SECONDS:
                raise SandboxError(f"the supervisor of the sandbox in {folder} does not end")
            time.sleep(_POLL_SECONDS)
    state.remove(folder)


def is_up(folder: Path) -> bool:
    """Whether a sandbox is running and ready in the folder."""
    now = state.load(folder)
    return now is not None and now.phase == "ready" and locks.is_locked(folder)


def take(folder: Path) -> int | None:
    """Lock the folder to start a sandbox in it; None if a sandbox of another process is already running there."""
    deadline = time.monotonic() + _START_SECONDS
    while not is_up(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = locks.try_lock(folder)
        if lock is not None:
            state.clear(folder)
            return lock
        if time.monotonic() > deadline:
            raise SandboxError(f"another process has been starting sandbox {folder.name} for {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
    return None


def join(folder: Path) -> int | None:
    """Become a user of the shared sandbox in the folder, while it is up; the lock to hold, or None."""
    users = locks.share_lock(state.users_folder(folder))
    if users is not None and not is_up(folder):
        os.close(users)
        return None
    return users


def leave(folder: Path, users: int) -> None:
    """Let go of a shared sandbox; its last user ends it."""
    os.close(users)
    alone = locks.try_lock(state.users_folder(folder))
    if alone is not None:
        end(folder)
        os.close(alone)


def ready(folder: Path) -> state.State:
    """Wait until a sandbox is ready, and return its state."""
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


def _crash(folder: Path) -> str:
    """Return the last line of a supervisor that ended without an answer."""
    try:
        lines = (folder / "supervisor.log").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")
