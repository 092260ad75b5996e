"""Where the programs come from that build manifests."""

import subprocess
from pathlib import Path

import pytest

from syncline.render import tools
from syncline.render.errors import RenderFailed
from syncline.sandbox import binaries, link_tools, versions


def program(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Have three places where programs may be, all empty."""
    found = {name: tmp_path / name for name in ("own", "python", "path")}
    for folder in found.values():
        folder.mkdir()
    monkeypatch.setenv(tools.FOLDER, str(found["own"]))
    monkeypatch.setattr("sys.executable", str(found["python"] / "python"))
    monkeypatch.setenv("PATH", str(found["path"]))
    return found


def test_the_users_folder_comes_first_then_pythons_then_path(places: dict[str, Path]) -> None:
    for place in ("path", "python", "own"):
        expected = program(places[place] / "helm")
        assert tools.find("helm") == expected


def test_a_file_that_cannot_be_run_is_none(places: dict[str, Path]) -> None:
    (places["own"] / "helm").write_text("")
    (places["python"] / "helm").mkdir()
    with pytest.raises(RenderFailed, match=r"the program helm is not here: .* SYNCLINE_TOOLS names"):
        tools.find("helm")


def test_a_link_is_followed_to_the_program_itself(places: dict[str, Path]) -> None:
    real = program(places["path"] / "real")
    (places["own"] / "kustomize").symlink_to(real)
    assert tools.find("kustomize") == real


@pytest.mark.parametrize(
    ("tool", "arguments"), [(versions.HELM, ["version", "--short"]), (versions.KUSTOMIZE, ["version"])]
)
def test_the_programs_here_are_the_pinned_ones(tool: tools.Tool, arguments: list[str], tmp_path: Path) -> None:
    command = [str(tools.find(tool)), *arguments]
    done = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == versions.version(tool)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(tools.FOLDER, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for tool in versions.TOOLS:
        program(binaries.tools_folder() / tool)
    return binaries.tools_folder()


def test_tools_of_the_cache_become_commands_of_a_folder(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    assert link_tools(folder) == [folder / "helm", folder / "kustomize"]
    assert [link.resolve().parent for link in sorted(folder.iterdir())] == [cache, cache]


def test_commands_of_an_older_version_are_replaced(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "bin"
    program(folder / "helm", "echo old")
    (folder / "kustomize").symlink_to(tmp_path / "gone")
    link_tools(folder)
    link_tools(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["helm", "kustomize"]
    assert all(link.resolve().parent == cache for link in folder.iterdir())


def test_the_users_own_tools_are_neither_fetched_nor_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(tools.FOLDER, str(tmp_path / "own"))
    own = [program(tmp_path / "own" / tool) for tool in versions.TOOLS]
    (tmp_path / "bin").mkdir()
    assert [link.resolve() for link in link_tools(tmp_path / "bin")] == own
    assert not (tmp_path / "cache").exists()
