"""Folders that programs work in."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.render.conftest import Until

from syncline.render import sops_cli, tool_process
from syncline.render.build_pool import BuildPool
from syncline.render.build_spec import BuildSpec, SourceFile
from syncline.render.errors import RenderFailed
from syncline.render.temp_folders import PREFIX, TempFolders, write_tree
from syncline.render.tool_process import ToolResult
from syncline.render.tree import FileTree

KUSTOMIZATION = {
    "kustomization.yaml": SourceFile(b"resources: [a.yaml]\n"),
    "a.yaml": SourceFile(b"apiVersion: v1\nkind: A\nmetadata: {name: x}\n"),
}


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def modes(folder: Path) -> set[int]:
    """Return what others may do with what is in a folder."""
    return {path.stat().st_mode & 0o077 for path in folder.rglob("*")}


async def test_a_folder_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    folders = TempFolders(tmp_path)
    async with folders.folder() as folder:
        assert folder.stat().st_mode & 0o077 == 0
        assert folder.parent.stat().st_mode & 0o077 == 0
        (folder / "file").write_text("x")
    assert not folder.exists()
    await folders.close()
    assert entries(tmp_path) == []


class GatedThreads(ThreadPoolExecutor):
    """Threads of which one call, by its number, waits before or after its work until the gate is opened."""

    def __init__(self) -> None:
        super().__init__(4)
        self._calls = 0
        self._held = 0
        self._after = False
        self._gate = threading.Event()
        self.running = 0
        self.is_held = False

    def hold(self, number: int, *, after: bool) -> None:
        self._calls, self._held, self._after, self.is_held = 0, number, after, False
        self._gate.clear()

    def open(self) -> None:
        self._gate.set()

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        self._calls += 1
        held = self._calls == self._held
        self.running += 1

        def run() -> Any:
            self._wait(held and not self._after)
            result = work(*args, **kwargs)
            self._wait(held and self._after)
            return result

        future = super().submit(run)
        future.add_done_callback(self._ended)
        return future

    def _wait(self, held: bool) -> None:
        if held:
            self.is_held = True
            self._gate.wait(60)

    def _ended(self, _: object) -> None:
        self.running -= 1


@pytest.mark.parametrize("after", [False, True], ids=["before-it-works", "after-it-worked"])
async def test_a_build_that_is_given_up_while_any_thread_works_for_it_leaves_nothing(
    tmp_path: Path, until: Until, after: bool
) -> None:
    threads = GatedThreads()
    asyncio.get_running_loop().set_default_executor(threads)
    recipe = BuildSpec(namespace="team", release="app")
    async with BuildPool(folder=tmp_path) as builder:
        for number in range(1, 20):
            threads.hold(number, after=after)
            task = asyncio.create_task(builder.build(KUSTOMIZATION, recipe))
            await until(lambda: threads.is_held or task.done())  # noqa: B023 - called at once
            if task.done():
                break
            task.cancel()
            # Whatever cleans up without waiting for the thread does it now.
            for _ in range(50):
                await asyncio.sleep(0)
            await until(lambda: threads.running == 1)
            threads.open()
            await asyncio.wait([task])
            await until(lambda: threads.running == 0)
            assert task.cancelled()
            assert len(entries(tmp_path)) <= 1, f"after thread {number}"  # the process's own folder stays
        threads.open()
        assert task.result().documents
        assert number > 4
    assert entries(tmp_path) == []


async def test_a_piece_of_work_that_is_cancelled_while_it_is_cleaned_up_leaves_nothing(tmp_path: Path) -> None:
    folders = TempFolders(tmp_path)
    entered = asyncio.Event()

    async def work() -> None:
        async with folders.folder() as folder:
            for number in range(2000):
                (folder / str(number)).touch()
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert len(entries(tmp_path)) == 1  # the process's own
    await folders.close()
    assert entries(tmp_path) == []


def abandoned(parent: Path, name: str) -> Path:
    """Leave a folder with a file behind, long ago."""
    folder = parent / f"{PREFIX}{name}"
    folder.mkdir()
    (folder / "secret").write_text("hunter2")
    os.utime(folder, (0, 0))
    return folder


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from syncline.render.temp_folders import TempFolders

async def main():
    async with TempFolders(Path(sys.argv[1])).folder() as folder:
        (folder / "secret").write_text("hunter2")
        os.utime(folder.parent, (0, 0))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_what_a_killed_operator_left_is_removed_by_the_next(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)  # noqa: ASYNC221
    assert killed.returncode == -9
    assert "secret" in entries(tmp_path)
    async with BuildPool(folder=tmp_path) as builder:
        await builder.build(KUSTOMIZATION, BuildSpec(namespace="team", release="app"))
    assert entries(tmp_path) == []


async def test_what_another_operator_holds_or_may_be_about_to_hold_stays(tmp_path: Path) -> None:
    gone, other = abandoned(tmp_path, "gone"), tmp_path / "other"
    other.mkdir()
    held = TempFolders(tmp_path)
    async with held.folder() as folder:
        os.utime(folder.parent, (0, 0))
        young = tmp_path / f"{PREFIX}young"
        young.mkdir()
        folders = TempFolders(tmp_path)
        async with folders.folder():
            assert folder.exists()
            assert young.exists()
            assert other.exists()
            assert not gone.exists()
        await folders.close()
    await held.close()


async def test_a_place_without_room_is_told(tmp_path: Path) -> None:
    with pytest.raises(RenderFailed, match="no folder to build in: No such file or directory"):
        async with TempFolders(tmp_path / "none").folder():
            pass


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//b", "./a"])
async def test_a_path_that_no_file_can_have_is_not_written(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(Exception, match=r"is no path that a file can have|leads out of the repository"):
        await write_tree(folder, FileTree({path: SourceFile(b"x")}), [path], {})
    assert "x" not in entries(tmp_path)


async def test_keys_are_in_no_argument_and_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def spy(_: Path, arguments: list[str], folder: Path, **options: object) -> ToolResult:
        seen.append(f"{arguments} {options}")
        assert (folder / "age").read_bytes() == b"hunter2"
        assert modes(folder) == {0}
        return ToolResult(0, b"opened", b"")

    monkeypatch.setattr(tool_process, "run", spy)
    folders = TempFolders(tmp_path)
    keys = {"a.agekey": b"hunter2", "b.asc": b"hunter3"}
    opened = await sops_cli.decrypt("a.ini", b"", keys, seconds=1, folders=folders)
    await folders.close()
    assert opened == b"opened"
    assert "hunter" not in "".join(seen)
    assert entries(tmp_path) == []
