"""Runs `syncline` to its end, in a process that is forked from one that has loaded the program already."""

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests import forks

SECONDS = 180


def run_command(
    arguments: Sequence[str | Path], *, stdin: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return what it has printed."""
    given = [str(argument) for argument in arguments]
    with _new_file() as source, _new_file() as out, _new_file() as error:
        source.write(stdin)
        source.seek(0)
        process = forks.start(given, [source, out, error], env=env or os.environ)
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(given, code, out.read(), error.read())


def _new_file() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8")
