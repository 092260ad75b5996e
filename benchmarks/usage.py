"""What a process has used so far, as the kernel counts it."""

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(*pids: int) -> float:
    """Return the processor time of these processes, all threads together."""
    return sum(_ticks(pid) for pid in pids) / _TICKS


def memory_mb(pid: int) -> tuple[float, float]:
    """Return (resident now, resident at most so far), in MB of a million bytes."""
    fields = dict(_fields(Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()))
    return fields["VmRSS"], fields["VmHWM"]


def _ticks(pid: int) -> int:
    # The name of the program may hold spaces and brackets; what follows the last one does not.
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])


def _fields(lines: Iterable[str]) -> Iterable[tuple[str, float]]:
    for line in lines:
        name, _, rest = line.partition(":")
        if name in {"VmRSS", "VmHWM"}:
            yield name, int(rest.split()[0]) * 1024 / 1e6
