"""What a process has used so far, as the kernel counts it."""

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(*pids: int) -> float:
    """Return the processor time of these processes, all threads together."""
    return sum(_ticks(pid) for pid in pids) / _TICKS


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
    # The name of the program may hold spaces and brackets; what follows the last one does not.
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])


def _fields(lines: Iterable[str]) -> Iterable[tuple[str, float]]:
    for line in lines:
        name, _, rest = line.partition(":")
        if name in {"VmRSS", "VmHWM"}:
            yield name, int(rest.split()[0]) * 1024 / 1e6
