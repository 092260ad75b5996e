"""Programs that must not outlive their time or flood the memory."""

import asyncio
import os
from pathlib import Path

import pytest

from syncline.git.process import BASE, ProcessLimits, run


async def test_a_program_gets_what_is_given_and_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "canary")
    finished = await run(["cat"], ProcessLimits(10), given=b"hello")
    assert (finished.code, finished.out, finished.flooded) == (0, b"hello", False)
    told = await run(["env"], ProcessLimits(10), environment={"MORE": "1"})
    names = {line.split("=", 1)[0] for line in told.out.decode().splitlines()}
    assert names <= {*BASE, "PATH", "MORE", "PWD", "SHLVL", "_", "LC_CTYPE"}
    failed = await run(["sh", "-c", "echo why >&2; exit 3"], ProcessLimits(10))
    assert (failed.code, failed.error) == (3, "why\n")


async def test_a_program_that_takes_no_input_is_no_trouble() -> None:
    assert (await run(["true"], ProcessLimits(10), given=b"x" * 10_000_000)).code == 0


async def test_a_program_that_prints_too_much_is_stopped() -> None:
    finished = await run(["yes"], ProcessLimits(30, output=100_000))
    assert finished.flooded
    assert len(finished.out) <= 100_000
    noisy = await run(["sh", "-c", "printf '%1000000s' x >&2"], ProcessLimits(30))
    assert len(noisy.error) <= 64 * 1024


async def test_a_program_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    script = f"(read x < {tmp_path}/never) & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(TimeoutError):
        await run(["sh", "-c", script], ProcessLimits(10, write=[tmp_path]))
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_a_program_ends_with_all_that_it_started_when_its_caller_gives_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    script = f"(read x < {tmp_path}/never) & echo $! > {tmp_path}/pid; wait"
    task = asyncio.create_task(run(["sh", "-c", script], ProcessLimits(60, write=[tmp_path])))
    pid = tmp_path / "pid"
    async with asyncio.timeout(180):
        while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(int(pid.read_text()))


@pytest.mark.parametrize("turns", range(8))
async def test_a_program_that_is_given_up_while_it_starts_ends_too(tmp_path: Path, turns: int) -> None:
    os.mkfifo(tmp_path / "never")
    script = f"echo $$ > {tmp_path}/pid; read x < {tmp_path}/never"
    task = asyncio.create_task(run(["sh", "-c", script], ProcessLimits(60, write=[tmp_path])))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    pid = tmp_path / "pid"
    assert not pid.exists() or not pid.read_text() or not alive(int(pid.read_text()))


async def test_a_program_cannot_write_a_larger_file_or_take_more_memory_than_allowed(tmp_path: Path) -> None:
    copy = ["dd", "if=/dev/zero", "status=none"]
    caps = ProcessLimits(30, file_size=51_200, write=[tmp_path])
    assert (await run([*copy, f"of={tmp_path}/file", "bs=1000", "count=1000"], caps)).code
    assert (tmp_path / "file").stat().st_size == 51_200
    assert (await run([*copy, "of=/dev/null", "bs=512M", "count=1"], ProcessLimits(30, memory=100_000_000))).code
    assert (
        await run(["printf", "%s", "$HOME; `x` 'y'"], ProcessLimits(30, memory=100_000_000))
    ).out == b"$HOME; `x` 'y'"


async def test_a_program_that_is_not_there_says_so() -> None:
    with pytest.raises(FileNotFoundError):
        await run(["no-such-program"], ProcessLimits(1))


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has asked about yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_this_process_is_alive() -> None:
    assert alive(os.getpid())
