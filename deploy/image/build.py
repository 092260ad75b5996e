"""Builds the image without a container engine: `make image`.

Debian packages come from the sources that apt uses on this machine, by mmdebstrap. Python packages come from the lock
file, as wheels with their hashes. helm, kustomize and sops are those of the environment. The result is an OCI archive
and its bill of materials. An image whose inputs have not changed is taken from the cache.
"""

import argparse
import datetime as dt
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import oci
import sbom

from syncline import __version__
from syncline.render.tools import TOOLS, find
from syncline.sandbox.versions import HELM, KUSTOMIZE, version

ROOT = Path(__file__).parents[2]
PACKAGES = ("ca-certificates", "git", "gpg", "gpg-agent", "libstdc++6", "openssh-client", "python3", "tzdata")
USER = 65532
ACCOUNT = f"syncline:x:{USER}:{USER}:Syncline:/nonexistent:/usr/sbin/nologin\n"
GROUP = f"syncline:x:{USER}:\n"
# Documentation of packages, except their licences, and translations.
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*")
KEPT = ("/usr/share/doc/*/copyright",)
# What differs from build to build, or is of no use without apt.
REMOVED = (
    *("/var/log/*", "/var/cache/*", "/var/lib/apt/*", "/var/lib/dpkg/*-old", "/tmp/*", "/run/*", "/etc/machine-id"),  # noqa: S108
    *("/etc/hostname", "/etc/resolv.conf", "/etc/apt/sources.list*", "/etc/apt/trusted.gpg.d/*", "/etc/*-"),
)
EPOCH = 1_767_225_600
"""The time of all files, unless SOURCE_DATE_EPOCH says another: the start of 2026."""
KEPT_BUILDS = 3
CONFIG = {
    "User": f"{USER}:{USER}",
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
        "LANG=C.UTF-8",
    ],
    "Entrypoint": ["syncline"],
    "Cmd": ["--help"],
    "WorkingDir": "/",
    "Labels": {"org.opencontainers.image.title": "syncline", "org.opencontainers.image.version": __version__},
}


class ImageError(Exception):
    """The image cannot be built; the message says what is missing."""


def main() -> int:
    """Build the image, or take it from the cache, and put it into a folder."""
    parser = argparse.ArgumentParser(description="Build the image of Syncline without a container engine.")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="the folder of the result (default: dist)")
    parser.add_argument("--fresh", action="store_true", help="build again, although the cache has the image")
    given = parser.parse_args()
    try:
        folder = image(fresh=given.fresh)
    except ImageError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 1
    given.to.mkdir(parents=True, exist_ok=True)
    for name in (archive_name(), sbom_name()):
        shutil.copyfile(folder / name, given.to / name)
        print(given.to / name)
    print((folder / "digest").read_text(encoding="ascii"), end="")
    return 0


def archive_name() -> str:
    """Return the name of the archive."""
    return f"syncline-{__version__}-{architecture()}.oci.tar"


def sbom_name() -> str:
    """Return the name of the bill of materials."""
    return f"syncline-{__version__}-{architecture()}.cdx.json"


def image(*, fresh: bool = False, of_today: bool = True) -> Path:
    """Return a folder with the archive, the bill of materials and the digest. Raises ImageError.

    Debian's packages of another day are other packages, so an image of another day counts only without `of_today`.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "syncline" / "image"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w", encoding="ascii") as lock:
        # Two builds at once would both build, and replace each other's result.
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = inputs()
        folder = cache / f"{dt.datetime.now(dt.UTC).date()}-{digest}"
        found = [folder] if of_today else sorted(cache.glob(f"*-*-*-{digest}"))
        if not fresh and found and found[-1].exists():
            return found[-1]
        _build_into(cache, folder)
        return folder


def _build_into(cache: Path, folder: Path) -> None:
    ensure_mmdebstrap()
    for left in cache.glob("build-*"):  # of a build that was killed: the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as made:
        work = Path(made)
        # The user of mmdebstrap in a namespace of its own is somebody else.
        work.chmod(0o755)
        result = build(work)
        shutil.rmtree(folder, ignore_errors=True)
        result.rename(folder)
    # Another copy of this tree may use the image before.
    built = sorted((each for each in cache.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
    for old in built[:-KEPT_BUILDS]:
        shutil.rmtree(old, ignore_errors=True)


def inputs() -> str:
    """Return a digest of all files of this tree, and all tools, that the image is built from."""
    found = hashlib.sha256(f"{epoch()} {platform.machine()}".encode())
    for path in _files():
        found.update(f"{path}\n".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:32]


def _files() -> Iterator[Path]:
    yield from sorted(Path(__file__).parent.glob("*.py"))
    yield ROOT / "requirements" / "runtime.txt"
    yield ROOT / "pyproject.toml"
    yield from sorted(path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    yield from (find(tool) for tool in TOOLS)


def epoch() -> int:
    """Return the time of all files."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or EPOCH)


def architecture() -> str:
    """Return the architecture, as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def ensure_mmdebstrap() -> None:
    """Have mmdebstrap: install it as root on a machine with apt. Raises ImageError where that is not possible."""
    if shutil.which("mmdebstrap"):
        return
    if not shutil.which("apt-get"):
        raise ImageError(
            "mmdebstrap is missing, and so is apt-get to install it: run this on Debian, or use `docker build`"
        )
    missing = "mmdebstrap is missing: run this as root to install it, or run `apt-get install mmdebstrap` before"
    if os.geteuid() != 0:
        raise ImageError(missing)
    print("==> installing mmdebstrap", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A new machine often updates itself at this time.
    apt = ["apt-get", "--quiet", "--option=DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "--yes", "--no-install-recommends", "mmdebstrap"]
    for command in (install, [*apt, "update"], install):
        ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if shutil.which("mmdebstrap"):
            return
    raise ImageError(f"{missing}\n{ended.stderr[-2000:]}")


def suite() -> str:
    """Return the release of Debian: that of this machine, or the one that we know."""
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return release.get("VERSION_CODENAME", "bookworm") if release.get("ID") == "debian" else "bookworm"


def sources() -> list[str]:
    """Return the sources of Debian's packages as apt has them on this machine; none where mmdebstrap knows better."""
    found = []
    etc = Path("/etc/apt")
    for path in sorted([etc / "sources.list", *(etc / "sources.list.d").glob("*")]):
        if path.suffix not in {".list", ".sources"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".sources":
            found += [each for each in text.split("\n\n") if _is_debian(each)]
        else:
            found += [line for line in text.splitlines() if line.startswith("deb ") and _is_debian(line)]
    return found


def _is_debian(entry: str) -> bool:
    return f"{suite()}" in entry and any(name in entry.replace("\n", " ") for name in ("/debian ", "/debian-security "))


def build(work: Path) -> Path:
    """Build the image in a folder, and return the folder of the result."""
    overlay, result = work / "overlay", work / "result"
    for folder in (overlay / "usr/local/bin", overlay / "packages", result):
        folder.mkdir(parents=True)
    tools = add_tools(overlay / "usr/local/bin")
    wheel = build_wheel(work)
    print("==> Debian packages and Python packages", file=sys.stderr)
    debootstrap(work, overlay, wheel, tools)
    created = dt.datetime.fromtimestamp(epoch(), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    print("==> the archive", file=sys.stderr)
    digest = oci.write_archive(
        result / archive_name(),
        work / "root.tar",
        tag=f"syncline:{__version__}",
        architecture=architecture(),
        created=created,
        config=CONFIG,
    )
    (result / "digest").write_text(f"{digest}\n", encoding="ascii")
    (result / sbom_name()).write_bytes((work / "sbom.json").read_bytes())
    return result


def add_tools(folder: Path) -> dict[str, str]:
    """Copy the programs that build manifests, and the command itself; return the versions of their Go modules."""
    for tool in TOOLS:
        shutil.copyfile(find(tool), folder / tool)
        (folder / tool).chmod(0o755)
    command = folder / "syncline"
    command.write_text("#!/usr/bin/python3 -P\nimport sys\nfrom syncline.cli import main\nsys.exit(main())\n", "ascii")
    command.chmod(0o755)
    said = subprocess.run([folder / "sops", "--version"], check=True, capture_output=True, text=True).stdout
    return {
        "helm.sh/helm/v4": version(HELM),
        "sigs.k8s.io/kustomize/kustomize/v5": version(KUSTOMIZE),
        "github.com/getsops/sops/v3": "v" + said.split()[1],
    }


def build_wheel(work: Path) -> Path:
    """Build the wheel of this tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(work)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,) = work.glob("*.whl")
    return wheel


def debootstrap(work: Path, overlay: Path, wheel: Path, tools: dict[str, str]) -> None:
    """Write the root of the image as a tar file: packages of Debian first, then what a hook adds."""
    hook = work / "hook"
    hook.write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("install.py")} "$1" {work}\n', encoding="utf-8"
    )
    hook.chmod(0o755)
    plan = {"wheel": str(wheel), "overlay": str(overlay), "requirements": str(ROOT / "requirements/runtime.txt")}
    plan |= {"tools": json.dumps(tools), "suite": suite(), "version": __version__}
    (work / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    listed = work / "debian.sources"
    stanzas = sources()
    listed = listed if any("\n" in each for each in stanzas) else work / "sources.list"
    listed.write_text("\n\n".join(stanzas) + "\n", encoding="utf-8")
    excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    included = [f"--dpkgopt=path-include={pattern}" for pattern in KEPT]
    command = [
        *("mmdebstrap", "--quiet", "--variant=essential", f"--include={','.join(PACKAGES)}"),
        *("--aptopt=Apt::Install-Recommends false", *excluded, *included),
        # The hook does this, and removes /tmp of the root, where mmdebstrap has the configuration of apt. Without that
        # file, apt would empty the lists and the cache of this machine.
        *(f"--customize-hook={hook}", "--skip=cleanup/apt"),
        *(suite(), str(work / "root.tar"), *([str(listed)] if stanzas else [])),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch()), "PYTHONHASHSEED": "0"}
    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise ImageError(f"mmdebstrap ended with {ended.returncode}:\n{ended.stderr[-3000:]}")


def write_sbom(work: Path, root: Path, packages: Path, plan: dict[str, str]) -> str:
    """Write the bill of materials of a root, and return it."""
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    tools = json.loads(plan["tools"])
    text = sbom.sbom(status, packages, tools, name="syncline", version=plan["version"], suite=plan["suite"])
    (work / "sbom.json").write_text(text, encoding="utf-8")
    return text


if __name__ == "__main__":
    sys.exit(main())
