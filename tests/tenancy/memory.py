"""The memory that a process and all that it has started take."""

import resource
import threading
from pathlib import Path


class Memory:
    """Looks at the memory of a process and of all that it has started, until it is told to end."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.first = self.peak = sum(map(_resident, _family(pid)))
        """In bytes: at the beginning, and at most since then."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.peak = max(self.peak, sum(map(_resident, _family(self._pid))))


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()
