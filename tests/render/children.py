"""What can be seen of rendering children from outside."""

import asyncio
import contextlib
import time
from pathlib import Path

from syncline.render.transform_pool import TransformPool


def pids(renderer: TransformPool) -> list[int]:
    return [child.pid for child in renderer._pool.processes]


def proc(pid: int, name: str) -> str:
    """Return what the kernel tells about a process."""
    return Path(f"/proc/{pid}/{name}").read_text()


def alive(pid: int) -> bool:
    """Whether the process runs; one that is dead and not yet collected does not."""
    try:
        return proc(pid, "stat").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def memory(pid: int) -> int:
    """Return the most memory that the process has ever held, in bytes; 0 when it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in proc(pid, "status").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_ticks(pid: int) -> int:
    """Return the processor time that the process has used, in hundredths of a second."""
    fields = proc(pid, "stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Watcher:
    """Looks at the event loop and at a renderer's children every few milliseconds.

    A stall is processor time of the loop's thread: other programs of the machine have no part in it.
    """

    def __init__(self, renderer: TransformPool) -> None:
        self._renderer = renderer
        self.longest_stall = 0.0
        self.peak_memory = 0

    async def watch(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.005)
            self.longest_stall = max(self.longest_stall, time.thread_time() - last)
            self.peak_memory = max(self.peak_memory, 0, *map(memory, pids(self._renderer)))
            last = time.thread_time()
