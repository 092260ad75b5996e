"""Starts `syncline` by a fork of a process that has loaded the program already.

To load it costs half a second of processor time, which hundreds of operators and commands would each pay. What the
program does from its first line on is for the tests that start it as a user does (`syncline.testing.operator.execute`).

The process that forks is a child of the one that runs tests, and ends with it. It runs no threads, imports the program
once, and waits for its children itself: each one has a socket on which its process id and its exit code are told.
"""

import atexit
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from syncline.sandbox.processes import die_with_parent

_ROOT = Path(__file__).parents[1]
_LARGEST = 1 << 17
_NUMBER = 32


class Forked:
    """A forked program, as `subprocess.Popen` has it; several threads may ask about it."""

    def __init__(self, pid: int, news: socket.socket) -> None:
        self.pid = pid
        self._news = news
        self._code: int | None = None
        self._turn = threading.Lock()
        weakref.finalize(self, news.close)
        try:
            self._process: int | None = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended already
            self._process = None
        else:
            weakref.finalize(self, os.close, self._process)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code; raise subprocess.TimeoutExpired when it takes longer."""
        waiting = select.poll()
        waiting.register(self._news, select.POLLIN)
        if not waiting.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        with self._turn:
            if self._code is None:
                told = self._news.recv(_NUMBER)
                if not told:
                    raise RuntimeError(f"the process that started {self.pid} has ended: nobody knows how that one did")
                self._code = int(told)
            return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Request(NamedTuple):
    arguments: list[str]
    at: str
    env: dict[str, str]


class _Forker:
    """The process that forks, as its parent sees it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forks", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def start(self, request: _Request, files: Sequence[IO[Any]]) -> Forked:
        """Have a program started with these files as stdin, stdout and stderr."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            numbers = [theirs.fileno(), *(file.fileno() for file in files)]
            socket.send_fds(self._channel, [json.dumps(request).encode()], numbers)
        pid = ours.recv(_NUMBER)
        if not pid:
            raise RuntimeError("the process that starts others has ended")
        return Forked(int(pid), ours)

    def close(self) -> None:
        """Have it end, which ends all that it has started."""
        self._channel.close()
        self._process.wait()


_forkers: dict[int, _Forker] = {}
_starting = threading.Lock()


def start(
    arguments: Sequence[str], files: Sequence[IO[Any]], *, at: Path | None = None, env: Mapping[str, str] | None = None
) -> Forked:
    """Start `syncline` with these arguments, and these files as stdin, stdout and stderr."""
    with _starting:
        if (forker := _forkers.get(os.getpid())) is None:
            forker = _forkers[os.getpid()] = _Forker()
    return forker.start(_Request(list(arguments), str(at or Path.cwd()), dict(env or os.environ)), files)


def launch(arguments: Sequence[str], log: Path) -> Forked:
    """Start `syncline` with these arguments, and have it write to this file: a `Launch` for operators."""
    with Path(os.devnull).open("rb") as nothing, log.open("ab") as output:
        return start(arguments, [nothing, output, output])


def _serve(channel: socket.socket) -> tuple[_Request, list[int]] | None:
    """Fork for each request. Returns in a child what it is asked to run, and None in the parent at its end."""
    running: dict[int, tuple[int, socket.socket]] = {}
    with channel, selectors.DefaultSelector() as waiting:
        waiting.register(channel, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is not channel:
                    waiting.unregister(key.fileobj)
                    _tell_end(key.fd, *running.pop(key.fd))
                    continue
                content, received, _, _ = socket.recv_fds(channel, _LARGEST, 4)
                if not content:
                    return None
                news = socket.socket(fileno=received[0])
                pid = _fork()
                if pid == 0:
                    for process, (_, other) in running.items():
                        os.close(process)
                        other.close()
                    news.close()
                    return _Request(*json.loads(content)), received[1:]
                for number in received[1:]:
                    os.close(number)
                process = os.pidfd_open(pid)
                running[process] = (pid, news)
                waiting.register(process, selectors.EVENT_READ)
                with suppress(OSError):  # who asked may be gone
                    news.send(str(pid).encode())


def _fork() -> int:
    arrange = die_with_parent()
    pid = os.fork()
    if pid == 0 and arrange is not None:
        arrange()
    return pid


def _tell_end(process: int, pid: int, news: socket.socket) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(process)
    with news, suppress(OSError):
        news.send(str(code).encode())


def _become(request: _Request, files: Sequence[int]) -> None:
    """Have the files, the folder and the environment of a program that was just started."""
    for number, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), files, strict=True)):
        os.dup2(file, number)
        os.close(file)
        mode = "r" if number == 0 else "w"
        setattr(sys, name, open(number, mode, buffering=1, encoding="utf-8", closefd=False))  # noqa: SIM115
    os.chdir(request.at)
    os.environ.clear()
    os.environ.update(request.env)


def main() -> NoReturn:
    """Run as `python -m tests.forks CHANNEL_FD`."""
    from syncline.cli._start import leave_on_sigterm, loading  # noqa: PLC0415 - who asks for forks does not need it

    with loading():
        import syncline.cli.commands  # noqa: PLC0415 - as above
    asked = _serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is None:
        sys.exit(0)
    request, files = asked
    if request.arguments[:1] in (["run"], ["agent"]):
        leave_on_sigterm()
    _become(request, files)
    sys.exit(syncline.cli.main(request.arguments))


if __name__ == "__main__":
    main()
