"""Adds Syncline to the root of an image. It is the hook of mmdebstrap: called with that root and a folder for work."""

import json
import os
import platform
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from build import ACCOUNT, GROUP, REMOVED, write_sbom

# The wheels that run on the glibc of Debian 12 and newer.
WHEELS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")


def main(root: Path, work: Path) -> None:
    """Install the packages of the lock file and the wheel, and leave nothing behind that a build does not need."""
    plan = json.loads((work / "plan.json").read_text(encoding="utf-8"))
    (python,) = sorted(path.name for path in (root / "usr/lib").glob("python3.*"))
    packages = root / "usr/local/lib" / python / "dist-packages"
    packages.mkdir(parents=True, exist_ok=True)
    platforms = [f"--platform={tag}_{platform.machine()}" for tag in WHEELS]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    target = ["--target", str(packages), "--only-binary", ":all:", "--upgrade"]
    of_python = ["--implementation=cp", f"--python-version={python.removeprefix('python')}", *platforms]
    subprocess.run([*pip, *target, *of_python, "--require-hashes", "-r", plan["requirements"]], check=True)
    subprocess.run([*pip, *target, *of_python, "--no-deps", "--no-index", plan["wheel"]], check=True)
    for folder in ("bin", "__pycache__"):
        shutil.rmtree(packages / folder, ignore_errors=True)
    for path in packages.glob("*.dist-info"):
        # They name the folder of the build, and list files that are gone.
        for name in ("direct_url.json", "RECORD", "REQUESTED"):
            (path / name).unlink(missing_ok=True)
    shutil.copytree(Path(plan["overlay"]) / "usr/local/bin", root / "usr/local/bin", dirs_exist_ok=True)
    for name, line in (("passwd", ACCOUNT), ("group", GROUP)):
        with (root / "etc" / name).open("a", encoding="ascii") as file:
            file.write(line)
    for folder in ("var/cache/syncline", "etc/syncline", "usr/share/syncline"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    # By the Python of the image: nothing can write bytecode when the root is read-only.
    compile_all = ["python3", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    subprocess.run(["chroot", str(root), *compile_all, f"/usr/local/lib/{python}/dist-packages"], check=True)
    for pattern in REMOVED:
        for path in root.glob(pattern.removeprefix("/")):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    (root / "var/cache/syncline").mkdir(parents=True, exist_ok=True)
    drop_privileged_bits(root)
    text = write_sbom(work, root, packages, plan)
    (root / "usr/share/syncline/sbom.cdx.json").write_text(text, encoding="utf-8")
    own_everything(root)


def drop_privileged_bits(root: Path) -> None:
    """Leave no program that gives its caller the rights of somebody else."""
    for folder in ("usr", "etc", "var", "opt"):
        for path in (root / folder).rglob("*"):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                path.chmod(stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))


def own_everything(root: Path) -> None:
    """Have root own what was added, so that the user of the image cannot change it."""
    for folder in ("usr/local", "usr/share/syncline", "etc/syncline", "var/cache/syncline"):
        for parent, _, names in os.walk(root / folder):
            for path in (Path(parent), *(Path(parent) / name for name in names)):
                os.lchown(path, 0, 0)
                if not path.is_symlink():
                    path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
