"""The confinement of a worker before any untrusted work. It applies to the calling process permanently.

On all systems, a worker can create no file, process or core dump, and can allocate only a limited amount of memory. On
Linux, it also dies with its parent, is the first process that the kernel ends when memory is short, and cannot be
inspected. On x86-64 and arm64, it can make only the system calls that computing needs, so it reaches no network, no
file and no program. Other systems lack this last wall: they are for development.
"""

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from syncline.confinement.system_calls import (
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    allow_computing,
    limit,
    prctl,
)

TRANSFORM_MEMORY = 96 * 1024 * 1024
"""The bytes that a worker can allocate after its start. Ordinary work on 1 MiB of data takes 5 to 20 MiB. The pod of
the operator has enough memory for all workers at their limits.
"""
BUILD_MEMORY = 136 * 1024 * 1024
"""The same for a build worker, which has about 60 MiB at its start: less than 200 MiB in total."""

_OPEN_FILES = 3  # standard input, output and error: no other file can be opened


def confine(memory: int) -> bool:
    """Confine this process, with this many more bytes of memory. Return whether all walls are in place."""
    os.environ.clear()
    done = linux = sys.platform == "linux"
    if linux:
        done = prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        done &= prctl(PR_SET_DUMPABLE, 0)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_NPROC, 0)
    limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    return done and allow_computing()
