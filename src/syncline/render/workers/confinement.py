"""The confinement of a worker before any untrusted work. It applies to the calling process permanently.

Everywhere: no new file, process or core dump, and an address space a little larger than it is. On Linux also: it dies
with its parent, is the first to go when memory runs out, cannot be inspected, and (x86-64 and arm64) may make only the
system calls that computing needs, so there is no network, no file and no other program to reach. Elsewhere that last
wall is missing; the operator is meant to run on Linux, other systems are for development.
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
"""Bytes beyond what a worker has when it starts. Ordinary work on 1 MiB of data takes 5 to 20 MiB; and workers at their
limits still fit next to the operator in its pod, where the kernel would end all of them together.
"""
BUILD_MEMORY = 136 * 1024 * 1024
"""The same for a worker that builds, which has about 60 MiB when it starts: less than 200 MiB in all."""

_OPEN_FILES = 3  # standard input, output and error: there is no number left for another


def confine(memory: int) -> bool:
    """Give up everything but computing, in this much more memory; return whether the kernel has done all of it."""
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
