"""The demo, run as a user runs it, and what it leaves behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.examples.scene import ROOT

CHAPTERS = [
    "Apply a sync",
    "Edit the source",
    "Add a namespace",
    "Break a copy",
    "Delete a copy",
    "Put something of your own in its way",
    "Take a namespace out",
    "Kill the operator, and go on",
    "Remove the sync",
    "Apply what Git says",
    "Push a commit",
    "Edit what came from Git",
    "Roll back",
    "Copy a Secret",
    "Let each copy differ a little",
    "Edit both sides",
    "Lose a cluster, and get it back",
    "Deploy upstream, run downstream",
    "Edit upstream and downstream",
    "Lose the cluster that runs it",
    "Bring files into a running pod",
    "Push to a running gateway",
]

Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    """Folders of the demo's own, so that what it leaves can be told from what others have."""
    made = {name: tmp_path / name for name in ("TMPDIR", "XDG_STATE_HOME")}
    for folder in made.values():
        folder.mkdir()
    return {name: str(folder) for name, folder in made.items()}


def start(folders: Mapping[str, str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "examples/demo.py"],
        cwd=ROOT,
        env={**os.environ, **folders, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def run(folders: Mapping[str, str], **environment: str) -> tuple[int, str]:
    with start(folders, **environment) as demo:
        said, _ = demo.communicate()
    return demo.returncode, said


def chapters(said: str) -> list[str]:
    story, _, _ = said.partition("\n #  You")
    return re.findall(r"^[ \d]\d  (.+)$", story, re.MULTILINE)


def processes(folders: Mapping[str, str]) -> list[int]:
    """Find what was started with these folders and still runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes()
        except OSError:
            continue
        if any(folder.encode() in environment for folder in folders.values()):
            found.append(int(path.parent.name))
    return found


def left(folders: Mapping[str, str]) -> list[Path]:
    return [path for folder in folders.values() for path in Path(folder).rglob("*") if path.is_file()]


@pytest.mark.own_rights
def test_every_chapter_is_told_and_nothing_is_left(folders: dict[str, str], eventually: Eventually) -> None:
    code, said = run(folders)
    assert code == 0, said
    assert chapters(said) == CHAPTERS
    summary = said.split("\n #  You")[1]
    rows = re.findall(r"^[ \d]\d  (.+?)  +(.+?)  +([\d.]+ m?s)$", summary, re.MULTILINE)
    assert [title for title, _, _ in rows] == CHAPTERS
    assert "changed by nightly-fix" in said
    told = " ".join(said.split())
    assert "an object of this name exists and is not ours" in told
    assert "changed on both sides, each keeps its own value: theme" in told
    assert "cluster lighthouse cannot be reached (last seen" in told
    assert "\x1b" not in said
    eventually(lambda: not processes(folders))
    assert not left(folders)


@pytest.mark.own_rights
def test_keep_leaves_it_running_and_says_how_to_end_it(folders: dict[str, str], eventually: Eventually) -> None:
    code, said = run(folders, KEEP="1", SHORT="1")
    try:
        assert code == 0, said
        assert chapters(said) == CHAPTERS[: CHAPTERS.index("Apply what Git says")]
        kubeconfig = re.search(r"export KUBECONFIG=(\S+)", said)
        assert kubeconfig is not None
        assert Path(kubeconfig[1]).exists()
        operator = re.search(r"The operator is process (\d+)", said)
        assert operator is not None
        assert int(operator[1]) in processes(folders)
        again, refusal = run(folders, KEEP="1")
        assert again == 1
        assert "The demo is running already" in refusal
        assert f"kill {operator[1]}" in refusal
    finally:
        ending = said.split("To end it and the control plane:\n")[1]
        subprocess.run(["sh", "-ec", ending], cwd=ROOT, env={**os.environ, **folders}, check=True)
    eventually(lambda: not processes(folders))
    assert not left(folders)


@pytest.mark.own_rights
def test_an_interrupt_cleans_up_even_what_was_to_be_kept(folders: dict[str, str], eventually: Eventually) -> None:
    with start(folders, KEEP="1") as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if CHAPTERS[1] in line:
                break
        demo.send_signal(signal.SIGINT)
        said, _ = demo.communicate()
    assert demo.returncode == 130, said
    assert "Interrupted." in said
    eventually(lambda: not processes(folders))
    assert not left(folders)


def test_a_failure_is_one_clear_line(folders: dict[str, str], tmp_path: Path) -> None:
    code, said = run(folders, SYNCLINE_SANDBOX_BIN=str(tmp_path))
    assert code == 1
    assert "The demo failed: SYNCLINE_SANDBOX_BIN is" in said.splitlines()[-1]
    assert not left(folders)
