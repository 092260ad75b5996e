"""The adapter of any application that reloads its files after a signal.

The agent sees the processes of other containers only if the pod sets `shareProcessNamespace`. It runs as the user of
the application, and needs no further right to send it a signal.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec import Struct

from syncline.agent.adapters import ApplyError, ApplySession, Availability, NoSession
from syncline.core.gateway_plan import GatewayPlan, SignalApply

SIGNAL = "signal"
PROC = Path("/proc")
NOT_SHARED = "the agent sees no other process: set shareProcessNamespace: true in the pod"
_LONGEST_COMM = 15
"""The kernel keeps this much of the name of a process."""
_MAX_COMMAND = 4096
_FIRST_PROCESS = 1


class Process(Struct, frozen=True):
    """A process of the pod."""

    id: int
    parent: int


class SignalAdapter:
    """A process of the pod, by its name."""

    def __init__(self, wanted: SignalApply) -> None:
        self._wanted = wanted

    def steps(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the signal as the only step."""
        return frozenset({SIGNAL}) if any(True for _ in paths) else frozenset()

    async def availability(self) -> Availability:
        """Return whether the process runs. Without a view of other processes, the step itself fails."""
        if _is_alone() or find_processes(self._wanted.process):
            return Availability(running=True)
        return Availability(running=False, message=f"no process of the pod has the name {self._wanted.process}")

    async def check(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Raise `ApplyError` if the agent cannot see other processes."""
        del steps, paths
        if _is_alone():
            raise ApplyError("ApplyFailed", NOT_SHARED)

    def session(self) -> "AbstractAsyncContextManager[ApplySession]":
        """Begin a publish."""
        return _SignalSession(self)

    def send(self) -> str:
        """Send the signal. Raises `ApplyError`."""
        name, number = self._wanted.process, signal.Signals[self._wanted.signal]
        found = find_processes(name)
        for process in found:
            _send(process, name, number)
        if not found:
            raise ApplyError("ApplyFailed", f"no process of the pod has the name {name}: correct apply.signal.process")
        return f"{number.name} sent to {name} ({', '.join(str(process) for process in found)})"


class _SignalSession(NoSession):
    def __init__(self, application: SignalAdapter) -> None:
        self._application = application

    async def acquire(self, steps: frozenset[str], paths: Iterable[str]) -> None:
        """Check that the agent can see other processes."""
        await self._application.check(steps, paths)

    async def apply(self, steps: frozenset[str], plan: GatewayPlan) -> str:
        """Send the signal."""
        del plan
        await self._application.check(steps, ())
        return self._application.send() if steps else ""


def find_processes(name: str) -> tuple[int, ...]:
    """Return the ids of the processes with a name. The children of such a process, which have its name, do not count.

    The agent itself never counts.
    """
    own = os.getpid()
    found = {one.id: one for one in _processes(name) if one.id != own}
    return tuple(sorted(one.id for one in found.values() if one.parent not in found))


def _processes(name: str) -> Iterator[Process]:
    for folder in PROC.iterdir():
        if folder.name.isdecimal() and (parent := _parent_of(folder, name)) is not None:
            yield Process(int(folder.name), parent)


def _parent_of(folder: Path, name: str) -> int | None:
    """Return the parent of a process; None if it has another name, or has ended."""
    try:
        # The name in parentheses can have any character.
        comm, _, rest = (folder / "stat").read_bytes().partition(b"(")[2].rpartition(b")")
        with (folder / "cmdline").open("rb") as opened:
            program = opened.read(_MAX_COMMAND).partition(b"\0")[0].rpartition(b"/")[2]
        state, parent = rest.split()[:2]
    except (OSError, ValueError):
        return None
    wanted = name.encode()
    if state in (b"Z", b"X") or (comm != wanted[:_LONGEST_COMM] and program != wanted):
        return None
    return int(parent)


def _send(process: int, name: str, number: signal.Signals) -> None:
    """Send a signal to this very process, and to no other that got its id meanwhile."""
    try:
        handle = os.pidfd_open(process)
    except OSError:
        return
    try:
        if _parent_of(PROC / str(process), name) is not None:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    except PermissionError:
        raise ApplyError(
            "ApplyFailed",
            f"the agent may not send a signal to {name} (process {process}): run both as the same user, by runAsUser",
        ) from None
    finally:
        os.close(handle)


def _is_alone() -> bool:
    """Whether the agent is the first process that it sees: then the pod does not share its process namespace."""
    return os.getpid() == _FIRST_PROCESS
