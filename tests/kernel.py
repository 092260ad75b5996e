"""Kernels that lack something."""

import asyncio
from typing import Any

import pytest

from syncline.confinement import programs

NO_LANDLOCK = """
import ctypes, runpy, sys
sys.argv = sys.argv[1:]
real = ctypes.CDLL
class Kernel:
    def __init__(self, *arguments, **options):
        self._libc = real(*arguments, **options)
        self.prctl = self._libc.prctl
    def syscall(self, number, *arguments):
        return -1 if number in (444, 445, 446) else self._libc.syscall(number, *arguments)
ctypes.CDLL = Kernel
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def no_landlock(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run programs as on a kernel that has no Landlock."""
    wrapper = tmp_path_factory.mktemp("kernel") / "no_landlock.py"
    wrapper.write_text(NO_LANDLOCK)
    real = asyncio.create_subprocess_exec

    async def wrapped(python: str, *arguments: Any, **options: Any) -> Any:
        if programs.LAUNCHER not in arguments:
            return await real(python, *arguments, **options)
        at = arguments.index(programs.LAUNCHER)
        return await real(python, *arguments[:at], str(wrapper), *arguments[at:], **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", wrapped)
