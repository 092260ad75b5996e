"""Where the processor time of the operator goes in a fan-out: `python -m benchmarks.hotspots [--rounds N]`.

It prints the processor time for each write, measured without the profiler, and the shares of the functions.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

import syncline
from benchmarks.fanout import PHASES, SPACES, TARGETS, Round, our_round
from benchmarks.stage import stage
from benchmarks.subject import CONFIGMAP

_ROOT = Path(syncline.__file__).parent
_LEAST = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hotspots", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds without the profiler, and with it (default: 3)")
    asyncio.run(_run(parser.parse_args().rounds))


async def _run(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.json") for number in range(rounds)]
        plain = []
        async with stage() as scene:
            await scene.create_namespaces(SPACES, {"bench": "fanout"})
            for number, file in enumerate(files):
                plain.append(await our_round(scene, CONFIGMAP, f"plain-{number}"))
                await our_round(scene, CONFIGMAP, f"sampled-{number}", partial(_sampled, file))
        stacks = [stack for file in files for stack in _read(file)]
    for phase in PHASES:
        print(f"{phase}: {_each(plain, phase)} ms of the operator for each of {TARGETS:,} targets")
    print()
    print("\n".join(_shares(stacks)))


def _read(file: Path) -> list[list[int | str]]:
    return msgspec.json.decode(file.read_bytes(), type=list[list[int | str]])


def _each(rounds: Sequence[Round], phase: str) -> str:
    costs = sorted(one[phase].sender * 1000 / TARGETS for one in rounds)
    return f"{median(costs):.2f} ({', '.join(f'{cost:.2f}' for cost in costs)})"


def _sampled(samples: Path, arguments: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        command = [sys.executable, "-m", "benchmarks.sampled", str(samples), *arguments]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ}
        )


def _shares(stacks: Iterable[Sequence[int | str]]) -> list[str]:
    """Return the shares of functions: by themselves, and with all that they call."""
    alone: Counter[str] = Counter()
    within: Counter[str] = Counter()
    packages: Counter[str] = Counter()
    whole = 0
    for count, *stack in stacks:
        frames = [_short(str(frame)) for frame in stack]
        if any("importlib" in frame for frame in frames):
            continue  # the start of the operator
        whole += int(count)
        alone[frames[0]] += int(count)
        packages[frames[0].partition("/")[0]] += int(count)
        for frame in set(frames):
            within[frame] += int(count)
    lines = [f"{whole} samples", "", "share  package, without its calls of others"]
    lines += [f"{number / whole:5.1%}  {name}" for name, number in packages.most_common() if number / whole >= _LEAST]
    lines += ["", "share  with calls  function"]
    lines += [
        f"{alone[name] / whole:5.1%}  {number / whole:10.1%}  {name}"
        for name, number in within.most_common()
        if number / whole >= _LEAST
    ]
    return lines


def _short(frame: str) -> str:
    path, _, name = frame.rpartition(":")
    if path.startswith(str(_ROOT)):
        return f"{Path(path).relative_to(_ROOT)}: {name}"
    return f"{'/'.join(Path(path).parts[-2:])}: {name}"


if __name__ == "__main__":
    main()
