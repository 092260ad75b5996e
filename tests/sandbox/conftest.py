"""Fixtures of the sandbox's tests."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Syncline = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep named sandboxes and temporary folders of this test to itself, far deeper than a socket's path may be."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    for variable in ("XDG_STATE_HOME", "TMPDIR"):
        (deep / variable).mkdir(parents=True)
        monkeypatch.setenv(variable, str(deep / variable))
    return deep


@pytest.fixture
def syncline() -> Syncline:
    """Run the `syncline sandbox` command as a user would."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("syncline")), "sandbox", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.fixture(scope="session")
def lives() -> Callable[[int], bool]:
    """Tell whether a process runs; one that waits to be reaped does not."""

    def check(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    return check
