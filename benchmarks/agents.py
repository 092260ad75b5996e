"""100 agents of one IgnitionSync and one push; a tree of 5,000 files with one changed; an agent at rest."""

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.agent_stage import GatewayStage
from benchmarks.figures import Figure, Results
from benchmarks.gitstage import NAME, GitStage, Meter, git_stage
from benchmarks.scale import scaled
from benchmarks.usage import cpu_seconds, family_seconds, memory_mb
from syncline.testing.gitserver import environment
from syncline.testing.operator import OperatorProcess, StartedProgram

AGENTS = scaled(100)
PROCESSES = 3
FILES = scaled(5000)
SMALL = 50
REST_SECONDS = 30.0
_BLOBS = "syncline_depot_sent_bytes_total"


async def run() -> Results:
    pods = [f"gw-{number}" for number in range(AGENTS)]
    async with git_stage() as git:
        with tempfile.TemporaryDirectory(prefix="syncline-agents-") as made:
            folder, stage = Path(made), GatewayStage(git)
            commit = git.push({**_files("small", SMALL), **_files("large", FILES)})
            with git.operator("--depot-bind", "127.0.0.1:0") as operator:
                await stage.sync("plant", "small")
                await stage.pods("plant", pods)
                agents = [stage.start(folder, "plant", pod) for pod in pods[:PROCESSES]]
                try:
                    async with stage.simulated("plant", pods[PROCESSES:]):
                        await stage.until_synced("plant", commit, AGENTS)
                        figures = await _one_push(stage, operator)
                    figures += await _large(stage, operator, folder)
                    figures += await _rest(agents[0])
                finally:
                    for agent in agents:
                        agent.kill()
            figures += await asyncio.to_thread(_clones, git, folder)
    return Results(title=f"{AGENTS} agents of one IgnitionSync, {PROCESSES} of them processes", figures=figures)


async def _one_push(stage: GatewayStage, operator: OperatorProcess) -> list[Figure]:
    git = stage.git
    checks, fetches, sent = *git.asked, git.server.sent[NAME]
    meter, cpu, started = Meter(operator), family_seconds(operator.pid), time.monotonic()
    commit = git.push({"small/file-0.json": '{"v": 1}'})
    await git.tell(operator, "plant")
    await stage.until_synced("plant", commit, AGENTS)
    seconds, used = time.monotonic() - started, family_seconds(operator.pid) - cpu
    asked = git.asked[1] - fetches
    requests = meter.count("syncline_depot_requests_total")
    plans, blobs = (meter.count(_BLOBS, request=name) for name in ("plan", "blobs"))
    return [
        Figure(
            name="one push, until the status counts all",
            text=f"{seconds:.1f} s; {used:.2f} s of CPU of the operator, git included",
            value=seconds,
            unit="s",
        ),
        Figure(
            name="one push: at the git server",
            text=f"{git.asked[0] - checks} checks, {asked} fetches, {git.server.sent[NAME] - sent:,} bytes",
            value=asked,
            unit="",
            goal=1,
        ),
        Figure(
            name="one push: at the depot",
            text=f"{requests / AGENTS:.1f} requests an agent; {plans:,} bytes of plans, {blobs:,} bytes of files",
            value=requests / AGENTS,
            unit="",
        ),
    ]


async def _large(stage: GatewayStage, operator: OperatorProcess, folder: Path) -> list[Figure]:
    git = stage.git
    commit = git.push({"note": "another commit"})
    await stage.sync("large", "large")
    await stage.pods("large", ["large-0"])
    started = time.monotonic()
    agent = stage.start(folder, "large", "large-0")
    try:
        await stage.until_synced("large", commit, 1)
        first = time.monotonic() - started
        before = _times(folder / "large-0")
        meter, started = Meter(operator), time.monotonic()
        commit = git.push({"large/file-7.json": '{"v": 2}'})
        await git.tell(operator, "large")
        await stage.until_synced("large", commit, 1)
        seconds = time.monotonic() - started
        touched = sum(before.get(path) != at for path, at in _times(folder / "large-0").items())
        blobs = meter.count(_BLOBS, request="blobs")
        resident, _ = memory_mb(agent.pid)
    finally:
        agent.kill()
    return [
        Figure(name=f"{FILES:,} files: the first sync", text=f"{first:.1f} s", value=first, unit="s"),
        Figure(
            name=f"{FILES:,} files, one changed",
            text=f"{seconds:.1f} s, {touched} file touched, {blobs} bytes of files; the agent has {resident:.0f} MB",
            value=touched,
            unit="",
            goal=1,
        ),
    ]


async def _rest(agent: StartedProgram) -> list[Figure]:
    cpu = cpu_seconds(agent.pid)
    await asyncio.sleep(REST_SECONDS)
    used = (cpu_seconds(agent.pid) - cpu) / REST_SECONDS
    resident, peak = memory_mb(agent.pid)
    return [
        Figure(
            name="an agent at rest: memory",
            text=f"{resident:.0f} MB, at most {peak:.0f} MB (with a kubeconfig, which agents in pods do not load)",
            value=resident,
            unit="MB",
            goal=60,
        ),
        Figure(name="an agent at rest: CPU", text=f"{used:.2%} of a core", value=used, unit=""),
    ]


def _clones(git: GitStage, folder: Path) -> list[Figure]:
    """Clone as often as there are gateways, as a git-sync beside each does first. What the server sends is counted.

    Nothing is checked out: that would measure the disk, with a tree for each clone.
    """
    checks, fetches, sent = *git.asked, git.server.sent[NAME]
    (folder / "ca.crt").write_bytes(git.server.ca)
    started = time.monotonic()
    for number in range(AGENTS):
        subprocess.run(
            [
                *("git", "-c", f"http.sslCAInfo={folder / 'ca.crt'}", "clone", "--quiet", "--no-checkout"),
                *("--depth", "1"),
                *(git.server.url(NAME), str(folder / f"clone-{number}")),
            ],
            check=True,
            env=environment(),
        )
    seconds = time.monotonic() - started
    asked, size = git.asked[1] - fetches, git.server.sent[NAME] - sent
    return [
        Figure(
            name=f"{AGENTS} clones instead, one after another, without a checkout",
            text=f"{seconds:.1f} s; {git.asked[0] - checks} checks, {asked} fetches, {size:,} bytes at the git server",
            value=asked,
            unit="",
        )
    ]


def _files(folder: str, count: int) -> dict[str, str]:
    return {f"{folder}/file-{number}.json": f'{{"number": {number}, "folder": "{folder}"}}' for number in range(count)}


def _times(folder: Path) -> dict[str, int]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".syncline" not in path.parts)
    return {str(path): path.stat().st_mtime_ns for path in found}
