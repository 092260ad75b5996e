"""What git, ssh and gpg cannot do, whatever a server or a repository makes of them."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.git.test_mirrors import read
from tests.kernel import no_landlock

from syncline.git import Mirrors, Refused, Remote
from syncline.git.process import ProcessLimits, run
from syncline.testing.gitserver import Repository

__all__ = ["no_landlock"]

TOKEN = "canary-of-the-operator"

# What stands for a git that was taken over: any program behind the same walls.
ATTEMPTS = {
    "read the operator's token": "open(sys.argv[1])",
    "read the credential of another call": "open(sys.argv[2])",
    "list the folder of all mirrors": "os.listdir(sys.argv[3])",
    "read the operator's environment": "open(f'/proc/{os.getppid()}/environ')",
    "read the memory of the operator": "open(f'/proc/{os.getppid()}/mem')",
    "write outside": "open(sys.argv[1], 'a')",
    "write a file to run": "os.open(sys.argv[3] + '/x', os.O_CREAT | os.O_WRONLY)",
    "run a program": "os.execv('/usr/bin/env', ['env'])",
    "signal the operator": "os.kill(os.getppid(), 0)",
    "signal a thread of the operator": "sys.exit(os.strerror(ctypes.get_errno())) if tgkill(os.getppid()) else None",
    "make a socket of this machine": "socket.socket(socket.AF_UNIX)",
    "send packets": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "take connections": "socket.socket().bind(('127.0.0.1', 0))",
    "connect to another port": "socket.create_connection(('127.0.0.1', int(sys.argv[5])))",
}
PROGRAM = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def tgkill(pid):
    return libc.syscall({"x86_64": 234, "aarch64": 131}[os.uname().machine], pid, pid, 0)
try:
    {attempt}
except OSError as error:
    sys.exit(error.strerror)
"""


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """The operator's token, the credential of another call, the folder of all mirrors, and a mirror."""
    (tmp_path / "token").write_text(TOKEN)
    for folder in ("run/other", "mirrors/one.git"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "run/other/identity").write_text(TOKEN)
    return [tmp_path / each for each in ("token", "run/other/identity", "mirrors", "mirrors/one.git")]


async def attempt(code: str, places: list[Path], *arguments: str, port: int | None = None) -> str:
    program = PROGRAM.replace("{attempt}", code)
    caps = ProcessLimits(60, memory=200_000_000, write=[places[-1]], port=port)
    done = await run([sys.executable, "-I", "-S", "-c", program, *map(str, places), *arguments], caps)
    return done.error.strip() if done.code else "done"


@pytest.mark.parametrize("what", ATTEMPTS)
async def test_what_is_behind_the_walls_of_git_cannot(what: str, places: list[Path]) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = await attempt(ATTEMPTS[what], places, str(port), port=port + 1 if port < 60_000 else port - 1)
    assert said in {"Permission denied", "Operation not permitted"}


async def test_what_is_behind_the_walls_of_git_does_its_work(places: list[Path]) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connecting = "socket.create_connection(('127.0.0.1', int(sys.argv[5])))"
        assert await attempt(connecting, places, str(port), port=port) == "done"
        assert await attempt(connecting, places, str(port)) == "Operation not permitted"
    assert await attempt("open(sys.argv[4] + '/HEAD', 'w').write('x')", places) == "done"


async def test_git_itself_reads_no_file_but_those_of_the_call(places: list[Path]) -> None:
    token = places[0].with_name("settings")
    token.write_text(f"[a]\n\tb = {TOKEN}\n")
    arguments = ["git", "config", "--file", str(token), "--list"]
    assert TOKEN in (await run(arguments, ProcessLimits(30, read=[token]))).out.decode()
    refused = await run(arguments, ProcessLimits(30, read=[places[-1]]))
    assert refused.code
    assert refused.out == b""
    assert "Permission denied" in refused.error


@pytest.mark.usefixtures("no_landlock")
async def test_git_is_refused_where_it_cannot_be_confined(tmp_path: Path, remote: Remote) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True) as mirrors:
        with pytest.raises(Refused, match=r"git is refused, because .*--allow-unconfined-builds is off.*no Landlock"):
            await read(mirrors, remote)


@pytest.mark.usefixtures("no_landlock")
async def test_git_runs_unconfined_where_that_is_asked_for(
    tmp_path: Path, remote: Remote, repository: Repository
) -> None:
    async with Mirrors(tmp_path / "cache", allow_loopback=True, unconfined=True) as mirrors:
        assert len(await read(mirrors, remote)) == 3
    assert repository.path.exists()
