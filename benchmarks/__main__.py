"""Run the benchmarks: `python -m benchmarks [NAME...] [--json FILE]`; BENCH_SCALE=0.1 makes them smaller."""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from benchmarks import (
    agents,
    copies,
    fanout,
    fleet,
    gitfiles,
    gitobjects,
    gitsyncs,
    latency,
    removal,
    starvation,
    unrelated,
    wide,
    workspace_statuses,
    workspaces,
)
from benchmarks.figures import Results, markdown, table
from syncline.sandbox import SandboxError

BENCHMARKS: Mapping[str, Callable[[], Awaitable[Results]]] = {
    "fanout": fanout.configmaps,
    "secrets": fanout.secrets,
    "unrelated": unrelated.run,
    "copies": copies.run,
    "removal": removal.run,
    "wide": wide.run,
    "latency": latency.run,
    "fleet": fleet.run,
    "gitsyncs": gitsyncs.run,
    "gitobjects": gitobjects.run,
    "gitfiles": gitfiles.run,
    "starvation": starvation.run,
    "agents": agents.run,
    "workspaces": workspaces.one_target,
    "workspaces3": workspaces.three_targets,
    "statuses": workspace_statuses.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Syncline on a sandbox.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (default all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    try:
        results = asyncio.run(_run(given.names or list(BENCHMARKS)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; what was started has been ended", file=sys.stderr)
        return 130
    except SandboxError as error:
        print(f"\nbenchmarks: {error}", file=sys.stderr)
        return 1
    print(markdown(results) if given.markdown else table(results))
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    return 0


async def _run(names: list[str]) -> list[Results]:
    # A terminated run cleans up as an interrupted one does.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _current().cancel)
    results = []
    for name in names:
        began = time.monotonic()
        print(f"{name} ...", end="", file=sys.stderr, flush=True)
        results.append(await BENCHMARKS[name]())
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return results


def _current() -> "asyncio.Task[object]":
    task = asyncio.current_task()
    assert task is not None
    return task


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
