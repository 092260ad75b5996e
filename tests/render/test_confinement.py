"""What a rendering child cannot do."""

import asyncio
import os
import platform
import signal
import subprocess
import sys

import pytest
from tests.render.children import alive, cpu_ticks, memory, pids, proc
from tests.render.conftest import Until

from syncline.api.content import Transform
from syncline.render.transform_pool import TransformPool
from syncline.render.workers.confinement import TRANSFORM_MEMORY
from syncline.render.workers.protocol import TransformSource, TransformTarget

# What each attempt needs is imported first: once confined, nothing can be loaded.
ATTEMPTS = {
    "open a connection": "socket.socket()",
    "make a pair of sockets": "socket.socketpair()",
    "read a file": "open('/etc/passwd')",
    "write a file": "open('/tmp/rendered', 'w')",
    "list a folder": "os.listdir('/')",
    "make a pipe": "os.pipe()",
    "fork": "os._exit(0) if os.fork() == 0 else None",
    "run a program": "os.execv(sys.executable, [sys.executable, '-V'])",
    "signal its parent": "os.kill(os.getppid(), 0)",
    "raise its limits": "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))",
    "trace a process": "ptrace(16, os.getpid())",
}


def attempt(code: str) -> str:
    """Return what a confined process gets when it runs the code: done, or the name of the error."""
    script = f"""
import ctypes, os, resource, socket, sys
from syncline.render.workers.confinement import TRANSFORM_MEMORY, confine
libc = ctypes.CDLL(None, use_errno=True)
def ptrace(request, pid):
    if libc.ptrace(request, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
confine(TRANSFORM_MEMORY)
try:
    {code}
    result = "done"
except (OSError, ValueError) as error:
    result = type(error).__name__
os.write(1, result.encode())
os._exit(0)
"""
    return subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, check=True, timeout=180
    ).stdout.decode()


@pytest.mark.parametrize("code", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_a_child_cannot(code: str) -> None:
    assert attempt(code) in {"OSError", "PermissionError", "BlockingIOError", "ValueError"}


def test_a_child_keeps_nothing_of_its_environment() -> None:
    assert attempt("if os.environ: raise OSError") == "done"


async def test_a_child_has_only_so_much_memory(renderer: TransformPool) -> None:
    (pid,) = await started(renderer)
    limits = proc(pid, "limits").splitlines()
    (limit,) = (int(line.split()[3]) for line in limits if line.startswith("Max address space"))
    assert TRANSFORM_MEMORY < limit < TRANSFORM_MEMORY + 128 * 1024 * 1024
    assert memory(pid) < 64 * 1024 * 1024


async def test_a_child_is_the_first_to_go_when_memory_runs_out(renderer: TransformPool) -> None:
    (pid,) = await started(renderer)
    assert proc(pid, "oom_score_adj").strip() == "1000"


async def test_system_calls_are_filtered_where_the_machine_is_known(renderer: TransformPool) -> None:
    (pid,) = await started(renderer)
    status = dict(line.split(":\t", 1) for line in proc(pid, "status").splitlines())
    known = platform.machine() in {"x86_64", "aarch64"}
    assert (status["Seccomp"], status["NoNewPrivs"]) == (("2", "1") if known else ("0", "0"))


PARENT = """
import asyncio, sys
from syncline.api.content import Replace, Transform
from syncline.render.transform_pool import TransformPool
from syncline.render.workers.protocol import TransformSource, TransformTarget

QUICK = [Transform(key="*", template="{{ value }}")]
ENDLESS = [Transform(key="*", replace=Replace(pattern="a*b|a", with_="c"))]

async def main():
    renderer = TransformPool(deadline=600)
    await renderer.transform(QUICK, {"a": "x"}, {}, TransformSource("n", "s"), [TransformTarget("n", "t")])
    for child in renderer._pool.processes:
        print(child.pid, flush=True)
    if sys.argv[1] == "busy":
        source, targets = TransformSource("n", "s"), [TransformTarget("n", "t")]
        await renderer.transform(ENDLESS, {"a": "a" * 1_000_000}, {}, source, targets)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
async def test_a_child_dies_with_its_parent(until: Until, state: str) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, state), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    if state == "busy":
        await until(lambda: cpu_ticks(pid) > 20)
    assert alive(pid)
    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()
    await until(lambda: not alive(pid))


async def started(renderer: TransformPool) -> list[int]:
    """Return the children after a first job."""
    await renderer.transform(
        [Transform(key="*", template="{{ value }}")],
        {"a": "x"},
        {},
        TransformSource("n", "s"),
        [TransformTarget("n", "t")],
    )
    return pids(renderer)
