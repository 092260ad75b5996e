"""The supervisor: the parent process of a sandbox's components. It ends them with their sandbox.

It is started by `syncline.sandbox.cluster` with two file descriptors: the lock of the sandbox's folder, held until it
exits, and a channel to its starter, which sends it commands. When the channel ends, because the starter has closed it
or has died, the supervisor stops all components and removes the folder. After the command `detach`, the sandbox runs
until a SIGTERM; a shared one also ends when the last of its users has released their common lock, or has died. If the
supervisor itself is killed, the kernel kills its components (on Linux), and the next sweep removes the folder.

If a component ends by itself, the sandbox ends: half of a control plane would be misleading. The failure is stored in
the state of the folder, for the next user.
"""

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from syncline.sandbox import locks, state
from syncline.sandbox.control_channel import Command, ControlChannel, Reply, StartRequest
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.processes import ControlPlane


class _Terminated(Exception):  # noqa: N818 - not an error: it ends the supervisor's story
    """The sandbox is no longer wanted."""


class Supervisor:
    """Serves one sandbox from its start to its end."""

    def __init__(self, folder: Path, channel: ControlChannel, starter: int | None) -> None:
        self._folder = folder
        self._line: ControlChannel | None = channel
        self._starter = starter
        self._shared = False
        self._terminated = False
        # Signals and ended children interrupt the wait for commands.
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        self._waker = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._terminate)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def run(self, request: StartRequest) -> None:
        """Start the sandbox, serve it, stop it."""
        self._shared = request.shared
        now = state.State(phase="starting", supervisor=os.getpid(), options=request.options)
        now.save(self._folder)
        plane: ControlPlane | None = None
        try:
            plane = ControlPlane(self._folder, request, self._check_wanted)
            plane.start_all()
            now = msgspec.structs.replace(now, phase="ready", server=plane.server, pids=plane.pids)
            now.save(self._folder)
            self._report(Reply(pids=plane.pids))
            self._serve(plane, now)
        except _Terminated:
            pass
        except (SandboxError, OSError) as error:
            if plane is not None:
                plane.stop()
            now = msgspec.structs.replace(now, phase="failed", pids={}, failure=str(error))
            with contextlib.suppress(OSError):  # the failure may be a full disk
                now.save(self._folder)
            if self._mourn(str(error)):
                return
        finally:
            if plane is not None:
                plane.stop()
        state.remove(self._folder)

    def _serve(self, plane: ControlPlane, now: state.State) -> None:
        while True:
            command = self._next_order(plane.check)
            if command.do == "detach":
                self._report(Reply(pids=plane.pids))
                self._line = None
                continue
            try:
                self._obey(plane, command)
            except SandboxError as error:
                plane.check()
                self._report(Reply(error=str(error)))
            else:
                msgspec.structs.replace(now, pids=plane.pids).save(self._folder)
                self._report(Reply(pids=plane.pids))

    def _obey(self, plane: ControlPlane, command: Command) -> None:
        match command.do:
            case "start":
                plane.start(command.component)
            case "kill":
                plane.kill(command.component)
            case "pause":
                plane.pause(command.component)
            case "resume":
                plane.resume(command.component)

    def _next_order(self, check: Callable[[], None]) -> Command:
        """Wait for a command; `check` is called whenever a component may have ended."""
        while True:
            self._check_wanted()
            check()
            channel = self._line
            waiting = [self._wake.fileno(), *([channel.fileno()] if channel else [])]
            # A process that the starter has forked may keep the channel open: then only the clock brings the news.
            # It also brings that of the last user's end.
            ready, _, _ = select.select(waiting, [], [], 1.0 if channel or self._shared else None)
            with contextlib.suppress(BlockingIOError):
                self._wake.recv(4096)
            if channel is not None and channel.fileno() in ready:
                command = channel.receive(Command)
                if command is None:
                    raise _Terminated
                return command

    def _mourn(self, failure: str) -> bool:
        """Report a failure to the starter, if it is there. Return whether the folder must stay to report it later."""
        if self._line is None:
            return True
        with contextlib.suppress(_Terminated):
            while True:
                self._report(Reply(error=failure))
                self._next_order(lambda: None)
        return False

    def _check_wanted(self) -> None:
        orphaned = self._starter is not None and os.getppid() != self._starter
        if self._terminated or orphaned or (self._line.ended() if self._line else self._unused()):
            raise _Terminated

    def _unused(self) -> bool:
        """Whether nobody uses a shared sandbox any more; from then on nobody can join, because we keep the lock."""
        return self._shared and locks.try_lock(state.users_folder(self._folder)) is not None

    def _report(self, reply: Reply) -> None:
        if self._line is not None:
            try:
                self._line.send(reply)
            except OSError:
                raise _Terminated from None

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._terminated = True


def main() -> NoReturn:
    """Run as `python -m syncline.sandbox.supervisor FOLDER LINE_FD LOCK_FD`; being open is all the lock needs."""
    starter = os.getppid()
    folder, channel = Path(sys.argv[1]), ControlChannel(socket.socket(fileno=int(sys.argv[2])))
    request = channel.receive(StartRequest)
    if request is None:
        state.remove(folder)
        sys.exit(1)
    if request.detachable and os.fork():
        # The starter waits for this process, not for the one that stays, so there is no zombie.
        os._exit(0)
    os.chdir(folder)
    Supervisor(folder, channel, None if request.detachable else starter).run(request)
    sys.exit(0)


if __name__ == "__main__":
    main()
