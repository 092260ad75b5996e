"""The `syncline sandbox` command."""

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from syncline.sandbox import Sandbox, SandboxError

Syncline = Callable[..., subprocess.CompletedProcess[str]]
Eventually = Callable[[Callable[[], bool]], None]
Lives = Callable[[int], bool]


def test_a_named_sandbox_stays_from_up_to_down(
    own_folders: Path, syncline: Syncline, lives: Lives, eventually: Eventually
) -> None:
    up = syncline("up", "--name", "story", "--audit-log", "--apiserver-arg", "v=2")
    assert up.returncode == 0, up.stderr
    kubeconfig = Path(up.stdout.splitlines()[-1])
    assert kubeconfig.is_file()
    pids = Sandbox.attach("story").pids

    again = syncline("up", "--name", "story", "--audit-log", "--apiserver-arg", "v=2")
    assert again.stdout.splitlines()[-1] == str(kubeconfig)
    assert Sandbox.attach("story").pids == pids

    other = syncline("up", "--name", "story")
    assert other.returncode == 1
    assert "is up with other options; end it first: syncline sandbox down --name story" in other.stderr

    status = syncline("status").stdout.splitlines()
    assert status[0].split() == ["NAME", "PHASE", "SERVER", "KUBECONFIG"]
    assert status[1].split() == ["story", "ready", Sandbox.attach("story").server, str(kubeconfig)]

    ran = syncline("exec", "--name", "story", "--", "sh", "-c", 'echo "$KUBECONFIG"; exit 7')
    assert (ran.stdout.strip(), ran.returncode) == (str(kubeconfig), 7)
    unknown = syncline("exec", "--name", "story", "--", "no-such-command")
    assert unknown.stderr == "syncline sandbox: cannot run no-such-command: No such file or directory\n"
    assert unknown.returncode == 1

    down = syncline("down", "--all")
    assert (down.stdout, down.returncode) == ("sandbox story is down\n", 0)
    eventually(lambda: not any(map(lives, pids.values())))
    assert not list((own_folders / "XDG_STATE_HOME" / "syncline" / "sandbox").iterdir())
    assert syncline("status").stdout == "no sandbox is up\n"


def test_status_tells_of_a_sandbox_that_has_failed_until_it_is_taken_down(
    own_folders: Path, syncline: Syncline, lives: Lives, eventually: Eventually
) -> None:
    assert syncline("up", "--name", "broken").returncode == 0
    pids = Sandbox.attach("broken").pids
    os.kill(pids["etcd"], signal.SIGKILL)
    eventually(lambda: not lives(pids["supervisor"]))
    status = syncline("status").stdout
    assert status.splitlines()[1].split()[:2] == ["broken", "failed"]
    assert "broken has failed: etcd was killed by signal 9; its log ends:" in status
    assert "sandbox broken has failed: etcd was killed" in syncline("exec", "--name", "broken", "--", "true").stderr
    assert syncline("down", "--name", "broken").stdout == "sandbox broken is down\n"
    assert not list((own_folders / "XDG_STATE_HOME" / "syncline" / "sandbox").iterdir())


@pytest.mark.usefixtures("own_folders")
def test_a_start_that_fails_shows_the_end_of_the_log(syncline: Syncline) -> None:
    up = syncline("up", "--apiserver-arg", "no-such-flag")
    assert up.returncode == 1
    assert "kube-apiserver exited with 1; its log ends:\n" in up.stderr
    assert "unknown flag: --no-such-flag" in up.stderr
    assert "Traceback" not in up.stderr
    assert syncline("status").stdout == "no sandbox is up\n"


@pytest.mark.usefixtures("own_folders")
def test_a_port_in_use_is_one_line(syncline: Syncline) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = syncline("up", "--port", str(port))
    assert up.returncode == 1
    assert up.stderr == f"syncline sandbox: port {port} of 127.0.0.1 cannot be had: Address already in use\n"


@pytest.mark.usefixtures("own_folders")
@pytest.mark.parametrize("name", ["", "../up", "a/b", "Upper", "-x", "x-", "a b", "x" * 41])
def test_a_name_with_other_characters_is_refused(name: str) -> None:
    for use in (Sandbox.up, Sandbox.attach, Sandbox.down):
        with pytest.raises(SandboxError, match="is not a valid name of a sandbox: use up to 40 of a-z"):
            use(name)


@pytest.mark.usefixtures("own_folders")
def test_a_refused_name_is_one_line(syncline: Syncline) -> None:
    done = syncline("up", "--name", "../up")
    assert done.returncode == 1
    assert done.stderr.startswith("syncline sandbox: '../up' is not a valid name of a sandbox: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("own_folders")
def test_what_is_not_up_cannot_be_used_but_can_be_taken_down(syncline: Syncline) -> None:
    used = syncline("exec", "--name", "nobody", "--", "true")
    assert used.stderr == (
        "syncline sandbox: there is no sandbox nobody; start it: syncline sandbox up --name nobody\n"
    )
    down = syncline("down", "--name", "nobody")
    assert (down.stdout, down.returncode) == ("sandbox nobody is not up\n", 0)
