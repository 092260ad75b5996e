"""The image cannot be built without a container engine; what can be checked of it without one is checked here."""

import shlex
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from syncline import __version__, deploy

ROOT = Path(__file__).parents[2]
STEPS = [
    shlex.split(line)
    for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
COPIED = [source for step in STEPS if step[0] == "COPY" and not step[1].startswith("--from") for source in step[1:-1]]


@pytest.mark.parametrize("source", COPIED)
def test_every_file_that_the_image_is_built_from_exists_and_is_let_through(source: str) -> None:
    assert (ROOT / source).exists()
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = [line.removeprefix("!").rstrip("/") for line in lines if line.startswith("!")]
    assert any(fnmatch(source, pattern) or source.startswith(f"{pattern}/") for pattern in allowed)


def test_every_package_of_python_is_pinned_by_hash() -> None:
    installs = [step for step in STEPS if "/pip install" in " ".join(step) and "--no-index" not in step]
    assert len(installs) == 2
    assert all("--require-hashes" in step for step in installs)


def test_the_image_runs_as_the_user_that_the_deployment_demands() -> None:
    security = deploy.deployment()[-1]["spec"]["template"]["spec"]["securityContext"]
    assert ["USER", f"{security['runAsUser']}:{security['runAsGroup']}"] in STEPS


def test_image_package_and_project_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"syncline:{project['version']}" == deploy.IMAGE
    assert project["version"] == __version__


def test_the_wheel_that_the_image_installs_builds_and_brings_the_command(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        (entry_points,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        assert "syncline = syncline.cli:main" in content.read(entry_points).decode()
        assert {"syncline/py.typed", "syncline/deploy/manifests.py"} <= set(names)
