"""The control channel between the user of a sandbox and its supervisor: JSON messages. Its end stops the sandbox."""

import select
import socket
from typing import Literal, TypeVar

import msgspec

from syncline.sandbox.binaries import Binaries
from syncline.sandbox.state import Options

_Message = TypeVar("_Message")


class StartRequest(msgspec.Struct, frozen=True):
    """The sandbox to start: the first message on the channel."""

    name: str
    binaries: Binaries
    options: Options
    detachable: bool
    shared: bool = False
    """Once detached, it ends when nobody holds the lock of its users any more."""


class Command(msgspec.Struct, frozen=True):
    """A command for a supervisor."""

    do: Literal["start", "kill", "pause", "resume", "detach"]
    component: str = ""


class Reply(msgspec.Struct, frozen=True):
    """An answer of a supervisor: the first when the sandbox is ready, then one for each command."""

    error: str = ""
    pids: dict[str, int] = {}


class ControlChannel:
    """One end of the channel."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""

    def fileno(self) -> int:
        """Return the file descriptor, to wait for it."""
        return self._connection.fileno()

    def send(self, message: msgspec.Struct) -> None:
        """Send one message."""
        self._connection.sendall(msgspec.json.encode(message) + b"\n")

    def receive(self, kind: type[_Message]) -> _Message | None:
        """Wait for one message; None if the channel is closed."""
        while b"\n" not in self._received:
            try:
                piece = self._connection.recv(1 << 16)
            except ConnectionError:
                return None
            if not piece:
                return None
            self._received += piece
        message, _, self._received = self._received.partition(b"\n")
        return msgspec.json.decode(message, type=kind)

    def ended(self) -> bool:
        """Whether the other side is gone. It does not wait, and takes no message."""
        readable, _, _ = select.select([self._connection], [], [], 0)
        try:
            return bool(readable) and not self._connection.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True

    def close(self) -> None:
        """Close the channel."""
        self._connection.close()
