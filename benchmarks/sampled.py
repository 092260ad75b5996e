"""Runs `syncline` under a sampling profiler: `python -m benchmarks.sampled FILE run ...` writes the samples to FILE.

A timer of processor time takes the samples, so other programs on the machine do not disturb them. Time in C code
counts for the Python function that called it.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import msgspec

import syncline.cli

INTERVAL = 0.002

Stack = tuple[str, ...]


def sample(stacks: "Counter[Stack]") -> None:
    """Count the stacks of this process from now on, in each interval of processor time."""

    def count(_: int, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            code = frame.f_code
            stack.append(f"{code.co_filename}:{code.co_qualname}")
            frame = frame.f_back
        stacks[tuple(stack)] += 1

    signal.signal(signal.SIGPROF, count)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)


def main() -> int:
    target, *arguments = sys.argv[1:]
    stacks: Counter[Stack] = Counter()
    sample(stacks)
    sys.argv = ["syncline", *arguments]
    try:
        return syncline.cli.main()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        Path(target).write_bytes(msgspec.json.encode([[count, *stack] for stack, count in stacks.items()]))


if __name__ == "__main__":
    sys.exit(main())
