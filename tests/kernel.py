"""Kernels that lack something."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
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


# The kernel itself answers here, and all that the program starts inherits it.
RUN_WITHOUT_LANDLOCK = """
import ctypes, os, struct, sys
LOAD, AT_LEAST, MORE, RETURN = 0x20, 0x35, 0x25, 0x06
ALLOW, NO_SUCH_CALL = 0x7FFF0000, 0x00050000 | 38
steps = [(LOAD, 0, 0, 0), (AT_LEAST, 0, 2, 444), (MORE, 1, 0, 446), (RETURN, 0, 0, NO_SUCH_CALL), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
assert libc.prctl(SECCOMP, FILTER, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def without_landlock(tmp_path: Path) -> Sequence[str]:
    """Return what goes before a command, to run it as on a kernel that has no Landlock."""
    script = tmp_path / "run_without_landlock.py"
    script.write_text(RUN_WITHOUT_LANDLOCK)
    return sys.executable, str(script)
