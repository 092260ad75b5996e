"""One sandbox for several processes."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from syncline.sandbox import Options, Sandbox, SandboxError, statuses

Eventually = Callable[[Callable[[], bool]], None]
Lives = Callable[[int], bool]

# Takes part in a sandbox, tells of it, and stays until its input ends.
USER = """
import json, sys
from syncline.sandbox import Sandbox
with Sandbox.share("team") as sandbox:
    print(json.dumps({"server": sandbox.server, "pids": sandbox.pids}), flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("own_folders")
def test_the_first_starts_it_and_the_last_ends_it(lives: Lives, eventually: Eventually) -> None:
    with _user() as (first, started), _user() as (second, joined):
        assert joined == started
        _leave(first)
        assert all(map(lives, started["pids"].values()))
        _leave(second)
        eventually(lambda: not any(map(lives, started["pids"].values())))
    assert not statuses()


def test_a_user_that_is_killed_leaves_it_to_the_others_and_the_last_leaves_nothing(
    own_folders: Path, lives: Lives, eventually: Eventually
) -> None:
    with _user() as (first, started), _user() as (second, joined):
        first.kill()
        first.wait()
        with _user() as (third, also_joined):
            assert also_joined == joined == started
            second.kill()
            third.kill()
        eventually(lambda: not any(map(lives, started["pids"].values())))
    left = [path for path in own_folders.rglob("*") if path.is_file()]
    assert left == []


@pytest.mark.usefixtures("own_folders")
def test_stopping_it_twice_takes_it_from_nobody() -> None:
    with _user() as (_, started):
        sandbox = Sandbox.share("team")
        assert sandbox.server == started["server"]
        sandbox.stop()
        sandbox.stop()
        with pytest.raises(SandboxError, match="sandbox team is shared with other options"):
            Sandbox.share("team", Options(audit_log=True))
        with Sandbox.share("team") as again:
            assert again.request("GET", "/version")["major"] == "1"
            assert again.pids == started["pids"]


@pytest.mark.usefixtures("own_folders")
def test_it_is_not_among_those_that_up_started() -> None:
    with Sandbox.share("team"):
        assert statuses() == []
        with pytest.raises(SandboxError, match="there is no sandbox team"):
            Sandbox.attach("team")


@contextmanager
def _user() -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    with subprocess.Popen(
        [sys.executable, "-c", USER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def _leave(user: subprocess.Popen[str]) -> None:
    assert user.stdin is not None
    user.stdin.close()
    assert user.wait(60) == 0
