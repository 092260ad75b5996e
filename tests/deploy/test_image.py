"""The Dockerfile, which these tests cannot build, and what `make image` says where it cannot build."""

import shlex
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.deploy.image import build

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


def test_the_user_of_the_image_has_a_name_because_ssh_refuses_users_without_one() -> None:
    user, group = build.CONFIG["User"].split(":")
    (added,) = [word for step in STEPS for word in step if word.startswith("syncline:x:")]
    assert added.split(":")[2:4] == [user, group]
    assert build.ACCOUNT.split(":")[:4] == added.split(":")[:4]


def test_the_dockerfile_installs_the_debian_packages_of_the_image() -> None:
    # python:3.13-slim has these.
    of_base = {"ca-certificates", "libstdc++6", "python3", "tzdata"}
    (install,) = [step for step in STEPS if "apt-get" in step]
    assert set(build.PACKAGES) - of_base == set(install) & set(build.PACKAGES)


def test_the_dockerfile_and_the_image_start_alike() -> None:
    assert ["ENTRYPOINT", f"[{build.CONFIG['Entrypoint'][0]}]"] in STEPS
    assert ["CMD", f"[{build.CONFIG['Cmd'][0]}]"] in STEPS
    assert ["USER", build.CONFIG["User"]] in STEPS


def test_image_package_and_project_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"syncline:{project['version']}" == deploy.IMAGE
    assert project["version"] == __version__


@pytest.mark.parametrize(
    ("programs", "message"),
    [((), "run this on Debian, or use `docker build`"), (("apt-get",), "run this as root to install it")],
    ids=["no-apt", "no-rights"],
)
def test_a_machine_that_cannot_have_mmdebstrap_is_told_what_to_do(programs: tuple[str, ...], message: str) -> None:
    ask = "import os, build; os.geteuid() or os.seteuid(65534); build.ensure_mmdebstrap()"
    # Another user cannot look into the folders of pytest.
    with tempfile.TemporaryDirectory(prefix="syncline-programs-") as folder:
        Path(folder).chmod(0o755)
        for program in programs:
            Path(folder, program).symlink_to("/bin/true")
        ended = subprocess.run(
            [sys.executable, "-c", ask],
            cwd=ROOT / "deploy" / "image",
            env={"PATH": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    assert message in ended.stderr


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
