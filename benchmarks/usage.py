"""What a process has used so far, as the kernel counts it."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_GLANCE = 0.05
_REST = 1.0
_NOTHING = 0.015


def cpu_seconds(*pids: int) -> float:
    """Return the processor time of these processes, all threads together."""
    return sum(_ticks(pid) for pid in pids) / _TICKS


def family_seconds(pid: int) -> float:
    """Return the processor time of a process and of all that it has started, those that have ended included."""
    return sum(sum(map(int, stat[11:15])) for stat in _family(pid).values()) / _TICKS


async def at_rest(pid: int) -> float:
    """Wait until a process has done as good as nothing for a while; return the moment since when it is so."""
    since, used = time.monotonic(), cpu_seconds(pid)
    while time.monotonic() - since < _REST:
        await asyncio.sleep(_GLANCE)
        if (now := cpu_seconds(pid)) - used > _NOTHING:
            since, used = time.monotonic(), now
    return since


def children_mb(pid: int) -> float:
    """Return what the processes that a process has started hold in memory now, in MB."""
    return sum(memory_mb(child)[0] for child in _family(pid) if child != pid)


class Machine:
    """The whole machine from now on: `others` is the share that all but these processes took of it."""

    def __init__(self, *pids: int) -> None:
        self._pids = (*pids, os.getpid())
        self._own = cpu_seconds(*self._pids)
        self._busy, self._all = _machine()

    def others(self) -> float:
        busy, whole = _machine()
        own = cpu_seconds(*self._pids) - self._own
        return max(0.0, busy - self._busy - own) / max(whole - self._all, 0.01)


def memory_mb(pid: int) -> tuple[float, float]:
    """Return (resident now, resident at most so far), in MB of a million bytes."""
    fields = dict(_fields(Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()))
    return fields["VmRSS"], fields["VmHWM"]


def _machine() -> tuple[float, float]:
    """Return (busy, all there was) in processor seconds since the machine started."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        user, nice, system, idle, waiting, *rest = (int(field) / _TICKS for field in file.readline().split()[1:9])
    busy = user + nice + system + sum(rest)
    return busy, busy + idle + waiting


def _ticks(pid: int) -> int:
    return sum(map(int, _stat(pid)[11:13]))


def _stat(pid: int) -> list[str]:
    # The name of the program may hold spaces and brackets; what follows the last one does not.
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def _family(pid: int) -> dict[int, list[str]]:
    """Return what the kernel tells of a process and of all that it has started and that are still there."""
    stats = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may end while we look
            if folder.name.isdigit():
                stats[int(folder.name)] = _stat(int(folder.name))
    family: dict[int, list[str]] = {}
    found = {pid}
    while found:
        family |= {one: stats[one] for one in found}
        found = {one for one, stat in stats.items() if int(stat[1]) in found and one not in family}
    return family


def _fields(lines: Iterable[str]) -> Iterable[tuple[str, float]]:
    for line in lines:
        name, _, rest = line.partition(":")
        if name in {"VmRSS", "VmHWM"}:
            yield name, int(rest.split()[0]) * 1024 / 1e6
