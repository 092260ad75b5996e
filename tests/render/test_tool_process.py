"""What a program that builds manifests cannot do, even when it is told to."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import pytest
from tests.kernel import no_landlock
from tests.render.conftest import Until

from syncline.confinement import walls
from syncline.render import tool_process, tools
from syncline.render.tool_process import Overrun, ToolResult

__all__ = ["no_landlock"]


async def kustomize(folder: Path, text: str, *options: str) -> ToolResult:
    (folder / "kustomization.yaml").write_text(text)
    return await tool_process.run(
        tools.find("kustomize"), ["build", *options, "."], folder, seconds=4, environment={"TOLD": "this"}
    )


async def test_a_program_does_its_work(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: A\nmetadata: {name: x}\n")
    done = await kustomize(tmp_path, "resources: [a.yaml]\n")
    assert (done.code, done.errors) == (0, b"")
    assert done.output == b"apiVersion: v1\nkind: A\nmetadata:\n  name: x\n"


async def test_it_opens_no_connection(tmp_path: Path) -> None:
    done = await kustomize(tmp_path, "resources: ['https://127.0.0.1:9/x.yaml']\n")
    assert done.code == 1
    assert b"socket: operation not permitted" in done.errors


async def test_it_reads_nothing_but_its_folder(tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("hunter2")
    inside = tmp_path / "work"
    inside.mkdir()
    text = f"configMapGenerator: [{{name: a, files: ['{outside}']}}]\n"
    done = await kustomize(inside, text, "--load-restrictor", "LoadRestrictionsNone")
    assert (done.code, b"permission denied" in done.errors) == (1, True)
    restricted = await kustomize(inside, text, "--load-restrictor", "LoadRestrictionsRootOnly")
    assert restricted.code == 1
    assert b"hunter2" not in restricted.output + restricted.errors


async def test_it_starts_no_other_program(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\necho started > started\n")
    script.chmod(0o755)
    annotation = "config.kubernetes.io/function: 'exec: {path: ./run.sh}'"
    function = f"apiVersion: x/v1\nkind: X\nmetadata:\n  name: a\n  annotations:\n    {annotation}\n"
    (tmp_path / "f.yaml").write_text(function)
    text = "transformers: [f.yaml]\n"
    done = await kustomize(tmp_path, text, "--enable-alpha-plugins", "--enable-exec")
    assert done.code == 1
    assert not (tmp_path / "started").exists()
    assert (await kustomize(tmp_path, text)).code == 1


async def test_too_much_output_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_process, "OUTPUT_LIMIT", 1000)
    text = f"configMapGenerator: [{{name: a, literals: ['a={'x' * 5000}']}}]\n"
    with pytest.raises(Overrun, match="wrote more than"):
        await kustomize(tmp_path, text)


async def test_nothing_of_our_environment_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2")
    printer = tmp_path / "print.py"
    printer.write_text(f"#!{sys.executable}\n")
    # The launcher gets what the program gets, and looking at it needs no program behind the walls.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SPY, str(tmp_path), stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    output, _ = await process.communicate()
    names = set(output.decode().split())
    assert names <= {"PATH", "HOME", "TMPDIR", "GOMEMLIMIT", "GOMAXPROCS", "TOLD", "LC_CTYPE"}
    assert "HOME" in names


_SPY = """
import asyncio, sys
from pathlib import Path
from typing import Any
from syncline.confinement import programs
from syncline.render import tool_process
spy = Path(sys.argv[1]) / "spy.py"
spy.write_text("import os\\nprint(*os.environ)\\n")
programs.LAUNCHER = str(spy)
done = asyncio.run(tool_process.run(Path("/none"), [], Path(sys.argv[1]), seconds=4, environment={"TOLD": "this"}))
print(done.output.decode())
"""


async def test_it_ends_with_the_operator(tmp_path: Path, until: Until) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 1.0.0\n")
    (tmp_path / "templates" / "a.yaml").write_text("{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}")
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", _PARENT, str(tmp_path))
    await until(lambda: bool(_running(tmp_path)))
    parent.kill()
    await parent.wait()
    await until(lambda: not _running(tmp_path))


_PARENT = """
import asyncio, sys
from pathlib import Path
from typing import Any
from syncline.render import tool_process, tools
folder = Path(sys.argv[1])
asyncio.run(tool_process.run(tools.find("helm"), ["template", "a", str(folder)], folder, seconds=60, environment={}))
"""


def _running(folder: Path) -> bool:
    """Whether a helm works on a folder."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, *arguments = process.read_bytes().decode(errors="replace").split("\0")
            if program.endswith("/helm") and str(folder) in arguments:
                return True
    return False


def test_the_walls_are_known_for_both_machines() -> None:
    assert walls._SOCKETS["x86_64"].keys() == walls._SOCKETS["aarch64"].keys()
    assert walls._REACHING_OUT["x86_64"].keys() == walls._REACHING_OUT["aarch64"].keys()
    assert walls._SIGNAL_A_THREAD.keys() == walls._SOCKETS.keys() == walls._REACHING_OUT.keys()


@pytest.mark.usefixtures("no_landlock")
async def test_no_program_runs_where_a_wall_is_missing(tmp_path: Path) -> None:
    with pytest.raises(tool_process.Unconfined, match="no Landlock"):
        await kustomize(tmp_path, "resources: []\n")
    (missing,) = await tool_process.missing_walls()
    assert missing.startswith("Landlock")


@pytest.mark.usefixtures("no_landlock")
async def test_a_program_runs_unconfined_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    done = await tool_process.run(
        tools.find("kustomize"), ["build", "."], tmp_path, seconds=4, environment={}, unconfined=True
    )
    assert done.code == 0


async def test_this_machine_has_all_walls() -> None:
    assert await tool_process.missing_walls() == []
