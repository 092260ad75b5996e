"""An operator that cannot work as it was told says why in one line, and ends."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Command


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--git-cache", "/dev/null/mirrors"), "the folder for mirrors /dev/null/mirrors cannot be used"),
        (("--webhook-secret-file", "/nowhere/secret"), "--webhook-secret-file cannot be read: No such file"),
        (("--webhook-secret-file", "/dev/null"), "--webhook-secret-file is empty"),
        (("--webhook-bind", "everywhere"), "--webhook-bind"),
        (("--trusted-proxies", "10.0.0.0/8,ingress"), "--trusted-proxies: 'ingress' is not an address or network"),
        (("--trusted-proxies", "0.0.0.0/0"), "--trusted-proxies: 0.0.0.0/0 means every address"),
        (
            ("--as-installed", "--namespace", "nowhere"),
            "there is no ServiceAccount nowhere/syncline: run `syncline ins",
        ),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(
    syncline: Command, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    cache = () if "--git-cache" in flags else ("--git-cache", str(tmp_path))
    said = syncline("run", *flags, *cache, code=1)
    assert message in said
    assert "Traceback" not in said


_STOPPED_WHILE_LOADING = """
import os, runpy, signal, sys

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "syncline.operator":  # by then nothing of the operator is there yet
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Stop())
sys.argv = ["syncline", "run"]
runpy.run_module("syncline", run_name="__main__")
"""


def test_an_operator_that_is_stopped_while_it_is_loaded_ends_well_and_at_once() -> None:
    ended = subprocess.run([sys.executable, "-c", _STOPPED_WHILE_LOADING], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
