"""The Dockerfile, which these tests cannot build, and what `make image` says where it cannot build."""

import io
import json
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.deploy.image import build, oci

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


def write_archive(folder: Path, name: str) -> tuple[Path, str]:
    """Write an archive with one file, and return its digest too."""
    root, archive = folder / f"{name}.tar", folder / f"{name}.oci.tar"
    with tarfile.open(root, "w") as tar:
        member = tarfile.TarInfo("hello")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"hi"))
    digest = oci.write_archive(
        archive, root, tag="syncline:1.2", architecture="amd64", created="2026-01-01T00:00:00Z", config={"User": "1:1"}
    )
    return archive, digest


def test_the_same_content_is_the_same_archive(tmp_path: Path) -> None:
    (first, digest), (second, again) = (write_archive(tmp_path, name) for name in ("first", "second"))
    assert digest == again
    assert first.read_bytes() == second.read_bytes()


def test_an_archive_is_loaded_under_the_name_of_the_image_and_unpacked(tmp_path: Path) -> None:
    archive, _ = write_archive(tmp_path, "image")
    with tarfile.open(archive) as tar:
        opened = tar.extractfile("index.json")
        assert opened is not None
        (entry,) = json.loads(opened.read())["manifests"]
    assert entry["annotations"] == {
        "org.opencontainers.image.ref.name": "1.2",
        "io.containerd.image.name": "docker.io/library/syncline:1.2",
    }
    config = oci.unpack(archive, tmp_path / "root")
    assert config["config"] == oci.read_config(archive)["config"] == {"User": "1:1"}
    assert (tmp_path / "root" / "hello").read_text(encoding="ascii") == "hi"


def test_an_archive_with_a_changed_part_is_refused(tmp_path: Path) -> None:
    archive, _ = write_archive(tmp_path, "image")
    diff_id = oci.read_config(archive)["rootfs"]["diff_ids"][0]
    content = archive.read_bytes()
    archive.write_bytes(content.replace(diff_id.encode(), b"sha256:" + b"0" * 64))
    with pytest.raises(ValueError, match="does not fit its digest"):
        oci.unpack(archive, tmp_path / "root")


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
